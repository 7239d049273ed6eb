"""From a `Batch` to the flat arrays that a paged graph is fed with. Pure NumPy; no model here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Batch, Slice
from engine.values import IntArray, SeqId


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """One forward pass in the terms of ``graph/paging.py``; ``T`` rows, ``S`` slices, ``s`` scored
    rows.

    ``input_ids`` int64[T], ``position_ids`` int64[P, T], ``past_lens`` int32[S],
    ``subsequence_begins`` int32[S + 1], ``block_indices`` int32[sum of blocks],
    ``block_indices_begins`` int32[S + 1], ``max_context_len`` int32[], ``qq_bias`` uint8[...],
    ``qq_bias_begins`` int32[S + 1], ``scored_rows`` int64[s], ``inverse_temperature`` float32[s,
    1]; ``score_begins`` int64[S + 1] says which scored rows belong to which slice.
    """

    arrays: dict[str, NDArray[np.generic]]
    score_begins: IntArray


def pack(batch: Batch, blocks: Mapping[SeqId, Sequence[int]]) -> PackedBatch:
    """Lay the slices one after another; ``blocks[seq]`` are the sequence's cache blocks in
    order."""
    slices = batch.slices
    row_begins = _prefix_sums([part.num_rows for part in slices])
    score_begins = _prefix_sums([len(part.scored) for part in slices])
    owned = [blocks[part.seq] for part in slices]
    masks = [tree_mask(part) for part in slices]
    temperatures = [part.inverse_temperature for part in slices]
    arrays: dict[str, NDArray[np.generic]] = {
        "input_ids": _join([part.tokens for part in slices]),
        "position_ids": _join([part.positions for part in slices], axis=1),
        "past_lens": np.array([part.past_len for part in slices], np.int32),
        "subsequence_begins": row_begins,
        "block_indices": np.array([block for mine in owned for block in mine], np.int32),
        "block_indices_begins": _prefix_sums([len(mine) for mine in owned]),
        "max_context_len": np.array(
            max(part.past_len + part.num_rows for part in slices), np.int32
        ),
        "qq_bias": _join(masks),
        "qq_bias_begins": _prefix_sums([len(mask) for mask in masks]),
        "scored_rows": _join(
            [part.scored + begin for part, begin in zip(slices, row_begins[:-1], strict=True)]
        ),
        "inverse_temperature": np.repeat(np.array(temperatures, np.float32), np.diff(score_begins))[
            :, None
        ],
    }
    return PackedBatch(arrays, score_begins)


_NO_MASK = np.empty(0, np.uint8)


def tree_mask(part: Slice) -> NDArray[np.uint8]:
    """uint8[n * n], row-major: 1 where a row may attend to a row of its own slice, namely to itself
    and its ancestors. Empty for a chain, which is what plain causal order gives anyway."""
    parents = part.parents
    n = part.num_rows
    if parents is None or np.array_equal(parents, np.arange(-1, n - 1)):
        return _NO_MASK
    mask = np.eye(n, dtype=np.uint8)
    for row, parent in enumerate(parents):
        if parent >= 0:
            mask[row] |= mask[parent]
    return mask.reshape(-1)


def _prefix_sums(lengths: Sequence[int]) -> IntArray:
    begins = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=begins[1:])
    return begins


def _join(parts: Sequence[NDArray[np.generic]], axis: int = 0) -> NDArray[np.generic]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)
