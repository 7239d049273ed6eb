"""Which draft tokens to verify: those that bring more tokens per millisecond than they cost.

A step that verifies a set of draft tokens over ``R`` sequences emits ``R + (sum of their
survivals)`` tokens on average, and takes as long as the batch's rows take. The best set of a
given size holds the largest survivals; since survival never rises along a path, it is closed
under parents. So sorting once and looking at every size finds the best set of all (DSpark, arXiv
2607.05147, "hardware-aware scheduler"; unlike there, the search does not stop at the first
decrease, since real cost curves have steps). Pure arithmetic: no state, no knowledge of drafters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.budget.cost import Milliseconds
from engine.values import FloatArray, IntArray

MIN_GAIN = 0.05
"""Verifying must promise this much more than plain decoding: estimates err, and plain cannot
lose."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen nodes: ``kept[i]`` int32, ascending, of draft ``i``; none anywhere means plain
    decoding.

    ``cost_ratio`` is the time of the step over the time of a plain one.
    """

    kept: tuple[IntArray, ...]
    cost_ratio: float


def select(
    survivals: Sequence[FloatArray],
    step_ms: Milliseconds,
    base_tokens: float,
    draft_ms: float = 0.0,
) -> Selection:
    """The nodes that maximise expected tokens per millisecond.

    ``survivals[i]`` float32[n_i] of draft ``i``'s nodes, never rising along a path. ``step_ms``
    float64[1 + sum n_i] is the cost of the batch with 0, 1, ... nodes in it; ``base_tokens`` are
    expected without any. ``draft_ms`` is what drafting has cost already, whatever is verified
    now.
    """
    sizes = [len(survival) for survival in survivals]
    if not any(sizes):
        return Selection(tuple(np.empty(0, np.int32) for _ in sizes), 1.0)
    merged = np.concatenate(survivals)
    # Stable, so that of equal survivals a parent, which has the lower index, comes first.
    order = (-merged).argsort(kind="stable")
    tokens = np.full(len(merged) + 1, base_tokens, np.float64)
    tokens[1:] += merged[order].cumsum(dtype=np.float64)
    rate = tokens / (step_ms[: len(tokens)] + draft_ms)
    best = int(rate.argmax())
    if rate[best] < rate[0] * (1.0 + MIN_GAIN):
        best = 0
    is_kept = np.zeros(len(merged), np.bool_)
    is_kept[order[:best]] = True
    kept: list[IntArray] = []
    begin = 0
    for size in sizes:
        kept.append(is_kept[begin : begin + size].nonzero()[0].astype(np.int32))
        begin += size
    return Selection(tuple(kept), float(step_ms[best] / step_ms[0]))


def best_rate(survivals: FloatArray, step_ms: Milliseconds, *, all_of_it: bool) -> float:
    """Tokens per millisecond of one sequence that verifies as much of a draft as pays best, or
    ``all_of_it``; ``survivals`` float32[n] and ``step_ms`` float64[1 + n or more] as in ``select``.
    """
    tokens = np.ones(len(survivals) + 1)
    tokens[1:] += np.sort(survivals)[::-1].cumsum(dtype=np.float64)
    rates = tokens / step_ms[: len(tokens)]
    return float(rates[-1] if all_of_it else rates.max())


def best_length(
    survivals: FloatArray, step_ms: Milliseconds, num_sequences: int, draft_ms_each: float
) -> int:
    """How many tokens to draft when each depth costs ``draft_ms_each``; 0 if drafting does not pay.

    ``survivals`` float32[n] are the means by depth, the same for each of ``num_sequences``
    sequences; ``step_ms`` float64[1 + n * num_sequences] as in ``select``.
    """
    tokens = num_sequences * (1.0 + np.concatenate(([0.0], np.cumsum(survivals))))
    lengths = np.arange(len(tokens))
    rate = tokens / (step_ms[lengths * num_sequences] + lengths * draft_ms_each)
    best = int(rate.argmax())
    return best if rate[best] >= rate[0] * (1.0 + MIN_GAIN) else 0
