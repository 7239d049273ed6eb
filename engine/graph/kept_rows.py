"""Let a pass say how many rows of a stateful model's key/value state it keeps.

Every state (``ReadValue``) has an initial value, which is read after a reset. Here that of the
*values* becomes an input, ``kept_rows``, of which nothing but the length counts; that of the *keys*
stays empty. On CPU the fused attention takes the length of the past from the values, copies initial
rows only if both have some, and leaves the memory of a reset state as it was: a reset followed by
a pass with ``n`` kept rows therefore cuts every state to its first ``n`` rows, for nothing. None of
this is promised by OpenVINO, so whoever relies on it has to try it first (`backends.stateful`
does). Without a reset the input is not looked at.
"""

# pyright: reportUnknownMemberType=false
# (openvino's operator factories have no complete type hints)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import openvino as ov
from openvino import opset13 as op

from engine.errors import ModelUnusableError

KEPT_ROWS = "kept_rows"
"""Prefix of the inputs float[B, heads, n, size], one for each shape that occurs."""

_NOT_STATEFUL = (
    "This model keeps no key/value state that can be cut; "
    "export it with the task text-generation-with-past."
)


@dataclass(frozen=True, slots=True)
class _Attention:
    """The states of one attention layer."""

    keys: ov.Node
    values: ov.Node


def add_kept_rows(model: ov.Model) -> None:
    """Add the inputs. Mutates ``model``.

    Raises:
        ModelUnusableError: a state belongs to something else than attention, or has no initial
            value.
    """
    layers = list(_find_attention(model))
    states = {node.get_friendly_name() for one in layers for node in (one.keys, one.values)}
    num_states = sum(node.get_type_name() == "ReadValue" for node in model.get_ops())
    if not layers or len(states) != num_states:
        raise ModelUnusableError(_NOT_STATEFUL, param="model")
    parameters: dict[str, ov.Node] = {}
    for layer in layers:
        if layer.values.get_input_size() == 0:
            raise ModelUnusableError(_NOT_STATEFUL, param="model")
        _ask_the_values_for_the_length(layer)
        shape = layer.values.get_output_partial_shape(0)
        kind = layer.values.get_output_element_type(0)
        parameter = parameters.get(str(shape))
        if parameter is None:
            name = f"{KEPT_ROWS}.{len(parameters)}"
            parameter = parameters[str(shape)] = op.parameter(shape, kind, name=name)
            parameter.output(0).set_names({name})
        layer.values.input(0).replace_source_output(parameter.output(0))
    model.add_parameters(list(parameters.values()))
    model.validate_nodes_and_infer_types()


def _find_attention(model: ov.Model) -> Iterator[_Attention]:
    for node in model.get_ops():
        if node.get_type_name() == "ScaledDotProductAttention":
            keys, values = (_find_state(node.input_value(port)) for port in (1, 2))
            if keys is None or values is None:
                raise ModelUnusableError(_NOT_STATEFUL, param="model")
            yield _Attention(keys, values)


def _find_state(output: ov.Output) -> ov.Node | None:
    """Up from an input of the attention: repetition of heads, the join with the new rows, the
    choice of a beam. The past always stands first."""
    node = output.get_node()
    while node.get_type_name() != "ReadValue":
        if node.get_input_size() == 0:
            return None
        node = node.input_value(0).get_node()
    return node


def _ask_the_values_for_the_length(layer: _Attention) -> None:
    """Masks take the number of past rows from the shape of some keys, which is empty in a pass that
    cuts."""
    sources = [layer.keys.output(0)]
    sources += [
        target.get_node().output(0)
        for target in layer.keys.output(0).get_target_inputs()
        if target.get_node().get_type_name() in ("Gather", "Convert")
    ]
    for source in sources:
        for target in source.get_target_inputs():
            if target.get_node().get_type_name() == "ShapeOf":
                target.replace_source_output(layer.values.output(0))
