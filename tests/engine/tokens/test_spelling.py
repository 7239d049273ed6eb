"""The bytes of single tokens, and the text that they join to."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tokens import TextStream, Tokenizer

TEXT = "the fox, isn't it 'so'. é 汉"


def verbatim(tokenizer: Tokenizer, ids: list[int]) -> str:
    stream = TextStream(tokenizer.verbatim(), (), include_stop=False)
    return "".join(stream.push(token).text for token in ids) + stream.finish()


def test_the_bytes_of_the_tokens_join_to_the_text(any_folder: Path) -> None:
    tokenizer = Tokenizer.load(any_folder)
    ids = tokenizer.encode(TEXT)
    assert tokenizer.spelling is not None
    joined = b"".join(tokenizer.spelling[token] for token in ids).decode()
    assert joined.removeprefix(" ") == TEXT  # SentencePiece puts a space in front
    assert verbatim(tokenizer, ids) == joined


def test_verbatim_text_is_not_tidied_up(cleaned_up: Path, sentencepiece: Path) -> None:
    for folder in (cleaned_up, sentencepiece):
        tokenizer = Tokenizer.load(folder)
        ids = tokenizer.encode(" so . it 's")
        text = verbatim(tokenizer, ids)
        assert text.endswith(" so . it 's")
        assert text != tokenizer.decode(ids)


def test_verbatim_text_leaves_out_special_tokens(any_folder: Path) -> None:
    tokenizer = Tokenizer.load(any_folder)
    assert tokenizer.eos_token_id is not None
    assert verbatim(tokenizer, [tokenizer.eos_token_id]) == ""


@pytest.mark.parametrize(("piece", "spelled"), [("<0x0A>", b"\n"), ("▁the", b" the")])
def test_sentencepiece_writes_spaces_and_bytes_in_its_own_way(
    sentencepiece: Path, piece: str, spelled: bytes
) -> None:
    tokenizer = Tokenizer.load(sentencepiece)
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += ["▁", *"abcdefghijklmnopqrstuvwxyz.,'", "▁t", "th", "▁th", "▁the"]
    assert tokenizer.spelling is not None
    assert tokenizer.spelling[names.index(piece)] == spelled
