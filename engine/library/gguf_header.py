"""A GGUF file's header, and the checkpoint's ``config.json`` as far as the header tells it.

Only names and sizes are translated, for ``ModelInfo`` and for drafters that compare models; the
graph itself comes from OpenVINO GenAI's own reader (`import_gguf`). Keys of the header are those of
the GGUF specification (ggml, ``docs/gguf.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.errors import ModelUnusableError

_CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
}
"""The checkpoint's class by the header's architecture, for those that are known here."""

_FIELDS = {
    "max_position_embeddings": "context_length",
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "vocab_size": "vocab_size",
}
"""Field of ``config.json``: key of the header below the architecture's name."""

NUM_TOKENS = "tokenizer.ggml.tokens"
_OUTPUT_TENSOR = "output.weight"

Header = Mapping[str, object]
"""Scalars and strings by key; of an array only its length."""


def read_gguf_header(path: Path) -> Header:
    """Read the header (some seconds: the vocabulary lies in it, and the reader walks all of it).

    Raises ``ModelUnusableError`` if ``path`` is not a GGUF file.
    """
    from gguf import GGUFReader, GGUFValueType  # slow to import, and seldom needed

    try:
        reader = GGUFReader(path)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ModelUnusableError(
            f"{path} is no GGUF file that can be read ({error}); download it again.", param="model"
        ) from error
    header: dict[str, object] = {}
    for key, field in reader.fields.items():
        is_array = bool(field.types) and field.types[0] == GGUFValueType.ARRAY
        header[key] = len(field.data) if is_array else field.contents()
    header[_OUTPUT_TENSOR] = any(tensor.name == _OUTPUT_TENSOR for tensor in reader.tensors)
    return header


def checkpoint_config(header: Header) -> dict[str, object]:
    """``config.json`` for a header: what it does not say is left out."""
    architecture = header.get("general.architecture")
    config: dict[str, object] = {"model_type": architecture}
    if isinstance(architecture, str) and architecture in _CLASSES:
        config["architectures"] = [_CLASSES[architecture]]
    for name, key in _FIELDS.items():
        value = header.get(f"{architecture}.{key}")
        if value is not None:
            config[name] = value
    config.setdefault("vocab_size", header.get(NUM_TOKENS))
    config["tie_word_embeddings"] = not header.get(_OUTPUT_TENSOR)
    return {name: value for name, value in config.items() if value is not None}


def stop_token_ids(header: Header) -> list[int]:
    """Ids that end an answer: end of sequence, and end of turn where it differs."""
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    found = (header.get(key) for key in keys)
    return list(dict.fromkeys(value for value in found if isinstance(value, int)))
