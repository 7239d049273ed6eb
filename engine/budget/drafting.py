"""Whether to draft at all: for drafters whose drafting costs time.

Keeps, for one drafter, what a drafted depth costs and how often each depth survives on average.
When drafting has not paid for a while the drafter rests, and is tried again after pauses that
double. A drafter without a model never rests: its drafts are free, and comparing them with what
is emitted anyway keeps the estimates fresh.
"""

from __future__ import annotations

import numpy as np

from engine.budget.choose import best_length
from engine.budget.cost import Milliseconds
from engine.budget.fate import emitted_tokens, follow
from engine.values import DraftTree, FloatArray, Verdict

PATIENCE = 8
"""Steps in a row without gain before the drafter rests."""
TRIES_AFTER_PAUSE = 3
FIRST_PAUSE = 32
LONGEST_PAUSE = 256

_COST_RATE = 0.1
_DEPTH_KEEP = 0.95
_PRIOR_ACCEPTED = 0.7
_PRIOR_SEEN = 4.0


class DraftingRecord:
    """One drafter's price and mean success by depth, and whether it rests."""

    def __init__(self, max_depth: int) -> None:
        self._ms_per_depth: float | None = None
        self._seen = np.full(max_depth, _PRIOR_SEEN)
        self._accepted = np.full(max_depth, _PRIOR_SEEN * _PRIOR_ACCEPTED)
        self._steps_without_gain = 0
        self._pause = FIRST_PAUSE
        self._resting = 0

    @property
    def ms_per_depth(self) -> float:
        """Time for drafting one more token in every sequence; 0 until it was measured."""
        return self._ms_per_depth or 0.0

    @property
    def steps_to_rest(self) -> int:
        """Steps until the drafter is tried again; 0 while it is not resting."""
        return self._resting

    def mean_survivals(self) -> FloatArray:
        """float32[max_depth]: the chance that a draft survives to depth 1, 2, ... on average."""
        return np.cumprod(self._accepted / self._seen).astype(np.float32)

    def consider(self, step_ms: Milliseconds, num_sequences: int) -> bool:
        """Whether to draft in this step; call it once a step. ``step_ms`` as in ``best_length``."""
        if self._resting:
            self._resting -= 1
            return False
        length = best_length(self.mean_survivals(), step_ms, num_sequences, self.ms_per_depth)
        if length:
            self._steps_without_gain = 0
            self._pause = FIRST_PAUSE
            return True
        self._steps_without_gain += 1
        if self._steps_without_gain >= PATIENCE:
            self._steps_without_gain = PATIENCE - TRIES_AFTER_PAUSE
            self._resting = self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True

    def observe(self, tree: DraftTree, verdict: Verdict) -> None:
        """Count how deep the draft agreed with what was emitted."""
        if not len(tree):
            return
        fate = follow(tree, emitted_tokens(verdict))
        reached, agreed = min(fate.reached, len(self._seen)), fate.agreed
        self._seen[:reached] *= _DEPTH_KEEP
        self._accepted[:reached] *= _DEPTH_KEEP
        self._seen[:reached] += 1.0
        self._accepted[:agreed] += 1.0

    def observe_cost(self, ms: float, depth: int) -> None:
        """Learn that drafting ``depth`` tokens took ``ms``."""
        each = ms / depth
        if self._ms_per_depth is None:
            self._ms_per_depth = each
        self._ms_per_depth += _COST_RATE * (
            min(each, 3.0 * self._ms_per_depth) - self._ms_per_depth
        )
