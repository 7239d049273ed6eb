"""How likely each draft token is to survive: evidence in, calibrated probability out, learnt
online.

Per drafter one logistic model over its evidence (``evidence.py``) gives the chance that a token
is right given that all before it on its path are; the product along the path is the *survival*.
The model forgets (a window of about ``1 / (1 - _KEEP)`` labels) towards its prior, so that it
never strays where nothing is observed. Each sequence adds an offset of its own that follows its
mood quickly.

Labels cost nothing: whatever the target emits, verified or not, says whether the draft was right at
that place. A draft that agrees with everything emitted so far is kept as a *shadow* and goes on
being compared in the steps that follow. So calibration goes on while nothing is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.budget.evidence import EvidenceModel, Features, evidence_model
from engine.budget.fate import Fate, emitted_tokens, follow
from engine.values import ROOT, DraftTree, FloatArray, SeqId, Verdict

MIN_PROBABILITY = 0.02
MAX_PROBABILITY = 0.995

_KEEP = 0.995
"""What one more label leaves of all earlier ones."""
_KEEP_BETWEEN_RUNS = 0.25
_OFFSET_RATE = 0.25
_OFFSET_DECAY = 0.98
_MAX_OFFSET = 2.0


class OnlineLogistic:
    """Logistic regression with a Gaussian prior and exponential forgetting, one Newton step a
    batch.

    Kept in information form: ``precision`` float64[k, k] and ``information`` float64[k]
    (precision times mean). Forgetting scales what the data added and leaves the prior whole. It
    is recursive iteratively reweighted least squares; with forgetting, what Fahrmeir and Tutz
    call a posterior mode filter.
    """

    def __init__(self, model: EvidenceModel) -> None:
        self._prior_precision = np.diag(np.asarray(model.prior_strength, np.float64)) * 0.25
        self._prior_information = self._prior_precision @ np.asarray(model.prior_mean, np.float64)
        self._precision = self._prior_precision.copy()
        self._information = self._prior_information.copy()
        self._weights = np.asarray(model.prior_mean, np.float64)

    def probability(self, features: Features, offset: float) -> NDArray[np.float64]:
        """float64[n], clipped to what one may reasonably believe."""
        logits = features @ self._weights + offset
        return np.clip(1.0 / (1.0 + np.exp(-logits)), MIN_PROBABILITY, MAX_PROBABILITY)

    def observe(self, features: Features, labels: NDArray[np.float64], offset: float) -> float:
        """Learn ``labels`` float64[n] (1 right, 0 wrong); the sum of surprises (label -
        probability)."""
        probability = self.probability(features, offset)
        surprise = labels - probability
        curvature = probability * (1.0 - probability)
        self._forget(_KEEP ** len(labels))
        added = features.T @ (features * curvature[:, None])
        self._precision += added
        self._information += added @ self._weights + features.T @ surprise
        self._weights = np.linalg.solve(self._precision, self._information)
        return float(surprise.sum())

    def to_json(self) -> dict[str, Any]:
        """What the data added to the prior."""
        return {
            "precision": (self._precision - self._prior_precision).tolist(),
            "information": (self._information - self._prior_information).tolist(),
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Take up, much loosened, what an earlier run learnt.

        Raises:
            KeyError, TypeError, ValueError: the data is not what ``to_json`` writes for these
            features.
        """
        precision = np.asarray(data["precision"], np.float64)
        information = np.asarray(data["information"], np.float64)
        if precision.shape != self._precision.shape or information.shape != self._weights.shape:
            raise ValueError("the stored survival model has other features")
        if not (np.all(np.isfinite(precision)) and np.all(np.isfinite(information))):
            raise ValueError("the stored survival model is not finite")
        self._precision = self._prior_precision + _KEEP_BETWEEN_RUNS * precision
        self._information = self._prior_information + _KEEP_BETWEEN_RUNS * information
        self._weights = np.linalg.solve(self._precision, self._information)

    def _forget(self, keep: float) -> None:
        self._precision = self._prior_precision + keep * (self._precision - self._prior_precision)
        self._information = self._prior_information + keep * (
            self._information - self._prior_information
        )


@dataclass(slots=True)
class _Shadow:
    """A draft that was right so far: ``node`` stands for the last emitted token."""

    drafter: str
    tree: DraftTree
    node: int


class Survival:
    """The estimator for every drafter and every sequence."""

    def __init__(self) -> None:
        self._models: dict[str, OnlineLogistic] = {}
        self._offsets: dict[SeqId, float] = {}
        self._shadows: dict[SeqId, _Shadow] = {}

    def estimate(self, drafter: str, seq: SeqId, tree: DraftTree) -> FloatArray:
        """float32[n]: the chance that each node and all before it on its path are right."""
        if not len(tree):
            return np.empty(0, np.float32)
        features = evidence_model(drafter).features(tree.evidence, tree.depths())
        survival = self._model(drafter).probability(features, self._offsets.get(seq, 0.0))
        if tree.is_chain:
            return np.cumprod(survival).astype(np.float32)
        for node, parent in enumerate(tree.parents):
            if parent != ROOT:
                survival[node] *= survival[parent]
        return survival.astype(np.float32)

    def conditional(self, drafter: str, depth: int, evidence: FloatArray) -> float:
        """The chance that one token at ``depth`` (1 first) is right if all before it are."""
        features = evidence_model(drafter).features(evidence[None], np.array([depth], np.int32))
        return float(self._model(drafter).probability(features, 0.0)[0])

    def observe(self, drafter: str, tree: DraftTree, verdict: Verdict) -> None:
        """Learn from what the target emitted, for all nodes of the draft, verified or not.

        A node's fate is known if its whole path up to its parent was emitted and one more token;
        then it is right if that token is its own. Nodes behind a wrong one, or beyond the end of
        what was emitted (a stop, a limit), say nothing.
        """
        tokens = emitted_tokens(verdict)
        shadow = self._shadows.pop(verdict.seq, None)
        if shadow is not None:
            follows = self._compare(shadow, verdict.seq, tokens)
            if follows is not None:
                self._shadows[verdict.seq] = follows
        follows = self._compare(_Shadow(drafter, tree, ROOT), verdict.seq, tokens)
        if follows is not None and verdict.seq not in self._shadows:
            self._shadows[verdict.seq] = follows

    def release(self, seq: SeqId) -> None:
        """Forget the sequence; unknown sequences are ignored."""
        self._offsets.pop(seq, None)
        self._shadows.pop(seq, None)

    def to_json(self) -> dict[str, Any]:
        """What was learnt, per drafter; sequences are not kept."""
        return {drafter: model.to_json() for drafter, model in self._models.items()}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Survival:
        """The inverse of ``to_json``, loosened so that a new run adapts quickly.

        Raises:
            KeyError, TypeError, ValueError: the data is not what ``to_json`` writes.
        """
        survival = Survival()
        for drafter, model in data.items():
            survival._model(drafter).restore(model)
        return survival

    def _model(self, drafter: str) -> OnlineLogistic:
        if drafter not in self._models:
            self._models[drafter] = OnlineLogistic(evidence_model(drafter))
        return self._models[drafter]

    def _compare(self, shadow: _Shadow, seq: SeqId, tokens: Sequence[int]) -> _Shadow | None:
        """Learn how the draft fared against ``tokens``; the shadow to go on with, if it may go
        on."""
        fate = follow(shadow.tree, tokens, start=shadow.node)
        if fate.nodes:
            self._learn(shadow.drafter, seq, shadow.tree, fate)
        if fate.end is None:
            return None
        return _Shadow(shadow.drafter, shadow.tree, fate.end)

    def _learn(self, drafter: str, seq: SeqId, tree: DraftTree, fate: Fate) -> None:
        nodes = np.asarray(fate.nodes)
        features = evidence_model(drafter).features(tree.evidence[nodes], tree.depths()[nodes])
        offset = self._offsets.get(seq, 0.0)
        surprise = self._model(drafter).observe(features, np.asarray(fate.right, float), offset)
        offset = offset * _OFFSET_DECAY ** len(nodes) + _OFFSET_RATE * surprise
        self._offsets[seq] = float(np.clip(offset, -_MAX_OFFSET, _MAX_OFFSET))
