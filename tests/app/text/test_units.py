"""Streaming Markdown gives the same units as parsing it whole, whatever the cuts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.units import StreamingMarkdown, Unit, parse

TEXTS = (
    "One paragraph\nof two lines.\n\nAnother *one* with `code`.\n",
    "# Heading\n\n1. one\n2. two\n   - deep\n   - deeper\n3. three\n\nafter\n",
    "text\n\n```python\ndef f():\n    return 1\n\n\nx = 2\n```\n\nmore\n",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 | 4 |\n\nend\n",
    "> quoted\n> more\n\n- a\n- b\n\n---\n\nTitle\n=====\n\n    indented code\n",
    "- first\n\n  second paragraph of first\n- next\n\n7. seven\n8. eight\n",
    "<b>html</b> stays text\n\n<div>\nalso\n</div>\n\n![alt](http://x/y.png)\n",
)


def shape(units: list[Unit]) -> list[tuple[object, ...]]:
    """What is drawn of units: kinds and contents, list numbers, without source positions."""
    return [
        (
            unit.is_item,
            unit.ordinal,
            tuple((token.type, token.tag, token.content, token.info) for token in unit.tokens),
        )
        for unit in units
    ]


def streamed(text: str, cuts: list[int]) -> list[Unit]:
    """The units after ``text`` has come in pieces that end at ``cuts``."""
    streaming = StreamingMarkdown()
    units: list[Unit] = []
    for cut in [*sorted(cuts), len(text)]:
        change = streaming.update(text[:cut])
        units = [*units[: change.keep], *change.units]
    return units


@pytest.mark.parametrize("text", TEXTS)
def test_growing_by_single_characters_ends_like_parsing_whole(text: str) -> None:
    assert shape(streamed(text, list(range(1, len(text))))) == shape(parse(text))


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 600), max_size=25),
)
def test_any_cuts_end_like_parsing_whole(blocks: list[str], cuts: list[int]) -> None:
    text = "\n".join(blocks)
    assert shape(streamed(text, [min(cut, len(text)) for cut in cuts])) == shape(parse(text))


def test_only_the_last_unit_is_given_again() -> None:
    streaming = StreamingMarkdown()
    streaming.update("one\n\ntwo\n\nthr")
    change = streaming.update("one\n\ntwo\n\nthree\n\nfo")
    assert change.keep == 1
    change = streaming.update("one\n\ntwo\n\nthree\n\nfour\n")
    assert change.keep == 2
    assert len(change.units) == 2


def test_a_long_list_is_settled_item_by_item_and_keeps_its_numbers() -> None:
    text = "".join(f"1. item {number}\n" for number in range(50))
    streaming = StreamingMarkdown()
    for cut in range(0, len(text), 7):
        streaming.update(text[:cut])
    change = streaming.update(text)
    assert change.keep >= 47
    assert change.units[-1].ordinal == 50


def test_another_text_starts_over() -> None:
    streaming = StreamingMarkdown()
    streaming.update("one\n\ntwo\n\nthree\n")
    change = streaming.update("something else")
    assert change.keep == 0
    assert len(change.units) == 1
