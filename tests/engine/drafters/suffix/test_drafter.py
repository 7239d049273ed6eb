"""The drafter on small texts: what it proposes, remembers and forgets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import GenerationConfig
from engine.drafters.base import NO_LIMIT, DraftContext, PrefillChunk
from engine.drafters.suffix import SuffixDrafter
from engine.drafters.suffix.memory import AnswerMemory
from engine.drafters.suffix.tree import EVIDENCE_COLUMNS
from engine.values import ROOT, DraftTree
from tests.engine.budget.texts import verdict

SEQ = 7
CONFIG = GenerationConfig()


class Talk:
    """One drafter that answers one prompt after the other."""

    def __init__(self, max_tokens: int = 1000) -> None:
        self.drafter = SuffixDrafter(AnswerMemory(max_tokens))
        self._length = 0

    def ask(self, prompt: list[int], answer: list[int] | None = None) -> Talk:
        prompt_ids = np.array(prompt, np.int32)
        self.drafter.on_prefill([PrefillChunk(SEQ, prompt_ids, None, is_last=True)])
        self._length = len(prompt)
        return self.go_on(answer or [])

    def go_on(self, tokens: list[int]) -> Talk:
        if tokens:
            self.drafter.observe([verdict(SEQ, tokens)])
        self._length += len(tokens)
        return self

    def end(self) -> Talk:
        self.drafter.release(SEQ)
        return self

    def propose(
        self, max_tokens: int = 6, *, trees: bool = False, config: GenerationConfig = CONFIG
    ) -> DraftTree:
        context = DraftContext(SEQ, config, self._length, max_tokens, trees)
        (tree,) = self.drafter.propose([context], NO_LIMIT)
        return tree


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    """Every path of the tree from its root, as tokens."""
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
        found.append(((*found[parent], token)) if parent != ROOT else (token,))
    assert len(set(found)) == len(found), "two nodes say the same"
    return set(found)


def column(tree: DraftTree, name: str) -> list[float]:
    return tree.evidence[:, EVIDENCE_COLUMNS.index(name)].tolist()


def test_follows_the_longest_match_and_not_the_latest() -> None:
    assert Talk().ask([5, 1, 2, 8, 6, 2, 9, 5, 1, 2]).propose(1).tokens.tolist() == [8]


def test_several_shorter_matches_lose_to_a_long_one_and_equal_ones_count() -> None:
    one_long = [1, 2, 3, 4, 5, 9, 7, 5, 6, 7, 5, 6, 1, 2, 3, 4, 5]
    two_to_one = [3, 5, 9, 3, 5, 6, 3, 5, 9, 8, 3, 5]

    assert Talk().ask(one_long).propose(1).tokens.tolist() == [9]
    assert Talk().ask(two_to_one).propose(1).tokens.tolist() == [9]


def test_an_answer_follows_its_own_habits_before_the_prompts() -> None:
    # A variable was renamed from 8 to 9: where it was met first, the prompt says 8, the answer 9.
    talk = Talk().ask([1, 2, 8, 3], [1, 2, 9, 5, 1, 2])

    assert talk.propose(1).tokens.tolist() == [9]


def test_without_trees_the_draft_is_a_chain_and_with_them_it_branches() -> None:
    talk = Talk().ask([1, 2, 8, 4, 1, 2, 9, 5, 1, 2])

    assert talk.propose(4).is_chain
    tree = talk.propose(4, trees=True)
    assert {(8,), (9,)} < paths(tree)


def test_most_of_a_tree_goes_where_most_witnesses_point() -> None:
    talk = Talk().ask([1, 2, 8, 4] * 5 + [1, 2, 9, 5, 1, 2])

    first = [path[0] for path in paths(talk.propose(10, trees=True))]

    assert first.count(8) > first.count(9) > 0


def test_a_length_without_a_tree_is_that_of_a_chain() -> None:
    talk = Talk().ask([1, 2, 8, 4, 1, 2, 9, 5, 1, 2])
    config = replace(CONFIG, num_assistant_tokens=6)

    assert talk.propose(6, trees=True, config=config).is_chain


def test_branches_and_depth_are_what_the_request_allows() -> None:
    talk = Talk().ask([1, 2, 8, 4, 1, 2, 9, 5, 1, 2, 7, 6, 1, 2])
    config = replace(CONFIG, num_assistant_tokens=6, tree_depth=2, branching_factor=2)

    tree = talk.propose(6, trees=True, config=config)

    assert tree.depths().max() == 2
    assert len(tree.children(ROOT)) == 2


@given(
    prompt=st.lists(st.integers(0, 2), min_size=1, max_size=30),
    answers=st.lists(st.lists(st.integers(0, 2), max_size=15), max_size=3),
    max_tokens=st.integers(0, 12),
    trees=st.booleans(),
)
def test_every_draft_is_well_formed_and_every_path_stood_somewhere(
    prompt: list[int], answers: list[list[int]], max_tokens: int, trees: bool
) -> None:
    talk = Talk()
    for answer in answers:
        talk.ask([0], answer).end()
    tree = talk.ask(prompt).propose(max_tokens, trees=trees)

    assert len(tree) <= max_tokens
    assert (tree.parents < np.arange(len(tree))).all()
    assert trees or tree.is_chain
    assert ((tree.evidence[:, 1:2] > 0) & (tree.evidence[:, 1:2] < 1)).all()
    for path in paths(tree):
        # A copy of the text may run into itself, so the text with the draft behind it counts too.
        texts = [[*prompt, *path[:-1]], *answers]
        assert any(
            tuple(text[start : start + len(path)]) == path
            for text in texts
            for start in range(len(text))
        )


def test_one_word_many_times_is_continued_up_to_the_limit_and_no_further() -> None:
    talk = Talk().ask([4] * 48)

    assert talk.propose(6).tokens.tolist() == [4] * 6
    assert talk.propose(6, trees=True).tokens.tolist() == [4] * 6
    assert len(talk.propose(100)) <= 100


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param([1], [], id="a single token has nothing before it"),
        pytest.param([1, 1], [1, 1], id="two equal tokens"),
        pytest.param([1, 2, 3], [], id="nothing repeats"),
        pytest.param([3, 1, 2, 3], [1, 2], id="match at the very start"),
        pytest.param([1, 2, 2], [2, 2], id="match that ends at the last token but one"),
        pytest.param([7, 8, 7, 8, 7, 8], [7, 8], id="repeated match"),
        pytest.param([9, 1, 2, 1, 2], [1, 2], id="a period"),
        pytest.param([*range(100), *range(60)], [60, 61], id="longer than a context"),
    ],
)
def test_edges_of_the_text(prompt: list[int], expected: list[int]) -> None:
    assert Talk().ask(prompt).propose(2).tokens.tolist() == expected


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 7, 100])
def test_never_proposes_more_than_it_may(max_tokens: int) -> None:
    talk = Talk().ask(list(range(60)) * 2)

    assert len(talk.propose(max_tokens)) == max_tokens
    assert len(talk.propose(max_tokens, trees=True)) == max_tokens


def test_a_short_match_is_not_followed_far() -> None:
    assert len(Talk().ask([1, *range(50, 80), 1]).propose(16)) == 4


def test_stops_behind_a_token_that_ends_the_answer_unless_that_is_ignored() -> None:
    config = replace(CONFIG, stop_token_ids=frozenset({3}))
    talk = Talk().ask([1, 2, 3, 4, 1])

    assert talk.propose(4, config=config).tokens.tolist() == [2, 3]
    ignoring = replace(config, ignore_eos=True)
    assert talk.propose(4, config=ignoring).tokens.tolist() == [2, 3, 4, 1]


def test_drafts_an_earlier_answer_when_it_begins_again() -> None:
    talk = Talk().ask([10, 11], [1, 2, 3, 4, 5, 6]).end()

    tree = talk.ask([20, 21], [1, 2]).propose(4)

    assert tree.tokens.tolist() == [3, 4, 5, 6]
    assert column(tree, "num_earlier") == [1.0] * 4
    assert column(tree, "num_in_text") == [0.0] * 4


def test_an_answer_that_begins_alike_counts_for_more_than_one_that_has_the_word_inside() -> None:
    talk = Talk().ask([10], [1, 2]).end().ask([10], [5, 1, 3]).end().ask([10], [6, 1, 4]).end()

    assert talk.ask([20], [1]).propose(1).tokens.tolist() == [2]


def test_a_draft_ends_where_the_earlier_answer_ended() -> None:
    talk = Talk().ask([10, 11], [1, 2, 3]).end()

    assert talk.ask([20, 21], [1, 2]).propose(4).tokens.tolist() == [3]


def test_never_remembers_a_prompt() -> None:
    talk = Talk().ask([1, 2, 3, 4, 5], [9]).end()

    assert set(talk.ask([1, 2, 3]).propose().tokens.tolist()) <= {9}
    assert len(talk.end().ask([1, 2, 3], [6]).propose()) == 0


def test_an_answer_is_not_drafted_for_others_while_it_lasts() -> None:
    talk = Talk().ask([10, 11], [1, 2, 3, 4])
    context = DraftContext(8, CONFIG, 3, 4)
    prompt_ids = np.array([20, 21], np.int32)
    talk.drafter.on_prefill([PrefillChunk(8, prompt_ids, None, is_last=True)])
    talk.drafter.observe([verdict(8, [1])])

    assert len(talk.drafter.propose([context], NO_LIMIT)[0]) == 0
    talk.end()
    assert talk.drafter.propose([context], NO_LIMIT)[0].tokens.tolist() == [2, 3, 4]


def test_forgets_tokens_from_a_position_on() -> None:
    talk = Talk().ask([1, 2, 3, 1], [9, 1])
    talk.drafter.restore(SEQ, 4)
    talk.go_on([]).end()  # what was taken back is no answer

    assert len(talk.ask([9, 1]).propose()) == 0


def test_goes_on_behind_what_was_taken_back() -> None:
    talk = Talk().ask([1, 2, 3, 1])
    before = talk.propose()
    talk.go_on([2, 8, 1, 2])
    talk.drafter.restore(SEQ, 4)
    talk.go_on([]).ask([], [])  # the length is that of the prompt again
    context = DraftContext(SEQ, CONFIG, 4, 6)

    (after,) = talk.drafter.propose([context], NO_LIMIT)

    assert after.tokens.tolist() == before.tokens.tolist()
    assert (after.evidence == before.evidence).all()


def test_a_prompt_in_chunks_is_one_text() -> None:
    talk = Talk().ask([1, 2]).ask([3, 1, 2])
    (tree,) = talk.drafter.propose([DraftContext(SEQ, CONFIG, 5, 1)], NO_LIMIT)

    assert tree.tokens.tolist() == [3]


def test_a_sequence_may_be_released_twice_and_a_missed_token_is_noticed() -> None:
    talk = Talk().ask([1, 2], [3]).end().end()
    talk.ask([1, 2])

    with pytest.raises(AssertionError, match="missed"):
        talk.drafter.propose([DraftContext(SEQ, CONFIG, 3, 1)], NO_LIMIT)
