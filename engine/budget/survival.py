"""How likely each draft token is to survive: evidence in, calibrated probability out, learnt
online.

Per drafter one logistic model over its evidence (``evidence.py``) gives the chance that a token
is right given that all before it on its path are; the product along the path is the *survival*.
The model forgets (a window of about ``1 / (1 - _KEEP)`` labels) towards its prior, so that it
never strays where nothing is observed. Each sequence adds an offset of its own for each drafter,
which follows its mood quickly.

Labels cost nothing: whatever the target emits says whether the draft was right at that place,
verified or not. So calibration goes on while nothing is verified, and the token after the last
verified one is a label too.

**What must not be looked at.** Under the rejection rule a token drawn from ``q`` stands for the
whole of ``q``: kept with min(1, p/q), it makes up ``p`` together with the draw from the residual.
So whether a drawn token is verified must not depend on that token, nor on one drawn after it, or
those that are verified are no draws from ``q`` any more (DSpark, arXiv 2607.05147, appendix A). Say
that p = (0.7, 0.3) and q = (0.85, 0.15), and that only the second token is thought worth verifying.
It always passes, p/q = 2, and comes in 15% of the steps; in the other 85% the token is a plain
draw, so the second one in 0.85 x 0.3 of the steps: 40.5% in all, not 30%. Evidence of a drawn
token, such as its probability, is exactly such a look. Sampled drafts therefore go by a name of
their own (``evidence.sampled``), whose model knows depth alone; and the drafter owes a shape that
does not depend on the tokens either. Of the past everything may be known: a deterministic draft is
a function of it, evidence and all, and a length that the user has fixed is no choice.

For sampled drafts a label of a token that was not verified errs to the low side: two draws agree
with the sum of p q, rejection keeps with the sum of min(p, q). Verifying again corrects it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.budget.evidence import EvidenceModel, Features, evidence_model
from engine.budget.fate import emitted_tokens, follow
from engine.values import ROOT, DraftTree, FloatArray, SeqId, Verdict

Probabilities = NDArray[np.float64]

MIN_PROBABILITY = 0.02
MAX_PROBABILITY = 0.995

_KEEP = 0.998
"""What one more label leaves of all earlier ones."""
_MAX_LOGIT = 8.0
_KEEP_BETWEEN_RUNS = 0.25
_OFFSET_RATE = 0.15
_OFFSET_DECAY = 0.98
_MAX_OFFSET = 2.0


class OnlineLogistic:
    """Logistic regression with a Gaussian prior and exponential forgetting, one Newton step a
    batch.

    What the data says is kept in information form, apart from the prior: ``precision``
    float64[k, k] and ``information`` float64[k] (precision times mean). Forgetting scales these two
    and leaves the prior whole. It is iteratively reweighted least squares, made recursive.
    """

    def __init__(self, model: EvidenceModel) -> None:
        # A label at even odds adds p(1 - p) = 1/4 to the precision of a feature of size one.
        self._prior_precision = np.diag(np.array(model.prior_strength, np.float64)) * 0.25
        self._prior_information = self._prior_precision @ np.array(model.prior_mean, np.float64)
        self._precision = np.zeros_like(self._prior_precision)
        self._information = np.zeros_like(self._prior_information)
        self._weights = self._solve()

    def probability(self, features: Features, offset: float) -> Probabilities:
        """float64[n], clipped to what one may reasonably believe."""
        probability = self._fitted(features, offset)
        return np.minimum(np.maximum(probability, MIN_PROBABILITY), MAX_PROBABILITY)

    def observe(self, features: Features, labels: Probabilities, offset: float) -> float:
        """Learn ``labels`` float64[n], 1 right and 0 wrong; the sum of (label - probability)."""
        probability = self._fitted(features, offset)
        surprise = labels - probability
        curvature = probability * (1.0 - probability)
        keep = _KEEP ** len(labels)
        added = features.T @ (features * curvature[:, None])
        self._precision *= keep
        self._precision += added
        self._information *= keep
        self._information += added @ self._weights + features.T @ surprise
        self._weights = self._solve()
        return float(surprise.sum())

    def to_json(self) -> dict[str, Any]:
        """What the data added to the prior."""
        return {
            "precision": self._precision.tolist(),
            "information": self._information.tolist(),
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
        self._precision = _KEEP_BETWEEN_RUNS * precision
        self._information = _KEEP_BETWEEN_RUNS * information
        self._weights = self._solve()

    def _fitted(self, features: Features, offset: float) -> Probabilities:
        logits = features @ self._weights + offset
        return 1.0 / (1.0 + np.exp(-np.minimum(np.maximum(logits, -_MAX_LOGIT), _MAX_LOGIT)))

    def _solve(self) -> NDArray[np.float64]:
        precision = self._prior_precision + self._precision
        information = self._prior_information + self._information
        return np.asarray(np.linalg.solve(precision, information), np.float64)


@dataclass(slots=True)
class _Mood:
    """What is remembered of one drafter in one sequence: its offset, and the features of its latest
    draft."""

    offset: float = 0.0
    latest: tuple[DraftTree, Features] | None = None


class Survival:
    """The estimator for every drafter and every sequence."""

    def __init__(self) -> None:
        self._models: dict[str, OnlineLogistic] = {}
        self._moods: dict[SeqId, dict[str, _Mood]] = {}

    def estimate(self, drafter: str, seq: SeqId, tree: DraftTree) -> FloatArray:
        """float32[n]: the chance that each node and all before it on its path are right."""
        if not len(tree):
            return np.empty(0, np.float32)
        mood = self._mood(seq, drafter)
        features = _features(drafter, tree)
        mood.latest = tree, features
        survival = self._model(drafter).probability(features, mood.offset)
        if tree.is_chain:
            return survival.cumprod().astype(np.float32)
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
        if not len(tree):
            return
        fate = follow(tree, emitted_tokens(verdict))
        if not fate.nodes:
            return
        mood = self._mood(verdict.seq, drafter)
        latest, mood.latest = mood.latest, None
        features = latest[1] if latest and latest[0] is tree else _features(drafter, tree)
        surprise = self._model(drafter).observe(
            features[fate.nodes], np.array(fate.right, np.float64), mood.offset
        )
        offset = mood.offset * _OFFSET_DECAY ** len(fate.nodes) + _OFFSET_RATE * surprise
        mood.offset = max(-_MAX_OFFSET, min(_MAX_OFFSET, offset))

    def release(self, seq: SeqId) -> None:
        """Forget the sequence; unknown sequences are ignored."""
        self._moods.pop(seq, None)

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

    def _mood(self, seq: SeqId, drafter: str) -> _Mood:
        moods = self._moods.setdefault(seq, {})
        if drafter not in moods:
            moods[drafter] = _Mood()
        return moods[drafter]

    def _model(self, drafter: str) -> OnlineLogistic:
        if drafter not in self._models:
            self._models[drafter] = OnlineLogistic(evidence_model(drafter))
        return self._models[drafter]


def _features(drafter: str, tree: DraftTree) -> Features:
    depths = np.arange(1, len(tree) + 1, dtype=np.int32) if tree.is_chain else tree.depths()
    return evidence_model(drafter).features(tree.evidence, depths)
