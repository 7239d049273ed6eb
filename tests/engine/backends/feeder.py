"""One sequence on a real backend, fed by hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.backends.base import Backend, Batch, Output, Slice
from engine.values import FloatArray, Scores, SliceKind

PROMPT = np.random.default_rng(7).integers(1000, 40000, 70).astype(np.int32)


class Feeder:
    """Feeds ``prompt`` at once; what is verified afterwards is kept only by `keep`."""

    def __init__(
        self, backend: Backend, seq: int, prompt: npt.NDArray[np.int32] = PROMPT, chunk: int = 256
    ) -> None:
        self.backend = backend
        self.seq = seq
        self.length = 0
        self.prefilled: list[Output] = []
        backend.release(seq)
        for begin in range(0, len(prompt), chunk):
            part = self.prefill(prompt[begin : begin + chunk])
            self.prefilled.append(backend.forward(Batch((part,))))

    def slice(
        self, tokens: list[int], parents: list[int] | None = None, depths: list[int] | None = None
    ) -> Slice:
        n = len(tokens)
        self.backend.cache.reserve(self.seq, self.length + n)
        offsets = np.arange(n) if depths is None else np.array(depths)
        return Slice(
            seq=self.seq,
            kind=SliceKind.VERIFY,
            past_len=self.length,
            tokens=np.array(tokens, np.int32),
            positions=(self.length + offsets)[None].astype(np.int64),
            scored=np.arange(n, dtype=np.int32),
            parents=None if parents is None else np.array(parents, np.int32),
        )

    def prefill(self, tokens: npt.NDArray[np.int32]) -> Slice:
        n = len(tokens)
        self.backend.cache.reserve(self.seq, self.length + n)
        positions = (self.length + np.arange(n, dtype=np.int64))[None]
        scored = np.array([n - 1], np.int32)
        part = Slice(self.seq, SliceKind.PREFILL, self.length, tokens, positions, scored)
        self.length += n
        return part

    def verify(self, tokens: list[int], **tree: list[int]) -> FloatArray:
        """Logits float32[n, V]; nothing is kept."""
        return full(self.backend.forward(Batch((self.slice(tokens, **tree),))).scores[0])

    def keep(self, rows: list[int]) -> None:
        self.backend.commit({self.seq: np.array(rows, np.int32)})
        self.length += len(rows)

    def step(self, tokens: list[int], num_kept: int) -> FloatArray:
        """`verify`, and keep the first ``num_kept`` rows."""
        logits = self.verify(tokens)
        self.keep(list(range(num_kept)))
        return logits


def full(scores: Scores) -> FloatArray:
    """All logits, float32[s, V]."""
    return np.stack([scores.full(row) for row in range(len(scores.ids))])
