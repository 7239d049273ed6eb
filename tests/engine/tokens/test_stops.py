"""Stop strings: cut exactly, wherever they lie, and nothing of them shown before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tokens import StopStrings


def run(stops: list[str], pieces: list[str], *, include: bool = False) -> tuple[str, bool]:
    """All that is released for ``pieces``, the end included, and whether a stop string was hit."""
    watcher = StopStrings(stops, include)
    text = ""
    for piece in pieces:
        released = watcher.push(piece)
        text += released.text
        if released.hit:
            return text, True
    return text + watcher.flush(), False


@pytest.mark.parametrize(
    ("stops", "pieces", "shown", "with_stop"),
    [
        (["stop"], ["one stop two"], "one ", "one stop"),
        (["stop"], ["one s", "to", "p two"], "one ", "one stop"),
        (["stop"], ["stop"], "", "stop"),
        (["aab"], ["aaab"], "a", "aaab"),
        (["aab"], ["a", "a", "a", "b"], "a", "aaab"),
        (["abab"], ["abaabab"], "aba", "abaabab"),
        (["\n\n"], ["a\n", "b\n", "\nc"], "a\nb", "a\nb\n\n"),
        # The first to be complete ends the text, though another begins earlier.
        (["bcde", "cd"], ["abcdef"], "ab", "abcd"),
        # Complete at the same letter: the longest is cut off.
        (["b", "ab"], ["xab"], "x", "xab"),
        (["ab", "b"], ["xab"], "x", "xab"),
        (["é", "😀"], ["a😀é"], "a", "a😀"),
    ],
)
def test_cuts_at_the_stop_string_that_is_complete_first(
    stops: list[str], pieces: list[str], shown: str, with_stop: str
) -> None:
    assert run(stops, pieces) == (shown, True)
    assert run(stops, pieces, include=True) == (with_stop, True)


def test_holds_back_no_more_than_could_begin_a_stop_string() -> None:
    watcher = StopStrings(["<end>"], include=False)
    assert watcher.push("a <").text == "a "
    assert watcher.push("en").text == ""
    assert watcher.push("g <e").text == "<eng "
    assert watcher.flush() == "<e"


def test_without_stop_strings_everything_passes_at_once() -> None:
    assert StopStrings((), include=False).push("abc").text == "abc"


def test_nothing_leaks_after_a_hit() -> None:
    watcher = StopStrings(["b"], include=True)
    assert watcher.push("abc").text == "ab"
    again = watcher.push("more")
    assert (again.text, again.hit, watcher.flush()) == ("", True, "")


@given(
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    pieces=st.lists(st.text("abc", max_size=4), max_size=8),
    include=st.booleans(),
)
def test_agrees_with_a_search_in_the_whole_text(
    stops: list[str], pieces: list[str], include: bool
) -> None:
    text = "".join(pieces)
    found = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    expected = (text, False)
    if found:
        end, start = min(found)
        expected = (text[: end if include else start], True)
    assert run(stops, pieces, include=include) == expected


@given(
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    pieces=st.lists(st.text("abc", max_size=4), max_size=8),
)
def test_what_was_shown_is_never_part_of_a_stop_string(stops: list[str], pieces: list[str]) -> None:
    watcher = StopStrings(stops, include=False)
    shown = ""
    for piece in pieces:
        released = watcher.push(piece)
        shown += released.text
        assert not any(stop in shown for stop in stops)
        if released.hit:
            break
