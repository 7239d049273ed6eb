"""The tokenizer of one model folder: text to token ids and back.

It is made of the folder's own graphs (`engine.tokens.graphs`) and of what is noted beside them:
ids of special tokens, chat template. It does not render the template (`engine.tokens.template`)
and does not stream (`engine.tokens.detokenizer`). Safe to use from several threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.errors import ModelUnusableError
from engine.tokens.decoders import ByteDecoder, Decoder, PieceStream
from engine.tokens.detokenizer import StreamingTokenizer
from engine.tokens.graphs import LoadedDecoder, load_decoder, load_encoder
from engine.tokens.template import find_chat_template

_SPECIAL_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Special tokens by role (``bos_token`` ...), and all ids that never show in text.

    ``texts`` holds what the chat template may ask for by name.
    """

    ids: frozenset[int]
    by_role: Mapping[str, int]
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Verbatim:
    special_ids: frozenset[int]
    decoder: ByteDecoder

    def stream(self) -> PieceStream:
        return self.decoder.stream()


class Tokenizer:
    """Encodes and decodes for one model. Made by `load`."""

    def __init__(
        self,
        encode: Callable[[str], list[int]],
        decoder: Decoder,
        special: SpecialTokens,
        *,
        vocab_size: int,
        chat_template: str | None,
        spelling: tuple[bytes, ...] | None = None,
    ) -> None:
        self._encode = encode
        self._decoder = decoder
        self.special = special
        self.vocab_size = vocab_size
        """Tokens that have a text; the model's scores may be padded beyond it."""
        self.chat_template = chat_template
        """The template's source (Jinja); None where the model has none."""
        self.spelling = spelling
        """The bytes that each token adds to a text; None where they depend on its neighbours."""
        self._num_leading, self._num_trailing = self._count_added_tokens()

    @staticmethod
    def load(folder: Path) -> Tokenizer:
        """Read the tokenizer of a model folder.

        Raises:
            ModelUnusableError: a file is missing or cannot be read.
        """
        encoder, loaded = load_encoder(folder), load_decoder(folder)
        settings = _read_json(folder / "tokenizer_config.json")
        vocab_size = loaded.vocab_size or _read_json(folder / "config.json").get("vocab_size")
        if not isinstance(vocab_size, int):
            raise ModelUnusableError(
                f"Neither the detokenizer nor config.json in {folder} tells the size of the "
                "vocabulary: convert the model again.",
                param="model",
            )
        return Tokenizer(
            encoder.encode,
            loaded.decoder,
            _special_tokens(encoder.notes, settings, loaded),
            vocab_size=vocab_size,
            chat_template=find_chat_template(folder, settings, encoder.notes.get("chat_template")),
            spelling=loaded.spelling,
        )

    @property
    def eos_token_id(self) -> int | None:
        """Id of the end-of-sequence token; None where the tokenizer names none."""
        return self.special.by_role.get("eos_token")

    @property
    def bos_token_id(self) -> int | None:
        """Id of the beginning-of-sequence token; None where the tokenizer names none."""
        return self.special.by_role.get("bos_token")

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of all special tokens."""
        return self.special.ids

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Token ids of ``text``; never truncated.

        Special tokens that are spelled out in the text are encoded as such. ``add_special_tokens``
        adds those that the tokenizer itself puts around a text (often one at its beginning): right
        for a raw prompt, wrong for a rendered chat template, which spells them out.

        Raises:
            InvalidRequestError: the text is not Unicode (it holds half of a surrogate pair).
        """
        ids = self._encode(text)
        if add_special_tokens:
            return ids
        return ids[self._num_leading : len(ids) - self._num_trailing]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ``ids``; special tokens are left out unless asked for."""
        if skip_special_tokens:
            ids = [token for token in ids if token not in self.special.ids]
        return self._decoder.decode(ids)

    def stream(self) -> PieceStream:
        """A fresh stream of text from tokens, special tokens spelled out (see `Detokenizer`)."""
        return self._decoder.stream()

    def verbatim(self) -> StreamingTokenizer:
        """Streams that join the tokens' own bytes and leave out what some detokenizers do to a text
        afterwards: take away its first space, or spaces before punctuation."""
        assert self.spelling is not None
        return _Verbatim(self.special_ids, ByteDecoder(self.spelling, replace_invalid=True))

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, which may be part of a character; special tokens are spelled."""
        return self._decoder.piece(token)

    def token_text(self, token: int) -> str:
        """One token for showing: special tokens spelled, parts of a character as U+FFFD."""
        return self._decoder.piece(token).decode(errors="replace")

    def _count_added_tokens(self) -> tuple[int, int]:
        """How many special tokens the tokenizer puts before and after every text."""
        is_special = [token in self.special.ids for token in self._encode("a")]
        if all(is_special):
            return len(is_special), 0
        return is_special.index(False), is_special[::-1].index(False)


def _special_tokens(
    notes: Mapping[str, str], settings: Mapping[str, Any], loaded: LoadedDecoder
) -> SpecialTokens:
    by_role = {
        key.removesuffix("_id"): int(value)
        for key, value in notes.items()
        if key.endswith("_token_id") and int(value) >= 0
    }
    texts: dict[str, str] = {}
    for role in _SPECIAL_NAMES:
        text = settings.get(role)
        if isinstance(text, dict):
            text = cast(dict[str, object], text).get("content")
        if isinstance(text, str):
            texts[role] = text
        elif role in by_role:
            texts[role] = loaded.decoder.piece(by_role[role]).decode(errors="replace")
    ids = loaded.special_ids | frozenset(by_role.values())
    return SpecialTokens(ids, by_role, texts)


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelUnusableError(
            f"{path} is not valid JSON: download or convert the model again.", param="model"
        ) from error
    return cast(dict[str, Any], content) if isinstance(content, dict) else {}
