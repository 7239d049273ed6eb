"""Markdown cut into units: pieces that no longer change once another one follows.

A unit is a top-level block, or one item of a top-level list. While an answer streams, only its
last unit can still change, so `StreamingMarkdown` parses from there on and says how many units
stay. Raw HTML stays text and pictures are never fetched. No Qt here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

_ITEM_LISTS = {"bullet_list_open": "bullet_list_close", "ordered_list_open": "ordered_list_close"}


@dataclass(frozen=True, slots=True)
class Unit:
    """``tokens`` of markdown-it; those of a list item come without the item's own pair.

    ``start`` is where the unit begins, in characters of the text that was parsed; ``line`` in
    lines.
    """

    tokens: tuple[Token, ...]
    start: int
    line: int
    is_item: bool = False
    ordinal: int | None = None
    """Number of an item in an ordered list."""


@dataclass(frozen=True, slots=True)
class Change:
    """The first ``keep`` units that were given before stay; ``units`` follow them."""

    keep: int
    units: tuple[Unit, ...]


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def parse(text: str) -> list[Unit]:
    """All units of ``text``."""
    starts = _line_starts(text)
    return [replace(unit, start=starts[unit.line]) for unit in _units(_parser().parse(text))]


def _line_starts(text: str) -> list[int]:
    starts = [0]
    place = text.find("\n")
    while place >= 0:
        starts.append(place + 1)
        place = text.find("\n", place + 1)
    return starts


def _units(tokens: list[Token]) -> Iterator[Unit]:
    place = 0
    while place < len(tokens):
        first = tokens[place]
        end = _closing(tokens, place)
        if first.type in _ITEM_LISTS:
            yield from _items(tokens[place : end + 1])
        else:
            yield Unit(tuple(tokens[place : end + 1]), 0, _line(first))
        place = end + 1


def _items(tokens: list[Token]) -> Iterator[Unit]:
    ordinal = list_start(tokens[0])
    place = 1
    while place < len(tokens) - 1:
        end = _closing(tokens, place)
        inner = tuple(tokens[place + 1 : end])
        yield Unit(inner, 0, _line(tokens[place]), True, ordinal)
        ordinal = None if ordinal is None else ordinal + 1
        place = end + 1


def list_start(token: Token) -> int | None:
    """The first number of an ordered list; None for a bullet list."""
    return None if token.type == "bullet_list_open" else int(token.attrGet("start") or 1)


def _closing(tokens: list[Token], place: int) -> int:
    depth = 0
    for end in range(place, len(tokens)):
        depth += tokens[end].nesting
        if depth == 0:
            return end
    return len(tokens) - 1


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


class StreamingMarkdown:
    """Takes growing versions of one text and gives what changed; costs what the change costs."""

    def __init__(self) -> None:
        self._text = ""
        self._frozen = 0
        self._tail = 0
        self._ordinal: int | None = None

    def update(self, text: str) -> Change:
        """The change from the text before; any text that does not continue it starts over."""
        if not text.startswith(self._text[-64:], max(0, len(self._text) - 64)):
            self._frozen, self._tail, self._ordinal = 0, 0, None
        self._text = text
        keep = self._frozen
        units = self._renumber(parse(text[self._tail :]))
        self._freeze(units)
        return Change(keep, tuple(units))

    def _renumber(self, units: list[Unit]) -> list[Unit]:
        """Go on counting where the text begins in the middle of an ordered list."""
        if self._ordinal is None or not units or units[0].ordinal is None:
            return units
        shift = self._ordinal - units[0].ordinal
        renumbered: list[Unit] = []
        for unit in units:
            if unit.ordinal is None:
                return renumbered + units[len(renumbered) :]
            renumbered.append(replace(unit, ordinal=unit.ordinal + shift))
        return renumbered

    def _freeze(self, units: list[Unit]) -> None:
        """Settle all units but the last one that begins before the unfinished line."""
        unfinished = self._text.rfind("\n") + 1 - self._tail
        last = len(units) - 1
        while last > 0 and units[last].start >= unfinished:
            last -= 1
        if last > 0:
            self._frozen += last
            self._tail += units[last].start
            self._ordinal = units[last].ordinal
