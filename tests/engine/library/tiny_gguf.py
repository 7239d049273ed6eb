"""A language model of a few kilobytes in a GGUF file, with random weights, for import tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter

HIDDEN, HEADS, KV_HEADS, INNER, CONTEXT = 64, 2, 1, 128, 256
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def byte_characters() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes, in the order of their bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def write_tiny_gguf(path: Path, architecture: str = "llama") -> Path:
    """Write a one-layer model with a byte vocabulary, an end of sequence and an end of turn."""
    tokens = ["<|end|>", "<|turn|>", *byte_characters(), "he"]
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT)
    writer.add_block_count(1)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_file_type(1)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, *[1] * (len(tokens) - 2)])
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_eot_token_id(1)
    writer.add_chat_template(CHAT_TEMPLATE)
    rng = np.random.default_rng(0)
    head_dim = HIDDEN // HEADS
    shapes = {
        "token_embd": (len(tokens), HIDDEN),
        "blk.0.attn_q": (HIDDEN, HIDDEN),
        "blk.0.attn_k": (KV_HEADS * head_dim, HIDDEN),
        "blk.0.attn_v": (KV_HEADS * head_dim, HIDDEN),
        "blk.0.attn_output": (HIDDEN, HIDDEN),
        "blk.0.ffn_gate": (INNER, HIDDEN),
        "blk.0.ffn_up": (INNER, HIDDEN),
        "blk.0.ffn_down": (HIDDEN, INNER),
        "blk.0.attn_norm": (HIDDEN,),
        "blk.0.ffn_norm": (HIDDEN,),
        "output_norm": (HIDDEN,),
    }
    for name, shape in shapes.items():
        dtype = np.float32 if len(shape) == 1 else np.float16
        writer.add_tensor(f"{name}.weight", rng.normal(0, 0.02, shape).astype(dtype))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
