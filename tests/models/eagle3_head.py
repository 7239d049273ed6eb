"""An EAGLE3 head in torch, its weights named as published checkpoints name them.

One decoder layer that reads the next token's embedding beside a feature of the target, and
predicts the token after it from a smaller draft vocabulary (Li et al., "EAGLE-3", 2025). Only for
training: attention is written for the unrolled steps of :mod:`tests.models.eagle3_training`, and
at run time the exported graph does the same with a cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of a head; all but the last two are the target's."""

    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocabulary_size: int
    rms_norm_eps: float
    rope_theta: float
    context_length: int
    num_draft_tokens: int

    def config(self) -> dict[str, Any]:
        """``config.json`` of an EAGLE3 checkpoint."""
        return {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": 1,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_size,
            "vocab_size": self.vocabulary_size,
            "draft_vocab_size": self.num_draft_tokens,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_parameters": {"rope_theta": self.rope_theta, "rope_type": "default"},
            "max_position_embeddings": self.context_length,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
        }

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> HeadShape:
        """The shape that :meth:`config` was made from."""
        return cls(
            hidden_size=config["hidden_size"],
            intermediate_size=config["intermediate_size"],
            num_heads=config["num_attention_heads"],
            num_kv_heads=config["num_key_value_heads"],
            head_size=config["head_dim"],
            vocabulary_size=config["vocab_size"],
            rms_norm_eps=config["rms_norm_eps"],
            rope_theta=config["rope_theta"],
            context_length=config["max_position_embeddings"],
            num_draft_tokens=config["draft_vocab_size"],
        )


@dataclass(slots=True)
class UnrolledCache:
    """Keys and values ``[B, H, T, D]`` of the steps so far: those of the first, then the rest."""

    keys: list[torch.Tensor]
    values: list[torch.Tensor]


class Attention(nn.Module):
    """Grouped-query attention over token and feature, twice the hidden size wide."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        width = 2 * shape.hidden_size
        self.q_proj = nn.Linear(width, shape.num_heads * shape.head_size, bias=False)
        self.k_proj = nn.Linear(width, shape.num_kv_heads * shape.head_size, bias=False)
        self.v_proj = nn.Linear(width, shape.num_kv_heads * shape.head_size, bias=False)
        self.o_proj = nn.Linear(shape.num_heads * shape.head_size, shape.hidden_size, bias=False)

    def forward(self, rows: torch.Tensor, first: int, cache: UnrolledCache) -> torch.Tensor:
        """Attend from rows ``[B, T, 2H]`` at positions ``first + t``.

        In the j-th unrolled step, row t stands where the head is j of its own tokens past
        position t. It sees what it would see there at run time: the target's features up to t
        (keys of the first step) and its own j rows since (key t of each later step).
        """
        query = self._rotated(self._heads(self.q_proj(rows)), first)
        key = self._rotated(self._heads(self.k_proj(rows)), first)
        repeats = self.shape.num_heads // self.shape.num_kv_heads
        cache.keys.append(key.repeat_interleave(repeats, 1))
        cache.values.append(self._heads(self.v_proj(rows)).repeat_interleave(repeats, 1))
        length = rows.shape[1]
        scores = query @ cache.keys[0].transpose(-1, -2)
        scores = scores + torch.full((length, length), -torch.inf).triu(1)
        own = [(query * later).sum(-1, keepdim=True) for later in cache.keys[1:]]
        weights = (torch.cat([scores, *own], -1) / math.sqrt(self.shape.head_size)).softmax(-1)
        mixed = weights[..., :length] @ cache.values[0]
        for index, later in enumerate(cache.values[1:], start=length):
            mixed = mixed + weights[..., index : index + 1] * later
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _heads(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.unflatten(-1, (-1, self.shape.head_size)).transpose(1, 2)

    def _rotated(self, heads: torch.Tensor, first: int) -> torch.Tensor:
        half = self.shape.head_size // 2
        rates = self.shape.rope_theta ** (-torch.arange(half) / half)
        angles = torch.arange(first, first + heads.shape[2])[:, None] * rates
        cosine, sine = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        turned = torch.cat([-heads[..., half:], heads[..., :half]], -1)
        return heads * cosine + turned * sine


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """``[B, T, H] -> [B, T, H]``."""
        return self.down_proj(functional.silu(self.gate_proj(rows)) * self.up_proj(rows))


class MiddleLayer(nn.Module):
    """The one decoder layer; its residual stream is the feature, not the embedding."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.hidden_norm = nn.RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp = FeedForward(shape)

    def forward(
        self, embedded: torch.Tensor, feature: torch.Tensor, first: int, cache: UnrolledCache
    ) -> torch.Tensor:
        """``[B, T, H]`` twice to the next feature ``[B, T, H]``, before any norm."""
        rows = torch.cat([self.input_layernorm(embedded), self.hidden_norm(feature)], -1)
        feature = feature + self.self_attn(rows, first, cache)
        return feature + self.mlp(self.post_attention_layernorm(feature))


class Eagle3Head(nn.Module):
    """The whole head. ``embed_tokens`` and, at the start, ``lm_head`` are the target's.

    Args:
        embeddings: ``float32[V, H]``, the target's token embeddings, kept as they are.
        draft_to_target: ``int64[Vd]``, ascending target ids of the draft vocabulary.
    """

    d2t: torch.Tensor
    t2d: torch.Tensor

    def __init__(
        self, shape: HeadShape, embeddings: torch.Tensor, draft_to_target: torch.Tensor
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding.from_pretrained(embeddings)
        self.fc = nn.Linear(3 * shape.hidden_size, shape.hidden_size, bias=False)
        self.midlayer = MiddleLayer(shape)
        self.norm = nn.RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.lm_head = nn.Linear(shape.hidden_size, shape.num_draft_tokens, bias=False)
        self.lm_head.weight.data.copy_(embeddings[draft_to_target])
        is_drafted = torch.zeros(shape.vocabulary_size, dtype=torch.bool)
        is_drafted[draft_to_target] = True
        self.register_buffer("d2t", draft_to_target - torch.arange(shape.num_draft_tokens))
        self.register_buffer("t2d", is_drafted)
