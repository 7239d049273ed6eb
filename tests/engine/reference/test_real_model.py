"""OpenVINO GenAI itself on the small real model, through engine, server and command line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from engine.cli import main
from engine.config import BackendKind, CachePrecision, EngineConfig, SchedulerConfig, resolve
from engine.errors import CacheTooSmallError, UnknownDrafterError
from engine.events import Event, FailedEvent, FinishedEvent, GenerationRequest, StepEvent
from engine.interface import Engine, stream
from engine.load import load_engine
from engine.prompts import TextPrompt, encode_prompt
from engine.server.app import Server
from engine.server.host import EngineHost
from engine.server.run import Address, LocalServer, listen
from engine.values import FinishReason, Origin
from tests.engine.server.fake_engine import wait_until

COPY = "Say this again: one two three four five six seven eight, one two three four."
PROSE = "Write a short story about a lighthouse."
NEAR_TIE = 0.15
"""As in the tests of the law, in logits."""
GENAI, STATEFUL = BackendKind.GENAI, BackendKind.GENAI_STATEFUL


def load(model: Path, backend: BackendKind, **wishes: Any) -> Engine:
    config = EngineConfig(
        model,
        backend=backend,
        cache_precision=CachePrecision.F32,
        inference_precision="f32",
        **wishes,
    )
    return load_engine(config)


@pytest.fixture(scope="module")
def paged(smollm2: Path) -> Iterator[Engine]:
    engine = load(smollm2, GENAI, scheduler=SchedulerConfig(num_kv_blocks=4))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def lookup(smollm2: Path) -> Iterator[Engine]:
    engine = load(smollm2, GENAI, drafter="prompt_lookup")
    yield engine
    engine.close()


def request(engine: Engine, text: str, **options: Any) -> GenerationRequest:
    prompt = encode_prompt(engine.tokenizer, TextPrompt(text), apply_chat_template=True)
    config = resolve({"max_new_tokens": 24, **options}, engine.model_defaults)
    return GenerationRequest("request", prompt, config)


def answer(engine: Engine, text: str, **options: Any) -> tuple[list[StepEvent], FinishedEvent]:
    *steps, end = stream(engine, request(engine, text, **options))
    assert isinstance(end, FinishedEvent), end
    told = [step for step in steps if isinstance(step, StepEvent)]
    assert "".join(step.text for step in told) + end.tail == end.text
    assert tuple(token for step in told for token in step.emitted) == end.tokens
    assert end.metrics.num_target_steps == len(told)
    return told, end


@pytest.mark.long
def test_greedy_answers_equal_ours_up_to_near_ties(
    smollm2: Path, paged: Engine, lookup: Engine
) -> None:
    stateful = load(smollm2, STATEFUL)
    ours = load(smollm2, BackendKind.PAGED, drafter="none")
    try:
        for text in (COPY, PROSE):
            _, own = answer(ours, text, logprobs=2)
            for theirs in (paged, lookup, stateful):
                _, peer = answer(theirs, text)
                assert_equal_up_to_near_ties(own, peer)
    finally:
        ours.close()
        stateful.close()


def assert_equal_up_to_near_ties(own: FinishedEvent, peer: FinishedEvent) -> None:
    for ours, theirs in zip(own.tokens, peer.tokens, strict=False):
        if ours.token != theirs.token:
            assert ours.score is not None
            (_, best), (_, second) = ours.score.top
            assert best - second < NEAR_TIE
            return
    assert len(own.tokens) == len(peer.tokens)
    assert (own.text, own.finish_reason) == (peer.text, peer.finish_reason)


def test_an_answer_is_cut_exactly_at_a_stop_string(paged: Engine) -> None:
    _, whole = answer(paged, COPY)
    stop = whole.text[9:16]
    _, cut = answer(paged, COPY, stop_strings=[stop])
    assert cut.finish_reason is FinishReason.STOP
    assert cut.text == whole.text[: whole.text.index(stop)]
    _, kept = answer(paged, COPY, stop_strings=[stop], include_stop_str_in_output=True)
    assert kept.text == cut.text + stop


def test_a_cancelled_answer_ends_early_and_the_engine_goes_on(paged: Engine) -> None:
    events: list[Event] = []
    ended = threading.Event()

    def listen_on(event: Event) -> None:
        events.append(event)
        if isinstance(event, StepEvent):
            handle.cancel()
        else:
            ended.set()

    handle = paged.submit(request(paged, PROSE, max_new_tokens=200), listen_on)
    assert ended.wait(30)
    end = events[-1]
    assert isinstance(end, FinishedEvent)
    assert end.finish_reason is FinishReason.CANCELLED
    assert len(end.token_ids) < 10
    assert end.token_ids == answer(paged, PROSE)[1].token_ids[: len(end.token_ids)]


def test_a_prompt_beyond_the_cache_is_refused_and_the_engine_goes_on(paged: Engine) -> None:
    (failure,) = stream(paged, request(paged, "word " * 400))
    assert isinstance(failure, FailedEvent)
    assert isinstance(failure.error, CacheTooSmallError)
    answer(paged, COPY, max_new_tokens=2)


def test_an_answer_that_outgrows_the_cache_is_kept(paged: Engine) -> None:
    _, end = answer(paged, PROSE, max_new_tokens=200, ignore_eos=True)
    assert end.finish_reason is FinishReason.LENGTH
    assert 50 < len(end.token_ids) < 128
    assert "cache_size_gib" in end.notes[0]


def test_several_sampled_answers_differ_and_come_again_with_the_same_seed(paged: Engine) -> None:
    def texts() -> list[str]:
        wanted = request(paged, PROSE, num_return_sequences=2, do_sample=True, rng_seed=5)
        ends = [event for event in stream(paged, wanted) if isinstance(event, FinishedEvent)]
        assert [end.choice for end in ends] == [0, 1]
        return [end.text for end in ends]

    first = texts()
    assert first[0] != first[1]
    assert texts() == first


def test_runs_of_prompt_lookup_are_told_as_accepted(lookup: Engine) -> None:
    steps, end = answer(lookup, COPY, num_assistant_tokens=4)
    origins = [[token.origin for token in step.emitted] for step in steps]
    assert origins[0] == [Origin.PLAIN]
    assert [Origin.ACCEPTED] * 4 + [Origin.BONUS] in origins
    assert all(step.draft is None for step in steps[1:])
    metrics = end.metrics
    assert metrics.tokens_per_step is not None
    assert metrics.tokens_per_step > 1.2
    assert metrics.num_accepted_tokens is metrics.verify_ms is None
    assert 0 < metrics.ttft_ms < metrics.last_token_ms


@pytest.mark.long
def test_totals_of_a_draft_model_are_mapped(smollm2: Path) -> None:
    """The model drafts for itself: every draft is right."""
    engine = load(smollm2, GENAI, drafter=str(smollm2))
    try:
        _, end = answer(engine, COPY, num_assistant_tokens=3, max_new_tokens=13)
    finally:
        engine.close()
    metrics = end.metrics
    assert metrics.num_draft_tokens == metrics.num_accepted_tokens == 6  # the last step is missing
    assert metrics.acceptance_rate == 1.0
    assert metrics.draft_ms is not None
    assert metrics.draft_ms > 0


def test_a_draft_model_that_is_not_there_is_refused_as_a_drafter(smollm2: Path) -> None:
    with pytest.raises(UnknownDrafterError):
        load(smollm2, GENAI, drafter=str(smollm2 / "nowhere"))


def test_the_server_streams_its_answer_and_refuses_log_probabilities(paged: Engine) -> None:
    host = EngineHost(lambda progress: paged)
    server = LocalServer(host)
    listening = listen(Address("127.0.0.1", 0), None)
    app = Server(host, "0", lambda: [], server.stop).app()
    thread = threading.Thread(target=server.run, args=(app, listening), daemon=True)
    thread.start()
    host.start()
    assert wait_until(lambda: not host.is_loading, timeout_s=10)
    port = listening.getsockname()[1]
    asked: dict[str, Any] = {
        "model": paged.model.name,
        "messages": [{"role": "user", "content": COPY}],
        "max_tokens": 12,
    }
    with openai.OpenAI(
        base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=60
    ) as client:
        whole = client.chat.completions.create(**asked)
        chunks = list(
            client.chat.completions.create(
                **asked, stream=True, extra_body={"stream_options": {"include_steps": True}}
            )
        )
        with pytest.raises(openai.BadRequestError, match="log probabilities"):
            client.chat.completions.create(**asked, logprobs=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    told = [chunk.model_extra["paceline"] for chunk in chunks if chunk.model_extra]
    assert told[0]["step"]["emitted"][0]["logprob"] is None
    assert told[-1]["metrics"]["overhead_ms"] is None
    assert told[-1]["plan"]["backend"] == "genai"
    server.stop()
    thread.join(10)


@pytest.mark.parametrize("backend", ["genai", "genai-stateful"])
def test_the_command_line_answers_with_steps(
    backend: str,
    smollm2: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path))
    words = ["--backend", backend, "--max-new-tokens", "4", "--prompt", COPY]
    assert main(["generate", "--model", str(smollm2), *words, "--json", "--steps"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"]["backend"] == backend
    assert len(told["steps"]) == told["metrics"]["num_target_steps"] == 4
    assert told["steps"][0]["emitted"][0]["entropy"] is None
