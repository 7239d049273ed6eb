"""The line of requests before a pipeline that answers by script: every request comes to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from engine.config import BackendKind, CachePrecision, Speculation
from engine.errors import CacheTooSmallError, EngineStoppedError, UnsupportedOptionError
from engine.events import Event, FailedEvent, FinishedEvent, StepEvent
from engine.interface import stream
from engine.library.folder import read_model_folder
from engine.plan import Plan
from engine.reference.engine import GenAIEngine, Parts
from engine.reference.pipeline import DrafterKind, DraftTotals, Report
from engine.tokens import Tokenizer
from engine.values import FinishReason, Origin
from tests.engine.loop_kit import check_agreement, request
from tests.engine.reference.pipelines import Runs, ScriptedPipeline

DRAFTED = Report(9.0, (1.0, 3.0), 5.0, DraftTotals(4, 2, draft_ms=2.0))
DROPPED = RuntimeError("Check 'status != GenerationStatus::IGNORED' failed")

Build = Callable[..., GenAIEngine]


@pytest.fixture
def build(smollm2: Path, tokenizer: Tokenizer) -> Iterator[Build]:
    built: list[GenAIEngine] = []

    def make(pipeline: ScriptedPipeline, drafter: DrafterKind = DrafterKind.NONE) -> GenAIEngine:
        name = "none" if drafter is DrafterKind.NONE else "prompt_lookup"
        plan = Plan(
            backend=BackendKind.GENAI,
            device="CPU",
            drafter=name,
            speculation=Speculation.OFF,
            cache_precision=CachePrecision.F16,
            cache_bytes=0,
            reasons=(),
        )
        model = read_model_folder(smollm2)
        engine = GenAIEngine(Parts(model, plan, tokenizer, {}, pipeline, drafter))
        built.append(engine)
        return engine

    yield make
    for engine in built:
        engine.close()


def opened(runs: Runs, **options: Any) -> ScriptedPipeline:
    pipeline = ScriptedPipeline(runs, **options)
    pipeline.gate.set()
    return pipeline


def collect(engine: GenAIEngine, **options: Any) -> tuple[list[StepEvent], list[Event]]:
    events = list(stream(engine, request(**options)))
    steps = [event for event in events if isinstance(event, StepEvent)]
    return steps, [event for event in events if not isinstance(event, StepEvent)]


def ended(events: Sequence[Event]) -> FinishedEvent:
    (event,) = events
    assert isinstance(event, FinishedEvent)
    return event


def failure(events: Sequence[Event]) -> Exception:
    (event,) = events
    assert isinstance(event, FailedEvent)
    return event.error


def test_events_of_a_plain_answer_agree_and_leave_scores_and_times_blank(build: Build) -> None:
    steps, end = collect(build(opened([(20,), (21,), (22,)])), max_new_tokens=3)
    finished = ended(end)
    check_agreement(steps, finished)
    assert finished.finish_reason is FinishReason.LENGTH
    for step in (each.to_json() for each in steps):
        assert step["verified"] == []
        assert step["verify_ms"] is step["overhead_ms"] is None
        (token,) = step["emitted"]
        assert token["origin"] == "plain"
        assert token["logprob"] is token["prob"] is token["entropy"] is None


def test_times_of_a_finished_answer_are_those_of_the_pipelines_clock(build: Build) -> None:
    _, end = collect(build(opened([(20,), (21,), (22,)])), max_new_tokens=3)
    metrics = ended(end).metrics
    assert metrics.ttft_ms >= 500.0
    assert metrics.tpot_ms == pytest.approx(20.0)
    assert metrics.verify_ms == 300.0
    assert metrics.to_json()["overhead_ms"] is None


def test_what_a_run_tells_of_its_draft_is_told_and_nothing_else(build: Build) -> None:
    pipeline = opened([(20,), (21, 22, 23), (24,), (25, 26, 27, 28, 29)])
    steps, end = collect(
        build(pipeline, DrafterKind.PROMPT_LOOKUP), max_new_tokens=10, num_assistant_tokens=4
    )
    origins = [[token.origin for token in step.emitted] for step in steps]
    accepted = Origin.ACCEPTED
    assert origins == [
        [Origin.PLAIN],
        [accepted, accepted, None],
        [None],
        [accepted, accepted, accepted, accepted, Origin.BONUS],
    ]
    assert [token.depth for token in steps[1].emitted] == [1, 2, 0]
    assert steps[0].chosen_length == 0
    later = steps[1].to_json()
    assert [later[name] for name in ("draft", "verified", "chosen_length", "draft_ms")] == 4 * [
        None
    ]
    metrics = ended(end).metrics.to_json()
    assert metrics["tokens_per_step"] == 10 / 4
    for name in ("num_draft_tokens", "num_accepted_tokens", "acceptance_rate", "draft_ms"):
        assert metrics[name] is None
    assert metrics["acceptance_by_position"] is None
    assert pipeline.configs[0].max_ngram_size == 3


def test_counts_of_a_draft_model_are_taken_over(build: Build) -> None:
    pipeline = opened([(20,), (21, 22, 23)], report=DRAFTED)
    _, end = collect(build(pipeline, DrafterKind.MODEL), max_new_tokens=4)
    metrics = ended(end).metrics
    assert (metrics.num_draft_tokens, metrics.acceptance_rate) == (4, 0.5)
    assert (metrics.draft_ms, metrics.verify_ms) == (2.0, 5.0)


def test_counts_that_include_tokens_behind_the_end_are_left_blank(
    build: Build, tokenizer: Tokenizer
) -> None:
    """The pipeline goes on for a step when a stop string has ended the answer."""
    run = tuple(tokenizer.encode("one stop three"))
    pipeline = opened([(20,), run], report=DRAFTED)
    engine = build(pipeline, DrafterKind.MODEL)
    _, end = collect(engine, max_new_tokens=40, stop_strings=["stop"])
    finished = ended(end)
    assert finished.finish_reason is FinishReason.STOP
    assert finished.text.endswith("one ")
    assert finished.metrics.num_draft_tokens is None


def test_each_of_several_answers_has_a_seed_of_its_own(build: Build) -> None:
    pipeline = opened([(20,), (21,)])
    _, end = collect(
        build(pipeline), max_new_tokens=2, num_return_sequences=2, do_sample=True, rng_seed=7
    )
    assert [event.choice for event in end if isinstance(event, FinishedEvent)] == [0, 1]
    assert [config.rng_seed for config in pipeline.configs] == [7, 8]


def test_cancelling_ends_the_running_and_the_waiting_answer(build: Build) -> None:
    pipeline = ScriptedPipeline([(20,), (21,), (22,)])
    engine = build(pipeline)
    running, waiting = SimpleQueue[Event](), SimpleQueue[Event]()
    handle = engine.submit(request(), running.put)
    other = engine.submit(request(num_return_sequences=2, do_sample=True), waiting.put)
    assert pipeline.begun.wait(10)
    assert (engine.status().num_running, engine.status().num_waiting) == (1, 1)
    other.cancel()
    pipeline.gate.set()
    for _ in range(2):  # while the first one still runs, or just after it
        assert ended([waiting.get(timeout=10)]).finish_reason is FinishReason.CANCELLED
    events = [running.get(timeout=10)]
    while isinstance(events[-1], StepEvent):
        events.append(running.get(timeout=10))
    assert ended(events[-1:]).finish_reason is not None
    handle.cancel()  # harmless by now


def test_a_cancelled_answer_keeps_the_tokens_that_were_told(build: Build) -> None:
    pipeline = ScriptedPipeline([(20,), (21,), (22,), (23,)])
    engine = build(pipeline)
    events: list[Event] = []

    def cancel_at_once(event: Event) -> None:
        events.append(event)
        handles[0].cancel()

    handles = [engine.submit(request(), cancel_at_once)]
    pipeline.gate.set()
    engine.submit(request(), events.append)  # ends after the first
    _, end = collect(engine, max_new_tokens=1)
    ended(end)
    first = next(event for event in events if isinstance(event, FinishedEvent))
    assert first.finish_reason is FinishReason.CANCELLED
    assert first.token_ids == (20,)


def test_an_error_ends_its_request_and_the_next_one_is_answered(build: Build) -> None:
    pipeline = opened([(20,)], error=RuntimeError("anything"))
    engine = build(pipeline)
    assert isinstance(failure(collect(engine)[1]), EngineStoppedError)
    pipeline.error = None
    ended(collect(engine, max_new_tokens=1)[1])


def test_a_cache_without_room_ends_an_answer_and_refuses_a_prompt(build: Build) -> None:
    pipeline = opened([(20,), (21,)], error=DROPPED)
    engine = build(pipeline)
    finished = ended(collect(engine)[1])
    assert finished.finish_reason is FinishReason.LENGTH
    assert finished.token_ids == (20, 21)
    assert "cache_size_gib" in finished.notes[0]
    pipeline.runs = []
    assert isinstance(failure(collect(engine)[1]), CacheTooSmallError)


def test_a_listener_that_fails_harms_nobody(build: Build) -> None:
    engine = build(opened([(20,), (21,)]))

    def fail(event: Event) -> None:
        raise ValueError

    engine.submit(request(), fail)
    ended(collect(engine, max_new_tokens=1)[1])


def test_closing_ends_every_open_request_with_an_error(build: Build) -> None:
    pipeline = ScriptedPipeline([(20,), (21,)])
    engine = build(pipeline)
    events = SimpleQueue[Event]()
    for _ in range(2):
        engine.submit(request(), events.put)
    assert pipeline.begun.wait(10)
    with engine._line:  # closed before the first token, whatever the threads do
        engine._closed = True
    pipeline.gate.set()
    engine.close()
    for _ in range(2):
        assert isinstance(failure([events.get(timeout=10)]), EngineStoppedError)
    with pytest.raises(EngineStoppedError):
        engine.submit(request(), events.put)


def test_an_echo_and_no_more_asks_nothing_of_the_model(build: Build) -> None:
    pipeline = opened([(20,)])
    finished = ended(collect(build(pipeline), max_new_tokens=0, echo=True)[1])
    assert finished.finish_reason is FinishReason.LENGTH
    assert finished.text
    assert not pipeline.configs


def test_a_failure_in_reading_never_reaches_the_streamers_thread(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    engine = build(opened([(20,)]))
    monkeypatch.setattr("engine.reference.answer.Answer.take", fail)
    assert isinstance(failure(collect(engine)[1]), EngineStoppedError)


@pytest.mark.parametrize("name", ["logprobs", "json_schema"])
def test_refuses_by_name_what_is_not_told_or_not_honoured(build: Build, name: str) -> None:
    options: dict[str, Any] = {"logprobs": {"logprobs": 2}, "json_schema": {"json_schema": "{}"}}
    with pytest.raises(UnsupportedOptionError) as refusal:
        build(opened([])).submit(request(**options[name]), lambda event: None)
    assert refusal.value.param == name
