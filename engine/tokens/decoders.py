"""The two ways from token ids to text: bytes joined in Python, or a graph run as it is.

Most detokenizer graphs of byte-level vocabularies only look up bytes, join them and validate UTF-8.
A call of such a graph costs 170 microseconds on the reference machine however short the input, and
a stream needs one for each token. So where a graph is recognised as that and no more
(`engine.tokens.graphs`), its vocabulary is taken out and `ByteDecoder` does the same in Python, in
a few microseconds; the tests hold it against the graph. Any other graph runs as `GraphDecoder`.

Neither leaves out special tokens: that is a matter of ids, and the tokenizer's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import openvino as ov

from engine.tokens import utf8
from engine.tokens.window import WindowStream


class PieceStream(Protocol):
    """Text of one sequence, token by token. The texts of all pushes and of the final flush join to
    the decoder's text of all tokens at once."""

    def push(self, token: int) -> str:
        """Text that ``token`` settles; empty while a character is incomplete."""
        ...

    def flush(self) -> str:
        """The rest, after the last token."""
        ...


class Decoder(Protocol):
    """Turns token ids into text. Safe to use from several threads; its streams are not."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of all tokens; ids outside the vocabulary have none."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes of one token on its own, which may be a part of a character."""
        ...

    def stream(self) -> PieceStream:
        """A fresh stream."""
        ...


@dataclass(frozen=True, slots=True)
class ByteDecoder:
    """The decoder of a byte-level vocabulary; ``pieces`` are the bytes of each token by id."""

    pieces: tuple[bytes, ...]
    replace_invalid: bool

    def decode(self, ids: Sequence[int]) -> str:
        """The text of all tokens."""
        data = b"".join(self.piece(token) for token in ids)
        return utf8.decode(data, replace_invalid=self.replace_invalid)

    def piece(self, token: int) -> bytes:
        """The bytes of one token."""
        return self.pieces[token] if 0 <= token < len(self.pieces) else b""

    def stream(self) -> PieceStream:
        """A fresh stream."""
        return _ByteStream(self)


class _ByteStream:
    def __init__(self, decoder: ByteDecoder) -> None:
        self._decoder = decoder
        self._text = utf8.Utf8Stream(replace_invalid=decoder.replace_invalid)

    def push(self, token: int) -> str:
        return self._text.push(self._decoder.piece(token))

    def flush(self) -> str:
        return self._text.flush()


class GraphDecoder:
    """Runs a detokenizer graph, int64[1, n] to one string; threads take turns."""

    def __init__(self, request: ov.InferRequest, *, looks_ahead: bool) -> None:
        self._request = request
        self._looks_ahead = looks_ahead
        self._lock = threading.Lock()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of all tokens."""
        if not ids:
            return ""
        with self._lock:
            self._request.set_input_tensor(ov.Tensor(np.array([ids], np.int64)))
            self._request.infer()
            return str(self._request.get_output_tensor().str_data[0])

    def piece(self, token: int) -> bytes:
        """The bytes of one token; of a part of a character, what the graph makes of it."""
        return self.decode([token]).encode()

    def stream(self) -> PieceStream:
        """A fresh stream."""
        return WindowStream(self.decode, looks_ahead=self._looks_ahead)
