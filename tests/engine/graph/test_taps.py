"""Taps on tiny models, by annotation and by the names of two exporters."""

from __future__ import annotations

import json

import numpy as np
import openvino as ov
import pytest

from engine.errors import ModelUnusableError
from engine.graph.taps import FEATURES, add_taps
from engine.values import FloatArray
from tests.engine.graph.tiny_model import WIDTH, TinyModel

GGUF_NAME = "model.layers.self_attn.add1.layer{layer}"
UNKNOWN_NAME = "block_{layer}_out"


def annotate(model: ov.Model, producers: list[str]) -> ov.Model:
    layers = {
        str(layer): {"producer": name, "output_index": 0} for layer, name in enumerate(producers)
    }
    model.set_rt_info(json.dumps({"layers": layers}), "hidden_states_decoder_layers")
    return model


def features(model: ov.Model, layers: list[int]) -> FloatArray:
    """float32[5, W] of five tokens."""
    add_taps(model, layers)
    tokens = np.array([[3, 1, 4, 1, 5]])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(
        {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "position_ids": np.arange(5)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
    )
    return np.array(results[FEATURES])


def test_layers_stand_side_by_side_in_the_order_asked_for() -> None:
    both = features(TinyModel().build(), [2, 0])
    assert both.shape == (5, 2 * WIDTH)
    assert np.array_equal(both[:, :WIDTH], features(TinyModel().build(), [2]))
    assert np.array_equal(both[:, WIDTH:], features(TinyModel().build(), [0]))


@pytest.mark.parametrize("name", [GGUF_NAME, UNKNOWN_NAME])
def test_finds_layers_whoever_named_them(name: str) -> None:
    model = TinyModel(layer_name=name).build()
    if name == UNKNOWN_NAME:
        annotate(model, [name.format(layer=layer) for layer in range(3)])
    assert np.array_equal(features(model, [0, 1]), features(TinyModel().build(), [0, 1]))


def test_layer_1_is_not_mistaken_for_layer_11() -> None:
    model = TinyModel(num_layers=12).build()
    assert np.array_equal(features(model, [1]), features(TinyModel(num_layers=12).build(), [1]))
    assert not np.array_equal(
        features(TinyModel(num_layers=12).build(), [1]),
        features(TinyModel(num_layers=12).build(), [11]),
    )


def test_the_annotation_of_the_last_layer_is_behind_the_norm_and_not_used() -> None:
    names = [TinyModel().layer_name.format(layer=layer) for layer in range(2)]
    model = annotate(TinyModel().build(), [*names, "norm"])
    assert np.array_equal(features(model, [2]), features(TinyModel().build(), [2]))
    unnamed = annotate(TinyModel(layer_name=UNKNOWN_NAME).build(), [*names, "norm"])
    with pytest.raises(ModelUnusableError, match="layer 2"):
        add_taps(unnamed, [2])


def test_a_layer_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelUnusableError, match="decoder layer 7 cannot be found"):
        add_taps(TinyModel().build(), [1, 7])


def test_two_candidates_are_no_answer() -> None:
    model = TinyModel(layer_name="__module.model.layers.0/aten::add/Add_1").build()
    with pytest.raises(ModelUnusableError, match="decoder layer 0"):
        add_taps(model, [0])


def test_no_layers_no_output() -> None:
    model = TinyModel().build()
    add_taps(model, [])
    assert len(model.outputs) == 1
