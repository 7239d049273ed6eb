"""Whether a draft model fits beside its target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.library.folder import ModelInfo
from engine.library.memory import memory_need

GIB = 1 << 30


def model(weights_gib: float, num_layers: int | None = None) -> ModelInfo:
    unknown: dict[str, Any] = dict.fromkeys(
        ("architecture", "context_length", "vocab_size", "hidden_size", "bos_token_id")
    )
    return ModelInfo(
        name="model",
        path=Path("model"),
        num_layers=num_layers,
        num_attention_heads=8,
        num_kv_heads=8,
        head_dim=64,
        weight_bytes=int(weights_gib * GIB),
        stop_token_ids=frozenset(),
        has_chat_template=False,
        **unknown,
    )


def test_the_draft_models_cache_has_the_targets_rows_at_its_own_size() -> None:
    need = memory_need(model(4, num_layers=32), model(1, num_layers=8), 2 * GIB, 16 * GIB)
    assert need.target_bytes == 6 * GIB
    assert need.draft_bytes == 1.5 * GIB


def test_a_model_that_does_not_tell_its_size_gets_as_large_a_cache() -> None:
    assert memory_need(model(4), model(1, num_layers=8), 2 * GIB, 16 * GIB).draft_bytes == 3 * GIB


@pytest.mark.parametrize(
    ("memory_gib", "too_much"),
    [(16, False), (9, False), (8, True), (7, True), (6, False)],
    ids=["plenty", "enough", "no room left", "the target alone", "not even the target"],
)
def test_only_what_the_draft_model_adds_is_judged(memory_gib: int, too_much: bool) -> None:
    need = memory_need(
        model(4, num_layers=32), model(1, num_layers=8), 2 * GIB, int(memory_gib * GIB)
    )
    assert need.draft_is_too_much is too_much


def test_the_figures_are_told() -> None:
    need = memory_need(model(4, num_layers=32), model(1, num_layers=8), 2 * GIB, 8 * GIB)
    assert need.describe() == (
        "needs 1.5 GiB beside 6.0 GiB of its target, and 7.2 GiB may be used here"
    )
