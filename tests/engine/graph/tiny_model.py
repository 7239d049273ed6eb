"""A language model of a few thousand random weights, in the form in which exporters write theirs:
key/value state, beams, a mask made from the length of the state."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import openvino as ov
from openvino import opset13 as op

VOCAB_SIZE, WIDTH, HEADS, SIZE = 96, 16, 2, 8
MAX_POSITION = 512


@dataclass(slots=True)
class TinyModel:
    """Describes the model; `build` makes it. ``layer_name`` is the friendly name of a layer's
    output. Without ``is_plain`` something stands between state and attention, so that the CPU
    plugin does not fuse them."""

    num_layers: int = 3
    layer_name: str = "__module.model.layers.{layer}/aten::add/Add_1"
    is_plain: bool = True
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    _sinks: list[ov.Node] = field(default_factory=list)

    def build(self) -> ov.Model:
        """A new model; the same weights for the same description."""
        inputs = {
            name: op.parameter(shape, kind, name=name)
            for name, shape, kind in (
                ("input_ids", [-1, -1], ov.Type.i64),
                ("attention_mask", [-1, -1], ov.Type.i64),
                ("position_ids", [-1, -1], ov.Type.i64),
                ("beam_idx", [-1], ov.Type.i32),
            )
        }
        for name, parameter in inputs.items():
            parameter.output(0).set_names({name})
        table, places = self._weight(VOCAB_SIZE, WIDTH), self._weight(MAX_POSITION, WIDTH)
        zero = op.constant(np.int64(0))
        rows = op.add(
            op.gather(table, inputs["input_ids"], zero),
            op.gather(places, inputs["position_ids"], zero),
        )
        mask: ov.Node | None = None
        for layer in range(self.num_layers):
            rows, mask = self._layer(layer, rows, inputs, mask)
        result = op.result(op.matmul(rows, table, False, True))
        result.output(0).set_names({"logits"})
        return ov.Model([result], self._sinks, list(inputs.values()), "tiny")

    def _weight(self, *shape: int) -> ov.Node:
        scale = 1.0 if shape[1] == WIDTH and shape[0] > WIDTH * 2 else shape[0] ** -0.5
        return op.constant(scale * self._random.standard_normal(shape).astype(np.float32))

    def _layer(
        self, layer: int, rows: ov.Node, inputs: dict[str, ov.Node], mask: ov.Node | None
    ) -> tuple[ov.Node, ov.Node]:
        queries, new_keys, new_values = (self._heads(rows) for _ in range(3))
        past_keys = self._past(f"past_key_values.{layer}.key", rows, inputs["beam_idx"])
        past_values = self._past(f"past_key_values.{layer}.value", rows, inputs["beam_idx"])
        keys = self._joined(f"past_key_values.{layer}.key", past_keys, new_keys)
        values = self._joined(f"past_key_values.{layer}.value", past_values, new_values)
        if mask is None:
            mask = _causal(past_keys, inputs)
        attended = op.scaled_dot_product_attention(queries, keys, values, mask)
        flat = op.reshape(
            op.transpose(attended, op.constant([0, 2, 1, 3])),
            op.constant([0, 0, WIDTH]),
            special_zero=True,
        )
        rows = op.add(rows, op.matmul(flat, self._weight(WIDTH, WIDTH), False, False))
        hidden = op.swish(op.matmul(rows, self._weight(WIDTH, 2 * WIDTH), False, False))
        rows = op.add(rows, op.matmul(hidden, self._weight(2 * WIDTH, WIDTH), False, False))
        rows.set_friendly_name(self.layer_name.format(layer=layer))
        return rows, mask

    def _heads(self, rows: ov.Node) -> ov.Node:
        projected = op.matmul(rows, self._weight(WIDTH, WIDTH), False, False)
        split = op.reshape(projected, op.constant([0, 0, HEADS, SIZE]), special_zero=True)
        return op.transpose(split, op.constant([0, 2, 1, 3]))

    def _past(self, name: str, rows: ov.Node, beam_idx: ov.Node) -> ov.Node:
        batch = op.gather(op.shape_of(rows), op.constant([0]), op.constant(np.int64(0)))
        shape = op.concat([batch, op.constant(np.array([HEADS, 0, SIZE]))], 0)
        initial = op.broadcast(op.constant(np.float32(0)), shape)
        variable = (name, ov.Type.f32, ov.PartialShape([-1, HEADS, -1, SIZE]))
        state = ov.opset6.read_value(initial, *variable)
        return op.gather(state, beam_idx, op.constant(np.int64(0)))

    def _joined(self, name: str, past: ov.Node, new: ov.Node) -> ov.Node:
        joined = op.concat([past, new], 2)
        self._sinks.append(ov.opset6.assign(joined, name))
        return joined if self.is_plain else op.multiply(joined, op.constant(np.float32(1 + 1e-7)))


def _causal(past_keys: ov.Node, inputs: dict[str, ov.Node]) -> ov.Node:
    zero = op.constant(np.int64(0))
    num_past = op.gather(op.shape_of(past_keys), op.constant(np.int64(2)), zero)
    num_new = op.gather(op.shape_of(inputs["input_ids"]), op.constant(np.int64(1)), zero)
    one = op.constant(np.int64(1))
    end = op.add(num_past, num_new)
    columns = op.range(zero, end, one, "i64")
    rows = op.unsqueeze(op.range(num_past, end, one, "i64"), one)
    seen = op.logical_and(
        op.less_equal(columns, rows), op.convert(inputs["attention_mask"], "boolean")
    )
    mask = op.select(seen, op.constant(np.float32(0)), op.constant(np.float32(-65504)))
    return op.unsqueeze(mask, op.constant([0, 1]))
