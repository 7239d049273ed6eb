"""What counts as a character, and what becomes of bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tokens.utf8 import Utf8Stream, complete_length, decode

# Bytes that make trouble come up more often than chance would have them.
TROUBLE = st.lists(
    st.one_of(
        st.binary(max_size=4),
        st.sampled_from(["é", "€", "😀", "\N{REPLACEMENT CHARACTER}", "e\u0301"]).map(str.encode),
        st.sampled_from(
            [b"\xc0\x80", b"\xe2\x82", b"\xf0\x9f", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]
        ),
    ),
    max_size=8,
).map(b"".join)


@pytest.mark.parametrize(
    ("data", "dropped", "replaced"),
    [
        (b"a\xe2\x82\xacb", "a€b", "a€b"),
        (b"a\x80b", "ab", "a\ufffdb"),
        (b"a\xe2\x82", "a", "a\ufffd"),
        (b"\xe2\x82(", "(", "\ufffd("),
        (b"\xf0\xe2\x82\xac", "€", "\ufffd€"),
        (b"\xc0\x80", "", "\ufffd\ufffd"),
        (b"\xff\xfe", "", "\ufffd\ufffd"),
        # The graph lets a surrogate pass; it is no character in Python.
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd", "\ufffd\ufffd\ufffd"),
    ],
)
def test_drops_or_replaces_what_is_no_character(data: bytes, dropped: str, replaced: str) -> None:
    assert decode(data, replace_invalid=False) == dropped
    assert decode(data, replace_invalid=True) == replaced


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"", 0),
        (b"abc", 3),
        (b"a\xc3", 1),
        (b"a\xc3\xa9", 3),
        (b"a\xe2\x82", 1),
        (b"\xf0\x9f\x98", 0),
        (b"\xf0\x9f\x98\x80", 4),
        (b"\x80\x80\x80", 3),
        (b"\xf8", 1),
        (b"\xf0\xe2\x82", 1),
    ],
)
def test_only_an_unfinished_character_at_the_end_is_not_settled(data: bytes, length: int) -> None:
    assert complete_length(data) == length


@given(data=TROUBLE, cuts=st.lists(st.integers(0, 40), max_size=6), replace=st.booleans())
def test_bytes_cut_anywhere_join_to_the_text_of_all_bytes(
    data: bytes, cuts: list[int], replace: bool
) -> None:
    stream = Utf8Stream(replace_invalid=replace)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    texts = [stream.push(piece) for piece in pieces]
    assert "".join(texts) + stream.flush() == decode(data, replace_invalid=replace)


@given(st.text())
def test_valid_text_comes_out_as_it_is(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert decode(data.encode(), replace_invalid=False) == data


@given(st.text(alphabet="aé€😀", min_size=1))
def test_a_character_comes_with_its_last_byte_and_not_before(text: str) -> None:
    stream = Utf8Stream(replace_invalid=True)
    for letter in text:
        *first, last = (bytes([byte]) for byte in letter.encode())
        assert [stream.push(byte) for byte in first] == [""] * len(first)
        assert stream.push(last) == letter
