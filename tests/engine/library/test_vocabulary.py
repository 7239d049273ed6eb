"""Vocabularies from both kinds of files, and what makes two of them differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelUnusableError
from engine.library.vocabulary import first_difference, read_vocabulary
from tests.engine.library.tiny_folders import write_graph

PIECES = (b"<s>", b"a", b" b", "ä".encode()[:1], b"\n")


def write_json(folder: Path, **content: Any) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")


def test_the_graph_gives_bytes_of_tokens_that_are_no_text(tmp_path: Path) -> None:
    write_graph(tmp_path, PIECES)
    assert read_vocabulary(tmp_path) == PIECES


def test_a_byte_level_json_gives_the_same_bytes(tmp_path: Path) -> None:
    vocab = {"a": 1, "Ġb": 2, "Ã": 3, "Ċ": 4}
    added = [{"id": 0, "content": "<s>"}]
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteLevel"}]}
    write_json(tmp_path, model={"vocab": vocab}, added_tokens=added, decoder=decoder)
    assert read_vocabulary(tmp_path) == PIECES


def test_a_json_with_scores_is_in_order_of_ids(tmp_path: Path) -> None:
    write_json(tmp_path, model={"vocab": [["<unk>", 0.0], ["▁a", -1.5]]})
    assert read_vocabulary(tmp_path) == (b"<unk>", "▁a".encode())


def test_an_id_that_nothing_stands_for_keeps_its_place(tmp_path: Path) -> None:
    write_json(tmp_path, model={"vocab": {"a": 0, "c": 2}})
    assert read_vocabulary(tmp_path) == (b"a", b"", b"c")


@pytest.mark.parametrize(
    "padding", [(b"", b""), (b"[PAD5]", b"[PAD6]")], ids=["empty", "as GGUF files have it"]
)
def test_padding_at_the_end_is_no_part_of_a_vocabulary(
    tmp_path: Path, padding: tuple[bytes, ...]
) -> None:
    write_graph(tmp_path, (*PIECES, *padding))
    assert read_vocabulary(tmp_path) == PIECES


def test_a_token_that_only_looks_like_padding_is_kept(tmp_path: Path) -> None:
    write_graph(tmp_path, (b"a", b"[PAD]", b"[PAD7]"))
    assert read_vocabulary(tmp_path) == (b"a", b"[PAD]", b"[PAD7]")


def test_a_folder_without_a_vocabulary_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusableError, match="convert_tokenizer"):
        read_vocabulary(tmp_path)
    write_graph(tmp_path, PIECES, source="Parameter")
    with pytest.raises(ModelUnusableError, match="convert_tokenizer"):
        read_vocabulary(tmp_path)


@pytest.mark.parametrize("name", ["openvino_detokenizer.xml", "openvino_detokenizer.bin"])
def test_a_damaged_graph_is_refused(tmp_path: Path, name: str) -> None:
    write_graph(tmp_path, PIECES)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) - 3])
    with pytest.raises(ModelUnusableError, match="cannot be read"):
        read_vocabulary(tmp_path)


@pytest.mark.parametrize("content", ["[1]", '{"model": {}}', "{", '{"model": {"vocab": 3}}'])
def test_a_damaged_json_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelUnusableError, match="cannot be read"):
        read_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("other", "token"),
    [
        (PIECES, None),
        ((*PIECES[:2], b"b", *PIECES[3:]), 2),
        (PIECES[:4], 4),
        ((*PIECES, b"c"), 5),
        (PIECES[::-1], 0),
    ],
)
def test_the_first_difference_is_the_lowest_id(other: tuple[bytes, ...], token: int | None) -> None:
    assert first_difference(PIECES, other) == token
    assert first_difference(other, PIECES) == token
