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
from dataclasses import dataclass
from itertools import product

import pytest

from engine.config import GenerationConfig
from engine.noise import NoiseStream
from engine.sampling import Distribution, TokenDecider
from engine.values import DraftTree, FinishReason, TokenScore
from engine.verify import AcceptanceRule, Candidates, Decide, Decision, SampleThenMatch, verify
from tests.engine.law_kit import (
    ALARM,
    CONFIGS,
    LENGTH,
    NO_SCORE,
    NUM_DRAFTS,
    NUM_MUTANT_RUNS,
    NUM_RUNS,
    PROMPT,
    SHAPES,
    VOCAB_SIZE,
    Distribute,
    MakeDraft,
    decider_after,
    with_remembered_tail,
)
from tests.fakes import TableTarget
from tests.laws import p_value, sequence_law

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
        return decider_after(self.target, self._config, answer, draft, seed)


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
