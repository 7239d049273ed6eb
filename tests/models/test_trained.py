"""The committed models are what they are said to be: whole, small, accepted, equal to torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray
from openvino import opset13 as opset

from engine.tokens.tokenizer import Tokenizer
from tests.models import trained

pytestmark = pytest.mark.skipif(
    not all(folder.exists() for folder in (trained.TARGET, trained.DRAFT, trained.EAGLE3)),
    reason="the trained models are not in the repository yet",
)

MAX_BYTES = 12_000_000
MODELS = [trained.TARGET, trained.DRAFT, trained.OTHER]
DRAFTERS = [trained.DRAFT, trained.EAGLE3]
CLOSE = 1e-3


def by_name(folder: Path) -> str:
    return folder.name


def run(
    model: ov.Model, input_ids: NDArray[Any], hidden_states: NDArray[Any] | None = None
) -> ov.InferRequest:
    """One inference of a whole sequence ``int64[N]`` in float32."""
    precise = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = ov.Core().compile_model(model, "CPU", precise).create_infer_request()
    inputs = {
        "input_ids": input_ids[None],
        "attention_mask": np.ones((1, len(input_ids)), np.int64),
        "position_ids": np.arange(len(input_ids))[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    if hidden_states is not None:
        inputs["hidden_states"] = hidden_states[None]
    request.infer(inputs)
    return request


def read(folder: Path) -> ov.Model:
    return ov.Core().read_model(folder / "openvino_model.xml")


def test_all_artefacts_together_are_small() -> None:
    sizes = [path.stat().st_size for path in trained.ARTEFACTS.rglob("*") if path.is_file()]
    assert 0 < sum(sizes) <= MAX_BYTES


@pytest.mark.parametrize("folder", DRAFTERS, ids=by_name)
def test_the_target_accepts_half_of_the_first_drafts_or_more(folder: Path) -> None:
    measured = trained.acceptance(folder)
    assert measured["held_out_text"]["survival"][0] >= 0.5
    assert measured["greedy_answers"]["survival"][0] >= 0.5


@pytest.mark.parametrize("folder", MODELS, ids=by_name)
def test_a_model_computes_what_torch_does(folder: Path) -> None:
    expected = trained.reference(folder)
    logits = run(read(folder), expected["input_ids"]).get_tensor("logits").data[0]
    # Weights of eight bits are near those that torch had, not equal to them.
    close = 0.2 if folder == trained.OTHER else CLOSE
    np.testing.assert_allclose(logits[-len(expected["logits"]) :], expected["logits"], atol=close)


def test_the_annotated_layers_of_the_target_are_the_features_of_torch() -> None:
    expected = trained.reference(trained.TARGET)
    model = read(trained.TARGET)
    said = json.loads(model.get_rt_info(["hidden_states_decoder_layers"]).value)["layers"]
    nodes = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    for layer in expected["tapped_layers"]:
        result = opset.result(nodes[said[str(layer)]["producer"]].output(0))
        result.output(0).set_names({f"layer {layer}"})
        model.add_results([result])
    request = run(model, expected["input_ids"])
    for layer, taps in zip(expected["tapped_layers"], expected["taps"], strict=True):
        got = request.get_tensor(f"layer {layer}").data[0]
        np.testing.assert_allclose(got, taps, atol=CLOSE)


def test_the_head_computes_what_torch_does() -> None:
    expected = trained.reference(trained.EAGLE3)
    features = np.concatenate(list(expected["taps"]), -1)
    request = run(read(trained.EAGLE3), expected["input_ids"], features)
    logits = request.get_tensor("logits").data[0, -len(expected["logits"]) :]
    np.testing.assert_allclose(logits, expected["logits"], atol=CLOSE)
    np.testing.assert_array_equal(request.get_tensor("d2t").data, expected["d2t"])


def test_the_other_vocabulary_is_as_large_and_not_the_same() -> None:
    target, other = Tokenizer.load(trained.TARGET), Tokenizer.load(trained.OTHER)
    assert target.vocab_size == other.vocab_size
    text = "def read(self, size):\n    return self.buffer.read(size)\n"
    assert target.encode(text) != other.encode(text)


@pytest.mark.parametrize("folder", MODELS, ids=by_name)
def test_the_tokenizer_gives_back_any_text(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder)
    text = "def grüße(name):\n\treturn f'こんにちは {name} 🙂'\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
