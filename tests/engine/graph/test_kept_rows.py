"""The inputs that say how many rows of the state a pass keeps."""

from __future__ import annotations

import openvino as ov
import pytest
from openvino import opset13 as op

from engine.errors import ModelUnusableError
from engine.graph.kept_rows import KEPT_ROWS, add_kept_rows
from tests.engine.graph.tiny_model import HEADS, SIZE, TinyModel


def test_layers_of_one_shape_share_an_input() -> None:
    model = TinyModel().build()
    add_kept_rows(model)
    (port,) = [port for port in model.inputs if port.any_name.startswith(KEPT_ROWS)]
    assert port.partial_shape == ov.PartialShape([-1, HEADS, -1, SIZE])
    assert port.element_type == ov.Type.f32


def test_the_keys_of_no_layer_are_asked_for_the_length() -> None:
    model = TinyModel().build()
    add_kept_rows(model)
    states = [node for node in model.get_ops() if node.get_type_name() == "ReadValue"]
    for state in states:
        if state.get_variable_id().endswith("key"):
            assert not asks_for_shape(state)
    assert any(asks_for_shape(state) for state in states)


def asks_for_shape(state: ov.Node) -> bool:
    readers = [target.get_node() for target in state.output(0).get_target_inputs()]
    readers += [
        target.get_node()
        for reader in readers
        if reader.get_type_name() == "Gather"
        for target in reader.output(0).get_target_inputs()
    ]
    return any(reader.get_type_name() == "ShapeOf" for reader in readers)


def test_a_model_without_state_is_refused() -> None:
    parameter = op.parameter([-1, 4], ov.Type.f32, name="input_ids")
    model = ov.Model([op.result(parameter)], [parameter], "no state")
    with pytest.raises(ModelUnusableError, match="text-generation-with-past"):
        add_kept_rows(model)


def test_a_state_that_is_not_attentions_is_refused() -> None:
    model = TinyModel().build()
    state = ov.opset6.read_value(
        op.constant([[0.0]]), "conv_state", ov.Type.f64, ov.PartialShape([1, 1])
    )
    model.add_sinks([ov.opset6.assign(state, "conv_state")])
    with pytest.raises(ModelUnusableError, match="no key/value state that can be cut"):
        add_kept_rows(model)
