from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.backends.base import Batch, Slice
from engine.backends.packing import pack, tree_mask
from engine.values import SliceKind


def slice_of(
    seq: int, past_len: int, tokens: list[int], scored: list[int], parents: list[int] | None = None
) -> Slice:
    n = len(tokens)
    return Slice(
        seq=seq,
        kind=SliceKind.VERIFY,
        past_len=past_len,
        tokens=np.array(tokens, np.int32),
        positions=np.arange(past_len, past_len + n)[None],
        scored=np.array(scored, np.int32),
        parents=None if parents is None else np.array(parents, np.int32),
        inverse_temperature=1.0 + seq,
    )


def test_rows_attend_to_their_ancestors_alone() -> None:
    # Row 0 has the children 1 and 2; 3 follows 1, 4 follows 2.
    mask = tree_mask(slice_of(0, 7, [5, 6, 7, 8, 9], [0], [-1, 0, 0, 1, 2]))
    assert mask.reshape(5, 5).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 0, 1, 0, 1],
    ]


def test_a_chain_needs_no_mask() -> None:
    assert len(tree_mask(slice_of(0, 7, [5, 6, 7], [0], [-1, 0, 1]))) == 0
    assert len(tree_mask(slice_of(0, 7, [5, 6, 7], [0]))) == 0


def test_slices_stand_one_after_another() -> None:
    batch = Batch(
        (
            slice_of(1, 3, [10, 11], [0, 1]),
            slice_of(2, 8, [20, 21, 22], [2]),
            slice_of(3, 0, [30], []),
        )
    )
    packed = pack(batch, {1: [4, 5], 2: [0, 1, 2], 3: [9]})
    expected = {
        "input_ids": [10, 11, 20, 21, 22, 30],
        "position_ids": [[3, 4, 8, 9, 10, 0]],
        "past_lens": [3, 8, 0],
        "subsequence_begins": [0, 2, 5, 6],
        "block_indices": [4, 5, 0, 1, 2, 9],
        "block_indices_begins": [0, 2, 5, 6],
        "max_context_len": 11,
        "qq_bias": [],
        "qq_bias_begins": [0, 0, 0, 0],
        "scored_rows": [0, 1, 4],
        "inverse_temperature": [[2.0], [2.0], [3.0]],
    }
    assert {name: array.tolist() for name, array in packed.arrays.items()} == expected
    assert packed.score_begins == (0, 2, 3, 3)


def test_refuses_rows_that_it_would_drop_silently() -> None:
    part = slice_of(0, 0, [5], [0])
    with pytest.raises(AssertionError):
        pack(
            Batch((replace(part, extra={"hidden_states": np.zeros((1, 4), np.float32)}),)), {0: []}
        )
