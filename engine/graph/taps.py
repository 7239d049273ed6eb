"""Expose what decoder layers put out, for drafters that read the target's hidden features.

The tapped layers' outputs are joined on the last axis and returned as ``features`` float32[T, W],
one row for each row of the batch, in its order. Taps are put in before the graph is paged, while
its nodes still have the exporter's names; the rewrites that follow keep them.

Where layer ``i`` puts out its rows is known from, first match wins: the annotation that optimum
exports carry (``hidden_states_decoder_layers``), the names in those without it, and the names that
OpenVINO GenAI gives to imports from GGUF.
"""

# pyright: reportUnknownMemberType=false
# (openvino's operator factories have no complete type hints)

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import openvino as ov
from openvino import opset13 as op

from engine.errors import ModelUnusableError

FEATURES = "features"

_ANNOTATION = "hidden_states_decoder_layers"

_NAMES = (
    r"(^|.*\.)layers\.{layer}/aten::add/Add_1",  # optimum-intel
    r"model\.layers\.self_attn\.add1\.layer{layer}",  # OpenVINO GenAI, from GGUF
)


def add_taps(model: ov.Model, layers: Sequence[int]) -> None:
    """Add the output. Mutates ``model``; no layers, no change.

    Raises:
        ModelUnusableError: a layer's output cannot be found, or not told from others.
    """
    if not layers:
        return
    annotated = _read_annotation(model)
    outputs = [_find_output(model, layer, annotated) for layer in layers]
    joined = op.concat(outputs, -1) if len(outputs) > 1 else outputs[0].get_node()
    width = sum(output.get_partial_shape()[-1].get_length() for output in outputs)
    rows = op.reshape(joined, op.constant(np.array([-1, width], np.int64)), special_zero=False)
    rows = op.convert(rows, "f32")
    rows.output(0).set_names({FEATURES})
    model.add_results([op.result(rows)])
    model.validate_nodes_and_infer_types()


def _find_output(
    model: ov.Model, layer: int, annotated: Mapping[int, tuple[str, int]]
) -> ov.Output:
    producer, port = annotated.get(layer, (None, 0))
    if producer is not None:
        names = [re.escape(producer)]
    else:
        names = [name.replace("{layer}", str(layer)) for name in _NAMES]
    for name in names:
        found = [node for node in model.get_ops() if re.fullmatch(name, node.get_friendly_name())]
        if len(found) == 1 and _has_rows(found[0].output(port)):
            return found[0].output(port)
        if found:
            break
    raise ModelUnusableError(
        f"The output of decoder layer {layer} cannot be found in this model, and the drafter reads "
        "it: choose a drafter without hidden features, or export the model again with a recent "
        "optimum-intel.",
        param="model",
    )


def _has_rows(output: ov.Output) -> bool:
    shape = output.get_partial_shape()
    return shape.rank.is_static and len(shape) == 3 and shape[-1].is_static


def _read_annotation(model: ov.Model) -> dict[int, tuple[str, int]]:
    """Layer to (name of the node, number of its output), as optimum-intel 2.2 wrote it.

    Without the last layer: its entry is behind the final norm, which is no decoder layer's output.
    """
    if not model.has_rt_info(_ANNOTATION):
        return {}
    text = str(model.get_rt_info(_ANNOTATION).astype(str))
    layers = cast("dict[str, dict[str, object]]", json.loads(text)["layers"])
    entries = {
        int(layer): (str(entry["producer"]), int(str(entry["output_index"])))
        for layer, entry in layers.items()
    }
    entries.pop(max(entries, default=-1), None)
    return entries
