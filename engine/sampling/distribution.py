"""Rankings of a row, the filters on them, and the draw. Pure; knows nothing of requests or history.

The argument why a ranking of the K largest scores is enough stands in the package's docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.noise import TARGET_LANES, DrawLanes, Float64Array, IdArray, NoiseStream

_BLOCK_SIZE = 256
"""Tokens of a block in a draw from a whole row."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Tokens of one row after processors and temperature, best first, equal ones by lower id.

    ``log_weights`` float64[n] belong to ``ids`` int[n]; the first of them is 0. The first
    ``num_certain`` >= 1 tokens are the first of the whole row too; others, that are not listed,
    may lie between the rest. It is V where no token that is not listed can come.
    ``outside`` is the weight of all tokens that are not listed, on the same scale and not
    logarithmic; None where it is not known.
    """

    ids: IdArray
    log_weights: Float64Array
    num_certain: int
    outside: float | None


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

    ``log_weights`` float64[n] belong to ``ids`` int[n] and are not normalised. ``tail`` stands
    for all tokens that are not listed; None: they cannot come.
    """

    ids: IdArray
    log_weights: Float64Array
    tail: Tail | None

    def draw(self, noise: NoiseStream, position: int, lanes: DrawLanes = TARGET_LANES) -> int:
        """The token at ``position``: the one with the largest ``log weight + Gumbel noise``.

        Depends on the stream's seed and choice, the position, the lanes, and this distribution; on
        nothing else. Noise for each token, and not one number against cumulative sums, because it
        is steady: where two computations of one row differ by rounding, a token changes with a
        probability of that order, while over a whole vocabulary cumulative sums add the differences
        up.
        """
        perturbed = self.log_weights + noise.gumbel(position, self.ids, lanes.tokens)
        best = int(perturbed.argmax())
        tail = self.tail
        if tail is None:
            return int(self.ids[best])
        if perturbed[best] >= tail.log_weight + noise.tail_gumbel(position, lanes.tail):
            return int(self.ids[best])
        row = tail.row()
        row[self.ids] = -np.inf
        return _draw_from_row(row, noise, position, lanes)


def _draw_from_row(
    log_weights: Float64Array, noise: NoiseStream, position: int, lanes: DrawLanes
) -> int:
    """A token of a whole row float64[V]: a block of neighbours first, then a token of the block.

    By the argument of the tail once more: the blocks enter with their total weights. Noise for
    every token of a vocabulary would take milliseconds.
    """
    begins = np.arange(0, len(log_weights), _BLOCK_SIZE)
    weights = np.exp((log_weights - log_weights.max()).astype(np.float32))
    with np.errstate(divide="ignore"):  # a block may weigh nothing
        blocks = np.log(np.add.reduceat(weights, begins, dtype=np.float64))
    blocks += noise.gumbel(position, np.arange(len(begins)), lanes.blocks)
    begin = int(begins[blocks.argmax()])
    block = log_weights[begin : begin + _BLOCK_SIZE]
    ids = np.arange(begin, begin + len(block))
    return begin + int((block + noise.gumbel(position, ids, lanes.tokens)).argmax())


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
        weights, outside = ranking.log_weights, ranking.outside
        num_certain = ranking.num_certain
        complete = num_certain == self.vocab_size  # no token that is not in ``weights`` can come
        if self.top_k is not None and self.top_k < self.vocab_size:
            if self.top_k > num_certain:
                return None
            weights, outside, complete = weights[: self.top_k], 0.0, True
        kept = weights
        if self.min_p > 0.0:
            num_kept = int(np.count_nonzero(weights >= math.log(self.min_p)))
            if not complete and num_kept >= num_certain:
                return None
            kept, complete = weights[:num_kept], True
        if self.top_p < 1.0:
            if outside is None:
                return None
            threshold = self.top_p * (weight(weights) + outside)
            crossing = int(np.searchsorted(np.cumsum(np.exp(kept)), threshold, side="right"))
            if not complete and crossing >= num_certain:
                return None
            kept, complete = kept[: crossing + 1], True
        ids = ranking.ids[: len(kept)]
        if complete:
            return Distribution(ids, kept, None)
        if outside is None:
            return None
        return Distribution(ids, kept, Tail(math.log(outside), row) if outside > 0.0 else None)


def rank(ids: IdArray, log_weights: Float64Array, total: float, vocab_size: int) -> Ranking:
    """The ranking of the first tokens of a row, where the whole row weighs about ``total``.

    The total comes from a log-sum-exp in single precision. Its error matters where little lies
    outside, and is large where temperature is low. But the weight outside is not negative, and no
    token there weighs more than the last one listed; the bounds are closest where the error is
    largest.
    """
    at_most = (vocab_size - len(ids)) * math.exp(float(log_weights[-1]))
    outside = min(max(total - weight(log_weights), 0.0), at_most)
    return Ranking(ids, log_weights, len(ids), outside)


def rank_row(log_weights: Float64Array, length: int, total: float) -> Ranking:
    """The first ``length`` tokens of a whole row float64[V] that weighs ``total``."""
    possible = np.flatnonzero(log_weights > -np.inf)
    if len(possible) <= length:  # and nothing else can come
        ids = possible[np.argsort(-log_weights[possible], kind="stable")]
        return Ranking(ids, log_weights[ids], len(log_weights), 0.0)
    # Only what reaches the last place is sorted. Stable over ascending ids: equal ones by lower id.
    place = len(log_weights) - length
    reaching = np.flatnonzero(log_weights >= np.partition(log_weights, place)[place])
    ids = reaching[np.argsort(-log_weights[reaching], kind="stable")][:length]
    return rank(ids, log_weights[ids], total, len(log_weights))


def weight(log_weights: Float64Array) -> float:
    """What the tokens weigh together."""
    return float(np.exp(log_weights).sum())


def row_weight(log_weights: Float64Array) -> float:
    """`weight` of a whole row whose largest entry is 0, as precise as the graph's and as fast."""
    return float(np.exp(log_weights.astype(np.float32)).sum(dtype=np.float64))
