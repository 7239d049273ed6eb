"""Drafts held against what was emitted."""

from __future__ import annotations

import numpy as np

from engine.budget.fate import Fate, follow
from engine.values import DraftTree


def tree(tokens: list[int], parents: list[int]) -> DraftTree:
    evidence = np.empty((len(tokens), 0), np.float32)
    return DraftTree(np.array(tokens, np.int32), np.array(parents, np.int32), evidence)


CHAIN = tree([1, 2, 3], [-1, 0, 1])


def test_nothing_is_known_behind_the_first_wrong_token() -> None:
    assert follow(CHAIN, [1, 9]) == Fate([0, 1], [True, False], reached=2, agreed=1)


def test_nothing_is_known_beyond_what_was_emitted() -> None:
    assert follow(CHAIN, [1]) == Fate([0], [True], reached=1, agreed=1)


def test_a_draft_may_end_before_the_emitted_tokens_do() -> None:
    assert follow(CHAIN, [1, 2, 3, 4]) == Fate([0, 1, 2], [True] * 3, reached=3, agreed=3)


def test_siblings_of_the_right_node_are_wrong() -> None:
    branches = tree([1, 2, 5, 6, 7], [-1, -1, 0, 1, 1])

    assert follow(branches, [2, 7]) == Fate(
        [0, 1, 3, 4], [False, True, False, True], reached=2, agreed=2
    )


def test_an_empty_draft_has_no_fate() -> None:
    assert follow(DraftTree.empty(), [1, 2]) == Fate([], [], reached=0, agreed=0)
