"""Noise that is looked up, not drawn: a pure function of seed, choice, position and token.

A generator with a state gives its n-th caller the n-th number, so that a draw depends on how many
came before it, and with speculation on how much was drafted. Here every number has an address:
``(seed, choice)`` names a stream, ``position`` the place in the sequence (prompt included) of the
token to be drawn, the token id the entry. Whoever asks for an address gets the same number,
whatever else was asked for; a drafter that samples may look up the very noise that the target will
use.

The mixing function is the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014, with the constants of D. Stafford's variant 13).
Seed, choice and position are absorbed one after the other, and the entries of a position are the
outputs of a SplitMix64 that starts at its key. This is not cryptography.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
IdArray = NDArray[np.signedinteger[Any]]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_DROP_12_BITS = 12
_STEP = 2.0**-52


class Lane(IntEnum):
    """Separate noise for separate uses of one position: no number serves two decisions.

    The numbers are part of every seeded answer: they never change, new lanes come at the end.
    """

    TOKENS = 0
    TAIL = 1
    """All tokens beyond a ranking, as one group; entry 0."""
    BLOCKS = 2
    """Blocks of neighbouring tokens."""
    ACCEPT = 3
    """Tests of draft tokens against the distribution they were drawn from; the entry is the index
    among the siblings."""
    RESIDUAL = 4
    RESIDUAL_TAIL = 5
    RESIDUAL_BLOCKS = 6
    """`TOKENS`, `TAIL` and `BLOCKS` once more, for the draw after a rejection."""
    DRAFT = 7
    """For drafters whose tokens are verified by rejection; which entry is what, is their business.
    They use no other lane: a draft token that shares its noise with its own test, or with the draw
    that replaces it, is no draw from its proposal any more when that noise is used."""


class DrawLanes(NamedTuple):
    """The lanes of one draw: single tokens, the tail as a group, blocks of the tail."""

    tokens: Lane
    tail: Lane
    blocks: Lane


TARGET_LANES = DrawLanes(Lane.TOKENS, Lane.TAIL, Lane.BLOCKS)
"""The target's own draw."""
RESIDUAL_LANES = DrawLanes(Lane.RESIDUAL, Lane.RESIDUAL_TAIL, Lane.RESIDUAL_BLOCKS)
"""The draw after a rejection."""


class NoiseStream:
    """The noise of one choice of one request."""

    __slots__ = ("_lanes",)

    def __init__(self, seed: int, choice: int = 0) -> None:
        stream = _absorb(_absorb(0, seed), choice)
        self._lanes = tuple(_absorb(stream, lane) for lane in Lane)

    def uniform(self, position: int, ids: IdArray, lane: Lane = Lane.TOKENS) -> Float64Array:
        """float64[n], one number in the open interval (0, 1) for each entry of ids int[n]."""
        mixed = ids.astype(np.uint64)
        mixed *= _GAMMA_0
        mixed += np.uint64(_first_state(self._key(lane, position)))
        _mix_in_place(mixed)
        mixed >>= _DROP_12
        # 52 bits and a half: n + 0.5 is exact in float64, so that neither 0 nor 1 can come out.
        numbers = mixed.astype(np.float64)
        numbers += _HALF_0
        numbers *= _STEP_0
        return numbers

    def gumbel(self, position: int, ids: IdArray, lane: Lane = Lane.TOKENS) -> Float64Array:
        """float64[n], standard Gumbel noise for each entry: ``-log(-log(uniform))``.

        The index of the largest ``log w + gumbel`` is a draw from the weights ``w`` (Gumbel 1954;
        Maddison, Tarlow and Minka, "A* sampling", 2014).
        """
        numbers = self.uniform(position, ids, lane)
        np.log(numbers, out=numbers)
        np.negative(numbers, out=numbers)
        np.log(numbers, out=numbers)
        return np.negative(numbers, out=numbers)

    def tail_gumbel(self, position: int, lane: Lane = Lane.TAIL) -> float:
        """``gumbel`` of entry 0, where a lane has no other."""
        return -math.log(-math.log(self.level(position, 0, lane)))

    def level(self, position: int, entry: int, lane: Lane) -> float:
        """``uniform`` of one entry, sooner than an array of one."""
        state = _first_state(self._key(lane, position)) + _GAMMA * entry
        return ((_mix(state & _MASK) >> _DROP_12_BITS) + 0.5) * _STEP

    def _key(self, lane: Lane, position: int) -> int:
        return _absorb(self._lanes[lane], position)


def _absorb(key: int, value: int) -> int:
    """A new key; for one ``key`` different values (below 2**64) never collide, for GAMMA is odd."""
    return _mix((_first_state(key) + _GAMMA * value) & _MASK)


def _first_state(key: int) -> int:
    """SplitMix64 steps before it mixes, so that a key of 0 does not give 0."""
    return (key + _GAMMA) & _MASK


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)


# The same numbers as arrays of rank 0, made once: for the few dozen tokens of a row, turning Python
# numbers into operands takes longer than the arithmetic.
_GAMMA_0, _MIX_1_0, _MIX_2_0 = (np.array(n, np.uint64) for n in (_GAMMA, _MIX_1, _MIX_2))
_SHIFT_30, _SHIFT_27, _SHIFT_31 = (np.array(n, np.uint64) for n in (30, 27, 31))
_DROP_12 = np.array(_DROP_12_BITS, np.uint64)
_HALF_0, _STEP_0 = np.array(0.5), np.array(_STEP)


def _mix_in_place(values: NDArray[np.uint64]) -> None:
    """`_mix` over an array; unsigned arithmetic wraps by itself."""
    values ^= values >> _SHIFT_30
    values *= _MIX_1_0
    values ^= values >> _SHIFT_27
    values *= _MIX_2_0
    values ^= values >> _SHIFT_31
