"""How each drafter's evidence becomes numbers that a logistic model can weigh, and what to
believe at first.

One entry per drafter. A drafter without one gets a model of depth alone, which is safe but blind.
The prior of prompt lookup was fitted to SmolLM2's answers to 1,500 varied prompts: given how many
tokens agree, the depth in the draft tells nothing more, so one curve serves every position. That
of suffix was fitted to three of four of 900 of them, with the earlier answers in memory, and then
made a little more trusting, which gained tokens where texts are copied and edited: on the fourth
ones its mean error over ten bins of probability is 0.04, and 0.02 as fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.drafters import fast_draft, prompt_lookup, suffix
from engine.values import FloatArray, IntArray

Features = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EvidenceModel:
    """``features(evidence float32[n, f], depths int32[n])`` gives float64[n, k], column 0 all ones.

    ``prior_mean`` float64[k] are the weights to start from, ``prior_strength`` how many
    observations of unit features each is worth.
    """

    features: Callable[[FloatArray, IntArray], Features]
    prior_mean: tuple[float, ...]
    prior_strength: tuple[float, ...]


def sampled(drafter: str) -> str:
    """The name under which the budget knows drafts that ``drafter`` has drawn and rejection
    verifies. It is in no table on purpose: depth alone may judge them (see ``survival``)."""
    return f"{drafter}, sampled"


def evidence_model(drafter: str) -> EvidenceModel:
    """The model for the drafter of that name."""
    return _MODELS.get(drafter, _DEPTH_ONLY)


# From the evidence (down) to one, match length, agreeing, 1 + disagreeing, generated (across).
_PROMPT_LOOKUP_MAP = np.array(
    [
        [0, 1, 0, 0, 0],  # match_len
        [0, 0, 0, 1, 0],  # num_occurrences
        [0, 0, 1, -1, 0],  # num_agreeing
        [0, 0, 0, 0, 1],  # in_generated
    ],
    np.float64,
)
_PROMPT_LOOKUP_SHIFT = np.array([1, 0, 0, 1, 0], np.float64)


def _prompt_lookup(evidence: FloatArray, depths: IntArray) -> Features:
    """One; log2 of the match length; log2 of agreeing and of 1 + disagreeing occurrences;
    generated."""
    features = evidence @ _PROMPT_LOOKUP_MAP + _PROMPT_LOOKUP_SHIFT
    np.log2(features[:, 1:4], out=features[:, 1:4])
    return features


def _suffix(evidence: FloatArray, depths: IntArray) -> Features:
    """One; log-odds of the share; log2 of the match length; log2 of one more than the witnesses in
    the text, and in earlier answers."""
    features = np.ones((len(evidence), 5))
    share = evidence[:, 1]
    np.log(share / (1.0 - share), out=features[:, 1])
    features[:, 1] = np.minimum(features[:, 1], _MAX_LOG_ODDS)
    np.log2(evidence[:, 0], out=features[:, 2])
    np.log2(evidence[:, 2:] + 1.0, out=features[:, 3:])
    return features


def _draft_model(evidence: FloatArray, depths: IntArray) -> Features:
    """One; log-odds of the token in the draft model's own eyes; its margin over the best other."""
    features = np.ones((len(evidence), 3))
    np.clip(evidence[:, 1], -_MAX_OWN_ODDS, _MAX_OWN_ODDS, out=features[:, 1])
    np.clip(evidence[:, 0], -_MAX_OWN_ODDS, _MAX_OWN_ODDS, out=features[:, 2])
    return features


def _depth_only(evidence: FloatArray, depths: IntArray) -> Features:
    features = np.ones((len(depths), 2))
    features[:, 1] = np.log2(depths)
    return features


_DEPTH_ONLY = EvidenceModel(_depth_only, (1.0, -0.3), (4.0, 4.0))

_MAX_LOG_ODDS = 4.0
"""Long matches in agreement reach any odds, and are not that much surer."""

_MAX_OWN_ODDS = 8.0
"""A draft model that is surer of itself than this is not right more often."""

_MODELS = {
    fast_draft.NAME: EvidenceModel(_draft_model, (0.5, 0.4, 0.2), (16.0, 32.0, 32.0)),
    prompt_lookup.NAME: EvidenceModel(
        _prompt_lookup, (-1.1, 0.8, 1.0, -1.3, 0.3), (16.0, 64.0, 32.0, 32.0, 32.0)
    ),
    suffix.NAME: EvidenceModel(_suffix, (-2.5, 0.5, 0.6, 1.1, 0.5), (16.0, 32.0, 64.0, 32.0, 32.0)),
}
