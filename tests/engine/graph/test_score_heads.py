"""The score heads on a graph that is nothing but its logits."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from engine.graph import score_heads
from engine.values import FloatArray, IntArray

VOCAB_SIZE = 5000


@pytest.fixture(scope="module")
def heads() -> ov.CompiledModel:
    logits = op.parameter([-1, 1, VOCAB_SIZE], ov.Type.f32)
    result = op.result(logits)
    result.output(0).set_names({"logits"})
    model = ov.Model([result], [logits], "logits alone")
    score_heads.add_score_heads(model)
    return ov.Core().compile_model(model, "CPU")


def top_of(heads: ov.CompiledModel, rows: FloatArray) -> tuple[IntArray, FloatArray]:
    """Ids and logits, ties in order."""
    temperatures = np.ones((len(rows), 1), np.float32)
    results = heads([rows[:, None], temperatures])
    ids, logits = np.array(results["top_ids"]), np.array(results["top_logits"])
    score_heads.order_ties(ids, logits)
    return ids, logits


def test_the_largest_come_first_and_equal_ones_by_lower_id(heads: ov.CompiledModel) -> None:
    coarse = np.random.default_rng(1).integers(-100, 100, (6, VOCAB_SIZE)).astype(np.float32)
    coarse[:, :40] = 200.0 + np.arange(40) // 4  # ten values, four times each
    ids, logits = top_of(heads, coarse)
    order = np.argsort(-coarse, axis=1, kind="stable")[:, : score_heads.NUM_TOP]
    assert np.array_equal(ids[:, :40], order[:, :40])
    assert np.array_equal(logits, np.take_along_axis(coarse, order, axis=1))


def test_a_row_is_ranked_the_same_alone_and_among_others(heads: ov.CompiledModel) -> None:
    coarse = np.random.default_rng(2).integers(-20, 20, (9, VOCAB_SIZE)).astype(np.float32)
    together, _ = top_of(heads, coarse)
    for row, expected in enumerate(together):
        alone, _ = top_of(heads, coarse[row : row + 1])
        assert np.array_equal(alone[0], expected)


def test_rows_without_ties_are_left_as_they_are() -> None:
    ids = np.array([[7, 3, 9]], np.int32)
    score_heads.order_ties(ids, np.array([[3.0, 2.0, 1.0]], np.float32))
    assert ids.tolist() == [[7, 3, 9]]


def test_no_rows_have_no_ties() -> None:
    score_heads.order_ties(np.empty((0, 64), np.int32), np.empty((0, 64), np.float32))
