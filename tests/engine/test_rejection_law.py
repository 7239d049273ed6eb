"""Rejection keeps the target's law too, whatever the proposal: chi-square, exact laws.

As in `test_verify_law`: each run answers one prompt with its own seed, and drafts at every step.
Here a draft is drawn in each run anew, so laws are remembered by their context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from engine.config import GenerationConfig
from engine.noise import Lane, NoiseStream
from engine.rejection import RejectionSampling, Residual, Target
from engine.sampling import Distribution, SamplingState
from engine.values import DraftTree, FinishReason, TokenScore
from engine.verify import AcceptanceRule, Candidates, Decision, SampleThenMatch, verify
from tests.drawn import Proposals
from tests.engine.law_kit import (
    ALARM,
    CONFIGS,
    LENGTH,
    NO_SCORE,
    NUM_DRAFTS,
    NUM_MUTANT_RUNS,
    NUM_RUNS,
    PROMPT,
    VOCAB_SIZE,
    chain,
    decider_after,
    tree,
    with_remembered_tail,
)
from tests.fakes import TableTarget, tree_of
from tests.laws import p_value, sequence_law

TARGET = TableTarget(VOCAB_SIZE, seed=7)
SIBLINGS = {
    "independent": Proposals(TARGET),
    "without-replacement": Proposals(TARGET, without_replacement=True),
}
UNLIKE = Proposals(TARGET, likeness=0.0)
"""Often rejected, so that a token that was kept says much about the noise of its test."""

MakeDraft = Callable[[Sequence[int], int, NoiseStream], DraftTree]
"""What is drafted after some tokens; the second argument says which shape."""

Rule = Callable[[Target, SamplingState], AcceptanceRule]

CHAIN, TREE = (-1, 0, 1), (-1, 0, 1, -1, -1, 0, 0)


def drawn(proposals: Proposals, parents: Sequence[int], lane: Lane = Lane.DRAFT) -> MakeDraft:
    def make(tokens: Sequence[int], which: int, noise: NoiseStream) -> DraftTree:
        # By turns whole, and so short that a bonus follows.
        shape = parents if which else [parent for parent in parents if parent == -1]
        return proposals.draw(tokens, shape, noise, lane)

    return make


def one_hot(make: Callable[[TableTarget, Sequence[int], int], DraftTree]) -> MakeDraft:
    known: dict[tuple[tuple[int, ...], int], DraftTree] = {}

    def make_known(tokens: Sequence[int], which: int, noise: NoiseStream) -> DraftTree:
        key = (tuple(tokens), which)
        if key not in known:
            known[key] = make(TARGET, tokens, which)
        return known[key]

    return make_known


DRAFTS: dict[str, MakeDraft] = {
    "chain": drawn(SIBLINGS["independent"], CHAIN),
    "tree": drawn(SIBLINGS["independent"], TREE),
    "tree-without-replacement": drawn(SIBLINGS["without-replacement"], TREE),
    "one-hot-chain": one_hot(chain),
    "one-hot-tree": one_hot(tree),
}

CASES = [
    ("penalties", "chain"),
    ("everything", "tree"),
]
LONG_CASES = [
    *((name, "tree-without-replacement") for name in CONFIGS),
    *((name, "chain") for name in CONFIGS if name != "penalties"),
    ("temperature", "tree"),
    ("hot", "tree"),
    ("penalties", "tree"),
    ("top_p", "one-hot-chain"),
    ("penalties", "one-hot-chain"),
    ("hot", "one-hot-tree"),
    ("everything", "one-hot-tree"),
]


@dataclass(frozen=True, slots=True)
class Remembering:
    """What a `TokenDecider` says after one answer, with remembered laws."""

    law: Callable[[tuple[int, ...], tuple[int, ...]], Distribution]
    answer: tuple[int, ...]

    def distribution(self, row: int, path: Sequence[int]) -> Distribution:
        return self.law(self.answer, tuple(path))

    def score(self, row: int, token: int) -> TokenScore:
        return NO_SCORE


class Runs:
    """Answers ``PROMPT`` again and again under one config, with a draft at each step."""

    def __init__(self, config: GenerationConfig, make_draft: MakeDraft) -> None:
        self._config = config
        self._make_draft = make_draft
        self._laws: dict[tuple[tuple[int, ...], tuple[int, ...]], Distribution] = {}
        self.num_accepted = self.num_rejected = 0

    def counts(
        self, num_runs: int, rule: Rule = RejectionSampling, choice: int = 0
    ) -> Counter[tuple[int, ...]]:
        """How often each answer came; run ``i`` has seed ``i``."""
        return Counter(self.run(seed, rule, choice) for seed in range(num_runs))

    def p_value(self, counts: Counter[tuple[int, ...]]) -> float:
        return p_value(counts, sequence_law(TARGET, self._config, PROMPT, LENGTH))

    def run(self, seed: int, rule: Rule = RejectionSampling, choice: int = 0) -> tuple[int, ...]:
        state = SamplingState(self._config, PROMPT, VOCAB_SIZE)
        state.noise = NoiseStream(seed, choice)
        answer: list[int] = []

        def on_token(token: int) -> FinishReason | None:
            answer.append(token)
            return FinishReason.LENGTH if len(answer) == LENGTH else None

        while len(answer) < LENGTH:
            past = tuple(answer)
            which = (seed + len(past)) % NUM_DRAFTS
            draft = self._make_draft((*PROMPT, *past), which, state.noise)
            verdict = verify(0, draft, rule(Remembering(self.law, past), state), on_token)
            state.commit(answer[len(past) :])
            self.num_accepted += verdict.num_accepted
            self.num_rejected += verdict.num_reached - verdict.num_accepted
        return tuple(answer)

    def law(self, answer: tuple[int, ...], path: tuple[int, ...]) -> Distribution:
        """The law after ``answer`` and then the drafted ``path``, as the real decider has it."""
        key = (answer, path)
        if key not in self._laws:
            decider = decider_after(TARGET, self._config, answer, tree_of(path))
            self._laws[key] = with_remembered_tail(decider.distribution(len(path), path))
        return self._laws[key]


@pytest.mark.parametrize(
    ("name", "draft"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in LONG_CASES)],
)
def test_answers_follow_the_law_of_the_target(name: str, draft: str) -> None:
    runs = Runs(CONFIGS[name], DRAFTS[draft])
    assert runs.p_value(runs.counts(NUM_RUNS)) > ALARM
    assert min(runs.num_accepted, runs.num_rejected) > NUM_RUNS // 10


@pytest.mark.long
@pytest.mark.parametrize("penalty", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
def test_each_penalty_counts_the_tokens_before_a_place_however_many_a_step_emits(
    penalty: str,
) -> None:
    config = GenerationConfig(do_sample=True, **{penalty: 1.3})
    runs = Runs(config, DRAFTS["chain"])
    assert runs.p_value(runs.counts(NUM_RUNS)) > ALARM


def test_an_answer_repeats_with_its_seed_and_its_drafts() -> None:
    first, again = (Runs(CONFIGS["everything"], DRAFTS["tree"]) for _ in range(2))
    assert [first.run(seed) for seed in range(50)] == [again.run(seed) for seed in range(50)]


def test_more_is_kept_of_a_drawn_draft_than_matching_keeps() -> None:
    kept: list[int] = []
    for rule in (RejectionSampling, match):
        runs = Runs(CONFIGS["temperature"], DRAFTS["chain"])
        runs.counts(1000, rule)
        kept.append(runs.num_accepted)
    assert kept[0] > 1.15 * kept[1]


def match(target: Target, state: SamplingState) -> AcceptanceRule:
    def decide(row: int, path: Sequence[int]) -> tuple[int, TokenScore]:
        law = target.distribution(row, path)
        return law.draw(state.noise, state.position(path)), NO_SCORE

    return SampleThenMatch(decide)


# Several choices of one request.


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(RejectionSampling, id="rejection"),
        pytest.param(match, id="keyed", marks=pytest.mark.long),
    ],
)
def test_four_choices_have_the_law_each_and_are_independent(rule: Rule) -> None:
    config = CONFIGS["top_k"]
    runs = Runs(config, DRAFTS["chain"])
    num_runs = NUM_RUNS // 4  # of four choices: as many draws as elsewhere
    answers = [[runs.run(seed, rule, choice) for seed in range(num_runs)] for choice in range(4)]
    for mine in answers:
        assert runs.p_value(Counter(mine)) > ALARM
    law = sequence_law(TARGET, config, PROMPT, 2)
    joint = {(*one, *other): p * q for one, p in law.items() for other, q in law.items()}
    for first, second in ((0, 1), (2, 3), (0, 3)):
        pairs = zip(answers[first], answers[second], strict=True)
        assert p_value(Counter((*a[:2], *b[:2]) for a, b in pairs), joint) > ALARM


def test_choices_that_share_their_noise_are_seen() -> None:
    runs = Runs(CONFIGS["top_k"], DRAFTS["chain"])
    answers = [runs.run(seed) for seed in range(NUM_MUTANT_RUNS)]
    law = sequence_law(TARGET, CONFIGS["top_k"], PROMPT, 1)
    joint = {(*one, *other): p * q for one, p in law.items() for other, q in law.items()}
    assert p_value(Counter((answer[0], answer[0]) for answer in answers), joint) < ALARM


# Ways to break the rule. Each must be seen, or the tests above prove nothing.


@dataclass(frozen=True, slots=True)
class AcceptEverything:
    """Keeps whatever was drafted."""

    target: Target
    state: SamplingState

    def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
        if candidates.tokens:
            return Decision(0, candidates.tokens[0], NO_SCORE)
        return RejectionSampling(self.target, self.state).at(row, path, candidates)


@dataclass(frozen=True, slots=True)
class EmitTheDraftAtTheMismatch:
    """Stops where the draft is rejected, but with the draft's token."""

    target: Target
    state: SamplingState

    def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
        decision = RejectionSampling(self.target, self.state).at(row, path, candidates)
        if decision.child is None and candidates.tokens:
            return Decision(None, candidates.tokens[0], NO_SCORE)
        return decision


class PlaceBefore(SamplingState):
    """Takes the noise of the place before for every place behind a drafted token."""

    def position(self, path: Sequence[int]) -> int:
        return super().position(path[1:])


def reuse_the_noise_of_the_row_before(target: Target, state: SamplingState) -> AcceptanceRule:
    before = PlaceBefore(state.config, PROMPT, VOCAB_SIZE)
    before.commit(range(state.num_generated))
    before.noise = state.noise
    return RejectionSampling(target, before)


@dataclass(frozen=True, slots=True)
class Forgetful:
    """Uses the processors as they stand at the pending token, whatever was drafted since."""

    target: Target
    answer: tuple[int, ...]

    def distribution(self, row: int, path: Sequence[int]) -> Distribution:
        return forgetful_law(self.answer, tuple(path))

    def score(self, row: int, token: int) -> TokenScore:
        return NO_SCORE


@cache
def forgetful_law(answer: tuple[int, ...], path: tuple[int, ...]) -> Distribution:
    decider = decider_after(TARGET, CONFIGS["penalties"], answer, tree_of(path))
    return with_remembered_tail(decider.distribution(len(path), ()))


def forget_the_processors(target: Target, state: SamplingState) -> AcceptanceRule:
    assert isinstance(target, Remembering)
    return RejectionSampling(Forgetful(target, target.answer), state)


class NothingSubtracted(Residual):
    """After a rejection, the whole of p once more."""

    def subtract(self, *_: object) -> None: ...


class NotNormalised(Residual):
    """Takes what is left for probabilities; what is missing from one falls to the last token."""

    def draw(self, noise: NoiseStream, position: int) -> int:
        whole = np.append(self._weights, self._outside) / self._first_total
        level = noise.uniform(position, np.zeros(1, np.int64), Lane.RESIDUAL)[0]
        place = int(np.searchsorted(whole.cumsum(), level))
        if place < len(self._ids):
            return int(self._ids[place])
        return int(self._ids[-1])

    def __init__(self, law: Distribution) -> None:
        super().__init__(law)
        self._first_total = self._total


class SiblingsMeetTheWholeLaw(Residual):
    """Does not normalise what is left before the next sibling is tried."""

    def subtract(self, *rejected: object) -> None:
        total = self._total
        super().subtract(*rejected)  # type: ignore[arg-type] - handed on
        self._total = total


@pytest.mark.parametrize("draft", ["chain", "tree"])
@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (AcceptEverything, "temperature"),
        (EmitTheDraftAtTheMismatch, "temperature"),
        (forget_the_processors, "penalties"),
    ],
)
def test_a_broken_rule_is_seen(rule: Rule, name: str, draft: str) -> None:
    runs = Runs(CONFIGS[name], DRAFTS[draft])
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS, rule)) < ALARM


@pytest.mark.parametrize("parents", [CHAIN, TREE], ids=["chain", "tree"])
def test_noise_that_is_used_twice_is_seen(parents: Sequence[int]) -> None:
    runs = Runs(CONFIGS["hot"], drawn(UNLIKE, parents))
    reused = runs.counts(NUM_MUTANT_RUNS, reuse_the_noise_of_the_row_before)
    assert runs.p_value(reused) < ALARM
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS)) > ALARM


@pytest.mark.parametrize(
    ("residual", "draft"),
    [
        (NothingSubtracted, "chain"),
        (NothingSubtracted, "tree"),
        (NothingSubtracted, "one-hot-chain"),
        (NotNormalised, "chain"),
        (NotNormalised, "tree"),
        (SiblingsMeetTheWholeLaw, "tree"),
    ],
)
def test_a_broken_residual_is_seen(
    monkeypatch: pytest.MonkeyPatch, residual: type[Residual], draft: str
) -> None:
    monkeypatch.setattr("engine.rejection.Residual", residual)
    runs = Runs(CONFIGS["temperature"], DRAFTS[draft])
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS)) < ALARM


def test_a_draft_that_takes_the_noise_of_its_test_is_seen() -> None:
    runs = Runs(CONFIGS["temperature"], drawn(SIBLINGS["independent"], CHAIN, Lane.ACCEPT))
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS)) < ALARM


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_unbroken_rule_passes_with_as_few_runs_as_the_broken_ones(draft: str) -> None:
    runs = Runs(CONFIGS["temperature"], DRAFTS[draft])
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS)) > ALARM
