"""Token windows of the corpus: the batch of a step follows from the seed and the step alone.

So a resumed training sees what an uninterrupted one would have seen.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerFast

from tests.models import corpus
from tests.models.corpus import Split
from tests.models.recipes import TOKENS_PER_STEP
from tests.models.vocabulary import END_OF_TEXT_ID


def token_stream(tokenizer: PreTrainedTokenizerFast, split: Split) -> torch.Tensor:
    """``int64[T]``: all documents of one part, each followed by the end-of-text token."""
    ids: list[int] = []
    for encoding in tokenizer.backend_tokenizer.encode_batch(corpus.documents(split)):
        ids += encoding.ids
        ids.append(END_OF_TEXT_ID)
    return torch.tensor(ids)


def training_batch(stream: torch.Tensor, step: int, window: int, seed: int) -> torch.Tensor:
    """``int64[B, window + 1]``: inputs and, shifted by one, labels of one training step."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    count = max(1, TOKENS_PER_STEP // window)
    starts = torch.randint(0, len(stream) - window - 1, (count,), generator=generator)
    return torch.stack([stream[start : start + window + 1] for start in starts.tolist()])


def held_out_batches(stream: torch.Tensor, window: int, num_tokens: int) -> list[torch.Tensor]:
    """Windows ``int64[8, window + 1]``, evenly spread over the stream, about ``num_tokens``."""
    count = max(1, num_tokens // window)
    starts = torch.linspace(0, len(stream) - window - 1, count).long().tolist()
    rows = [stream[start : start + window + 1] for start in starts]
    return [torch.stack(rows[i : i + 8]) for i in range(0, count, 8)]
