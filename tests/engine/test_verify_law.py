"""What verification emits is distributed as the target's own answers: chi-square, exact laws.

Each run answers one prompt with its own seed, three tokens long, and drafts something at every
step. Runs go through `verify`, `TokenDecider`, `SamplingState` and the noise as in the engine; to
make 100 000 draws a case affordable, distributions are remembered, for runs have few different
pasts. Seeds are fixed, so that a pass or a failure repeats exactly; `ALARM` is the probability with
which a correct rule would have failed when they were chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest

from engine.backends.base import Batch
from engine.config import GenerationConfig
from engine.noise import NoiseStream
from engine.sampling import Distribution, SamplingState, TokenDecider
from engine.values import DraftTree, FinishReason, TokenScore
from engine.verify import AcceptanceRule, Candidates, Decide, Decision, SampleThenMatch, verify
from tests.fakes import TableBackend, TableTarget, prefill_slice, tree_of, verify_slice
from tests.laws import p_value, sequence_law

ALARM = 1e-6
VOCAB_SIZE = 6
NUM_TOP = 4  # below the vocabulary, so that there is a tail
LENGTH = 3
NUM_RUNS = 34_000  # of three tokens: more than 100 000 draws
NUM_MUTANT_RUNS = 4_000
PROMPT = (1, 4, 2)
NO_SCORE = TokenScore(0.0, 0.0)

NUM_DRAFTS = 4


def chain(target: TableTarget, tokens: Sequence[int], which: int) -> DraftTree:
    """Three tokens, each the likeliest or the second likeliest: often right and often wrong."""
    drafted: list[int] = []
    for depth in range(3):
        drafted.append(ranked(target, [*tokens, *drafted])[which >> depth & 1])
    return tree_of(drafted)


def tree(target: TableTarget, tokens: Sequence[int], which: int) -> DraftTree:
    """The same chain, and at its first two nodes two more children each, the unlikeliest first."""
    drafted = chain(target, tokens, which).tokens.tolist()
    sides: list[int] = []
    for depth in range(2):
        others = ranked(target, [*tokens, *drafted[:depth]])[::-1]
        sides += [token for token in others if token != drafted[depth]][which % 2 :][:2]
    return tree_of([*drafted, *sides], [-1, 0, 1, -1, -1, 0, 0])


def ranked(target: TableTarget, tokens: Sequence[int]) -> list[int]:
    return (-target.logits(tokens)).argsort().tolist()


SHAPES = {"chain": chain, "tree": tree}
MakeDraft = Callable[[TableTarget, Sequence[int], int], DraftTree]

CONFIGS = {
    "temperature": GenerationConfig(do_sample=True, temperature=0.8),
    "hot": GenerationConfig(do_sample=True, temperature=1.7),
    "top_p": GenerationConfig(do_sample=True, top_p=0.85),
    "top_k": GenerationConfig(do_sample=True, top_k=3, temperature=1.3),
    "top_k_beyond_ranking": GenerationConfig(do_sample=True, top_k=5, temperature=1.5),
    "min_p": GenerationConfig(do_sample=True, min_p=0.1),
    "penalties": GenerationConfig(
        do_sample=True, repetition_penalty=1.7, presence_penalty=0.6, frequency_penalty=0.9
    ),
    "everything": GenerationConfig(
        do_sample=True,
        temperature=1.4,
        top_k=5,
        top_p=0.9,
        min_p=0.02,
        repetition_penalty=1.4,
        frequency_penalty=0.8,
        min_new_tokens=2,
        stop_token_ids=frozenset({3}),
    ),
}

IN_SHORT = {
    ("temperature", "chain"),
    ("temperature", "tree"),
    ("top_p", "chain"),
    ("top_k", "tree"),
    ("min_p", "chain"),
    ("penalties", "chain"),
    ("penalties", "tree"),
    ("everything", "tree"),
}
CASES = [
    pytest.param(*case, marks=[] if case in IN_SHORT else pytest.mark.long)
    for case in product(CONFIGS, SHAPES)
]

Distribute = Callable[[int, Sequence[int]], Distribution]
"""``TokenDecider.distribution``: the law after a row whose context ends with a path."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What a `TokenDecider` does for a sampled request, with remembered distributions."""

    distribute: Distribute
    noise: NoiseStream
    position: int
    """Of the token that follows the pending one."""

    def __call__(self, row: int, path: Sequence[int]) -> tuple[int, TokenScore]:
        return self.draw(row, path, path), NO_SCORE

    def draw(self, row: int, context: Sequence[int], path: Sequence[int]) -> int:
        """The draw that is due after ``path``, from the law in ``context``."""
        return self.distribute(row, context).draw(self.noise, self.position + len(path))


@dataclass(frozen=True, slots=True)
class Step:
    """One verification: what is drafted after some answer, and the laws of its rows."""

    draft: DraftTree
    distribute: Distribute


class Runs:
    """Answers ``PROMPT`` again and again under one config, with a draft at each step."""

    def __init__(self, config: GenerationConfig, make_draft: MakeDraft) -> None:
        self.target = TableTarget(VOCAB_SIZE, seed=7)
        self._config = config
        self._make_draft = make_draft
        self._steps: dict[tuple[tuple[int, ...], int], Step] = {}

    def counts(
        self,
        num_runs: int,
        decide: type[Draw] = Draw,
        rule: Callable[[Decide], AcceptanceRule] = SampleThenMatch,
    ) -> Counter[tuple[int, ...]]:
        """How often each answer came; run ``i`` has seed ``i``."""
        return Counter(self._run(seed, decide, rule) for seed in range(num_runs))

    def p_value(self, counts: Counter[tuple[int, ...]]) -> float:
        return p_value(counts, sequence_law(self.target, self._config, PROMPT, LENGTH))

    def _run(
        self, seed: int, decide: type[Draw], rule: Callable[[Decide], AcceptanceRule]
    ) -> tuple[int, ...]:
        noise = NoiseStream(seed)
        answer: list[int] = []

        def on_token(token: int) -> FinishReason | None:
            answer.append(token)
            return FinishReason.LENGTH if len(answer) == LENGTH else None

        while len(answer) < LENGTH:
            step = self.step(tuple(answer), (seed + len(answer)) % NUM_DRAFTS)
            draw = decide(step.distribute, noise, len(PROMPT) + len(answer))
            verify(0, step.draft, rule(draw), on_token)
        return tuple(answer)

    def step(self, answer: tuple[int, ...], which: int) -> Step:
        if (answer, which) not in self._steps:
            draft = self._make_draft(self.target, (*PROMPT, *answer), which)
            distribution = self.decider(answer, draft).distribution
            remembered: dict[tuple[int, tuple[int, ...]], Distribution] = {}

            def distribute(row: int, path: Sequence[int]) -> Distribution:
                key = (row, tuple(path))
                if key not in remembered:
                    remembered[key] = with_remembered_tail(distribution(*key))
                return remembered[key]

            self._steps[answer, which] = Step(draft, distribute)
        return self._steps[answer, which]

    def decider(self, answer: tuple[int, ...], draft: DraftTree, seed: int = 0) -> TokenDecider:
        """The real decider over the scores of a real pass."""
        state = SamplingState(replace(self._config, rng_seed=seed), PROMPT, VOCAB_SIZE)
        state.commit(answer)
        *past, pending = (*PROMPT, *answer)
        backend = TableBackend(self.target, num_top=NUM_TOP)
        backend.cache.reserve(0, 100)
        backend.forward(Batch((prefill_slice(0, past),)))
        part = verify_slice(0, len(past), pending, draft, state.inverse_temperature)
        return TokenDecider(state, backend.forward(Batch((part,))).scores[0])


def with_remembered_tail(distribution: Distribution) -> Distribution:
    if distribution.tail is None:
        return distribution
    row = distribution.tail.row()
    return replace(distribution, tail=replace(distribution.tail, row=row.copy))


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_answers_follow_the_law_of_the_target(name: str, shape: str) -> None:
    runs = Runs(CONFIGS[name], SHAPES[shape])
    assert runs.p_value(runs.counts(NUM_RUNS)) > ALARM


@pytest.mark.parametrize("shape", SHAPES)
def test_the_remembered_draws_are_those_of_the_decider(shape: str) -> None:
    runs = Runs(CONFIGS["everything"], SHAPES[shape])
    step = runs.step((), 0)
    first = int(step.draft.tokens[0])
    for seed in range(60):
        draw = Draw(step.distribute, NoiseStream(seed), len(PROMPT))
        decider = runs.decider((), step.draft, seed)
        assert decider(0, [])[0] == draw(0, [])[0]
        assert decider(1, [first])[0] == draw(1, [first])[0]


# Four ways to break the rule. Each must be seen, or the tests above prove nothing.


@dataclass(frozen=True, slots=True)
class AcceptEverything:
    """Keeps whatever was drafted."""

    decide: Decide

    def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
        if candidates.tokens:
            return Decision(0, candidates.tokens[0], NO_SCORE)
        return SampleThenMatch(self.decide).at(row, path, candidates)


@dataclass(frozen=True, slots=True)
class EmitTheDraftAtTheMismatch:
    """Stops where draft and target disagree, but with the draft's token."""

    decide: Decide

    def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
        decision = SampleThenMatch(self.decide).at(row, path, candidates)
        if decision.child is None and candidates.tokens:
            return Decision(None, candidates.tokens[0], NO_SCORE)
        return decision


class ReuseTheNoiseOfTheRowBefore(Draw):
    """Draws the token after the first accepted one with the noise that accepted it."""

    def __call__(self, row: int, path: Sequence[int]) -> tuple[int, TokenScore]:
        return self.draw(row, path, path[1:]), NO_SCORE


class ForgetTheProcessorsOnDraftedRows(Draw):
    """Uses the processors as they stand at the pending token, whatever was drafted since."""

    def __call__(self, row: int, path: Sequence[int]) -> tuple[int, TokenScore]:
        return self.draw(row, (), path), NO_SCORE


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", [AcceptEverything, EmitTheDraftAtTheMismatch])
def test_a_broken_acceptance_rule_is_seen(
    rule: Callable[[Decide], AcceptanceRule], shape: str
) -> None:
    runs = Runs(CONFIGS["temperature"], SHAPES[shape])
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS, rule=rule)) < ALARM


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("decide", "name"),
    [
        (ReuseTheNoiseOfTheRowBefore, "temperature"),
        (ForgetTheProcessorsOnDraftedRows, "penalties"),
    ],
)
def test_a_broken_draw_is_seen(decide: type[Draw], name: str, shape: str) -> None:
    runs = Runs(CONFIGS[name], SHAPES[shape])
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS, decide=decide)) < ALARM


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["temperature", "penalties"])
def test_the_unbroken_rule_passes_with_as_few_runs_as_the_broken_ones(
    name: str, shape: str
) -> None:
    runs = Runs(CONFIGS[name], SHAPES[shape])
    assert runs.p_value(runs.counts(NUM_MUTANT_RUNS)) > ALARM
