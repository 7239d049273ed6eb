"""How far one answer is in its structure, and what may come next; a `sampling.Constraint`.

One matcher walks along the paths that it is asked about: back to where a path parts from the one
before, and on from there. A step back costs microseconds, a copy of the matcher more, because
what it has learnt about the vocabulary would have to be copied with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher

from engine.noise import IdArray
from engine.sampling.constraint import AllowedTokens

_BITS_PER_WORD = 32
_NOWHERE_TO_GO = "no token of this model can go on with it"


class GrammarConstraint:
    """Begins at the beginning of the answer.

    ``start`` is a matcher that has read nothing; it is copied, not used up. Its tokens are the
    model's, ``vocab_size`` of them, and one behind them that stands for the end. ``ends`` int[e]
    are the tokens that mean the end to the model; none of them ever counts as text.
    """

    def __init__(self, start: LLMatcher, vocab_size: int, ends: IdArray) -> None:
        self._start = start
        self._ends = ends
        self._end_ids = frozenset[int](ends.tolist())
        self._end_mark = np.array([vocab_size])
        self._num_words = vocab_size // _BITS_PER_WORD + 1
        self._matcher = start.deep_copy()
        self._committed: list[int] = []
        self._path: list[int] = []  # what the matcher has read behind the committed tokens
        self._known: dict[tuple[int, ...], AllowedTokens] = {}
        self._dead_ends: dict[tuple[int, ...], str] = {}
        self._failure: str | None = None

    @property
    def failure(self) -> str | None:
        """`Constraint.failure`."""
        return self._failure or self._dead_ends.get(())

    def allowed(self, path: Sequence[int]) -> AllowedTokens:
        """`Constraint.allowed`; only the end remains where the structure cannot be completed."""
        key = tuple(path)
        if key not in self._known:
            self._known[key] = self._compute(key)
        return self._known[key]

    def admits(self, path: Sequence[int], token: int) -> bool:
        """`Constraint.admits`."""
        if token in self._end_ids:
            return bool(self.allowed(path).of(np.array([token]))[0])
        self._walk(path)
        admitted = self._matcher.try_consume_tokens([token]) == 1
        if self._matcher.is_error():
            self._begin_again()
            return False
        if admitted:
            self._path.append(token)
        return admitted

    def commit(self, tokens: Sequence[int]) -> None:
        """`Constraint.commit`; nothing follows an end token."""
        emitted = tuple(tokens)
        if emitted and emitted[-1] in self._end_ids:
            self._failure = self._dead_ends.get(emitted[:-1])
            emitted = emitted[:-1]
        self._walk(emitted)
        self._committed += emitted
        self._path.clear()
        self._known.clear()
        self._dead_ends.clear()

    def _compute(self, path: tuple[int, ...]) -> AllowedTokens:
        self._walk(path)
        words = np.zeros(self._num_words, np.dtype("<u4"))
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if self._matcher.is_error():  # the library's limits on time and memory, as a rule
            error = self._matcher.get_error().partition("\n")[0]
            reason = _NOWHERE_TO_GO if error == "NoExtensionBias" else error
            self._begin_again()
        else:
            reason = _NOWHERE_TO_GO
            found = AllowedTokens(words.view(np.uint8))
            may_end = found.of(self._end_mark)[0]
            found = found.without_tokens(np.concatenate((self._end_mark, self._ends)))
            if may_end:
                found = found.with_tokens(self._ends)
            if not found.is_empty:
                return found
        self._dead_ends[path] = reason
        return AllowedTokens(np.zeros_like(words).view(np.uint8)).with_tokens(self._ends)

    def _walk(self, path: Sequence[int]) -> None:
        """Bring the matcher to the end of ``path``."""
        shared = 0
        while shared < min(len(path), len(self._path)) and self._path[shared] == path[shared]:
            shared += 1
        if shared < len(self._path):
            self._matcher.rollback(len(self._path) - shared)
            del self._path[shared:]
        if rest := list(path[shared:]):
            self._matcher.consume_tokens(rest)
            self._path += rest

    def _begin_again(self) -> None:
        """A matcher that has met an error stays in it; what lies beyond must not spoil the rest."""
        self._matcher = self._start.deep_copy()
        self._matcher.consume_tokens(self._committed)
        self._path.clear()
