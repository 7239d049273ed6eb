"""What became of a draft: its tree held against the tokens that the target emitted.

It does not matter which nodes were verified. A token that the target emits at a place says of every
draft token for that place whether it was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.values import ROOT, DraftTree, Verdict


@dataclass(frozen=True, slots=True)
class Fate:
    """``nodes`` whose fate is known, and in ``right`` whether each was the token emitted there.

    ``reached`` depths were compared and ``agreed`` of them had a right node.
    """

    nodes: list[int]
    right: list[bool]
    reached: int
    agreed: int


def follow(tree: DraftTree, tokens: Sequence[int]) -> Fate:
    """Walk down from the root along ``tokens``.

    Example: a chain ``a b c`` and the tokens ``a x``: nodes 0 and 1 are known, right and wrong;
    node 2 is not, since nobody asked what follows ``a b``.
    """
    nodes: list[int] = []
    right: list[bool] = []
    node = ROOT
    for agreed, token in enumerate(tokens):
        children = tree.children(node)
        if not children:
            return Fate(nodes, right, agreed, agreed)
        matches = [int(tree.tokens[child]) == token for child in children]
        nodes += children
        right += matches
        if True not in matches:
            return Fate(nodes, right, agreed + 1, agreed)
        node = children[matches.index(True)]
    return Fate(nodes, right, len(tokens), len(tokens))


def emitted_tokens(verdict: Verdict) -> list[int]:
    """The ids of the tokens that a verdict emitted."""
    return [emitted.token for emitted in verdict.emitted]
