"""Turn a stateful language model into one over a paged key/value cache.

The rewrite itself is OpenVINO's ``PagedAttention`` transformation; this file names its switches and
checks that its result is what the paged backend feeds. After it, rows of all sequences stand one
after another in dimension 0 of every input, and ``logits`` is float32[T, 1, V].
"""

from __future__ import annotations

import openvino as ov
from openvino._offline_transformations import (  # pyright: ignore[reportMissingTypeStubs]
    paged_attention_transformation,  # pyright: ignore[reportUnknownVariableType]
)

from engine.errors import ModelUnusableError

PAGING_INPUTS = (
    "past_lens",
    "subsequence_begins",
    "block_indices",
    "block_indices_begins",
    "max_context_len",
    "qq_bias",
    "qq_bias_begins",
)
"""Inputs that the rewrite adds beside one ``key_cache.N`` and ``value_cache.N`` for each layer.

``qq_bias`` uint8[sum of n_i * n_i] says, for each slice, which of its rows each row may attend to
(1 = may, row-major); ``qq_bias_begins`` are its prefix sums, and an empty range stands for plain
causal order.
"""


def to_paged(model: ov.Model) -> None:
    """Rewrite ``model`` in place.

    Raises:
        ModelUnusableError: the model's attention is not of a form that OpenVINO can page.
    """
    try:
        paged_attention_transformation(
            model,
            use_block_indices_inputs=False,
            use_score_outputs=False,
            allow_score_aggregation=False,
            allow_cache_rotation=False,
            allow_xattention=False,
            allow_adaptive_rkv=False,
            allow_qq_bias=True,
        )
    except RuntimeError as error:
        raise ModelUnusableError(
            "This model's attention cannot be paged by OpenVINO; "
            "export it again with a recent optimum-intel."
        ) from error
    names = {name for node in model.inputs for name in node.names}
    missing = [name for name in PAGING_INPUTS if name not in names]
    if missing or not any(name.startswith("key_cache.") for name in names):
        raise ModelUnusableError(
            "This model has no attention layer that OpenVINO can page; "
            "export it with the task text-generation-with-past."
        )
