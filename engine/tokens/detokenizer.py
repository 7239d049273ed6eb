"""Text from tokens, one at a time: never half a character, and never a letter that is taken back.

The pushed texts and the final one join to what `Tokenizer.decode` gives for all ids at once. How
that is done is the decoder's business; here special tokens are left out.
"""

from __future__ import annotations

from typing import Protocol

from engine.tokens.decoders import PieceStream


class StreamingTokenizer(Protocol):
    """What the detokenizer needs of a tokenizer."""

    @property
    def special_ids(self) -> frozenset[int]: ...

    def stream(self) -> PieceStream: ...


class Detokenizer:
    """Streams the text of one sequence, special tokens left out. Used from one thread."""

    def __init__(self, tokenizer: StreamingTokenizer) -> None:
        self._special_ids = tokenizer.special_ids
        self._stream = tokenizer.stream()

    def push(self, token: int) -> str:
        """Text that ``token`` settles; empty while a character is incomplete.

        A special token has no text, so it neither ends a character nor breaks one.
        """
        return "" if token in self._special_ids else self._stream.push(token)

    def flush(self) -> str:
        """The rest, after the last token: what is incomplete now stays so."""
        return self._stream.flush()
