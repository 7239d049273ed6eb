"""Reads the two graphs of a model folder that turn text into tokens and back.

They are compiled for the CPU, with the operations that the extension ``openvino_tokenizers``
registers when it is imported (it needs neither transformers nor torch). One thread each: the
strings of one request give the graphs nothing to share out.

No graph node may outlive these functions: a node that is freed after the extension's library was
unloaded takes the process down at exit.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import openvino as ov
import openvino_tokenizers as _register  # pyright: ignore[reportMissingTypeStubs]
from openvino import opset15

from engine.errors import InvalidRequestError, ModelUnusableError
from engine.tokens.decoders import ByteDecoder, Decoder, GraphDecoder

assert _register  # imported for its effect

_opset = cast(Any, opset15)  # its stubs are incomplete

ENCODER_FILE = "openvino_tokenizer.xml"
DECODER_FILE = "openvino_detokenizer.xml"

_NO_LIMIT = 2**31 - 1 - 64  # the largest length that the Truncate operation takes without overflow
_SPACE_MARK = "▁".encode()  # SentencePiece's
_BYTE_PIECE = re.compile(rb"<0x[0-9A-F]{2}>")
_BYTE_LEVEL = ["FuzeRagged", "StringTensorPack", "UTF8Validate", "VocabDecoder"]
_PLUMBING = {"Constant", "Convert", "Parameter", "Result", "Slice"}
_NOTES = ("bos_token_id", "eos_token_id", "pad_token_id", "chat_template")


@dataclass(frozen=True, slots=True)
class Encoder:
    """``encode`` gives the ids of a text with the tokenizer's own special tokens, never truncated.

    Calls from several threads take turns. ``notes`` is what was stored with the graph, such as
    ``eos_token_id`` and ``chat_template``.
    """

    encode: Callable[[str], list[int]]
    notes: dict[str, str]


@dataclass(frozen=True, slots=True)
class LoadedDecoder:
    """A decoder, the size of its vocabulary (None where the graph hides it), the ids that the
    graph would leave out as special, and the bytes that each token adds to a text before the graph
    tidies the whole of it (None where it does more with a token than look it up)."""

    decoder: Decoder
    vocab_size: int | None
    special_ids: frozenset[int]
    spelling: tuple[bytes, ...] | None


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    pieces: tuple[bytes, ...]
    special_ids: frozenset[int]


def load_decoder(folder: Path) -> LoadedDecoder:
    """Read the detokenizer of a model folder.

    Raises:
        ModelUnusableError: the file is missing or cannot be read.
    """
    model = _read(folder, DECODER_FILE)
    vocabulary = _read_vocabulary(model)
    if vocabulary is None:
        decoder = GraphDecoder(_compile(model), looks_ahead=_looks_ahead(model))
        return LoadedDecoder(decoder, None, frozenset(), None)
    steps = sorted({op.get_type_name() for op in model.get_ops()} - _PLUMBING)
    if steps == _BYTE_LEVEL:
        replace = bool(_find(model, "UTF8Validate")[0].get_attributes()["replace_mode"])
        decoder = ByteDecoder(vocabulary.pieces, replace)
    else:
        _keep_special_tokens(model)
        decoder = GraphDecoder(_compile(model), looks_ahead=_looks_ahead(model))
    return LoadedDecoder(
        decoder, len(vocabulary.pieces), vocabulary.special_ids, _spell(model, vocabulary.pieces)
    )


def load_encoder(folder: Path) -> Encoder:
    """Read the tokenizer of a model folder.

    Raises:
        ModelUnusableError: the file is missing or cannot be read.
    """
    model = _read(folder, ENCODER_FILE)
    notes = {key: str(model.get_rt_info([key]).value) for key in _NOTES if model.has_rt_info([key])}
    _remove_truncation(model)
    request = _compile(model)
    lock = threading.Lock()

    def encode(text: str) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestError(
                "The text contains half of a surrogate pair, which is no character: remove it."
            ) from error
        with lock:
            request.set_input_tensor(ov.Tensor([text]))
            request.infer()
            return request.get_tensor("input_ids").data.reshape(-1).tolist()

    return Encoder(encode, notes)


def _read(folder: Path, name: str) -> ov.Model:
    path = folder / name
    if not path.is_file():
        raise ModelUnusableError(
            f"The model folder {folder} has no {name}: convert its tokenizer with "
            "'convert_tokenizer --with-detokenizer', or import the model again.",
            param="model",
        )
    try:
        return cast(Any, ov.Core()).read_model(path)
    except RuntimeError as error:
        raise ModelUnusableError(
            f"{path} cannot be read: import or download the model again.", param="model"
        ) from error


def _compile(model: ov.Model) -> ov.InferRequest:
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1})
    return compiled.create_infer_request()


def _find(model: ov.Model, type_name: str) -> list[Any]:
    return [op for op in model.get_ordered_ops() if op.get_type_name() == type_name]


def _read_vocabulary(model: ov.Model) -> _Vocabulary | None:
    found = _find(model, "VocabDecoder")
    if len(found) != 1:
        return None
    sources = [source.get_node() for source in found[0].input_values()]
    if any(node.get_type_name() != "Constant" for node in sources[1:4]):
        return None
    begins, ends, chars = (node.data for node in sources[1:4])
    raw = bytes(chars)
    pieces = tuple(
        raw[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    )
    special: list[int] = list(found[0].get_attributes().get("skip_tokens", []))
    if len(sources) == 5:  # newer graphs: all special ids, or a slice of them (what is skipped)
        node = sources[4]
        if node.get_type_name() == "Slice":
            node = node.input_value(0).get_node()
        special = node.data.tolist() if node.get_type_name() == "Constant" else []
    return _Vocabulary(pieces, frozenset(special))


def _spell(model: ov.Model, pieces: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """`LoadedDecoder.spelling`: what the steps before the tokens are joined make of each piece."""
    for op in model.get_ordered_ops():
        match op.get_type_name():
            case "FuzeRagged":
                return pieces
            case "RegexNormalization" if _constant_bytes(op, 1) == _SPACE_MARK:
                space = _constant_bytes(op, 0)
                pieces = tuple(piece.replace(_SPACE_MARK, space) for piece in pieces)
            case "ByteFallback":
                pieces = tuple(
                    bytes([int(piece[3:5], 16)]) if _BYTE_PIECE.fullmatch(piece) else piece
                    for piece in pieces
                )
            case name if name not in _PLUMBING | {"VocabDecoder"}:
                return None
            case _:
                pass
    return None


def _constant_bytes(op: Any, place_from_end: int) -> bytes:
    """A string constant among the last inputs of an operation; 0 is the very last one."""
    node = op.input_value(op.get_input_size() - 1 - place_from_end).get_node()
    return bytes(node.data) if node.get_type_name() == "Constant" else b""


def _keep_special_tokens(model: ov.Model) -> None:
    """Let the graph skip no token, if the ids to skip are an input (older graphs fix them)."""
    op = _find(model, "VocabDecoder")[0]
    if op.get_input_size() == 5:
        none = _opset.constant(np.empty(0, np.int32))
        op.input(4).replace_source_output(none.output(0))


def _looks_ahead(model: ov.Model) -> bool:
    """Whether a regular expression of the graph may span tokens.

    Harmless are those tied to the beginning or to the end of the text and the one that makes
    SentencePiece's mark a space.
    """
    for op in _find(model, "RegexNormalization"):
        node = op.input_value(op.get_input_size() - 2).get_node()
        pattern = bytes(node.data).decode(errors="replace") if hasattr(node, "data") else ""
        if not pattern.startswith(("^", "(^")) and pattern not in {"▁", " $"}:
            return True
    return False


def _remove_truncation(model: ov.Model) -> None:
    """Let no graph cut a long prompt silently; the engine refuses it with the figures instead."""
    limit = _opset.constant(_NO_LIMIT, np.int32).output(0)
    for op in _find(model, "Minimum"):  # Minimum(number of tokens, longest)
        for port in op.inputs():
            node = port.get_source_output().get_node()
            if node.get_type_name() == "Constant" and node.data.ndim == 0:
                port.replace_source_output(limit)
    for op in _find(model, "Truncate"):  # segments, then longest, side, mode
        port = op.input(op.get_input_size() - 3)
        source = port.get_source_output().get_node()
        if source.get_type_name() == "Select":  # Select(a state that switches it on, longest, none)
            port = source.input(1)  # the state must keep its reader
        port.replace_source_output(limit)
