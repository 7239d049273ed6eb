"""Sum up each row of scores inside the graph, so that Python never walks the vocabulary.

Adds to ``logits`` float32[s, 1, V] the outputs of `backends.base.Scores`: the K largest entries
with their ids, the log-sum-exp at temperature one and at the row's own temperature (input
``inverse_temperature`` float32[s, 1]), and the entropy. ``logits`` itself stays an output for the
rows whose processors need all of it.
"""

# pyright: reportUnknownMemberType=false
# (openvino's operator factories have no complete type hints)

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as op

from engine.values import FloatArray, IntArray

NUM_TOP = 64
"""K. A sampler rarely needs more; where it does, it asks for the whole row."""

INVERSE_TEMPERATURE = "inverse_temperature"
TOP_LOGITS = "top_logits"
TOP_IDS = "top_ids"
LOG_SUM_EXP = "log_sum_exp"
LOG_SUM_EXP_T = "log_sum_exp_t"
ENTROPY = "entropy"


def add_score_heads(model: ov.Model, num_top: int = NUM_TOP) -> None:
    """Add the outputs; a vocabulary smaller than ``num_top`` is ranked whole. Mutates ``model``.

    Equal entries come in any order (see `order_ties`), the same for the same row.
    """
    logits = model.output("logits").get_node().input_value(0)
    vocab_size = logits.get_partial_shape()[-1].get_length()
    axis = op.constant(np.array([1], np.int64))
    rows = op.convert(op.squeeze(logits, axis), "f32")
    inverse_temperature = op.parameter([-1, 1], ov.Type.f32, name=INVERSE_TEMPERATURE)
    inverse_temperature.output(0).set_names({INVERSE_TEMPERATURE})

    k = op.constant(np.int64(min(num_top, vocab_size)))
    # Not the stable form: on CPU it sorts by bubbles, 12 ms a row of 49k, as much as all else.
    top = op.topk(rows, k, 1, "max", "value", index_element_type="i32")
    largest = op.reduce_max(rows, axis, keep_dims=True)
    shifted = op.subtract(rows, largest)  # so that exp cannot overflow

    weights = op.exp(shifted)
    total = op.reduce_sum(weights, axis, keep_dims=True)
    log_total = op.log(total)
    mean_shift = op.divide(
        op.reduce_sum(op.multiply(weights, shifted), axis, keep_dims=True), total
    )
    total_t = op.reduce_sum(op.exp(op.multiply(shifted, inverse_temperature)), axis, keep_dims=True)
    log_sum_exp_t = op.add(op.multiply(largest, inverse_temperature), op.log(total_t))

    heads = {
        TOP_LOGITS: top.output(0),
        TOP_IDS: top.output(1),
        LOG_SUM_EXP: op.add(largest, log_total).output(0),
        LOG_SUM_EXP_T: log_sum_exp_t.output(0),
        ENTROPY: op.subtract(log_total, mean_shift).output(0),
    }
    model.add_parameters([inverse_temperature])
    for name, output in heads.items():
        output.set_names({name})
        model.add_results([op.result(output)])
    model.validate_nodes_and_infer_types()


def order_ties(ids: IntArray, logits: FloatArray) -> None:
    """Put equal entries in order of their ids; ``ids`` int32[s, K] is changed in place.

    ``logits`` float32[s, K] fall along each row. Which of several equal ones got the last places is
    the graph's choice and stays.
    """
    is_tied = logits[:, 1:] == logits[:, :-1]
    if not is_tied.any():
        return
    for row in np.flatnonzero(is_tied.any(axis=1)):
        ids[row] = ids[row][np.lexsort((ids[row], -logits[row]))]
