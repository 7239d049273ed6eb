"""Where a run of tokens stood before: all tokens of some texts, sorted by what precedes them.

The `DEPTH` tokens before a token, read backwards, are its *context*. Sorted by context, the tokens
whose past agrees longest with the end of a text are neighbours, however long that is, so that one
bisection finds them all. This is a suffix array of the reversed texts, cut at a depth, and kept
sorted as they grow: it has the matches and the counts of a suffix tree, and no nodes to keep.

Contexts are bytes, the most recent token first, so that comparing two of them is one comparison of
memory, and one more token goes to the front while the oldest falls off. In front of a text stands a
mark that is no token, in which beginnings agree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Context = bytes

DEPTH = 32
"""Tokens of a context; agreement beyond them is not seen."""

_WIDTH = 4  # bytes of a token
_BEGINNING = b"\xff" * _WIDTH * DEPTH
_BEHIND_ALL = b"\xff" * 9  # sorts behind every place


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The token at ``position`` of a text: ``length`` tokens before it agree with the end that was
    looked up; the mark in front of the text counts as one."""

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
        self._entries: list[bytes] = []
        """A context and the place behind it each, sorted; of equal contexts the latest is last."""

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
            sorts_as = entry.end + _place(text, len(entry.tokens))
            self._entries.insert(bisect_left(self._entries, sorts_as), sorts_as)
            entry.tokens.append(token)
            entry.end = _bytes(token) + entry.end[:-_WIDTH]

    def truncate(self, text: int, length: int) -> None:
        """Forget the tokens of ``text`` from position ``length`` on, as if they had never been."""
        entry = self._texts[text]
        while len(entry.tokens) > length:
            entry.tokens.pop()
            entry.end = _context(entry.tokens)
            sorts_as = entry.end + _place(text, len(entry.tokens))
            del self._entries[bisect_left(self._entries, sorts_as)]

    def remove(self, text: int) -> None:
        """Forget a text."""
        self.truncate(text, 0)
        del self._texts[text]

    def nearest(self, context: Context, limit: int) -> list[Occurrence]:
        """At most ``limit`` tokens whose past agrees with ``context``, longest agreement first.

        Where too many agree equally long, those are taken whose past before that is nearest in
        order: as good as any.
        """
        at = bisect_left(self._entries, context + _BEHIND_ALL)
        before = self._agreeing(context, range(at - 1, max(at - 1 - limit, -1), -1))
        behind = self._agreeing(context, range(at, min(at + limit, len(self._entries))))
        found = sorted([*before, *behind], key=lambda occurrence: -occurrence.length)
        return found[:limit]

    def _agreeing(self, context: Context, numbers: range) -> Iterator[Occurrence]:
        for number in numbers:
            entry = self._entries[number]
            length = agreement(context, entry[: len(context)])
            if not length:
                return
            place = int.from_bytes(entry[len(context) :], "big")
            text, position = place >> 32, place & 0xFFFFFFFF
            yield Occurrence(text, position, min(length, position + 1))


def agreement(one: Context, other: Context) -> int:
    """How many tokens two contexts have in common, counted from the most recent."""
    difference = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return DEPTH + (-difference.bit_length()) // (8 * _WIDTH)


def since(context: Context, num_tokens: int) -> Context:
    """The context as it would be if its text had begun ``num_tokens`` ago."""
    return (context[: _WIDTH * num_tokens] + _BEGINNING)[: len(_BEGINNING)]


def _context(tokens: list[int]) -> Context:
    """The context behind ``tokens``."""
    latest = b"".join(map(_bytes, reversed(tokens[-DEPTH:])))
    return (latest + _BEGINNING)[: len(_BEGINNING)]


def _bytes(token: int) -> bytes:
    return token.to_bytes(_WIDTH, "big")


def _place(text: int, position: int) -> bytes:
    return (text << 32 | position).to_bytes(8, "big")
