"""Fast Draft on the table target: no draft changes a greedy or keyed answer, rejection keeps the
law with a draft model's own distribution, and the draft model's cache loses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event as Signal
from time import sleep
from typing import Any

import numpy as np
import pytest

from engine.backends.base import Batch, Output
from engine.config import GenerationConfig, Speculation
from engine.drafters.base import NO_LIMIT, DraftContext, PrefillChunk
from engine.drafters.fast_draft import FastDraft
from engine.events import Event, FinishedEvent, StepEvent
from engine.interface import Engine
from engine.rejection import RejectionSampling
from engine.sampling import Distribution, SamplingState
from engine.values import DraftTree, FinishReason, SeqId, TokenScore
from engine.verify import verify
from tests.engine import law_kit
from tests.engine.draft_models import near
from tests.engine.law_kit import ALARM, CONFIGS, decider_after, with_remembered_tail
from tests.engine.loop_kit import TARGET, Builder, answer, request
from tests.fakes import TableBackend, TableTarget, tree_of
from tests.laws import p_value, sequence_law

DRAFT_MODEL = near(TARGET, likeness=0.75)
RULES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "penalties": {"repetition_penalty": 1.3, "frequency_penalty": 0.5},
    "seeded": {"do_sample": True, "temperature": 0.4, "rng_seed": 5},
}
LENGTHS: dict[str, dict[str, Any]] = {
    **{str(length): {"num_assistant_tokens": length} for length in (1, 3, 5, 10)},
    "adaptive": {"speculation": Speculation.ADAPTIVE},
    "adaptive chain": {"speculation": Speculation.ADAPTIVE},
}


class SlowBackend(TableBackend):
    """A target that is worth drafting for: the budget measures."""

    def forward(self, batch: Batch) -> Output:
        sleep(0.003)
        return super().forward(batch)


class Pair:
    """Engines with a draft model of their own, which has to be empty in the end."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self.drafts: list[TableBackend] = []

    def __call__(
        self, *, max_rows: int = 16, is_slow: bool = False, trees: bool = True, **options: Any
    ) -> Engine:
        self.drafts.append(TableBackend(DRAFT_MODEL, num_top=8, **options))
        target = (SlowBackend if is_slow else TableBackend)(TARGET, num_top=8, trees=trees)
        drafter = FastDraft(self.drafts[-1], max_rows=max_rows)
        engine, _ = self._build(drafter, backend=target, max_rows=max_rows)
        return engine


@pytest.fixture
def pair(build: Builder) -> Iterator[Pair]:
    pair = Pair(build)
    yield pair
    build.close()
    for draft in pair.drafts:
        assert not draft.open_sequences


def ask(engine: Engine, start: int, **options: Any) -> FinishedEvent:
    return answer(engine, request((start, 40, 30, start, 40), **options))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("rule", RULES)
def test_no_draft_changes_a_token(pair: Pair, rule: str, length: str) -> None:
    engine = pair(is_slow="adaptive" in length, trees="chain" not in length)
    accepted = rejected = 0
    for start in range(17, 29):
        drafted = ask(engine, start, **RULES[rule], **LENGTHS[length])
        plain = ask(engine, start, **RULES[rule], speculation=Speculation.OFF)
        assert drafted.token_ids == plain.token_ids
        assert drafted.text == plain.text
        accepted += drafted.metrics.num_accepted_tokens
        rejected += drafted.metrics.num_verified_tokens - drafted.metrics.num_accepted_tokens
    assert accepted >= 50
    assert rejected >= 50


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "options",
    [{}, {"max_rows": 3}, {"cache_tokens": 64}, {"max_sequences": 1}],
    ids=["room for all", "prompts in chunks", "a small cache", "one sequence at a time"],
)
def test_answers_at_once_are_as_they_are_alone(
    pair: Pair, rule: str, options: dict[str, Any]
) -> None:
    engine = pair(**options)
    alone = [ask(engine, start, **RULES[rule], num_assistant_tokens=5) for start in range(17, 21)]
    ends: dict[int, FinishedEvent] = {}
    done = Signal()

    def submit(start: int) -> None:
        def sink(event: Event) -> None:
            if isinstance(event, FinishedEvent):
                ends[start] = event
                if len(ends) == len(alone):
                    done.set()

        prompt = (start, 40, 30, start, 40)
        options = {**RULES[rule], "num_assistant_tokens": 5}
        engine.submit(request(prompt, request_id=str(start), **options), sink)

    for start in range(17, 21):
        submit(start)
    assert done.wait(20)
    for start, single in zip(range(17, 21), alone, strict=True):
        assert ends[start].token_ids == single.token_ids
    assert sum(end.metrics.num_accepted_tokens for end in ends.values()) >= 20


def test_a_cancelled_answer_gives_its_room_back(pair: Pair) -> None:
    engine = pair()
    first, last = Signal(), Signal()
    reasons: list[FinishReason] = []

    def sink(event: Event) -> None:
        if isinstance(event, StepEvent):
            first.set()
        elif isinstance(event, FinishedEvent):
            reasons.append(event.finish_reason)
            last.set()

    handle = engine.submit(request(max_new_tokens=400, num_assistant_tokens=3), sink)
    assert first.wait(20)
    handle.cancel()
    assert last.wait(20)
    assert reasons == [FinishReason.CANCELLED]
    assert ask(engine, 17).token_ids  # the engine has gone on, so that the release is done
    assert not pair.drafts[0].open_sequences


# Rejection with the distribution of a draft model. The laws are exact.

SMALL = TableTarget(law_kit.VOCAB_SIZE, seed=7)
LENGTH, PROMPT = law_kit.LENGTH, law_kit.PROMPT
NUM_RUNS = 2500


@dataclass(frozen=True, slots=True)
class Laws:
    """What the real decider says in each context, asked once."""

    config: GenerationConfig
    given: tuple[int, ...]
    known: dict[tuple[int, ...], Distribution]

    def distribution(self, row: int, path: Sequence[int]) -> Distribution:
        context = (*self.given, *path)
        if context not in self.known:
            decider = decider_after(SMALL, self.config, self.given, tree_of(path))
            law = decider.distribution(len(path), path)
            self.known[context] = with_remembered_tail(law)
        return self.known[context]

    def score(self, row: int, token: int) -> TokenScore:
        return law_kit.NO_SCORE


class Runs:
    """Answers one prompt again and again, with a draft model at each step."""

    def __init__(self, config: GenerationConfig) -> None:
        self._config = config
        self._known: dict[tuple[int, ...], Distribution] = {}
        self.drafter = FastDraft(TableBackend(near(SMALL), num_top=law_kit.NUM_TOP))
        self.num_accepted = self.num_rejected = 0

    def run(self, seed: SeqId) -> tuple[int, ...]:
        config = replace(self._config, rng_seed=seed)
        state = SamplingState(config, PROMPT, law_kit.VOCAB_SIZE)
        self.drafter.on_prefill([PrefillChunk(seed, np.array(PROMPT, np.int32), None, True)])
        given: list[int] = []

        def on_token(token: int) -> FinishReason | None:
            given.append(token)
            return FinishReason.LENGTH if len(given) == LENGTH else None

        while len(given) < LENGTH:
            past = tuple(given)
            draft = self._draft(seed, config, state, len(past))
            rule = RejectionSampling(Laws(config, past, self._known), state)
            said = verify(seed, draft, rule, on_token)
            state.commit(given[len(past) :])
            self.drafter.observe([said])
            self.num_accepted += said.num_accepted
            self.num_rejected += said.num_reached - said.num_accepted
        self.drafter.release(seed)
        return tuple(given)

    def _draft(
        self, seq: SeqId, config: GenerationConfig, state: SamplingState, num_given: int
    ) -> DraftTree:
        length = 1 + (seq + num_given) % 3  # by turns so short that a bonus follows
        context = DraftContext(seq, config, len(PROMPT) + num_given, length, noise=state.noise)
        return self.drafter.propose([context], NO_LIMIT)[0]

    def p_value(self) -> float:
        counts = Counter(self.run(seed) for seed in range(NUM_RUNS))
        return p_value(counts, sequence_law(SMALL, self._config, PROMPT, LENGTH))


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        ("temperature", 0.0),
        ("everything", 0.6),
        pytest.param("temperature", 0.6, marks=pytest.mark.long),
        pytest.param("penalties", 0.0, marks=pytest.mark.long),
        pytest.param("hot", 0.5, marks=pytest.mark.long),
        pytest.param("top_p", 0.0, marks=pytest.mark.long),
    ],
)
def test_rejection_keeps_the_law_with_a_draft_models_distribution(
    name: str, threshold: float
) -> None:
    runs = Runs(replace(CONFIGS[name], assistant_confidence_threshold=threshold))
    assert runs.p_value() > ALARM
    assert min(runs.num_accepted, runs.num_rejected) > NUM_RUNS // 10


def test_a_draft_that_tells_another_law_than_its_own_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def flattened(runs: Runs) -> None:
        honest = runs.drafter.propose

        def propose(*arguments: Any) -> list[DraftTree]:
            trees = honest(*arguments)
            for tree in trees:
                assert tree.proposal is not None
                tree.proposal.probs[:] = 1.0 / tree.proposal.probs.shape[1]
            return trees

        monkeypatch.setattr(runs.drafter, "propose", propose)

    runs = Runs(CONFIGS["temperature"])
    flattened(runs)
    assert runs.p_value() < ALARM
