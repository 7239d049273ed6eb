"""The arithmetic of the choice against a search over every prefix-closed set."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from engine.budget.choose import MIN_GAIN, best_length, best_rate, select
from engine.budget.cost import Milliseconds
from engine.values import ROOT, DraftTree, FloatArray

CURVES = {
    "flat": lambda rows: 12.0 + 0.0 * rows,
    "linear": lambda rows: 6.0 + 3.0 * rows,
    "steep": lambda rows: 12.0 * rows,
    "steps": lambda rows: 12.0 * np.ceil(rows / 4),
    "one step, then flat": lambda rows: np.where(rows <= 3, 12.0, 24.0),
}


def random_tree(random: np.random.Generator, size: int) -> tuple[DraftTree, FloatArray]:
    """A tree of ``size`` nodes and survivals that fall along each path."""
    parents = np.array([random.integers(-1, node) for node in range(size)], np.int32)
    survival = np.empty(size, np.float32)
    for node, parent in enumerate(parents):
        before = 1.0 if parent == ROOT else float(survival[parent])
        survival[node] = before * random.uniform(0.1, 1.0)
    tokens = np.arange(size, dtype=np.int32)
    return DraftTree(tokens, parents, np.empty((size, 0), np.float32)), survival


def rate_of_the_best_set(
    tree: DraftTree, survival: FloatArray, step_ms: Milliseconds, base_tokens: int
) -> float:
    """By trying every prefix-closed set."""
    best = 0.0
    for number in range(len(tree) + 1):
        for nodes in combinations(range(len(tree)), number):
            if all(tree.parents[node] in (ROOT, *nodes) for node in nodes):
                tokens = base_tokens + float(survival[list(nodes)].sum())
                best = max(best, tokens / float(step_ms[number]))
    return best


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("seed", range(4))
def test_finds_the_best_set_of_all(curve: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    tree, survival = random_tree(random, 9)
    step_ms = CURVES[curve](np.arange(2, 12, dtype=np.float64))
    best = rate_of_the_best_set(tree, survival, step_ms, base_tokens=2)

    # Two sequences: the tree is dealt to both, so that the choice has to look across them.
    selection = select([survival[:0], survival], step_ms, base_tokens=2)
    kept = selection.kept[1]
    rate = (2 + float(survival[kept].sum())) / float(step_ms[len(kept)])

    plain = 2 / float(step_ms[0])
    if best > plain * (1.0 + MIN_GAIN):
        assert rate == pytest.approx(best, rel=0.01)
    else:
        assert len(kept) == 0


@pytest.mark.parametrize("seed", range(30))
def test_what_is_kept_is_closed_under_parents(seed: int) -> None:
    random = np.random.default_rng(seed)
    trees = [random_tree(random, int(random.integers(0, 12))) for _ in range(3)]
    for _, survival in trees:
        survival[random.random(len(survival)) < 0.3] = 1e-3  # many ties
    for tree, survival in trees:
        for node, parent in enumerate(tree.parents):
            if parent != ROOT:
                survival[node] = min(survival[node], survival[parent])
    num_nodes = sum(len(tree) for tree, _ in trees)
    step_ms = np.cumsum(random.uniform(0.0, 2.0, num_nodes + 1)) + 5.0

    selection = select([survival for _, survival in trees], step_ms, base_tokens=3)

    for (tree, _), kept in zip(trees, selection.kept, strict=True):
        assert np.all(np.diff(kept) > 0)
        assert all(tree.parents[node] in (ROOT, *kept) for node in kept)


def test_looks_past_a_step_in_the_cost_curve() -> None:
    survival = np.cumprod(np.full(7, 0.95)).astype(np.float32)
    step_ms = np.array([10.0] + [20.0] * 7)  # one more row doubles the time, seven cost no more

    assert len(select([survival], step_ms, base_tokens=1).kept[0]) == 7


def test_stays_plain_for_a_gain_that_could_be_an_error_of_estimation() -> None:
    step_ms = np.array([10.0, 15.0])
    little, enough = np.array([0.55], np.float32), np.array([0.60], np.float32)

    assert len(select([little], step_ms, base_tokens=1).kept[0]) == 0
    assert len(select([enough], step_ms, base_tokens=1).kept[0]) == 1


def test_gives_the_rows_to_the_sequence_that_uses_them_best() -> None:
    good = np.cumprod(np.full(6, 0.95)).astype(np.float32)
    bad = np.cumprod(np.full(6, 0.2)).astype(np.float32)
    step_ms = 12.0 + 2.0 * np.arange(13)

    kept = select([bad, good], step_ms, base_tokens=2).kept

    assert len(kept[1]) == 6
    assert len(kept[0]) == 0


def test_time_spent_on_drafting_makes_a_longer_verification_worth_while() -> None:
    survival = np.cumprod(np.full(8, 0.75)).astype(np.float32)
    step_ms = 12.0 + 2.0 * np.arange(9)

    free = select([survival], step_ms, base_tokens=1).kept[0]
    dear = select([survival], step_ms, base_tokens=1, draft_ms=20.0).kept[0]

    assert 0 < len(free) < len(dear)


def test_the_best_length_charges_each_drafted_depth() -> None:
    survivals = np.cumprod(np.full(8, 0.8)).astype(np.float32)
    step_ms = 12.0 + np.arange(9, dtype=np.float64)

    free = best_length(survivals, step_ms, num_sequences=1, draft_ms_each=0.0)
    dear = best_length(survivals, step_ms, num_sequences=1, draft_ms_each=3.0)
    ruinous = best_length(survivals, step_ms, num_sequences=1, draft_ms_each=12.0)

    assert free > dear > ruinous == 0


def test_the_rate_of_a_draft_is_that_of_its_best_part() -> None:
    step_ms = np.array([10.0, 12.0, 14.0, 30.0])
    survivals = np.array([0.9, 0.5, 0.4], np.float32)

    assert best_rate(survivals, step_ms, all_of_it=False) == pytest.approx(2.4 / 14.0)
    assert best_rate(survivals, step_ms, all_of_it=True) == pytest.approx(2.8 / 30.0)
    assert best_rate(survivals[:0], step_ms, all_of_it=True) == pytest.approx(0.1)
