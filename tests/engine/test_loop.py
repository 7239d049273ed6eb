"""The loop on a table-driven target: every request ends, nothing leaks, and drafts change
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from engine.admission import Admission
from engine.backends.base import Batch, Output
from engine.budget import Budget, StepCost
from engine.config import (
    BackendKind,
    CachePrecision,
    SampledRule,
    Speculation,
    resolve,
)
from engine.drafters.base import Drafter
from engine.drafting import DraftStage
from engine.errors import (
    CacheTooSmallError,
    ContextLengthError,
    EmptyPromptError,
    EngineStoppedError,
    InvalidOptionError,
    PacelineError,
    UnknownDrafterError,
    UnsupportedOptionError,
)
from engine.events import Event, FailedEvent, FinishedEvent, GenerationRequest, StepEvent
from engine.library.folder import read_model_folder
from engine.loop import Engine, Parts, stream
from engine.plan import Plan
from engine.tokens import Tokenizer
from engine.values import FinishReason, Origin
from tests.fakes import ScriptedDrafter, TableBackend, TableTarget, noisy_copy, tree_of

VOCAB = 64  # the small model's first ids: special tokens, then punctuation, digits and letters
TARGET = TableTarget(VOCAB, seed=3, spread=2.0)
PROMPT = (20, 40, 30)
EOS = 2


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Tokenizer:
    return Tokenizer.load(smollm2)


Build = Callable[..., tuple[Engine, TableBackend]]


@pytest.fixture
def build(tokenizer: Tokenizer, smollm2: Path) -> Iterator[Build]:
    """Makes engines on the table, and sees that each gave everything back."""
    built: list[tuple[Engine, TableBackend]] = []

    def make(
        drafter: Drafter | None = None,
        backend: TableBackend | None = None,
        *,
        context_length: int | None = 512,
        speculation: Speculation = Speculation.STATIC,
        max_rows: int = 16,
    ) -> tuple[Engine, TableBackend]:
        backend = backend or TableBackend(TARGET, num_top=8)

        def make_drafter(name: str) -> Drafter | None:
            if name == "none":
                return None
            if drafter is None or name != drafter.name:
                raise UnknownDrafterError(f"There is no drafter called '{name}'.")
            return drafter

        plan = Plan(
            backend=BackendKind.PAGED,
            device="CPU",
            drafter="none" if drafter is None else drafter.name,
            speculation=speculation,
            cache_precision=CachePrecision.F32,
            cache_bytes=0,
            reasons=(),
        )
        flat_cost = StepCost([1, 16], [10.0, 10.1])
        engine = Engine(
            Parts(
                model=read_model_folder(smollm2),
                plan=plan,
                tokenizer=tokenizer,
                model_defaults={},
                backend=backend,
                drafting=DraftStage(Budget(flat_cost), make_drafter),
                admission=Admission(
                    plan, tokenizer, backend.cache, VOCAB, context_length, make_drafter
                ),
                max_rows=max_rows,
            )
        )
        built.append((engine, backend))
        return engine, backend

    yield make
    for engine, backend in built:
        engine.close()
        assert backend.closed
        assert not backend.open_sequences


def request(prompt: Sequence[int] = PROMPT, **options: Any) -> GenerationRequest:
    of_request = {
        name: options.pop(name)
        for name in ("speculation", "drafter", "sampled_rule", "request_id")
        if name in options
    }
    config = resolve({"max_new_tokens": 40, **options}, {})
    return GenerationRequest(
        of_request.pop("request_id", "request"), tuple(prompt), config, **of_request
    )


def answer(engine: Engine, wanted: GenerationRequest) -> FinishedEvent:
    """The one finished choice; checks that the events agree with each other."""
    steps: list[StepEvent] = []
    for event in stream(engine, wanted):
        if isinstance(event, FinishedEvent):
            check_agreement(steps, event)
            return event
        assert isinstance(event, StepEvent)
        steps.append(event)
    raise AssertionError("no terminal event")


def check_agreement(steps: list[StepEvent], finished: FinishedEvent) -> None:
    emitted = tuple(token for step in steps for token in step.emitted)
    assert emitted == finished.tokens
    assert tuple(token.token for token in emitted) == finished.token_ids
    assert "".join(step.text for step in steps) + finished.tail == finished.text
    metrics = finished.metrics
    assert metrics.num_generated_tokens == len(emitted)
    assert metrics.num_target_steps == len(steps)
    assert metrics.num_verified_tokens == sum(step.chosen_length for step in steps)
    assert metrics.num_draft_tokens == sum(len(step.draft.tokens) for step in steps)
    accepted = [token for token in emitted if token.origin is Origin.ACCEPTED]
    assert metrics.num_accepted_tokens == len(accepted)
    for step in steps:
        ends = [token.origin for token in step.emitted if token.origin is not Origin.ACCEPTED]
        assert len(ends) <= 1  # one token beside the accepted ones, unless a stop came first
        assert ends or step is steps[-1]


def greedy_walk(length: int, prompt: Sequence[int] = PROMPT) -> tuple[int, ...]:
    tokens = list(prompt)
    for _ in range(length):
        tokens.append(TARGET.likeliest(tokens))
    return tuple(tokens[len(prompt) :])


def test_plain_greedy_is_the_tables_own_walk(build: Build) -> None:
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
    build: Build, branches: int, options: dict[str, Any]
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


def test_requests_at_once_answer_as_if_alone(build: Build) -> None:
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


def test_choices_of_one_request_differ_and_are_repeatable(build: Build) -> None:
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
def test_nothing_after_a_stop_leaks_from_an_accepted_block(build: Build, stop_at: int) -> None:
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
    build: Build, tokenizer: Tokenizer, stop_at: int
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


def test_acceptance_is_counted_by_position(build: Build) -> None:
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


def test_cancelling_ends_within_a_step_and_frees_everything(build: Build) -> None:
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


def test_closing_ends_open_requests_with_an_error(build: Build) -> None:
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


class FailingBackend(TableBackend):
    """Fails in the pass that it is told to fail in."""

    fails_in = 5

    def forward(self, batch: Batch) -> Output:
        output = super().forward(batch)
        if self.num_passes == self.fails_in:
            raise RuntimeError("the device is gone")
        return output


def test_a_failed_step_ends_its_requests_and_the_engine_goes_on(build: Build) -> None:
    engine, _ = build(backend=FailingBackend(TARGET))
    events = list(stream(engine, request()))
    assert isinstance(events[-1], FailedEvent)
    assert len(events) == 5
    assert answer(engine, request()).token_ids == greedy_walk(40)


def test_a_listener_that_fails_harms_nobody_else(build: Build) -> None:
    engine, _ = build()

    def broken(event: Event) -> None:
        raise ValueError("not my day")

    engine.submit(request(request_id="broken"), broken)
    assert answer(engine, request()).token_ids == greedy_walk(40)


def test_an_answer_ends_early_when_the_cache_is_full_and_says_so(build: Build) -> None:
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


def test_an_echo_alone_needs_no_step(build: Build, tokenizer: Tokenizer) -> None:
    engine, backend = build()
    finished = answer(engine, request(echo=True, max_new_tokens=0))
    assert finished.text == tokenizer.decode(PROMPT)
    assert backend.num_passes == 0
    echoed = answer(engine, request(echo=True))
    assert echoed.text == tokenizer.decode(PROMPT) + tokenizer.decode(greedy_walk(40))


def test_long_prompts_are_read_in_chunks(build: Build) -> None:
    prompt = [17 + i % 40 for i in range(50)]
    engine, backend = build(max_rows=16)
    assert answer(engine, request(prompt=prompt)).token_ids == greedy_walk(40, prompt)
    assert [batch.num_rows for batch in backend.batches[:4]] == [16, 16, 16, 2]


_DRAFTER = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.5), trees=False)


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        (request(prompt=()), EmptyPromptError, "prompt is empty"),
        (request(prompt=[20] * 512), ContextLengthError, "512 tokens.*512"),
        (request(prompt=[20] * 300), CacheTooSmallError, "339 rows.*has 100"),
        (request(max_new_tokens=400), CacheTooSmallError, "402 rows.*has 100"),
        (request(drafter="sufix"), UnknownDrafterError, "'sufix'"),
        (
            request(sampled_rule=SampledRule.REJECTION),
            UnsupportedOptionError,
            "'sampled_rule'.*keyed",
        ),
        (
            request(speculation=Speculation.OFF, num_assistant_tokens=3),
            InvalidOptionError,
            "'num_assistant_tokens' is 3, which contradicts speculation off",
        ),
        (
            request(drafter="none", num_assistant_tokens=3),
            InvalidOptionError,
            "contradicts drafter 'none'",
        ),
        (request(max_ngram_size=3), UnsupportedOptionError, "'max_ngram_size'.*leave it unset"),
        (
            request(tree_depth=2, branching_factor=2, num_assistant_tokens=4),
            UnsupportedOptionError,
            "'tree_depth'",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_at_once(
    build: Build, wanted: GenerationRequest, error: type[PacelineError], words: str
) -> None:
    engine, _ = build(_DRAFTER, backend=TableBackend(TARGET, cache_tokens=100))
    with pytest.raises(error, match=words):
        engine.submit(wanted, lambda event: None)
    assert answer(engine, request()).token_ids == greedy_walk(40)


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ({"num_assistant_tokens": 0}, {0}),
        ({"num_assistant_tokens": 1}, {1}),
        ({"num_assistant_tokens": 7}, {7}),
        ({"num_assistant_tokens": 100}, {38, 37, 36}),
        ({"speculation": Speculation.OFF}, {0}),
        ({"speculation": Speculation.STATIC}, {5}),
        ({"drafter": "none"}, {0}),
    ],
)
def test_draft_lengths_are_what_was_asked_for(
    build: Build, options: dict[str, Any], lengths: set[int]
) -> None:
    wrong = ScriptedDrafter(lambda tokens, limit: tree_of([0] * limit), trees=False)
    engine, _ = build(wrong, speculation=Speculation.ADAPTIVE)
    steps = [one for one in stream(engine, request(**options)) if isinstance(one, StepEvent)]
    chosen = [step.chosen_length for step in steps[1:4]]
    assert set(chosen) == lengths
    assert steps[0].chosen_length == 0
