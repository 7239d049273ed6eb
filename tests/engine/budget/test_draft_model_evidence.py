"""What the budget makes of a draft model's own certainty."""

from __future__ import annotations

import numpy as np

from engine.budget.evidence import sampled
from engine.budget.survival import Survival
from engine.drafters.fast_draft import NAME
from engine.values import DraftTree
from tests.engine.budget.texts import verdict


def draft(chance: float, length: int = 1) -> DraftTree:
    """Tokens of which the draft model is sure by ``chance``, all others having the rest alike."""
    log_odds = np.log(chance / (1.0 - chance))
    evidence = np.array([[log_odds, log_odds, 1.0]] * length, np.float32)
    return DraftTree.chain(np.arange(length, dtype=np.int32), evidence)


def test_the_surer_the_draft_model_the_more_is_expected_before_anything_is_learnt() -> None:
    estimates = [float(Survival().estimate(NAME, 0, draft(p))[0]) for p in (0.1, 0.5, 0.9, 0.99)]
    assert estimates == sorted(estimates)
    assert estimates[0] < 0.5 < 0.85 < estimates[-1]


def test_certainty_that_is_misplaced_is_learnt() -> None:
    survival = Survival()
    for seq in range(600):
        right = seq % 2 == 0  # whatever the draft model says
        tree = draft(0.95)
        survival.estimate(NAME, seq, tree)
        survival.observe(NAME, tree, verdict(seq, [0 if right else 5]))
        survival.release(seq)
    assert abs(float(survival.estimate(NAME, 1000, draft(0.95))[0]) - 0.5) < 0.12


def test_the_certainty_of_a_drawn_draft_is_not_looked_at() -> None:
    name = sampled(NAME)
    sure, unsure = (Survival().estimate(name, 0, draft(p, length=4)) for p in (0.99, 0.1))
    assert sure.tolist() == unsure.tolist()


def test_a_runner_up_is_believed_less_than_the_best() -> None:
    evidence = np.array([[0.5, 0.0, 1.0], [-0.5, -0.6, 1.0]], np.float32)
    tree = DraftTree(np.array([1, 2], np.int32), np.array([-1, -1], np.int32), evidence)
    best, second = Survival().estimate(NAME, 0, tree).tolist()
    assert second < best
