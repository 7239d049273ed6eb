"""How many drafts a target accepts, greedily, on text that nobody was trained on. In torch.

Measured twice. On the held-out text as it stands: the part of its positions where the drafter's
first choice is the target's. And on the target's own greedy answers to held-out beginnings, which
is what a drafter meets at run time. There survival is exact without running the drafter step by
step: if all drafts so far were right, the answer itself is what it has drafted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

from tests.models.corpus import Split
from tests.models.eagle3_head import Eagle3Head
from tests.models.eagle3_training import teach, unrolled
from tests.models.language_model import load
from tests.models.vocabulary import END_OF_TEXT_ID
from tests.models.windows import held_out_batches, token_stream

MEASURED_STEPS = 5
PROMPT_TOKENS, ANSWER_TOKENS = 128, 128
NUM_ANSWERS = 64
TEXT_TOKENS = 16_384

Hits = Callable[[torch.Tensor], torch.Tensor]
"""``int64[B, T] -> bool[B, R, steps]``: whether each of the drafts after row t is the target's."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """``survival[k]`` is the part of positions whose drafts 0 to k are all accepted."""

    num_positions: int
    survival: list[float]

    def to_json(self) -> dict[str, object]:
        """As it is written beside a model."""
        return {"num_positions": self.num_positions, "survival": self.survival}


def measure(out: Path, target_name: str, hits: Hits) -> dict[str, object]:
    """Acceptance on held-out text and on the target's own answers, ready for JSON."""
    tokenizer = AutoTokenizer.from_pretrained(out / target_name / "torch")
    stream = token_stream(tokenizer, Split.HELD_OUT)
    text = held_out_batches(stream, PROMPT_TOKENS + ANSWER_TOKENS, TEXT_TOKENS)
    prompts = held_out_batches(stream, PROMPT_TOKENS, NUM_ANSWERS * PROMPT_TOKENS)
    target = load(out, target_name)
    answers = [answered(target, batch[:, :PROMPT_TOKENS]) for batch in prompts]
    on_text = _survival([hits(batch) for batch in text])
    # Row t drafts what follows token t + 1; drafting begins after an answer's first token.
    on_answers = _survival([hits(batch)[:, PROMPT_TOKENS - 1 :] for batch in answers])
    return {
        "held_out_text": Acceptance(on_text.num_positions, on_text.survival[:1]).to_json(),
        "greedy_answers": on_answers.to_json(),
    }


@torch.no_grad()
def answered(target: Qwen3ForCausalLM, prompts: torch.Tensor) -> torch.Tensor:
    """``int64[B, P] -> int64[B, P + ANSWER_TOKENS]``: greedy, past any stop token."""
    return target.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=ANSWER_TOKENS,
        min_new_tokens=ANSWER_TOKENS,
        do_sample=False,
        pad_token_id=END_OF_TEXT_ID,
    )


def draft_hits(draft: Qwen3ForCausalLM, target: Qwen3ForCausalLM) -> Hits:
    """Of a draft model with the target's vocabulary."""

    @torch.no_grad()
    def hits(tokens: torch.Tensor) -> torch.Tensor:
        drafted = draft(input_ids=tokens, use_cache=False).logits.argmax(-1)
        chosen = target(input_ids=tokens, use_cache=False).logits.argmax(-1)
        # Row 0 is left out, as a head that reads token and feature cannot draft from it.
        right = (drafted == chosen)[:, 1:]
        return right.unfold(1, MEASURED_STEPS, 1)

    return hits


def head_hits(head: Eagle3Head, target: Qwen3ForCausalLM) -> Hits:
    """Of an EAGLE3 head."""

    @torch.no_grad()
    def hits(tokens: torch.Tensor) -> torch.Tensor:
        steps = unrolled(head, teach(target, head, tokens), MEASURED_STEPS)
        return torch.stack([step_hits for _, step_hits in steps], -1)

    return hits


def _survival(batches: list[torch.Tensor]) -> Acceptance:
    alive = torch.cat([batch.flatten(0, 1) for batch in batches]).long().cumprod(-1)
    rates = alive.float().mean(0).tolist()
    return Acceptance(len(alive), [round(rate, 4) for rate in rates])
