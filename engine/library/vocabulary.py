"""The vocabulary of a model folder as bytes, read from its files without compiling anything.

It is there for comparison: two models speak the same language only if each id stands for the same
bytes in both. The detokenizer's graph holds these bytes as constants; a folder without it may have
the checkpoint's ``tokenizer.json``. It does not encode and it does not decode (`engine.tokens`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import numpy as np

from engine.errors import ModelUnusableError
from engine.library.folder import DETOKENIZER_FILES

TOKENIZER_JSON = "tokenizer.json"

Pieces = tuple[bytes, ...]


def read_vocabulary(folder: Path) -> Pieces:
    """The bytes of each token by id, without the padding at the end.

    Raises:
        ModelUnusableError: the folder has no vocabulary that can be read.
    """
    try:
        pieces = _from_graph(folder) or _from_json(folder)
    except (OSError, ValueError, KeyError, TypeError, ElementTree.ParseError) as error:
        raise ModelUnusableError(
            f"The vocabulary of {folder} cannot be read ({error}): convert its tokenizer again.",
            param="model",
        ) from error
    if not pieces:
        raise ModelUnusableError(
            f"{folder} has no vocabulary that can be read: convert its tokenizer with "
            "'convert_tokenizer --with-detokenizer'.",
            param="model",
        )
    return tuple(pieces[: _num_real(pieces)])


def first_difference(one: Pieces, other: Pieces) -> int | None:
    """The lowest id that does not stand for the same bytes in both; None if there is none."""
    if one == other:
        return None
    for token, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return token
    return min(len(one), len(other))


def _num_real(pieces: list[bytes]) -> int:
    """Tokens without the padding: ids without a text, or with the name that GGUF files give
    them."""
    length = len(pieces)
    while length and pieces[length - 1] in (b"", f"[PAD{length - 1}]".encode()):
        length -= 1
    return length


def _from_graph(folder: Path) -> list[bytes]:
    """From the constants that feed the graph's ``VocabDecoder``; empty if there are none.

    Its inputs 1 to 3 are int32 begins, int32 ends and uint8 characters.
    """
    paths = [folder / name for name in DETOKENIZER_FILES]
    if not all(path.is_file() for path in paths):
        return []
    graph = ElementTree.parse(paths[0]).getroot()
    layers = {layer.get("id"): layer for layer in graph.iterfind("layers/layer")}
    decoders = [key for key, layer in layers.items() if layer.get("type") == "VocabDecoder"]
    if len(decoders) != 1:
        return []
    sources = {
        edge.get("to-port"): layers[edge.get("from-layer")]
        for edge in graph.iterfind("edges/edge")
        if edge.get("to-layer") == decoders[0]
    }
    weights = paths[1].read_bytes()
    constants: list[bytes] = []
    for port in ("1", "2", "3"):
        data = sources[port].find("data")
        if sources[port].get("type") != "Const" or data is None:
            return []
        begin, size = int(data.attrib["offset"]), int(data.attrib["size"])
        constants.append(weights[begin : begin + size])
    begins, ends = (np.frombuffer(constant, np.int32).tolist() for constant in constants[:2])
    chars = constants[2]
    if max(ends, default=0) > len(chars):
        raise ValueError("its characters are cut off")
    return [chars[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _from_json(folder: Path) -> list[bytes]:
    """From the checkpoint's own tokenizer; empty if there is none."""
    path = folder / TOKENIZER_JSON
    if not path.is_file():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    vocab = content["model"]["vocab"]
    if isinstance(vocab, dict):
        texts = {token: text for text, token in cast("dict[str, int]", vocab).items()}
    else:
        scored = cast("list[tuple[str, float]]", vocab)
        texts = {token: text for token, (text, _) in enumerate(scored)}
    as_bytes = _BYTE_OF if _is_byte_level(content.get("decoder")) else {}
    pieces = {token: _encode(text, as_bytes) for token, text in texts.items()}
    for added in content.get("added_tokens", ()):
        pieces[added["id"]] = added["content"].encode()
    return [pieces.get(token, b"") for token in range(max(pieces, default=-1) + 1)]


def _encode(text: str, as_bytes: Mapping[str, int]) -> bytes:
    """The bytes of a token; one with characters that stand for no byte is written as it is."""
    if as_bytes and all(char in as_bytes for char in text):
        return bytes(as_bytes[char] for char in text)
    return text.encode()


def _is_byte_level(decoder: object) -> bool:
    if not isinstance(decoder, dict):
        return False
    description = cast("dict[str, object]", decoder)
    parts = cast("Iterable[object]", description.get("decoders") or ())
    return description.get("type") == "ByteLevel" or any(map(_is_byte_level, parts))


def _byte_alphabet() -> dict[str, int]:
    """Which byte a character stands for in a byte-level vocabulary (GPT-2's table): bytes that
    print stand for themselves, the others follow from U+0100 on, in order."""
    printing = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printing]
    alphabet = {chr(byte): byte for byte in printing}
    alphabet.update({chr(0x100 + place): byte for place, byte in enumerate(others)})
    return alphabet


_BYTE_OF = _byte_alphabet()
