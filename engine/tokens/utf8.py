"""Bytes to text as the detokenizer graph does it: whole, and piece by piece.

The graph's ``UTF8Validate`` operation decides what counts as a character. It differs from Python's
own codec in what becomes of invalid bytes, so its rules are followed here (source:
``utf8_validate.cpp`` of openvino_tokenizers): they are dropped, or replaced by U+FFFD, and what it
lets pass although it is no character (surrogates, code points over U+10FFFF) turns into U+FFFD when
OpenVINO hands the string to Python.
"""

from __future__ import annotations

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# A lead byte with as many continuation bytes as it asks for, or else the longest run that cannot
# become a character. ASCII comes in runs because it is most of the text.
_UNIT = re.compile(
    rb"[\x00-\x7f]+"
    rb"|(?P<long>[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3})"
    rb"|(?P<bad>[\xc0-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf7][\x80-\xbf]{0,2}|[\x80-\xbf\xf8-\xff])"
)
# Forms that spell a small code point with too many bytes.
_OVERLONG = re.compile(rb"[\xc0\xc1]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")


def decode(data: bytes, *, replace_invalid: bool) -> str:
    """The text of ``data``, where invalid bytes are dropped or (``replace_invalid``) U+FFFD."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(
            _decode_unit(unit, replace_invalid=replace_invalid) for unit in _UNIT.finditer(data)
        )


def _decode_unit(unit: re.Match[bytes], *, replace_invalid: bool) -> str:
    data = unit.group()
    if unit["bad"] is not None:
        return REPLACEMENT if replace_invalid else ""
    if unit["long"] is not None and _OVERLONG.match(data):
        return REPLACEMENT * len(data) if replace_invalid else ""
    return data.decode("utf-8", errors="replace")


def complete_length(data: bytes) -> int:
    """How many bytes of ``data`` are settled: all but a last character that is not complete yet.

    A byte that begins a character always begins one, whatever stands before it, so looking at the
    last three bytes is enough. Example: ``b"a\\xe2\\x82"`` -> 1, the euro sign lacks its last byte.
    """
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if 0x80 <= byte <= 0xBF:
            continue
        is_incomplete = (
            (0xC0 <= byte <= 0xDF and back < 2)
            or (0xE0 <= byte <= 0xEF and back < 3)
            or (0xF0 <= byte <= 0xF7 and back < 4)
        )
        return len(data) - back if is_incomplete else len(data)
    return len(data)


class Utf8Stream:
    """Text from bytes that arrive in pieces, cut anywhere.

    The texts of all pushes and of the final `flush` join to `decode` of all bytes at once.
    """

    def __init__(self, *, replace_invalid: bool) -> None:
        self._replace_invalid = replace_invalid
        self._pending = b""

    def push(self, piece: bytes) -> str:
        """Whole characters that ``piece`` completes."""
        data = self._pending + piece
        cut = complete_length(data)
        self._pending = data[cut:]
        return decode(data[:cut], replace_invalid=self._replace_invalid)

    def flush(self) -> str:
        """What becomes of a last character that never was completed."""
        rest, self._pending = self._pending, b""
        return decode(rest, replace_invalid=self._replace_invalid)
