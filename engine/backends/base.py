"""What a backend is: something that runs a model over a batch of rows and owns the model's cache.

The target and every drafter with a model of its own run behind this interface. The backend knows
nothing of requests, sampling or drafting. Cache positions are the backend's own business: the loop
says which sequence a row belongs to and which rows survived, never where they lie in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.values import FloatArray, IntArray, Scores, SeqId, SliceKind


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do; plan and drafters read it, nobody asks for its class."""

    max_sequences: int
    """Sequences that one batch may hold."""
    trees: bool
    """Whether rows may branch (``Slice.parents`` other than a chain)."""
    features: bool
    """Whether hidden features of tapped layers are returned for every row."""
    embeddings: bool
    """Whether rows may come as embeddings instead of token ids."""
    max_verify_rows: int | None = None
    """Most rows of one verification, where shapes are static (NPU); None: no limit."""
    notes: tuple[str, ...] = ()
    """Sentences for the plan's reasons: what this backend cannot do well for this very model."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows that one sequence adds to a batch; ``n`` rows in all.

    ``tokens`` int32[n], or ``embeddings`` float32[n, H] in their place. ``positions`` int64[P, n]
    with P = 1 (text), 3 (M-RoPE) or 4. ``parents`` int32[n]: the row each row follows, -1 for the
    first row, which follows the cache; None means a chain. ``token_types`` int32[n] marks
    bidirectional runs (pictures, block drafters) with 1. ``extra`` are further inputs by graph name
    with rows in dimension 0 (hidden features, deep-stack, per-layer embeddings). ``scored``
    int32[s] are the rows whose next-token scores are wanted. ``inverse_temperature`` scales the
    scores of ``log_sum_exp_t``.
    """

    seq: SeqId
    kind: SliceKind
    past_len: int
    tokens: IntArray
    positions: NDArray[np.int64]
    scored: IntArray
    parents: IntArray | None = None
    embeddings: FloatArray | None = None
    token_types: IntArray | None = None
    inverse_temperature: float = 1.0
    extra: dict[str, FloatArray] = field(default_factory=dict[str, FloatArray])

    @property
    def num_rows(self) -> int:
        """Rows in this slice."""
        return len(self.tokens) if self.embeddings is None else len(self.embeddings)


@dataclass(frozen=True, slots=True)
class Batch:
    """All slices of one forward pass; a sequence appears at most once."""

    slices: tuple[Slice, ...]

    @property
    def num_rows(self) -> int:
        """Rows of all slices together."""
        return sum(part.num_rows for part in self.slices)


@dataclass(frozen=True, slots=True)
class Output:
    """Result of one forward pass: ``scores[i]`` belongs to ``batch.slices[i]``.

    ``features[i]`` float32[n, W] are the tapped hidden states of that slice's rows, where the
    backend was built with taps; else None.
    """

    scores: tuple[Scores, ...]
    features: tuple[FloatArray, ...] | None = None


class Cache(Protocol):
    """Room for cache rows, counted in tokens, so that the scheduler can plan without knowing
    blocks."""

    @property
    def total_tokens(self) -> int:
        """Rows that fit in all."""
        ...

    @property
    def free_tokens(self) -> int:
        """Rows that no sequence has reserved; a lower bound where rows come in blocks."""
        ...

    def can_admit(self, length: int) -> bool:
        """Whether a newcomer of ``length`` rows leaves each sequence that is here room to grow."""
        ...

    def can_reserve(self, seq: SeqId, length: int) -> bool:
        """Whether ``reserve(seq, length)`` would succeed now."""
        ...

    def reserve(self, seq: SeqId, length: int) -> None:
        """Make room for ``length`` rows of ``seq`` in all (a new sequence starts empty).

        Raises:
            CacheTooSmallError: there is not enough room; nothing has changed.
        """
        ...


class Backend(Protocol):
    """Runs one model. Used from one thread only."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def cache(self) -> Cache: ...

    @property
    def vocab_size(self) -> int:
        """Width of the scores, padding of the vocabulary included."""
        ...

    def forward(self, batch: Batch) -> Output:
        """Run all rows; each sequence's room must have been reserved up to its last row."""
        ...

    def commit(self, kept: Mapping[SeqId, IntArray]) -> None:
        """Keep these rows of the last ``forward``'s verifications, in path order from row 0 on, as
        if they alone had been fed; rows of prompts are kept without being named."""
        ...

    def restore(self, seq: SeqId, length: int) -> None:
        """Forget every row of ``seq`` from position ``length`` on."""
        ...

    def release(self, seq: SeqId) -> None:
        """Forget the sequence and give back its room; unknown sequences are ignored."""
        ...

    def close(self) -> None:
        """Give back the model and its memory."""
        ...
