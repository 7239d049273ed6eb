"""From places that agree with the end of a text to a draft of what they went on with.

Each place is a witness for the tokens behind it, and weighs as the square of its agreement: a long
one outvotes several short ones, and equal ones count. Where witnesses part, the draft branches or
follows the heavier side, most promising node first, until it is large enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from engine.drafters.base import evidence_table
from engine.values import ROOT, DraftTree

EVIDENCE_COLUMNS = ("match_len", "share", "num_in_text", "num_in_earlier_answers")
"""What is known about each draft token, by column of ``DraftTree.evidence``.

``match_len``: the longest agreement of a witness for the token, earlier draft tokens included, at
most ``MAX_MATCH_LEN``. ``share``: weight of its witnesses, of all that were right so far, between 0
and 1, smoothed. ``num_in_text`` and ``num_in_earlier_answers``: its witnesses by where they stand.
"""

MAX_MATCH_LEN = 32
MIN_PROMISE = 0.1
"""Nodes that promise less are not worth proposing."""


@dataclass(frozen=True, slots=True)
class Witness:
    """The tokens from ``position`` on were preceded by ``length`` tokens that agree with the end.

    ``goes_on``: ``tokens`` is the very text that is drafted for, so that a copy may run into its
    own tokens; else it has an end.
    """

    tokens: Sequence[int]
    position: int
    length: int
    goes_on: bool

    def token(self, path: Sequence[int]) -> int | None:
        """What it says behind ``path``; None where its text ends."""
        position = self.position + len(path)
        beyond = position - len(self.tokens)
        if beyond < 0:
            return self.tokens[position]
        return path[beyond] if self.goes_on else None


@dataclass(frozen=True, slots=True)
class Shape:
    """Bounds of a draft; ``max_children`` 1 makes it a chain. ``ends`` are tokens that nothing
    follows."""

    max_tokens: int
    max_depth: int
    max_children: int
    ends: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Node:
    """A draft token, not yet in the draft; ``witnesses`` were right up to it."""

    parent: int
    path: tuple[int, ...]
    promise: float
    witnesses: Sequence[Witness]
    evidence: tuple[float, ...] = ()


def grow(witnesses: Sequence[Witness], shape: Shape) -> DraftTree:
    """The draft that ``witnesses`` stand for, with its evidence."""
    chosen: list[_Node] = []
    waiting: list[tuple[float, int, _Node]] = []  # the most promising first, then the first seen
    serial = count()

    def open_children(number: int, node: _Node) -> None:
        if len(node.path) < shape.max_depth and not shape.ends.intersection(node.path[-1:]):
            for child in _children(number, node, shape.max_children):
                heappush(waiting, (-child.promise, next(serial), child))

    open_children(ROOT, _Node(ROOT, (), 1.0, witnesses))
    while waiting and len(chosen) < shape.max_tokens:
        _, _, node = heappop(waiting)
        open_children(len(chosen), node)
        chosen.append(node)
    return DraftTree(
        np.array([node.path[-1] for node in chosen], np.int32),
        np.array([node.parent for node in chosen], np.int32),
        evidence_table([node.evidence for node in chosen], len(EVIDENCE_COLUMNS)),
    )


def _children(number: int, node: _Node, most: int) -> list[_Node]:
    """What the witnesses of ``node``, which is node ``number`` of the draft, say behind it."""
    depth = len(node.path)
    voices: dict[int, list[Witness]] = {}
    weights: dict[int, int] = {}
    for witness in node.witnesses:
        token = witness.token(node.path)
        if token is not None:
            voices.setdefault(token, []).append(witness)
            weights[token] = weights.get(token, 0) + (witness.length + depth) ** 2
    total = sum(weights.values())
    children: list[_Node] = []
    for token in sorted(weights, key=weights.__getitem__, reverse=True)[:most]:
        mine = voices[token]
        share = (weights[token] + 0.5) / (total + 1.0)
        promise = node.promise * share
        if promise < MIN_PROMISE:
            break
        match_len = min(max(witness.length for witness in mine) + depth, MAX_MATCH_LEN)
        num_in_text = sum(witness.goes_on for witness in mine)
        evidence = (match_len, share, num_in_text, len(mine) - num_in_text)
        children.append(_Node(number, (*node.path, token), promise, mine, evidence))
    return children
