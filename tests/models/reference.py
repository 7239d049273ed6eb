"""What the torch models compute for a fixed input, so that tests compare without torch.

=========  =====================  ==========================================================
of         array                  meaning
=========  =====================  ==========================================================
all        ``input_ids``          ``int64[N]``; of a head: the tokens after those of its features
models     ``logits``             ``float32[LOGIT_ROWS, V]``, of the last rows
target     ``taps``               ``float32[3, N, H]``: outputs of the layers that EAGLE3 taps
           ``tapped_layers``      ``int64[3]``
head       ``taps``               ``float32[3, N, H]``: the features that it is fed
           ``recurrent``          ``float32[N, H]``: its own next features, before the norm
           ``logits``             ``float32[LOGIT_ROWS, Vd]``, over the draft vocabulary
           ``d2t``                ``int64[Vd]``: target id minus draft id
=========  =====================  ==========================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Qwen3ForCausalLM

from tests.models.eagle3_head import Eagle3Head, UnrolledCache
from tests.models.eagle3_training import read, tapped_layers

NUM_ROWS = 64
LOGIT_ROWS = 8

Arrays = dict[str, NDArray[Any]]


@torch.no_grad()
def language_model_reference(model: Qwen3ForCausalLM, tokens: torch.Tensor) -> Arrays:
    """Of a draft or another model; ``tokens`` is ``int64[N]``."""
    logits = model(input_ids=tokens[None], use_cache=False).logits[0]
    return {"input_ids": tokens.numpy(), "logits": logits[-LOGIT_ROWS:].numpy()}


@torch.no_grad()
def target_reference(target: Qwen3ForCausalLM, tokens: torch.Tensor) -> Arrays:
    """Of a target, with the features that heads read."""
    layers = tapped_layers(len(target.model.layers))
    taps = read(target, tokens[None])[0][0].unflatten(-1, (len(layers), -1))
    return language_model_reference(target, tokens) | {
        "taps": taps.transpose(0, 1).contiguous().numpy(),
        "tapped_layers": np.array(layers),
    }


@torch.no_grad()
def head_reference(head: Eagle3Head, target: Qwen3ForCausalLM, tokens: torch.Tensor) -> Arrays:
    """Of a head fed with the target's features of ``tokens[:-1]`` beside ``tokens[1:]``."""
    features = read(target, tokens[None])[0][:, :-1]
    embedded = head.embed_tokens(tokens[None, 1:])
    recurrent = head.midlayer(embedded, head.fc(features), 0, UnrolledCache([], []))
    logits = head.lm_head(head.norm(recurrent))[0, -LOGIT_ROWS:]
    return {
        "input_ids": tokens[1:].numpy(),
        "taps": features[0].unflatten(-1, (3, -1)).transpose(0, 1).contiguous().numpy(),
        "recurrent": recurrent[0].numpy(),
        "logits": logits.numpy(),
        "d2t": head.d2t.numpy(),
    }
