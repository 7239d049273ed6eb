"""From a `Batch` to the arrays that a graph is fed with. Pure NumPy; no model here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Batch, Slice
from engine.values import SeqId


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """One forward pass in the terms of a graph; ``T`` rows, ``S`` slices, ``s`` scored rows.

    A paged graph (``graph/paging.py``) is fed with ``input_ids`` int64[T], ``position_ids``
    int64[P, T], ``past_lens`` int32[S], ``subsequence_begins`` int32[S + 1], ``block_indices``
    int32[sum of blocks], ``block_indices_begins`` int32[S + 1], ``max_context_len`` int32[],
    ``qq_bias`` uint8[...], ``qq_bias_begins`` int32[S + 1]; a stateful graph, with one slice and
    ``L`` rows in its state, with ``input_ids`` int64[1, T], ``position_ids`` int64[P, 1, T],
    ``attention_mask`` int64[1, L + T], ``beam_idx`` int32[1]; and both with ``scored_rows``
    int64[s], ``inverse_temperature`` float32[s, 1]. ``row_begins`` and ``score_begins``, ``S + 1``
    of each, say which rows and which scored rows belong to which slice.
    """

    arrays: dict[str, NDArray[np.generic]]
    row_begins: tuple[int, ...]
    score_begins: tuple[int, ...]


def pack(batch: Batch, blocks: Mapping[SeqId, Sequence[int]]) -> PackedBatch:
    """Lay the slices one after another for a paged graph; ``blocks[seq]`` are the sequence's cache
    blocks in order. Token ids alone: other kinds of rows have no place yet."""
    slices = batch.slices
    for part in slices:
        _require_token_ids(part)
    row_begins = _prefix_sums([part.num_rows for part in slices])
    score_begins = _prefix_sums([len(part.scored) for part in slices])
    owned = [blocks[part.seq] for part in slices]
    masks = [tree_mask(part) for part in slices]
    arrays: dict[str, NDArray[np.generic]] = {
        "input_ids": _join([part.tokens for part in slices]),
        "position_ids": _join([part.positions for part in slices], axis=1),
        "past_lens": np.array([part.past_len for part in slices], np.int32),
        "subsequence_begins": np.array(row_begins, np.int32),
        "block_indices": np.array([block for mine in owned for block in mine], np.int32),
        "block_indices_begins": np.array(_prefix_sums([len(mine) for mine in owned]), np.int32),
        "max_context_len": np.array(
            max(part.past_len + part.num_rows for part in slices), np.int32
        ),
        "qq_bias": _join(masks),
        "qq_bias_begins": np.array(_prefix_sums([len(mask) for mask in masks]), np.int32),
        "scored_rows": _join(
            [
                part.scored + begin if begin else part.scored
                for part, begin in zip(slices, row_begins, strict=False)
            ]
        ),
        "inverse_temperature": _join([_temperatures(part) for part in slices]),
    }
    return PackedBatch(arrays, tuple(row_begins), tuple(score_begins))


def pack_alone(part: Slice) -> PackedBatch:
    """The only slice of a pass, a chain, for a stateful graph whose state holds its past rows and
    nothing else. Token ids alone, as in `pack`."""
    _require_token_ids(part)
    assert len(tree_mask(part)) == 0, "rows of a stateful graph do not branch"
    n = part.num_rows
    arrays: dict[str, NDArray[np.generic]] = {
        "input_ids": part.tokens[None],
        "position_ids": part.positions[:, None],
        "attention_mask": np.ones((1, part.past_len + n), np.int64),
        "beam_idx": np.zeros(1, np.int32),
        "scored_rows": part.scored,
        "inverse_temperature": _temperatures(part),
    }
    return PackedBatch(arrays, (0, n), (0, len(part.scored)))


def _require_token_ids(part: Slice) -> None:
    assert part.embeddings is None
    assert part.token_types is None
    assert not part.extra


def _temperatures(part: Slice) -> NDArray[np.float32]:
    return np.full((len(part.scored), 1), part.inverse_temperature, np.float32)


_NO_MASK = np.empty(0, np.uint8)


def tree_mask(part: Slice) -> NDArray[np.uint8]:
    """uint8[n * n], row-major: 1 where a row may attend to a row of its own slice, namely to itself
    and its ancestors. Empty for a chain, which is what plain causal order gives anyway."""
    parents = part.parents
    n = part.num_rows
    if parents is None or parents.tolist() == list(range(-1, n - 1)):
        return _NO_MASK
    mask = np.eye(n, dtype=np.uint8)
    for row, parent in enumerate(parents):
        if parent >= 0:
            mask[row] |= mask[parent]
    return mask.reshape(-1)


def _prefix_sums(lengths: Sequence[int]) -> list[int]:
    """``[0, a, a + b, ...]``: one more than there are lengths."""
    return [*accumulate(lengths, initial=0)]


def _join(parts: Sequence[NDArray[np.generic]], axis: int = 0) -> NDArray[np.generic]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)
