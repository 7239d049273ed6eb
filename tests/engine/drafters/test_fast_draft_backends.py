"""Fast Draft on the real backends: rows that were cut off leave nothing behind in either cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import openvino as ov
import pytest

from engine.backends.base import Backend, Batch, Slice
from engine.backends.paged import PagedBackend
from engine.backends.settings import BackendSettings
from engine.backends.stateful import StatefulBackend
from engine.config import CachePrecision, GenerationConfig
from engine.drafters.base import NO_LIMIT, DraftContext, PrefillChunk
from engine.drafters.fast_draft import FastDraft
from engine.values import SliceKind
from tests.engine.budget.texts import verdict
from tests.engine.graph.tiny_model import VOCAB_SIZE, TinyModel

KINDS: dict[str, tuple[type[PagedBackend] | type[StatefulBackend], bool]] = {
    "paged": (PagedBackend, True),
    "stateful": (StatefulBackend, True),
    "stateful, not fused": (StatefulBackend, False),
}


def make(kind: str) -> Backend:
    backend_type, is_plain = KINDS[kind]
    settings = BackendSettings(
        device="CPU",
        cache_precision=CachePrecision.F32,
        cache_bytes=4 << 20,
        max_sequences=4,
        inference_precision="f32",
    )
    return backend_type(ov.Core(), TinyModel(is_plain=is_plain).build(), settings)


class Oracle:
    """What the model says, each token from a cache that has seen nothing else."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def walk(self, tokens: Sequence[int], length: int) -> list[int]:
        text = list(tokens)
        for _ in range(length):
            text.append(self._next(text))
        return text[len(tokens) :]

    def _next(self, text: Sequence[int]) -> int:
        self._backend.release(0)
        self._backend.cache.reserve(0, len(text))
        rows = np.arange(len(text), dtype=np.int64)[None]
        tokens, last = np.array(text, np.int32), np.array([len(text) - 1], np.int32)
        part = Slice(0, SliceKind.PREFILL, 0, tokens, rows, last)
        return int(self._backend.forward(Batch((part,))).scores[0].ids[0, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_draft_depends_on_the_text_alone(kind: str) -> None:
    backend, oracle = make(kind), Oracle(make(kind))
    drafter = FastDraft(backend, max_rows=16)
    num_texts = min(3, backend.capabilities.max_sequences)
    random = np.random.default_rng(0)
    texts = [random.integers(0, VOCAB_SIZE, 20 + 30 * seq).tolist() for seq in range(num_texts)]
    for seq, text in enumerate(texts):
        drafter.on_prefill([PrefillChunk(seq, np.array(text, np.int32), None, True)])
    for step in range(12):
        contexts = [
            DraftContext(seq, GenerationConfig(), len(text), 1 + (step + seq) % 6)
            for seq, text in enumerate(texts)
        ]
        trees = drafter.propose(contexts, NO_LIMIT)
        for seq, (text, tree) in enumerate(zip(texts, trees, strict=True)):
            assert tree.tokens.tolist() == oracle.walk(text, 1 + (step + seq) % 6)
            kept = tree.tokens[: random.integers(0, len(tree) + 1)].tolist()
            emitted = [*kept, int(random.integers(VOCAB_SIZE))]
            text.extend(emitted)
            drafter.observe([verdict(seq, emitted)])
    for seq in range(num_texts):
        drafter.release(seq)
    assert backend.cache.free_tokens == backend.cache.total_tokens


def test_a_stateful_draft_model_goes_from_one_sequence_to_the_next() -> None:
    backend, oracle = make("stateful"), Oracle(make("stateful"))
    drafter = FastDraft(backend)
    for seq in range(3):
        text = [5 + seq, 7, 9]
        drafter.on_prefill([PrefillChunk(seq, np.array(text, np.int32), None, True)])
        (tree,) = drafter.propose([DraftContext(seq, GenerationConfig(), 3, 4)], NO_LIMIT)
        assert tree.tokens.tolist() == oracle.walk(text, 4)
        drafter.release(seq)
