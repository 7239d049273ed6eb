"""Source code cut into coloured pieces by Pygments. Knows roles, not colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import cast

from pygments import lexers
from pygments.lexer import Lexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String
from pygments.util import ClassNotFound

_named = cast(
    "Callable[..., Lexer]",
    lexers.get_lexer_by_name,  # pyright: ignore[reportUnknownMemberType]
)

_ROLES = (
    (Comment, "code_comment"),
    (String, "code_string"),
    (Number, "code_number"),
    (Keyword, "code_keyword"),
    (Operator.Word, "code_keyword"),
    (Name.Function, "code_name"),
    (Name.Class, "code_name"),
    (Name.Tag, "code_name"),
    (Name.Decorator, "code_name"),
    (Name.Builtin, "code_name"),
    (Literal, "code_string"),
)


@lru_cache(maxsize=16)
def _lexer(language: str) -> Lexer:
    try:
        return _named(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return _named("text", stripnl=False, ensurenl=False)


def coloured_lines(code: str, language: str) -> Iterator[list[tuple[str, str]]]:
    """For each line its (text, role) pieces; the role is a field of `Colours` or empty."""
    line: list[tuple[str, str]] = []
    for kind, text in _lexer(language.lower()).get_tokens(code):
        role = _role(kind)
        pieces = text.split("\n")
        for place, piece in enumerate(pieces):
            if place:
                yield line
                line = []
            if piece:
                line.append((piece, role))
    yield line


@lru_cache(maxsize=256)
def _role(kind: tuple[str, ...]) -> str:
    """Token types are tuples of names, a parent's the beginning of its child's."""
    return next((role for parent, role in _ROLES if kind[: len(parent)] == parent), "")
