"""A tokenizer of a few tokens, and the structures that are tried on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from engine.config import GenerationConfig
from engine.grammar import GrammarCompiler, GrammarConstraint

LETTERS = "abc"
END, CALL = 0, 1
PIECES = (
    b"<end>",
    b"<call>",
    *(one.encode() for one in LETTERS),
    *((one + other).encode() for one in LETTERS for other in LETTERS),
    b"abc",
    *(bytes([byte]) for byte in "é".encode()),
)
VOCAB_SIZE = 40
"""As padded as the scores of real models."""


class TinyTokenizer:
    """What the compiler needs of a tokenizer."""

    special_ids = frozenset({END, CALL})

    def __init__(self, spelling: tuple[bytes, ...] | None = PIECES) -> None:
        self.spelling = spelling


def constraint(ends: Iterable[int] = (END,), pieces: Any = PIECES, **options: Any):
    return compiled(ends, pieces, **options).begin()


def compiled(ends: Iterable[int] = (END,), pieces: Any = PIECES, **options: Any):
    compiler: Any = GrammarCompiler(TinyTokenizer(pieces), VOCAB_SIZE)  # pyright: ignore[reportArgumentType] - all it needs
    grammar = compiler.compile(GenerationConfig(stop_token_ids=frozenset(ends), **options))
    assert grammar is not None
    return grammar


def allowed(constraint: GrammarConstraint, path: Iterable[int] = ()) -> set[int]:
    return set(np.flatnonzero(constraint.allowed([*path]).of(np.arange(VOCAB_SIZE))).tolist())


def ids(*pieces: str) -> list[int]:
    return [PIECES.index(piece.encode()) for piece in pieces]
