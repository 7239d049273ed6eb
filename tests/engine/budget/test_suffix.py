"""Suffix drafts under the budget, on scripted texts: what they gain, and how calibrated they are
judged."""

from __future__ import annotations

import numpy as np
import pytest

from engine.budget import Budget
from engine.budget.survival import Survival
from engine.config import GenerationConfig
from engine.drafters.base import NO_LIMIT, DraftContext, PrefillChunk
from engine.drafters.prompt_lookup import PromptLookup
from engine.drafters.suffix import NAME, SuffixDrafter
from engine.values import DraftTree
from tests.engine.budget.texts import Step, prose, reference_machine, run, speed_up, verdict


def tokens_per_step(steps: list[Step]) -> float:
    return sum(step.num_emitted for step in steps) / len(steps)


def test_a_copy_and_an_edit_take_no_more_steps_than_with_prompt_lookup() -> None:
    random = np.random.default_rng(1)
    text = prose(300, random)
    edited = [7 if token == 3 else token for token in text]  # one word replaced throughout
    for answer in (text, edited):
        suffix = run(
            Budget(reference_machine()), text, answer, reference_machine(), 0, SuffixDrafter()
        )
        lookup = run(
            Budget(reference_machine()), text, answer, reference_machine(), 0, PromptLookup()
        )
        assert tokens_per_step(suffix) >= tokens_per_step(lookup)
        assert speed_up(suffix, reference_machine()) > 1.4


def test_a_question_asked_again_is_answered_several_times_as_fast() -> None:
    random = np.random.default_rng(2)
    budget, cost, drafter = Budget(reference_machine()), reference_machine(), SuffixDrafter()
    question, answer = prose(20, random), prose(200, random)

    first = run(budget, question, answer, cost, 0, drafter)
    again = run(budget, question, answer, cost, 1, drafter)

    assert speed_up(first, cost) < 1.2
    assert speed_up(again, cost) > 2.0
    assert tokens_per_step(again) > 5


@pytest.mark.parametrize("seed", range(3))
def test_prose_with_a_full_memory_is_not_slower_than_plain_decoding_by_more_than_3_percent(
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    budget, cost, drafter = Budget(reference_machine()), reference_machine(), SuffixDrafter()
    steps = [
        step
        for seq in range(4)
        for step in run(budget, prose(50, random), prose(200, random), cost, seq, drafter)
    ]

    assert speed_up(steps, cost) > 0.97


@pytest.mark.parametrize("trees", [False, True], ids=["chain", "tree"])
def test_survival_of_suffix_drafts_becomes_calibrated(trees: bool) -> None:
    """Texts from a Markov source whose steps differ in how certain they are; the words of the
    prior are another language's."""
    random = np.random.default_rng(3)
    source = [random.dirichlet([0.05] * 12) for _ in range(12)]
    survival, drafter, config = Survival(), SuffixDrafter(), GenerationConfig()
    predicted: list[float] = []
    labels: list[bool] = []

    def draw(number: int, token: int) -> list[int]:
        drawn: list[int] = []
        for _ in range(number):
            token = int(random.choice(12, p=source[token]))
            drawn.append(token)
        return drawn

    for seq in range(16):
        prompt = draw(20, 0)
        prompt_ids = np.array(prompt, np.int32)
        drafter.on_prefill([PrefillChunk(seq, prompt_ids, None, is_last=True)])
        length, last = len(prompt), prompt[-1]
        for _ in range(60):
            context = DraftContext(seq, config, length, 6, trees)
            (tree,) = drafter.propose([context], NO_LIMIT)
            emitted = draw(1, last)
            if seq >= 6:
                estimate = survival.estimate(NAME, seq, tree)
                first = [node for node in range(len(tree)) if tree.parents[node] < 0]
                predicted += [float(estimate[node]) for node in first]
                labels += [int(tree.tokens[node]) == emitted[0] for node in first]
            step = verdict(seq, emitted)
            survival.observe(NAME, tree, step)
            drafter.observe([step])
            length, last = length + 1, emitted[0]
        drafter.release(seq)

    assert calibration_error(np.array(predicted), np.array(labels, np.float64)) < 0.07


def calibration_error(probability: np.ndarray, label: np.ndarray) -> float:
    """Expected calibration error over ten bins."""
    bins = np.minimum((probability * 10).astype(int), 9)
    return sum(
        abs(float(label[bins == index].mean() - probability[bins == index].mean()))
        * float((bins == index).mean())
        for index in range(10)
        if (bins == index).any()
    )


def test_more_agreement_is_more_trusted_before_anything_was_learnt() -> None:
    def first(*evidence: float) -> float:
        tree = DraftTree.chain(np.array([1], np.int32), np.array([evidence], np.float32))
        return float(Survival().estimate(NAME, 0, tree)[0])

    assert first(1, 0.75, 0, 1) < 0.35
    assert first(1, 0.9, 1, 0) < first(3, 0.9, 1, 0) < first(8, 0.9, 1, 0)
    assert first(3, 0.3, 1, 0) < first(3, 0.6, 1, 0) < first(3, 0.99, 1, 0)
    assert first(4, 0.9, 0, 1) < first(4, 0.9, 1, 0) < first(4, 0.9, 4, 0)
    assert first(16, 0.998, 0, 1) > 0.75
    assert first(16, 0.998, 2, 0) > 0.9
