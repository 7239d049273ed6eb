"""Send only the rows whose scores are wanted through the vocabulary projection.

In a prompt of a thousand tokens one row is scored; the projection is the largest matrix of a small
model, so a ``Gather`` before it, driven by the new input ``scored_rows`` int64[s], saves the rest.
The rows may stand in either of the first two dimensions: paged graphs have [T, 1, H], stateful ones
with a single sequence [1, T, H].
"""

# pyright: reportUnknownMemberType=false
# (openvino's operator factories have no complete type hints)

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as op

from engine.errors import ModelUnusableError

SCORED_ROWS = "scored_rows"

_ELEMENTWISE = {"Convert", "Add", "Multiply", "Divide", "Subtract", "Tanh", "Reshape", "Squeeze"}
"""What may stand between the projection and the scores: soft-capping, scaling, conversion."""


def find_projection(model: ov.Model) -> ov.Node:
    """The ``MatMul`` that turns hidden states into scores.

    Raises:
        ModelUnusableError: the scores do not come from a matrix product.
    """
    node = model.output("logits").get_node().input_value(0).get_node()
    while node.get_type_name() in _ELEMENTWISE:
        node = node.input_value(0).get_node()
    if node.get_type_name() != "MatMul":
        raise ModelUnusableError(
            f"The scores of this model come from {node.get_type_name()}, not from a matrix "
            "product; export it again with optimum-intel."
        )
    return node


def score_only_wanted_rows(model: ov.Model) -> None:
    """Insert the ``Gather``; ``logits`` becomes float32[s, 1, V]. Mutates ``model``."""
    projection = find_projection(model)
    rows = op.parameter([-1], ov.Type.i64, name=SCORED_ROWS)
    rows.output(0).set_names({SCORED_ROWS})
    # The zero keeps the width.
    shape = op.constant(np.array([-1, 1, 0], np.int64))
    in_line = op.reshape(projection.input_value(0), shape, special_zero=True)
    gathered = op.gather(in_line, rows, op.constant(np.int64(0)))
    projection.input(0).replace_source_output(gathered.output(0))
    model.add_parameters([rows])
    model.validate_nodes_and_infer_types()
