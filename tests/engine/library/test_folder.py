"""What a model folder says, and what is said of one that cannot be used."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ModelNotFoundError, ModelUnusableError
from engine.library.folder import model_defaults, read_model_folder

RT_INFO = """<?xml version="1.0"?>
<net name="Model0">
<layers><layer id="0"><rt_info><eos_token_id value="99"/></rt_info></layer></layers>
<rt_info>
  <bos_token_id value="1" /><eos_token_id value="2" /><chat_template value="{{ &#10; }}" />
</rt_info></net>
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 8192,
    "vocab_size": 49152,
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "eos_token_id": 5,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as GenAI saves it from a GGUF: graphs alone."""
    path = tmp_path / "TinyModel"
    path.mkdir()
    for name in ("model", "tokenizer", "detokenizer"):
        (path / f"openvino_{name}.xml").write_text(RT_INFO, encoding="utf-8")
        (path / f"openvino_{name}.bin").write_bytes(b"12345")
    return path


def write(folder: Path, name: str, values: object) -> None:
    (folder / name).write_text(json.dumps(values), encoding="utf-8")


def test_graphs_alone_tell_the_special_tokens_and_the_template(folder: Path) -> None:
    info = read_model_folder(folder)
    assert (info.name, info.path, info.weight_bytes) == ("TinyModel", folder, 5)
    assert (info.bos_token_id, info.stop_token_ids) == (1, frozenset({2}))
    assert info.has_chat_template
    assert (info.architecture, info.context_length, info.num_layers) == (None, None, None)
    assert model_defaults(folder) == {"bos_token_id": 1, "eos_token_id": 2}


def test_the_checkpoint_tells_sizes_and_outranks_the_tokenizer(folder: Path) -> None:
    write(folder, "config.json", CONFIG)
    info = read_model_folder(folder)
    assert (info.architecture, info.context_length) == ("LlamaForCausalLM", 8192)
    assert (info.vocab_size, info.num_layers, info.num_kv_heads) == (49152, 30, 3)
    assert (info.hidden_size, info.num_attention_heads, info.head_dim) == (576, 9, 64)
    assert info.stop_token_ids == {5}


def test_generation_config_has_the_last_word_on_stops(folder: Path) -> None:
    write(folder, "config.json", CONFIG)
    write(folder, "generation_config.json", {"eos_token_id": [7, 8], "temperature": 0.6})
    assert read_model_folder(folder).stop_token_ids == {7, 8}
    assert model_defaults(folder) == {
        "eos_token_id": [7, 8],
        "temperature": 0.6,
        "bos_token_id": 1,
    }


def test_a_vision_model_is_described_by_its_language_model(folder: Path) -> None:
    write(folder, "config.json", {"model_type": "qwen3_vl", "text_config": CONFIG})
    info = read_model_folder(folder)
    assert (info.architecture, info.num_layers) == ("qwen3_vl", 30)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("chat_template.jinja", ""),
        ("chat_template.json", {"chat_template": "{{ }}"}),
        ("tokenizer_config.json", {"chat_template": "{{ }}"}),
    ],
)
def test_finds_a_chat_template_wherever_it_stands(folder: Path, name: str, values: object) -> None:
    bare = RT_INFO.replace("chat_template", "other")
    (folder / "openvino_tokenizer.xml").write_text(bare, encoding="utf-8")
    assert not read_model_folder(folder).has_chat_template
    write(folder, name, values)
    assert read_model_folder(folder).has_chat_template


def test_a_missing_folder_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="nowhere") as caught:
        read_model_folder(tmp_path / "nowhere")
    assert caught.value.param == "model"


def test_a_file_is_no_model_folder(folder: Path) -> None:
    with pytest.raises(ModelUnusableError, match="is a file"):
        read_model_folder(folder / "openvino_model.xml")


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ("openvino_model.xml", "optimum-cli export openvino"),
        ("openvino_model.bin", "optimum-cli export openvino"),
        ("openvino_tokenizer.xml", "convert_tokenizer"),
        ("openvino_detokenizer.xml", "--with-detokenizer"),
    ],
)
@pytest.mark.parametrize("read", [read_model_folder, model_defaults])
def test_names_the_missing_file_and_how_to_get_it(
    folder: Path, missing: str, remedy: str, read: Callable[[Path], object]
) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelUnusableError) as caught:
        read(folder)
    assert missing in caught.value.message
    assert remedy in caught.value.message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "{"),
        ("generation_config.json", "[]"),
        ("openvino_tokenizer.xml", "<net>"),
        ("config.json", "\xff\xfe"),
    ],
)
def test_a_damaged_file_is_named(folder: Path, name: str, content: str) -> None:
    (folder / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(ModelUnusableError, match=name):
        read_model_folder(folder)


def test_reading_the_real_model_is_quick(smollm2: Path) -> None:
    read_model_folder(smollm2)  # the first read may find cold disk caches
    started = time.perf_counter()
    info = read_model_folder(smollm2)
    assert time.perf_counter() - started < 0.02
    assert (info.architecture, info.context_length) == ("LlamaForCausalLM", 8192)
    assert (info.num_layers, info.num_kv_heads, info.head_dim) == (30, 3, 64)
    assert (info.vocab_size, info.stop_token_ids) == (49152, frozenset({2}))
    assert info.has_chat_template
