"""Streams through a decoder of which nothing is known but that distant tokens do not matter.

Used where the decoder is a graph that does more than join bytes (`engine.tokens.decoders`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.tokens.utf8 import REPLACEMENT

_CONTEXT = 8
"""Tokens that stay in the window: more than the four that one character can be spread over."""

_MAX_WINDOW = 16
"""Tokens at which the window is cut back; the distance to _CONTEXT spreads the cost of cutting."""

_MAX_PENDING = 3
"""Marks of a broken character that its missing bytes may still mend."""

_LOOK_AHEAD = 3
"""Letters, from a space on, that the next may still change: clean-up turns " n't" into "n't"."""


class WindowStream:
    """Gives the text of one sequence token by token, from the text of a short window.

    ``decode`` gives the text of a few tokens. How it treats the beginning of a text (SentencePiece
    drops one space there) does not show: a window's text is only ever compared with the text of the
    same tokens and more. ``looks_ahead`` says that later tokens can change earlier text. The window
    never grows with the answer, so that neither does the cost of a token. Example, the euro sign
    spread over two tokens::

        window [The]          "The"        -> "The"
        window [The, e2 82]   "The\\ufffd"  -> ""     the last character may still be mended
        window [The, e2 82, ac]  "The€"    -> "€"
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], *, looks_ahead: bool) -> None:
        self._decode = decode
        self._looks_ahead = looks_ahead
        self._window: list[int] = []
        self._num_shown = 0
        """Letters of the window's text that have gone out already."""

    def push(self, token: int) -> str:
        """Text that ``token`` settles."""
        self._window.append(token)
        text = self._decode(self._window)
        end = max(self._num_shown, self._settled_length(text))
        shown, self._num_shown = text[self._num_shown : end], end
        if len(self._window) >= _MAX_WINDOW:
            self._cut_back(text[end:])
        return shown

    def flush(self) -> str:
        """The rest, after the last token."""
        rest = self._decode(self._window)[self._num_shown :] if self._window else ""
        self._window, self._num_shown = [], 0
        return rest

    def _settled_length(self, text: str) -> int:
        end = len(text)
        while end > 0 and len(text) - end < _MAX_PENDING and text[end - 1] == REPLACEMENT:
            end -= 1
        if self._looks_ahead:
            space = text.find(" ", max(0, end - _LOOK_AHEAD), end)
            end = end if space < 0 else space
        return end

    def _cut_back(self, held: str) -> None:
        """Drop the oldest tokens, unless the rest would not end in what is held back."""
        rest = self._window[-_CONTEXT:]
        text = self._decode(rest)
        if text.endswith(held):
            self._window, self._num_shown = rest, len(text) - len(held)
