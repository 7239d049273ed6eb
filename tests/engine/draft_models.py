"""Draft models for the tests of drafters with a model: tables that are near another table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.fakes import TableTarget


def near(target: TableTarget, *, likeness: float = 0.7, seed: int = 99) -> TableTarget:
    """A table that has learnt something of ``target``: 1 is all of it, 0 nothing."""
    return _Mixture(target, likeness, seed)


def padded(target: TableTarget, num_padding: int) -> TableTarget:
    """The same table with ids behind its vocabulary, which score best of all."""
    return _Padded(target, num_padding)


class _Mixture(TableTarget):
    def __init__(self, target: TableTarget, likeness: float, seed: int) -> None:
        self.vocab_size = target.vocab_size
        other = TableTarget(target.vocab_size, seed=seed)
        self._table = likeness * target._table + (1.0 - likeness) * other._table  # pyright: ignore[reportPrivateUsage] - of its own class


class _Padded(TableTarget):
    def __init__(self, target: TableTarget, num_padding: int) -> None:
        self._target = target
        self.vocab_size = target.vocab_size + num_padding
        self._padding = np.full(num_padding, 100.0, np.float32)

    def logits(self, tokens: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        return np.concatenate((self._target.logits(tokens), self._padding))
