"""Rankings of a row, the filters on them, and the draw. Pure; knows nothing of requests or history.

The argument why a ranking of the K largest scores is enough stands in the package's docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.noise import Float64Array, NoiseStream

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Tokens of one row after processors and temperature, best first, equal ones by lower id.

    ``log_weights`` float64[n] belong to ``ids`` int64[n]; the first of them is 0. The first
    ``num_certain`` >= 1 tokens are the first of the whole row too; others, that are not listed,
    may lie between the rest. ``log_total`` is the logarithm of the weight of the *whole* row, None
    where it is not known.
    """

    ids: Int64Array
    log_weights: Float64Array
    num_certain: int
    log_total: float | None


@dataclass(frozen=True, slots=True)
class Tail:
    """The tokens beyond a ranking, as one group of weight ``exp(log_weight)``.

    ``row`` makes the log-weights of the whole vocabulary, float64[V], on the ranking's scale; the
    array is the caller's to change.
    """

    log_weight: float
    row: Callable[[], Float64Array]


@dataclass(frozen=True, slots=True)
class Distribution:
    """The target's next-token distribution after all processors and filters.

    ``log_weights`` float64[n] belong to ``ids`` int64[n] and are not normalised. ``tail`` stands
    for all tokens that are not listed; None: they cannot come.
    """

    ids: Int64Array
    log_weights: Float64Array
    tail: Tail | None

    def draw(self, noise: NoiseStream, position: int) -> int:
        """The token at ``position``: the one with the largest ``log weight + Gumbel noise``.

        Depends on the stream's seed and choice, the position, and this distribution; on nothing
        else. Noise for each token, and not one number against cumulative sums, because it is
        steady: where two computations of one row differ by rounding, a token changes with a
        probability of that order, while over a whole vocabulary cumulative sums add the
        differences up.
        """
        perturbed = self.log_weights + noise.gumbel(position, self.ids)
        best = int(perturbed.argmax())
        tail = self.tail
        if tail is None or perturbed[best] >= tail.log_weight + noise.tail_gumbel(position):
            return int(self.ids[best])
        row = tail.row()
        row[self.ids] = -np.inf
        row += noise.gumbel(position, np.arange(len(row)))
        return int(row.argmax())


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of one request; ``top_k`` None, ``min_p`` 0 and ``top_p`` 1 let everything
    pass."""

    vocab_size: int
    top_k: int | None = None
    min_p: float = 0.0
    top_p: float = 1.0

    def apply(self, ranking: Ranking, row: Callable[[], Float64Array]) -> Distribution | None:
        """What survives of a ranked row; None where a token that is not listed might.

        As in GenAI, min-p and top-p see probabilities that top-k has normalised and min-p has not,
        and top-p keeps the token that crosses the threshold. ``row`` is for `Tail`.
        """
        weights, log_total = ranking.log_weights, ranking.log_total
        num_certain = ranking.num_certain
        complete = num_certain == self.vocab_size  # no token outside ``weights`` can come
        if self.top_k is not None and self.top_k < self.vocab_size:
            if self.top_k > num_certain:
                return None
            weights, complete = weights[: self.top_k], True
            log_total = math.log(_total(weights))
        if self.min_p > 0.0:
            num_kept = int(np.count_nonzero(weights >= math.log(self.min_p)))
            if not complete and num_kept >= num_certain:
                return None
            weights, complete = weights[:num_kept], True
        if self.top_p < 1.0:
            if log_total is None:
                return None
            cumulative = np.cumsum(np.exp(weights - log_total))
            crossing = int(np.searchsorted(cumulative, self.top_p, side="right"))
            if not complete and crossing >= num_certain:
                return None
            weights, complete = weights[: crossing + 1], True
        ids = ranking.ids[: len(weights)]
        if complete:
            return Distribution(ids, weights, None)
        if log_total is None:
            return None
        outside = math.exp(log_total) - _total(weights)
        return Distribution(ids, weights, Tail(math.log(outside), row) if outside > 0.0 else None)


def rank_top(
    ids: Int64Array, log_weights: Float64Array, approximate_log_total: float, vocab_size: int
) -> Ranking:
    """The ranking of the K largest of a row, with a log-sum-exp of the whole row from elsewhere.

    That number is in single precision and so has an error, which matters where the tail is light
    and is large where temperature is low. But what is listed weighs no more than the whole row,
    and no token that is not listed weighs more than the last that is: the total is held between
    these bounds, which are closest where the error is largest.
    """
    listed = _total(log_weights)
    at_most = listed + (vocab_size - len(ids)) * math.exp(float(log_weights[-1]))
    log_total = min(max(approximate_log_total, math.log(listed)), math.log(at_most))
    return Ranking(ids, log_weights, len(ids), log_total)


def rank_row(log_weights: Float64Array, length: int) -> Ranking:
    """The first ``length`` tokens of a whole row float64[V] whose largest entry is 0."""
    # Only what reaches the last place is sorted. Stable over ascending ids: equal ones by lower id.
    place = len(log_weights) - length
    reaching = np.flatnonzero(log_weights >= np.partition(log_weights, place)[place])
    ids = reaching[np.argsort(-log_weights[reaching], kind="stable")][:length]
    return Ranking(ids, log_weights[ids], length, math.log(_total(log_weights)))


def _total(log_weights: Float64Array) -> float:
    return float(np.exp(log_weights).sum())
