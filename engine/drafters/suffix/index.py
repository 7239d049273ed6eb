"""Where a run of tokens stood before: all tokens of some texts, sorted by what precedes them.

The `DEPTH` tokens before a token, read backwards, are its *context*. Sorted by context, the tokens
whose past agrees longest with the end of a text are neighbours, however long that is, so that one
bisection finds them all. This is a suffix array of the reversed texts, cut at a depth, and kept
sorted as they grow: it has the matches and the counts of a suffix tree, and no nodes to keep.

A context is one large number, whose digits of 32 bits are tokens, the most recent first. So the
order of contexts is that of numbers, and the first bit in which two differ tells how long they
agree. In front of a text stands a mark that is no token, in which beginnings agree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

Context = int

DEPTH = 32
"""Tokens of a context; agreement beyond them is not seen."""

_BITS = 32  # of a token, of the number of a text, and of a position in it
_NUM_BITS = _BITS * DEPTH
_LATEST = _NUM_BITS - _BITS  # where the most recent token of a context begins
_BEGINNING = (1 << _NUM_BITS) - 1  # marks alone
_MASK = (1 << _BITS) - 1


class Occurrence(NamedTuple):
    """The token at ``position`` of a text: ``length`` tokens before it agree with the end that was
    looked up; the mark in front of the text counts as one. (A tuple, since each step makes a
    dozen.)"""

    text: int
    position: int
    length: int


@dataclass(slots=True)
class _Text:
    tokens: list[int] = field(default_factory=list[int])
    end: Context = _BEGINNING


class SuffixIndex:
    """Texts by number. A token costs a bisection to append, to forget, and to look up."""

    def __init__(self) -> None:
        self._texts: dict[int, _Text] = {}
        self._entries: list[int] = []
        """Sorted: the digits of a context, then text and position of the token behind it."""

    def __len__(self) -> int:
        """Tokens of all texts."""
        return len(self._entries)

    def tokens(self, text: int) -> list[int]:
        """The tokens of a text; not to be changed."""
        return self._texts[text].tokens

    def end(self, text: int) -> Context:
        """The context of the token that comes next."""
        return self._texts[text].end

    def extend(self, text: int, tokens: Iterable[int]) -> None:
        """Append to a text, which is new when it is named for the first time."""
        entry = self._texts.setdefault(text, _Text())
        for token in tokens:
            found = _entry(entry.end, text, len(entry.tokens))
            self._entries.insert(bisect_left(self._entries, found), found)
            entry.tokens.append(token)
            entry.end = token << _LATEST | entry.end >> _BITS

    def truncate(self, text: int, length: int) -> None:
        """Forget the tokens of ``text`` from position ``length`` on, as if they had never been."""
        entry = self._texts[text]
        while len(entry.tokens) > length:
            entry.tokens.pop()
            entry.end = _context(entry.tokens[-DEPTH:])
            found = _entry(entry.end, text, len(entry.tokens))
            del self._entries[bisect_left(self._entries, found)]

    def remove(self, text: int) -> None:
        """Forget a text."""
        self.truncate(text, 0)
        del self._texts[text]

    def nearest(self, context: Context, limit: int) -> list[Occurrence]:
        """At most ``limit`` tokens whose past agrees with ``context``, longest agreement first.

        Where too many agree equally long, those are taken whose past before that is nearest in
        order: as good as any.
        """
        at = bisect_left(self._entries, _entry(context + 1, 0, 0))
        before = self._agreeing(context, range(at - 1, max(at - 1 - limit, -1), -1))
        behind = self._agreeing(context, range(at, min(at + limit, len(self._entries))))
        found = [*before, *behind]
        found.sort(key=attrgetter("length"), reverse=True)
        return found[:limit]

    def _agreeing(self, context: Context, numbers: range) -> Iterator[Occurrence]:
        for number in numbers:
            entry = self._entries[number]
            differs = (entry >> 2 * _BITS ^ context).bit_length()
            length = (_NUM_BITS - differs) // _BITS
            if not length:
                return
            position = entry & _MASK
            yield Occurrence(entry >> _BITS & _MASK, position, min(length, position + 1))


def since(context: Context, num_tokens: int) -> Context:
    """The context as it would be if its text had begun ``num_tokens`` ago."""
    return context | _BEGINNING >> _BITS * num_tokens


def _context(tokens: Sequence[int]) -> Context:
    """The context behind a text of at most `DEPTH` tokens, or behind the last ones of a longer."""
    context = _BEGINNING
    for token in tokens:
        context = token << _LATEST | context >> _BITS
    return context


def _entry(context: Context, text: int, position: int) -> int:
    return (context << _BITS | text) << _BITS | position
