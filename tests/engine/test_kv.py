from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import CacheTooSmallError
from engine.kv import BlockPool


def test_refuses_with_both_figures_and_changes_nothing() -> None:
    pool = BlockPool(num_blocks=2, block_size=4)
    pool.reserve(1, 5)
    with pytest.raises(CacheTooSmallError, match="0 free rows and 4 are needed"):
        pool.reserve(2, 4)
    assert pool.num_owned_blocks == 2
    assert not pool.can_reserve(2, 1)
    assert pool.can_reserve(1, 8)


def test_gives_out_low_blocks_first_and_takes_them_back() -> None:
    pool = BlockPool(num_blocks=3, block_size=4)
    pool.reserve(1, 9)
    assert pool.blocks(1) == [0, 1, 2]
    pool.trim(1, 4)
    assert pool.blocks(1) == [0]
    assert pool.free_tokens == 8
    pool.release(1)
    assert pool.free_tokens == pool.total_tokens == 12


_actions = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "trim", "release"]), st.integers(0, 3), st.integers(0, 40)
    ),
    max_size=60,
)


@given(_actions)
def test_no_block_is_lost_or_shared_whatever_happens(
    actions: list[tuple[str, int, int]],
) -> None:
    pool = BlockPool(num_blocks=8, block_size=4)
    lengths: dict[int, int] = {}
    for action, seq, length in actions:
        if action == "reserve" and pool.can_reserve(seq, length):
            pool.reserve(seq, length)
            lengths[seq] = max(length, lengths.get(seq, 0))
        elif action == "trim" and seq in lengths:
            pool.trim(seq, length)
            lengths[seq] = min(length, lengths[seq])
        elif action == "release":
            pool.release(seq)
            lengths.pop(seq, None)
        owned = [block for one in lengths for block in pool.blocks(one)]
        assert len(owned) == len(set(owned)) == pool.num_owned_blocks
        assert all(block in range(8) for block in owned)
        for one, kept in lengths.items():
            assert len(pool.blocks(one)) == -(-kept // 4)
