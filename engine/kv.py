"""Who owns which block of the paged cache.

Pure bookkeeping: no tensor is touched here. A sequence owns an ordered list of blocks, its row at
position ``p`` lies in block ``blocks[p // block_size]``; a block has one owner. Sharing blocks
between sequences (prefix caching) and taking them away (preemption) will live here too: `reserve`
and `release` are the only places that give and take blocks, so that a reference count fits in.
"""

from __future__ import annotations

from engine.errors import CacheTooSmallError
from engine.values import SeqId


class BlockPool:
    """Blocks of ``block_size`` rows, handed out to sequences. Implements `backends.base.Cache`."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        assert num_blocks > 0
        assert block_size > 0
        self.num_blocks = num_blocks
        self.block_size = block_size
        # Popped from the end: low blocks first, so that a small load touches little memory.
        self._free = list(range(num_blocks - 1, -1, -1))
        self._owned: dict[SeqId, list[int]] = {}

    @property
    def total_tokens(self) -> int:
        """Rows that fit in all."""
        return self.num_blocks * self.block_size

    @property
    def free_tokens(self) -> int:
        """Rows in blocks that nobody owns."""
        return len(self._free) * self.block_size

    @property
    def num_owned_blocks(self) -> int:
        """Blocks in use."""
        return self.num_blocks - len(self._free)

    def blocks(self, seq: SeqId) -> list[int]:
        """The sequence's blocks in order of position; a view, not to be changed."""
        return self._owned[seq]

    def can_admit(self, length: int) -> bool:
        """Whether a newcomer of ``length`` rows leaves a block to each sequence that owns some."""
        return self._num_blocks_for(length) + len(self._owned) <= len(self._free)

    def can_reserve(self, seq: SeqId, length: int) -> bool:
        """Whether ``reserve(seq, length)`` would succeed now."""
        return self._num_missing(seq, length) <= len(self._free)

    def reserve(self, seq: SeqId, length: int) -> None:
        """Make room for ``length`` rows of ``seq`` in all.

        Raises:
            CacheTooSmallError: not enough free blocks; nothing has changed.
        """
        missing = self._num_missing(seq, length)
        if missing > len(self._free):
            raise CacheTooSmallError(
                f"The key/value cache has {self.free_tokens} free rows and {length} are needed; "
                "wait for other answers to end, or start with a larger cache (cache_size_gib)."
            )
        owned = self._owned.setdefault(seq, [])
        for _ in range(missing):
            owned.append(self._free.pop())

    def trim(self, seq: SeqId, length: int) -> None:
        """Give back the blocks that lie wholly beyond ``length`` rows."""
        owned = self._owned.get(seq, [])
        while len(owned) > self._num_blocks_for(length):
            self._free.append(owned.pop())

    def release(self, seq: SeqId) -> None:
        """Give back every block of the sequence; unknown sequences are ignored."""
        self._free.extend(reversed(self._owned.pop(seq, [])))

    def _num_blocks_for(self, length: int) -> int:
        return -(-length // self.block_size)

    def _num_missing(self, seq: SeqId, length: int) -> int:
        return max(0, self._num_blocks_for(length) - len(self._owned.get(seq, ())))
