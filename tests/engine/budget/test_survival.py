"""Survival: calibrated, quick to notice, and learning from steps that verify nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.budget.evidence import evidence_model
from engine.budget.survival import OnlineLogistic, Survival
from engine.drafters.prompt_lookup import NAME
from engine.values import DraftTree, FloatArray
from tests.engine.budget.texts import verdict


def chain(match_len: int, length: int = 4) -> DraftTree:
    evidence = np.array([[match_len + i, 1, 1, 0] for i in range(length)], np.float32)
    return DraftTree.chain(np.arange(10, 10 + length, dtype=np.int32), evidence)


def calibration_error(probability: FloatArray, label: FloatArray) -> float:
    """Expected calibration error over ten bins."""
    bins = np.minimum((probability * 10).astype(int), 9)
    error = 0.0
    for index in range(10):
        members = bins == index
        if members.any():
            gap = abs(label[members].mean() - probability[members].mean())
            error += gap * members.mean()
    return error


@pytest.mark.parametrize("shift", [-1.5, 1.5])
def test_becomes_calibrated_where_the_prior_is_wrong(shift: float) -> None:
    random = np.random.default_rng(0)
    survival = Survival()
    predicted: list[float] = []
    labels: list[float] = []
    for seq in range(1500):
        match_len, occurrences = int(random.integers(1, 20)), int(random.integers(1, 5))
        agreeing = int(random.integers(1, occurrences + 1))
        evidence = np.array([[match_len, occurrences, agreeing, 0]], np.float32)
        tree = DraftTree.chain(np.array([10], np.int32), evidence)
        logit = -1.1 + shift + 0.6 * np.log2(match_len) + 0.5 * np.log2(agreeing)
        right = bool(random.random() < 1.0 / (1.0 + np.exp(-logit)))
        predicted.append(float(survival.estimate(NAME, seq, tree)[0]))
        labels.append(float(right))
        survival.observe(NAME, tree, verdict(seq, [10 if right else 1]))
        survival.release(seq)

    first, last = slice(0, 60), slice(700, None)
    error = calibration_error(np.array(predicted[last]), np.array(labels[last]))
    assert error < 0.05
    assert error < calibration_error(np.array(predicted[first]), np.array(labels[first]))


def test_survival_falls_along_the_path_and_is_the_product() -> None:
    survival = Survival()
    each = survival.estimate(NAME, 0, chain(4))

    alone = [survival.conditional(NAME, i + 1, chain(4).evidence[i]) for i in range(4)]

    assert each == pytest.approx(np.cumprod(alone), rel=1e-5)


def test_siblings_share_their_parent_and_not_each_other() -> None:
    evidence = np.array([[4, 1, 1, 0]] * 4, np.float32)
    tree = DraftTree(np.array([1, 2, 3, 4], np.int32), np.array([-1, -1, 0, 0], np.int32), evidence)

    one, two, three, four = Survival().estimate(NAME, 0, tree).tolist()

    assert one == pytest.approx(two)
    assert three == pytest.approx(one * one)
    assert four == pytest.approx(three)


def test_more_agreement_is_more_trusted_before_anything_was_learnt() -> None:
    survival = Survival()

    def first(*evidence: float) -> float:
        tree = DraftTree.chain(np.array([1], np.int32), np.array([evidence], np.float32))
        return float(survival.estimate(NAME, 0, tree)[0])

    assert first(1, 1, 1, 0) < 0.35
    assert first(1, 1, 1, 0) < first(3, 1, 1, 0) < first(8, 1, 1, 0)
    assert first(3, 4, 1, 0) < first(3, 4, 2, 0) < first(3, 4, 4, 0)
    assert first(16, 2, 2, 0) > 0.9


def test_a_sequence_learns_within_ten_tokens_and_others_much_less() -> None:
    survival = Survival()
    before = float(survival.estimate(NAME, 1, chain(3))[0])
    for _ in range(10):
        survival.observe(NAME, chain(3), verdict(1, [99]))

    after = float(survival.estimate(NAME, 1, chain(3))[0])
    other = float(survival.estimate(NAME, 2, chain(3))[0])

    assert after < 0.6 * before
    assert after < 0.75 * other


def test_learns_from_steps_that_verified_nothing() -> None:
    survival = Survival()
    before = float(survival.estimate(NAME, 0, chain(2))[0])
    for _ in range(20):
        survival.observe(NAME, chain(2), verdict(0, [10], num_verified=0))

    assert float(survival.estimate(NAME, 0, chain(2))[0]) > before


def test_nothing_is_learnt_about_nodes_behind_a_wrong_one() -> None:
    survival, untouched = Survival(), Survival()
    # Only the first node has a fate; a second observation with other nodes behind it is the same.
    survival.observe(NAME, chain(3, length=1), verdict(0, [99]))
    untouched.observe(NAME, chain(3, length=8), verdict(0, [99]))

    assert survival.to_json() == untouched.to_json()


def test_an_empty_draft_is_no_trouble() -> None:
    survival = Survival()

    assert len(survival.estimate(NAME, 0, DraftTree.empty())) == 0
    survival.observe(NAME, DraftTree.empty(), verdict(0, [1]))
    survival.release(0)


def test_a_drafter_without_a_model_of_its_evidence_is_judged_by_depth() -> None:
    tree = DraftTree.chain(np.array([1, 2], np.int32), np.zeros((2, 7), np.float32))
    survival = Survival()
    before = survival.estimate("made up", 0, tree)
    for _ in range(40):
        survival.observe("made up", tree, verdict(0, [1, 9]))
    after = survival.estimate("made up", 0, tree)

    assert after[0] > before[0]
    assert after[1] / after[0] < before[1] / before[0]


def test_many_equal_labels_do_not_carry_the_weights_away() -> None:
    model = OnlineLogistic(evidence_model(NAME))
    features = np.array([[1.0, 2.0, 0.0, 0.0, 0.0]])
    for _ in range(5_000):
        model.observe(features, np.array([0.0]), 0.0)
    for _ in range(200):
        model.observe(features, np.array([1.0]), 0.0)

    assert float(model.probability(features, 0.0)[0]) > 0.5


def test_what_was_learnt_survives_a_round_through_json_loosened() -> None:
    survival = Survival()
    for _ in range(200):
        survival.observe(NAME, chain(3), verdict(0, [99]))
    survival.release(0)
    again = Survival.from_json(json.loads(json.dumps(survival.to_json())))

    learnt = float(survival.estimate(NAME, 0, chain(3))[0])
    restored = float(again.estimate(NAME, 0, chain(3))[0])
    fresh = float(Survival().estimate(NAME, 0, chain(3))[0])

    assert learnt < restored < fresh


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({NAME: {"precision": [[1.0]], "information": [1.0]}}, id="other features"),
        pytest.param({NAME: {}}, id="nothing in it"),
        pytest.param(
            {NAME: {"precision": [[float("nan")] * 5] * 5, "information": [0.0] * 5}}, id="nan"
        ),
    ],
)
def test_stored_models_that_do_not_fit_are_refused(data: dict[str, object]) -> None:
    with pytest.raises((KeyError, ValueError)):
        Survival.from_json(data)
