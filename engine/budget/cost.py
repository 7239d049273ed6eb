"""What a forward pass costs: a curve over the number of rows, measured at load and corrected
while running.

Only the *shape* of the curve decides anything: whether 4 rows cost 1.6 or 2.4 times one row. So a
machine that is slower as a whole (its *drift*) is told apart from a shape that was measured wrong
(the *corrections*), and noise is kept from either. Nothing here knows about drafts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Milliseconds = NDArray[np.float64]

PROFILE_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
MAX_ROUNDS = 7
LONG_CONTEXT_ROWS = (1, 8)

_WARM_UP_SHARE = 0.15
"""Of the time for a profile; what is left allows about five more rounds over the same sizes."""

_MAX_CORRECTION = math.log(2.0)
_MAX_SURPRISE = 0.5
"""Log ratios beyond this count as this much: one stalled step must not rewrite the curve."""
_DRIFT_RATE = 0.1
_CORRECTION_RATE = 0.05
_TABLE_ROWS = 128
_MIN_PLAIN_STEPS = 8
_FRESH_STEPS = 64


@dataclass(frozen=True, slots=True)
class LongContext:
    """How to measure a pass over a long context: ``run(rows)`` in ms behind ``context_len``
    cached tokens."""

    run: Callable[[int], float]
    context_len: int


class StepCost:
    """Milliseconds of a forward pass for a number of rows at a context length.

    ``rows`` ascending and ``ms`` are the measured points; between them the curve is linear,
    beyond them it goes on straight. ``context_ms`` is the cost of one row attending to one cached
    token.
    """

    def __init__(
        self,
        rows: Sequence[int],
        ms: Sequence[float],
        *,
        context_ms: float = 0.0,
        corrections: Sequence[float] | None = None,
    ) -> None:
        self._rows = np.asarray(rows, np.float64)
        self._ms = np.asarray(ms, np.float64)
        self._context_ms = context_ms
        self._corrections = np.zeros(len(self._rows))
        if corrections is not None:
            self._corrections[:] = corrections
        if not len(rows) == len(ms) == len(self._corrections) or not len(rows):
            raise ValueError("a cost curve needs one time for each number of rows")
        if np.any(np.diff(self._rows) <= 0) or not np.all(np.isfinite(self._ms)) or ms[0] <= 0:
            raise ValueError("a cost curve needs ascending rows and positive, finite times")
        self._drift = 0.0
        self._num_plain = 0
        self._since_plain = _FRESH_STEPS
        self._table = self._tabulate(_TABLE_ROWS)

    def ms(self, rows: int, context_len: int = 0) -> float:
        """Milliseconds of one pass over ``rows`` rows, each behind ``context_len`` cached
        tokens."""
        return float(self.curve(rows, 0, context_len)[0])

    def curve(self, base_rows: int, num_more: int, context_len: int = 0) -> Milliseconds:
        """float64[num_more + 1]: milliseconds of ``base_rows``, ``base_rows + 1``, ... rows."""
        end = base_rows + num_more + 1
        if end > len(self._table):
            self._table = self._tabulate(max(end, 2 * len(self._table)))
        ms = self._table[base_rows:end]
        if self._context_ms:
            ms = ms + self._context_ms * context_len * np.arange(base_rows, end)
        return ms * math.exp(self._drift)

    def observe(self, rows: int, context_len: int, ms: float, *, is_plain: bool) -> None:
        """Learn from a pass of ``rows`` rows that took ``ms``; ``is_plain``: it verified no draft.

        A plain pass tells how fast the machine is now. A verifying pass corrects the curve, but
        only against a plain pass not long before: without one its surprise may just as well be
        drift. Passes that contain prefill are not comparable; leave them out.
        """
        if ms <= 0.0:
            return
        surprise = math.log(ms / self.ms(rows, context_len))
        if is_plain:
            self._num_plain += 1
            self._since_plain = 0
            self._shift(surprise, max(_DRIFT_RATE, 1.0 / self._num_plain))
        elif self._num_plain >= _MIN_PLAIN_STEPS and self._since_plain < _FRESH_STEPS:
            self._since_plain += 1
            self._correct(rows, surprise)
        else:
            self._shift(surprise, _DRIFT_RATE)

    def to_json(self) -> dict[str, Any]:
        """The curve and its corrections; the drift belongs to the moment and is left out."""
        return {
            "rows": [int(rows) for rows in self._rows],
            "ms": [float(ms) for ms in self._ms],
            "context_ms": self._context_ms,
            "corrections": [float(value) for value in self._corrections],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> StepCost:
        """The inverse of ``to_json``.

        Raises:
            KeyError, TypeError, ValueError: the data is not what ``to_json`` writes.
        """
        return StepCost(
            data["rows"],
            data["ms"],
            context_ms=float(data["context_ms"]),
            corrections=data["corrections"],
        )

    def _shift(self, surprise: float, rate: float) -> None:
        if self._num_plain >= _MIN_PLAIN_STEPS:
            surprise = _within(surprise, _MAX_SURPRISE)
        self._drift += rate * surprise

    def _correct(self, rows: int, surprise: float) -> None:
        """Move the nearest point and, less, its neighbours; one row is the measure of all
        others."""
        nearest = int(np.abs(np.log(self._rows / rows)).argmin())
        step = _CORRECTION_RATE * _within(surprise, _MAX_SURPRISE)
        for point, size in enumerate(self._rows):
            if size > 1.0:
                moved = self._corrections[point] + step * 0.5 ** abs(point - nearest)
                self._corrections[point] = _within(moved, _MAX_CORRECTION)
        self._table = self._tabulate(len(self._table))

    def _tabulate(self, num_rows: int) -> Milliseconds:
        """float64[num_rows]: the corrected curve at 0, 1, 2, ... rows; no drift, no context."""
        points = np.maximum.accumulate(self._ms * np.exp(self._corrections))
        rows = np.arange(num_rows, dtype=np.float64)
        beyond = np.maximum(rows - self._rows[-1], 0.0)
        return np.interp(rows, self._rows, points) + _tail_slope(self._rows, points) * beyond


def _tail_slope(rows: Milliseconds, ms: Milliseconds) -> float:
    """Of the last piece, but never flatter than the whole curve: a flat end is mostly luck."""
    if len(rows) < 2:
        return float(ms[0] / rows[0])
    last = (ms[-1] - ms[-2]) / (rows[-1] - rows[-2])
    whole = (ms[-1] - ms[0]) / (rows[-1] - rows[0])
    return float(max(last, whole))


def _within(value: float, bound: float) -> float:
    return max(-bound, min(bound, value))


def profile(
    run: Callable[[int], float],
    budget_s: float = 2.0,
    *,
    max_rows: int = PROFILE_ROWS[-1],
    long_context: LongContext | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> StepCost:
    """Measure the cost curve; ``run(rows)`` runs one pass behind a short context and returns its
    ms.

    As many of ``PROFILE_ROWS`` up to ``max_rows`` as fit into ``budget_s`` seconds with room for
    repetition, two at least; each the shortest of its runs (noise only ever adds time), and the
    sizes take turns so that a noisy moment does not fall on one of them. The first run of a size is
    thrown away.
    """
    start = clock()
    wanted = [size for size in PROFILE_ROWS if size <= max_rows]
    sizes = _warm_up(run, wanted, budget_s * _WARM_UP_SHARE, clock)
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    round_s = 0.0
    for index in range(MAX_ROUNDS):
        before = clock()
        if index and before + round_s - start > budget_s:
            break
        for size in sizes if index % 2 else reversed(sizes):
            samples[size].append(run(size))
        round_s = clock() - before
    ms = [min(samples[size]) for size in sizes]
    context_ms = _context_ms(long_context, StepCost(sizes, ms)) if long_context else 0.0
    return StepCost(sizes, ms, context_ms=context_ms)


def _warm_up(
    run: Callable[[int], float],
    wanted: Sequence[int],
    budget_s: float,
    clock: Callable[[], float],
) -> list[int]:
    """Run the sizes once, smallest first, until the time is up; the sizes that ran."""
    start = clock()
    sizes: list[int] = []
    for size in wanted:
        if len(sizes) >= 2 and clock() - start > budget_s:
            break
        run(size)
        sizes.append(size)
    return sizes


def _context_ms(long_context: LongContext, short: StepCost) -> float:
    """Cost of one row attending to one more cached token, from a few passes over a long context."""
    extra, pairs = 0.0, 0
    for rows in LONG_CONTEXT_ROWS:
        long_context.run(rows)
        extra += min(long_context.run(rows) for _ in range(2)) - short.ms(rows)
        pairs += rows * long_context.context_len
    return max(0.0, extra / pairs)
