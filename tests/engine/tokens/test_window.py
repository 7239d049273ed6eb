"""Streaming through a short window, over made-up decoders of every kind that is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tokens.window import WindowStream

PIECES = [
    *(bytes([byte]) for byte in (0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80, 0xFF)),
    *("▁", "▁the", "the", "a", ".", ",", "'", "n't", "s", "▁'", "▁n", "▁.", "é", "a\u0301"),
    "\N{REPLACEMENT CHARACTER}",
]
IDS = st.lists(st.integers(0, len(PIECES) - 1), max_size=60)

CLEAN_UP = re.compile(r" ([.?!,])| ('[ms])| (') | ('[rv]e)| (n't)")


def joined(ids: Sequence[int]) -> bytes:
    pieces = [PIECES[token] for token in ids]
    return b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)


def replacing(ids: Sequence[int]) -> str:
    return joined(ids).decode(errors="replace").replace("▁", " ")


def dropping(ids: Sequence[int]) -> str:
    return joined(ids).decode(errors="ignore").replace("▁", " ")


def stripping_the_first_space(ids: Sequence[int]) -> str:
    return replacing(ids).removeprefix(" ")


def stripping_the_last_space(ids: Sequence[int]) -> str:
    return replacing(ids).removesuffix(" ")


def cleaning_up(ids: Sequence[int]) -> str:
    return CLEAN_UP.sub(lambda found: "".join(each or "" for each in found.groups()), dropping(ids))


DECODERS = [
    (replacing, False),
    (dropping, False),
    (stripping_the_first_space, False),
    (stripping_the_last_space, False),
    (cleaning_up, True),
]


@pytest.mark.parametrize(("decode", "looks_ahead"), DECODERS)
@given(ids=IDS)
def test_the_pieces_join_to_the_text_of_all_tokens(
    decode: Callable[[Sequence[int]], str], looks_ahead: bool, ids: list[int]
) -> None:
    stream = WindowStream(decode, looks_ahead=looks_ahead)
    assert "".join([stream.push(token) for token in ids]) + stream.flush() == decode(ids)


def test_a_character_over_four_tokens_comes_with_the_last() -> None:
    stream = WindowStream(replacing, looks_ahead=False)
    ids = [PIECES.index("a"), *(PIECES.index(bytes([byte])) for byte in "😀".encode())]
    assert [stream.push(token) for token in ids] == ["a", "", "", "", "😀"]


def test_a_real_replacement_character_comes_out_as_one() -> None:
    stream = WindowStream(replacing, looks_ahead=False)
    ids = [PIECES.index("\N{REPLACEMENT CHARACTER}"), PIECES.index("a")]
    assert "".join([stream.push(token) for token in ids]) == "\N{REPLACEMENT CHARACTER}a"


def test_the_next_answer_starts_clean_after_a_flush() -> None:
    stream = WindowStream(replacing, looks_ahead=False)
    stream.push(PIECES.index(b"\xe2"))
    assert stream.flush() == "\N{REPLACEMENT CHARACTER}"
    assert stream.push(PIECES.index("a")) == "a"


@pytest.mark.parametrize("repeated", ["a", "▁", b"\xff", b"\x80", "\N{REPLACEMENT CHARACTER}"])
def test_the_window_stays_short_however_long_the_answer(repeated: str | bytes) -> None:
    sizes: list[int] = []

    def decode(ids: Sequence[int]) -> str:
        sizes.append(len(ids))
        return replacing(ids)

    stream = WindowStream(decode, looks_ahead=False)
    for _ in range(5000):
        stream.push(PIECES.index(repeated))
    assert max(sizes) <= 16
    assert len(sizes) <= 5000 * 1.2
