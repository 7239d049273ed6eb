"""What may come next in a structure, against the definition: what can still become a whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine.grammar import GrammarConstraint
from engine.grammar.compiler import _Vocabulary
from tests.engine.grammar.tiny import (
    CALL,
    END,
    LETTERS,
    PIECES,
    VOCAB_SIZE,
    allowed,
    compiled,
    constraint,
    ids,
)

words = st.text(LETTERS, min_size=1, max_size=5)


def expected(choices: list[str], text: bytes) -> set[int]:
    """By definition: the tokens after which one of the choices can still come about."""
    whole = [choice.encode() for choice in choices]
    found = {
        token
        for token, piece in enumerate(PIECES)
        if token not in (END, CALL) and any(one.startswith(text + piece) for one in whole)
    }
    return found | ({END} if text in whole else set())


@settings(deadline=None, max_examples=150)
@given(st.lists(words, min_size=1, max_size=5), st.data())
def test_allows_exactly_what_can_still_become_a_whole(
    choices: list[str], data: st.DataObject
) -> None:
    begun, path, text = constraint(choice=tuple(choices)), list[int](), b""
    while True:
        now = allowed(begun, path)
        assert now == expected(choices, text)
        token = data.draw(st.sampled_from(sorted(now)))
        if token == END:
            break
        path.append(token)
        text += PIECES[token]
        if data.draw(st.booleans()):  # a step ends: what was drafted is committed
            begun.commit(path)
            path.clear()
    begun.commit([*path, END])
    assert begun.failure is None
    assert text.decode() in choices


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_the_same_question_has_the_same_answer_whatever_was_asked_before(
    data: st.DataObject,
) -> None:
    grammar = compiled(regex="(a|bc)*(ab|c{2,3})")
    paths: list[tuple[int, ...]] = [()]
    for _ in range(6):
        path = data.draw(st.sampled_from(paths))
        tokens = sorted(allowed(grammar.begin(), path) - {END})
        if tokens:
            paths.append((*path, data.draw(st.sampled_from(tokens))))
    asked = grammar.begin()
    for path in data.draw(st.lists(st.sampled_from(paths), max_size=20)):
        fresh = grammar.begin()
        assert allowed(asked, path) == allowed(fresh, path)
        token = data.draw(st.integers(0, VOCAB_SIZE - 1))
        assert asked.admits(path, token) == (token in allowed(fresh, path))


def test_committing_at_once_or_one_by_one_is_the_same() -> None:
    grammar = compiled(regex="[abc]{2,6}")
    at_once, one_by_one = grammar.begin(), grammar.begin()
    for token in ids("a", "bc", "a"):
        one_by_one.commit([token])
    at_once.allowed(ids("ab"))  # a draft that came to nothing
    at_once.commit(ids("a", "bc", "a"))
    assert allowed(at_once) == allowed(one_by_one)


def test_a_complete_structure_leaves_end_tokens_alone() -> None:
    begun = constraint(choice=("ab",))
    begun.commit(ids("ab"))
    assert allowed(begun) == {END}


def test_special_and_padding_tokens_never_come() -> None:
    begun = constraint(regex=r"[\s\S]*")
    assert allowed(begun) & {CALL, *range(len(PIECES), VOCAB_SIZE)} == set()


def test_a_special_token_is_not_its_spelling() -> None:
    assert allowed(constraint(regex="<call>|a")) == set(ids("a"))


def test_a_character_may_come_in_parts_but_not_in_half() -> None:
    first, second = (PIECES.index(bytes([byte])) for byte in "é".encode())
    begun = constraint(regex="[^a]?")
    assert first in allowed(begun)
    assert second not in allowed(begun)
    assert allowed(begun, [first]) == {second}
    assert allowed(begun, [first, second]) == {END}


def test_several_end_tokens_and_one_that_has_a_text() -> None:
    (letter,) = ids("c")
    begun = constraint(ends=(END, letter), regex="a+c?")
    assert letter not in allowed(begun)
    assert {END, letter} <= allowed(begun, ids("a"))
    assert begun.admits(ids("a"), letter)
    begun.commit([*ids("a"), letter])
    assert begun.failure is None


def test_no_token_of_a_block_is_exempt_wherever_it_stands() -> None:
    """A mark that ends a thought, drafted as the first of a block, frees nothing behind it."""
    begun = constraint(choice=("ab", "ba"))
    assert not begun.admits((), CALL)
    assert begun.admits((), *ids("a"))
    assert not begun.admits(ids("a"), CALL)
    assert begun.admits(ids("a"), *ids("b"))
    assert not begun.admits(ids("a", "b"), *ids("c"))


BEYOND_THE_TOKENS = "(a|b)(ab)?z"
NOWHERE = "no token of this model can go on with it"


def test_a_structure_that_no_token_can_go_on_with_ends_and_says_so() -> None:
    begun = constraint(regex=BEYOND_THE_TOKENS)
    assert allowed(begun, ids("a", "ab")) == {END}  # seen on the way, and not the answer yet
    assert begun.failure is None
    begun.commit(ids("a"))
    assert allowed(begun, ()) == set(ids("a", "ab"))
    begun.commit(ids("ab"))
    assert allowed(begun) == {END}
    assert begun.failure == NOWHERE
    begun.commit([END])
    assert begun.failure is not None


def test_a_dead_end_that_is_passed_within_one_step_is_told_of_as_well() -> None:
    begun = constraint(regex=BEYOND_THE_TOKENS)
    assert allowed(begun, ids("a", "ab")) == {END}
    begun.commit([*ids("a", "ab"), END])
    assert begun.failure == NOWHERE


def test_a_limit_of_the_library_that_is_met_on_a_draft_does_not_spoil_the_answer() -> None:
    vocabulary = LLTokenizer(
        TokenizerWrapper(_Vocabulary((*PIECES, *(b"",) * (VOCAB_SIZE - len(PIECES))), frozenset()))
    )
    lark = 'start: "a" "b" | "b" start start | "b" start start start | "b"\n'
    lark += '%llguidance {"no_forcing": true}'
    start = LLMatcher(vocabulary, lark, log_level=0, limits=LLParserLimits(max_items_in_row=30))

    def begin() -> GrammarConstraint:
        return GrammarConstraint(start, VOCAB_SIZE, np.array([END]))

    begun = begin()
    path: list[int] = []
    while begun.admits(path, *ids("b")):
        path += ids("b")
        assert len(path) < 100, "no limit was met"
    assert allowed(begun) == allowed(begin())
    assert allowed(begun, ids("a")) == set(ids("b"))
    begun.commit([*path, *ids("b")])  # which was allowed: nobody looks so far ahead
    assert allowed(begun) == {END}
    assert "items" in (begun.failure or "")


@pytest.mark.parametrize("text", ["ab", "", "abab"])
def test_an_expression_is_matched_as_a_whole(text: str) -> None:
    begun = constraint(regex="^(ab)*$")
    assert END in allowed(begun, ids(*text))
    assert not begun.admits(ids(*text), *ids("c"))
