"""Passes of made-up tokens through a backend: to warm it up, and to measure what rows cost."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from engine.backends.base import Backend, Batch, Slice
from engine.values import SeqId, SliceKind

_SEQ: SeqId = -1  # sequences of requests count from 0
_CONTEXT_LEN = 64
"""Cached tokens behind the rows whose cost is measured: a short chat."""


class StepProbe:
    """Runs passes of any number of rows behind a short context. To be closed before the backend
    serves anybody."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tokens = np.arange(1000, dtype=np.int32) % backend.vocab_size
        total = backend.cache.total_tokens
        self._context_len = min(_CONTEXT_LEN, total // 2)
        limit = backend.capabilities.max_verify_rows
        room = total - self._context_len
        self.max_rows = room if limit is None else min(room, limit)
        """Most rows of a pass: a small cache, or static shapes, may hold no more."""
        self._is_ready = False

    def run(self, num_rows: int) -> float:
        """Milliseconds of one pass with ``num_rows`` rows."""
        if not self._is_ready:
            self._is_ready = True
            self._forward(SliceKind.PREFILL, 0, self._context_len)
        started = perf_counter()
        self._forward(SliceKind.VERIFY, self._context_len, num_rows)
        elapsed_ms = 1000.0 * (perf_counter() - started)
        self._backend.restore(_SEQ, self._context_len)
        return elapsed_ms

    def close(self) -> None:
        """Give back the cache rows."""
        self._backend.release(_SEQ)

    def _forward(self, kind: SliceKind, past_len: int, num_rows: int) -> None:
        self._backend.cache.reserve(_SEQ, past_len + num_rows)
        rows = np.arange(num_rows, dtype=np.int32)
        part = Slice(
            seq=_SEQ,
            kind=kind,
            past_len=past_len,
            tokens=self._tokens[rows],
            positions=(past_len + rows.astype(np.int64))[None],
            scored=rows,
        )
        self._backend.forward(Batch((part,)))
