"""Answers that have ended, kept to be drafted again: bounded, and forgotten oldest first.

Of a request it knows the answer alone, never the prompt. It serves to propose and no more: what it
holds can make a later answer come sooner, not read differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from engine.drafters.suffix.index import Context, Occurrence, SuffixIndex

MAX_TOKENS = 1 << 16
"""Answers of so many tokens together are remembered; about 220 bytes each."""


class AnswerMemory:
    """The last answers that fit into ``max_tokens`` tokens, whole answers only."""

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._index = SuffixIndex()
        self._numbers = count()
        self._oldest = 0

    def __len__(self) -> int:
        """Tokens remembered."""
        return len(self._index)

    def add(self, answer: Sequence[int]) -> None:
        """Remember an answer, at the price of the oldest ones; one that would not fit alone is let
        go."""
        if not 0 < len(answer) <= self._max_tokens:
            return
        while len(self._index) + len(answer) > self._max_tokens:
            self._index.remove(self._oldest)
            self._oldest += 1
        self._index.extend(next(self._numbers), answer)

    def tokens(self, answer: int) -> Sequence[int]:
        """The tokens of an answer that `nearest` named."""
        return self._index.tokens(answer)

    def nearest(self, context: Context, limit: int) -> list[Occurrence]:
        """`SuffixIndex.nearest` over all answers."""
        return self._index.nearest(context, limit)
