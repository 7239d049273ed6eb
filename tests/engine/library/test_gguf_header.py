"""What a GGUF header tells of its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelUnusableError
from engine.library.gguf_header import checkpoint_config, read_gguf_header, stop_token_ids
from tests.engine.library.tiny_gguf import CONTEXT, HEADS, HIDDEN, INNER, write_tiny_gguf


def test_translates_the_header_into_the_checkpoints_names(tmp_path: Path) -> None:
    config = checkpoint_config(read_gguf_header(write_tiny_gguf(tmp_path / "tiny.gguf")))
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["max_position_embeddings"] == CONTEXT
    assert (config["hidden_size"], config["intermediate_size"]) == (HIDDEN, INNER)
    assert (config["num_hidden_layers"], config["num_attention_heads"]) == (1, HEADS)
    assert config["num_key_value_heads"] == 1
    assert config["vocab_size"] == 259
    assert config["tie_word_embeddings"] is True


def test_end_of_turn_stops_an_answer_too(tmp_path: Path) -> None:
    assert stop_token_ids(read_gguf_header(write_tiny_gguf(tmp_path / "tiny.gguf"))) == [0, 1]


def test_one_token_for_both_ends_counts_once() -> None:
    header = {"tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.eot_token_id": 2}
    assert stop_token_ids(header) == [2]


def test_counts_the_tokens_where_the_size_of_the_vocabulary_is_not_given() -> None:
    header = {"general.architecture": "qwen3", "tokenizer.ggml.tokens": 151936}
    config = checkpoint_config(header)
    assert config == {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    }


def test_an_unknown_architecture_keeps_its_own_name() -> None:
    config = checkpoint_config({"general.architecture": "new", "new.context_length": 7})
    assert config["model_type"] == "new"
    assert config["max_position_embeddings"] == 7
    assert "architectures" not in config


@pytest.mark.parametrize("content", [b"", b"GG", b"not a gguf file at all" * 10])
def test_refuses_what_is_no_gguf(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelUnusableError, match=r"other\.gguf"):
        read_gguf_header(path)


def test_refuses_a_file_that_was_cut_off(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "cut.gguf")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ModelUnusableError, match=r"cut\.gguf"):
        read_gguf_header(path)
