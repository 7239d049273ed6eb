"""What limits the tokens of an answer beside their probability: the structure it must have.

Here are the question and the form of its answer. Who knows the structure is `engine.grammar`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.noise import IdArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """A set of tokens, one bit each: ``bits`` uint8[b], token ``t`` is bit ``t % 8`` of byte
    ``t // 8``."""

    bits: NDArray[np.uint8]

    def of(self, ids: IdArray) -> BoolArray:
        """bool[n]: which of ``ids`` int[n] are in the set."""
        return (self.bits[ids >> 3] >> (ids & 7).astype(np.uint8) & 1).astype(np.bool_)

    def row(self, vocab_size: int) -> BoolArray:
        """bool[V]: the set over the whole vocabulary."""
        return np.unpackbits(self.bits, count=vocab_size, bitorder="little").view(np.bool_)

    def with_tokens(self, ids: IdArray) -> AllowedTokens:
        """The set with ``ids`` int[n] in it."""
        bits = self.bits.copy()
        np.bitwise_or.at(bits, ids >> 3, _bit(ids))
        return AllowedTokens(bits)

    def without_tokens(self, ids: IdArray) -> AllowedTokens:
        """The set with ``ids`` int[n] taken out."""
        bits = self.bits.copy()
        np.bitwise_and.at(bits, ids >> 3, ~_bit(ids))
        return AllowedTokens(bits)

    @property
    def is_empty(self) -> bool:
        """Whether no token is in the set."""
        return not self.bits.any()


class Constraint(Protocol):
    """The structure of one answer, and how far the answer is in it. Used from one thread.

    As with `SamplingState`, drafted tokens are never written into it: a question takes the *path*
    of allowed tokens behind the committed ones, and the same question has the same answer however
    often it is asked, and whatever was asked in between.
    """

    @property
    def failure(self) -> str | None:
        """Why the committed tokens cannot be completed, in words; None while they can."""
        ...

    def allowed(self, path: Sequence[int]) -> AllowedTokens:
        """The tokens that may follow ``path``, at least one. End tokens are among them where the
        structure is complete."""
        ...

    def admits(self, path: Sequence[int], token: int) -> bool:
        """Whether ``token`` is in ``allowed(path)``; much cheaper than the whole set."""
        ...

    def commit(self, tokens: Sequence[int]) -> None:
        """Take note of emitted tokens."""
        ...


def _bit(ids: IdArray) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (ids & 7).astype(np.uint8))
