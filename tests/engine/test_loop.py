"""The loop on a table-driven target: every request ends, nothing leaks, and drafts change
nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from queue import SimpleQueue
from typing import Any, NoReturn

import pytest

from engine.config import Speculation
from engine.drafters.suffix import SuffixDrafter
from engine.errors import EngineStoppedError, StepFailedError
from engine.events import Event, FailedEvent, FinishedEvent, StepEvent
from engine.interface import stream
from engine.tokens import Tokenizer
from engine.values import FinishReason, Origin
from tests.engine.loop_kit import PROMPT, TARGET, VOCAB, Builder, answer, greedy_walk, request
from tests.fakes import ScriptedDrafter, TableBackend, noisy_copy, tree_of


def test_plain_greedy_is_the_tables_own_walk(build: Builder) -> None:
    engine, _ = build()
    finished = answer(engine, request())
    assert finished.token_ids == greedy_walk(40)
    assert finished.finish_reason is FinishReason.LENGTH
    assert {token.origin for token in finished.tokens} == {Origin.PLAIN}


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "temperature": 0.8, "rng_seed": 5},
        {"repetition_penalty": 1.3},
        {"presence_penalty": 1.0, "frequency_penalty": 0.5},
        {"min_new_tokens": 25, "stop_token_ids": list(range(17, 60, 2))},
        {"do_sample": True, "top_p": 0.7, "top_k": 30, "min_p": 0.01, "frequency_penalty": 1.0},
    ],
    ids=["greedy", "seeded", "repetition", "presence", "min-new-tokens", "filters"],
)
def test_drafts_change_nothing_but_the_number_of_steps(
    build: Builder, branches: int, options: dict[str, Any]
) -> None:
    drafter = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.7, num_children=branches))
    engine, _ = build(drafter)
    accepted = rejected = 0
    for start in range(17, 32):
        wanted = {"prompt": (start, 40), "num_assistant_tokens": 6, **options}
        drafted = answer(engine, request(**wanted))
        plain = answer(engine, request(**{**wanted, "num_assistant_tokens": 0}))
        assert drafted.token_ids == plain.token_ids
        assert drafted.text == plain.text
        assert drafted.finish_reason == plain.finish_reason
        accepted += drafted.metrics.num_accepted_tokens
        rejected += drafted.metrics.num_verified_tokens - drafted.metrics.num_accepted_tokens
    assert accepted >= 50
    assert rejected >= 50


def test_requests_at_once_answer_as_if_alone(build: Builder) -> None:
    drafter = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.8))
    engine, backend = build(drafter)
    wanted = [
        request(prompt=(17 + i, 30), request_id=str(i), do_sample=i % 2 == 1, rng_seed=i)
        for i in range(8)
    ]
    alone = [answer(engine, one).token_ids for one in wanted]
    first_batch = len(backend.batches)
    events: SimpleQueue[Event] = SimpleQueue()
    tagged: dict[str, FinishedEvent] = {}
    for one in wanted:

        def sink(event: Event, name: str = one.request_id) -> None:
            if isinstance(event, FinishedEvent):
                tagged[name] = event
                events.put(event)

        engine.submit(one, sink)
    for _ in wanted:
        events.get(timeout=30)
    assert [tagged[one.request_id].token_ids for one in wanted] == alone
    assert max(len(batch.slices) for batch in backend.batches[first_batch:]) >= 4


def test_choices_of_one_request_differ_and_are_repeatable(build: Builder) -> None:
    engine, _ = build()
    wanted = request(do_sample=True, num_return_sequences=3, rng_seed=9)
    runs = [
        {
            event.choice: event.token_ids
            for event in stream(engine, wanted)
            if isinstance(event, FinishedEvent)
        }
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert sorted(runs[0]) == [0, 1, 2]
    assert len(set(runs[0].values())) == 3
    assert runs[0][0] == answer(engine, request(do_sample=True, rng_seed=9)).token_ids


@pytest.mark.parametrize("stop_at", [1, 3, 6, 8])
def test_nothing_after_a_stop_leaks_from_an_accepted_block(build: Builder, stop_at: int) -> None:
    walk = greedy_walk(40)
    perfect = ScriptedDrafter(
        lambda tokens, limit: tree_of(walk[len(tokens) - 3 :][:limit]), trees=False
    )
    engine, _ = build(perfect)
    stop = walk[stop_at]
    cut = walk.index(stop) + 1
    finished = answer(engine, request(num_assistant_tokens=6, stop_token_ids=[stop]))
    assert finished.token_ids == walk[:cut]
    assert finished.finish_reason is FinishReason.STOP
    assert len(finished.tokens) == finished.metrics.num_generated_tokens == cut


@pytest.mark.parametrize("stop_at", [1, 3, 6, 8])
def test_a_stop_string_cuts_text_and_tokens_at_the_same_place(
    build: Builder, tokenizer: Tokenizer, stop_at: int
) -> None:
    walk = greedy_walk(40)
    perfect = ScriptedDrafter(lambda tokens, limit: tree_of(walk[len(tokens) - 3 :][:limit]))
    engine, _ = build(perfect)
    stop = tokenizer.decode(walk[stop_at : stop_at + 2])  # two tokens, perhaps of two blocks
    whole = tokenizer.decode(walk)
    finished = answer(engine, request(num_assistant_tokens=6, stop_strings=[stop]))
    assert finished.text == whole[: whole.index(stop)]
    assert tokenizer.decode(finished.token_ids) == finished.text + stop
    kept = answer(
        engine,
        request(num_assistant_tokens=6, stop_strings=[stop], include_stop_str_in_output=True),
    )
    assert kept.text == finished.text + stop
    assert kept.token_ids == finished.token_ids


def test_acceptance_is_counted_by_position(build: Builder) -> None:
    walk = greedy_walk(40)

    def two_right_then_wrong(tokens: Sequence[int], limit: int) -> Any:
        right = list(walk[len(tokens) - 3 :][:2])
        wrong = (walk[len(tokens) - 1] + 1) % VOCAB if len(tokens) - 1 < 40 else 0
        return tree_of([*right, wrong, wrong][:limit])

    engine, _ = build(ScriptedDrafter(two_right_then_wrong))
    metrics = answer(engine, request(max_new_tokens=31, num_assistant_tokens=4)).metrics
    # One plain token after the prompt, then ten steps of two accepted and one recovered.
    assert metrics.num_target_steps == 11
    assert metrics.acceptance_by_position == [1.0, 1.0, 0.0]
    assert metrics.tokens_per_step == pytest.approx(31 / 11)


def test_cancelling_ends_within_a_step_and_frees_everything(build: Builder) -> None:
    engine, backend = build(context_length=None, backend=TableBackend(TARGET, cache_tokens=10**6))
    events: SimpleQueue[Event] = SimpleQueue()
    handle = engine.submit(request(max_new_tokens=500_000), events.put)
    while not isinstance(events.get(timeout=30), StepEvent):
        pass
    handle.cancel()
    last = events.get(timeout=30)
    while isinstance(last, StepEvent):
        last = events.get(timeout=30)
    assert isinstance(last, FinishedEvent)
    assert last.finish_reason is FinishReason.CANCELLED
    assert last.token_ids == greedy_walk(len(last.token_ids))
    handle.cancel()  # once more does no harm
    assert answer(engine, request()).token_ids == greedy_walk(40)
    assert not backend.open_sequences


def test_closing_ends_open_requests_with_an_error(build: Builder) -> None:
    engine, _ = build(context_length=None, backend=TableBackend(TARGET, cache_tokens=10**6))
    events: SimpleQueue[Event] = SimpleQueue()
    engine.submit(request(max_new_tokens=500_000), events.put)
    events.get(timeout=30)
    engine.close()
    last = events.get(timeout=30)
    while isinstance(last, StepEvent):
        last = events.get(timeout=30)
    assert isinstance(last, FailedEvent)
    assert isinstance(last.error, EngineStoppedError)
    with pytest.raises(EngineStoppedError):
        engine.submit(request(), events.put)


def _break(target: object, method: str, from_call: int) -> None:
    """Let ``target.method`` do its work and then raise, from that call on."""
    working, calls = getattr(target, method), count(1)

    def broken(*args: Any, **kwargs: Any) -> Any:
        result = working(*args, **kwargs)
        if next(calls) >= from_call:
            raise RuntimeError(f"{method} is broken")
        return result

    setattr(target, method, broken)


@pytest.mark.parametrize("part", ["forward", "commit", "propose", "on_prefill", "observe"])
def test_a_failed_step_ends_all_its_requests_and_gives_everything_back(
    build: Builder, part: str
) -> None:
    drafter = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.7))
    engine, backend = build(drafter)
    _break(drafter if hasattr(drafter, part) else backend, part, from_call=1)
    events: SimpleQueue[Event] = SimpleQueue()
    for _ in range(2):  # of one id: it is only a label
        engine.submit(request(request_id="same"), events.put)
    failed = 0
    while failed < 2:
        failed += isinstance(events.get(timeout=30), FailedEvent)
    assert not backend.open_sequences


def test_the_engine_goes_on_after_a_failed_step(build: Builder) -> None:
    engine, backend = build()
    working = backend.forward
    _break(backend, "forward", from_call=5)
    events = list(stream(engine, request()))
    assert len(events) == 5
    failed = events[-1]
    assert isinstance(failed, FailedEvent)
    assert isinstance(failed.error, StepFailedError)
    backend.forward = working
    assert answer(engine, request()).token_ids == greedy_walk(40)


@pytest.mark.parametrize("part", ["drafter", "backend"])
def test_trouble_while_something_is_released_harms_nobody(build: Builder, part: str) -> None:
    drafter = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.7))
    engine, backend = build(drafter)
    _break(drafter if part == "drafter" else backend, "release", from_call=1)
    for _ in range(2):
        assert answer(engine, request()).token_ids == greedy_walk(40)


def test_a_drafter_that_cannot_be_made_fails_its_requests_alone(build: Builder) -> None:
    drafter = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.7))
    engine, _ = build(drafter)

    def broken(name: str) -> NoReturn:
        raise RuntimeError(f"{name} is broken")

    engine._drafting._make = broken  # pyright: ignore[reportPrivateUsage]
    *_, last = stream(engine, request())
    assert isinstance(last, FailedEvent)
    assert answer(engine, request(drafter="none")).token_ids == greedy_walk(40)


def test_when_the_thread_ends_nobody_waits_behind_the_door(build: Builder) -> None:
    engine, backend = build()
    _break(engine._scheduler, "add", from_call=1)  # pyright: ignore[reportPrivateUsage]
    *_, last = stream(engine, request())
    assert isinstance(last, FailedEvent)
    engine._thread.join(timeout=30)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(EngineStoppedError):
        engine.submit(request(), print)
    assert backend.closed


def test_cancelling_reaches_its_own_submission_alone(build: Builder) -> None:
    engine, _ = build(context_length=None, backend=TableBackend(TARGET, cache_tokens=10**6))
    first: SimpleQueue[Event] = SimpleQueue()
    second: SimpleQueue[Event] = SimpleQueue()
    handle = engine.submit(request(request_id="same", max_new_tokens=400_000), first.put)
    engine.submit(request(request_id="same", max_new_tokens=60), second.put)
    handle.cancel()
    for events, reason in ((first, FinishReason.CANCELLED), (second, FinishReason.LENGTH)):
        last = events.get(timeout=30)
        while isinstance(last, StepEvent):
            last = events.get(timeout=30)
        assert isinstance(last, FinishedEvent)
        assert last.finish_reason is reason


def test_a_listener_that_fails_harms_nobody_else(build: Builder) -> None:
    engine, _ = build()

    def broken(event: Event) -> None:
        raise ValueError("not my day")

    engine.submit(request(request_id="broken"), broken)
    assert answer(engine, request()).token_ids == greedy_walk(40)


def test_an_answer_ends_early_when_the_cache_is_full_and_says_so(build: Builder) -> None:
    drafter = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.9))
    engine, _ = build(drafter, backend=TableBackend(TARGET, cache_tokens=20), context_length=100)
    finished = answer(
        engine, request(max_new_tokens=None, stop_strings=["never"], num_assistant_tokens=5)
    )
    assert finished.finish_reason is FinishReason.LENGTH
    # 20 rows, and one more token that needs none.
    assert finished.token_ids == greedy_walk(18)
    assert "21 tokens of this answer" in finished.notes[0]
    assert "holds 20" in finished.notes[0]
    assert answer(engine, request(max_new_tokens=10)).token_ids == greedy_walk(10)


def test_an_echo_alone_needs_no_step(build: Builder, tokenizer: Tokenizer) -> None:
    engine, backend = build()
    finished = answer(engine, request(echo=True, max_new_tokens=0))
    assert finished.text == tokenizer.decode(PROMPT)
    assert backend.num_passes == 0
    echoed = answer(engine, request(echo=True))
    assert echoed.text == tokenizer.decode(PROMPT) + tokenizer.decode(greedy_walk(40))


def test_long_prompts_are_read_in_chunks(build: Builder) -> None:
    prompt = [17 + i % 40 for i in range(50)]
    engine, backend = build(max_rows=16)
    assert answer(engine, request(prompt=prompt)).token_ids == greedy_walk(40, prompt)
    assert [batch.num_rows for batch in backend.batches[:4]] == [16, 16, 16, 2]


def test_of_two_drafters_the_one_that_gains_more_is_taken(build: Builder) -> None:
    good = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.95), name="good")
    poor = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.1), name="poor")
    engine, _ = build(poor, good, speculation=Speculation.ADAPTIVE)
    taken: list[str | None] = []
    for start in range(17, 25):
        wanted = request((start, 40))
        for event in stream(engine, wanted):
            if isinstance(event, StepEvent) and event.verified:
                taken.append(event.drafter)
    assert taken.count("good") > 10
    assert set(taken[len(taken) // 2 :]) == {"good"}


def test_a_request_may_name_one_of_the_engines_drafters(build: Builder) -> None:
    good = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.95), name="good")
    poor = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.1), name="poor")
    engine, _ = build(poor, good)
    wanted = request(drafter="poor", num_assistant_tokens=3)
    drafters = {event.drafter for event in stream(engine, wanted) if isinstance(event, StepEvent)}
    assert drafters == {"poor", None}  # the first token is drafted by nobody
    assert not good.tokens


def test_forgets_earlier_answers_once_nothing_runs(build: Builder) -> None:
    engine, _ = build(SuffixDrafter())
    wanted = request((20, 40, 30), max_new_tokens=60, num_assistant_tokens=8)
    first, again = answer(engine, wanted), answer(engine, wanted)
    assert again.metrics.num_target_steps < first.metrics.num_target_steps / 2
    engine._drafting._make = lambda name: SuffixDrafter()  # pyright: ignore[reportPrivateUsage]
    engine.forget()
    anew = answer(engine, wanted)
    assert anew.metrics.num_target_steps == first.metrics.num_target_steps
    assert anew.token_ids == first.token_ids
