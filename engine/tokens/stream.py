"""The text of one answer as it may be shown: detokenized, and cut at stop strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.tokens.detokenizer import Detokenizer, StreamingTokenizer
from engine.tokens.stops import StopStrings


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What one token does to the text.

    ``text`` may be shown now. ``token_text`` is what the token itself adds, before any stop string:
    a character spread over several tokens belongs to the last of them, and a special token adds
    nothing. ``stopped``: a stop string is complete, and this token is the last of the answer.
    """

    text: str
    token_text: str
    stopped: bool


class TextStream:
    """Turns the tokens of one sequence into text that may be shown. Used from one thread.

    Tokens are cut with the text: the token that completes a stop string is the sequence's last
    token id, and it stays among them whether or not the stop string stays in the text. A token
    pushed after that has no effect, so nothing leaks from the rest of an accepted block.
    """

    def __init__(
        self, tokenizer: StreamingTokenizer, stop_strings: Sequence[str], include_stop: bool
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopStrings(stop_strings, include_stop)

    def push(self, token: int) -> TextDelta:
        """Take the next token."""
        token_text = self._detokenizer.push(token)
        released = self._stops.push(token_text)
        return TextDelta(released.text, token_text, released.hit)

    def finish(self) -> str:
        """The tail: text that was held back and that no push has given. Empty after a stop."""
        released = self._stops.push(self._detokenizer.flush())
        return released.text if released.hit else released.text + self._stops.flush()
