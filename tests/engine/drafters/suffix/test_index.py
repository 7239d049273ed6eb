"""The index against a matcher that compares every token of every text, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.suffix.index import DEPTH, Occurrence, SuffixIndex, since

MARK = -1
TEXTS = 3

Step = tuple[Literal["extend", "truncate", "remove"], int, list[int]]

words = st.lists(st.integers(0, 2), max_size=12)
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["extend", "extend", "truncate", "remove"]),
        st.integers(0, TEXTS - 1),
        words,
    ),
    max_size=12,
)


def agreement(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens in common from the end, the mark in front of each text among them."""
    pairs = zip(reversed([MARK, *one]), reversed([MARK, *other]), strict=False)
    return min(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), DEPTH)


def naive(texts: dict[int, list[int]], end: Sequence[int]) -> set[Occurrence]:
    found = {
        Occurrence(number, position, agreement(end, tokens[:position]))
        for number, tokens in texts.items()
        for position in range(len(tokens))
    }
    return {occurrence for occurrence in found if occurrence.length}


def replay(taken: list[Step]) -> tuple[SuffixIndex, dict[int, list[int]]]:
    """An index after some steps, and what should be in it."""
    index, texts = SuffixIndex(), dict[int, list[int]]()
    for what, number, tokens in taken:
        if what == "extend":
            index.extend(number, tokens)
            texts.setdefault(number, []).extend(tokens)
        elif number in texts and what == "truncate":
            length = min(len(tokens), len(texts[number]))
            index.truncate(number, length)
            del texts[number][length:]
        elif number in texts:
            index.remove(number)
            del texts[number]
    return index, texts


@given(taken=steps)
def test_finds_what_a_comparison_of_everything_finds(taken: list[Step]) -> None:
    index, texts = replay(taken)

    assert len(index) == sum(map(len, texts.values()))
    for number, tokens in texts.items():
        found = index.nearest(index.end(number), limit=1000)
        assert set(found) == naive(texts, tokens)
        assert len(set(found)) == len(found)
        assert index.tokens(number) == tokens


@given(taken=steps, limit=st.integers(0, 6))
def test_takes_the_longest_where_it_may_not_take_all(taken: list[Step], limit: int) -> None:
    index, texts = replay(taken)

    for number, tokens in texts.items():
        found = index.nearest(index.end(number), limit)
        everything = naive(texts, tokens)
        lengths = sorted((occurrence.length for occurrence in everything), reverse=True)
        assert [occurrence.length for occurrence in found] == lengths[:limit]
        assert set(found) <= everything


@given(text=st.lists(st.integers(0, 1), max_size=40), suffix=st.lists(st.integers(0, 1)))
def test_counts_how_often_each_suffix_was_followed_by_each_token(
    text: list[int], suffix: list[int]
) -> None:
    index = SuffixIndex()
    index.extend(0, text)
    index.extend(1, suffix)
    found = [place for place in index.nearest(index.end(1), limit=1000) if place.text == 0]
    for size in range(1, min(len(suffix), DEPTH) + 1):
        for token in (0, 1):
            wanted = [*suffix[-size:], token]
            starts = range(len(text) - size)
            count = sum(text[start : start + size + 1] == wanted for start in starts)
            places = [place for place in found if place.length >= size]
            places = [place for place in places if place.position >= size]  # not by the mark
            assert sum(text[place.position] == token for place in places) == count


@given(tokens=words, more=st.lists(st.integers(0, 2), max_size=40))
def test_a_context_can_be_cut_to_what_came_last(tokens: list[int], more: list[int]) -> None:
    whole, tail = SuffixIndex(), SuffixIndex()
    whole.extend(0, tokens + more)
    tail.extend(0, more)

    assert since(whole.end(0), len(more)) == tail.end(0)


def test_of_equal_pasts_the_latest_comes_first() -> None:
    index = SuffixIndex()
    index.extend(0, [7] * (DEPTH + 3))

    found = index.nearest(index.end(0), limit=2)

    assert [occurrence.position for occurrence in found] == [DEPTH + 2, DEPTH + 1]
    assert [occurrence.length for occurrence in found] == [DEPTH, DEPTH]


def test_the_largest_token_numbers_are_told_from_the_mark() -> None:
    index = SuffixIndex()
    index.extend(0, [2**32 - 2, 5])
    index.extend(1, [2**31, 2**32 - 2])

    found = index.nearest(index.end(1), limit=8)

    assert found == [Occurrence(0, 1, 1)]
