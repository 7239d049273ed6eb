"""Training of the causal language models: target, draft and the model of another vocabulary.

A draft learns from its target's distributions, not from the text: it is to guess what the target
will say, right or wrong.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import torch
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3ForCausalLM

from tests.models.checkpoints import Checkpoint
from tests.models.corpus import Split
from tests.models.optimizer import Descent
from tests.models.recipes import CONTEXT_LENGTH, LanguageModelRecipe, Schedule
from tests.models.vocabulary import END_OF_TEXT_ID, IM_END_ID, train_tokenizer
from tests.models.windows import held_out_batches, token_stream, training_batch

logger = logging.getLogger(__name__)

STEPS_BETWEEN_REPORTS = 50
STEPS_BETWEEN_MEASURES = 400
MEASURED_TOKENS = 16_384


def train(recipe: LanguageModelRecipe, schedule: Schedule, out: Path) -> Path:
    """Train, or go on training, and save a folder that transformers and optimum-cli read.

    Args:
        schedule: The recipe's own, or a shorter one of a trial.
        out: Where checkpoints and folders of all models lie; a teacher's must be there.

    Returns:
        The model's folder, ``out / recipe.name / "torch"``.
    """
    torch.manual_seed(recipe.seed)
    tokenizer = train_tokenizer(recipe.vocabulary)
    model = Qwen3ForCausalLM(recipe.config())
    teacher = load(out, recipe.teacher) if recipe.teacher else None
    descent = Descent(model)
    checkpoint = Checkpoint(out / recipe.name / "checkpoint.pt", model, descent)
    start = checkpoint.resume()
    stream = token_stream(tokenizer, Split.TRAINING)
    held_out = held_out_batches(
        token_stream(tokenizer, Split.HELD_OUT), CONTEXT_LENGTH, MEASURED_TOKENS
    )
    began = time.monotonic()
    for step in range(start, schedule.num_steps):
        batch = training_batch(stream, step, schedule.window(step), recipe.seed)
        loss = loss_of(model, batch, teacher)
        descent.step(loss, schedule.rate(step))
        checkpoint.save_now_and_then(step + 1)
        if step % STEPS_BETWEEN_REPORTS == 0:
            seconds = time.monotonic() - began
            logger.info("%s step %d: loss %.3f, %.0f s", recipe.name, step, loss.item(), seconds)
        if step % STEPS_BETWEEN_MEASURES == STEPS_BETWEEN_MEASURES - 1:
            logger.info("%s held out: %.3f", recipe.name, held_out_loss(model, held_out))
    checkpoint.save(schedule.num_steps)
    logger.info("%s held out at the end: %.3f", recipe.name, held_out_loss(model, held_out))
    return save(model, tokenizer, out / recipe.name / "torch")


def loss_of(
    model: Qwen3ForCausalLM, batch: torch.Tensor, teacher: Qwen3ForCausalLM | None
) -> torch.Tensor:
    """Mean cross entropy (nats per token) against the text, or against the teacher."""
    logits = model(input_ids=batch[:, :-1], use_cache=False).logits.flatten(0, 1)
    if teacher is None:
        return functional.cross_entropy(logits, batch[:, 1:].flatten())
    with torch.no_grad():
        taught = teacher(input_ids=batch[:, :-1], use_cache=False).logits.flatten(0, 1)
    return functional.cross_entropy(logits, taught.softmax(-1))


@torch.no_grad()
def held_out_loss(model: Qwen3ForCausalLM, batches: list[torch.Tensor]) -> float:
    """Cross entropy of text that was not trained on."""
    model.eval()
    losses = [loss_of(model, batch, teacher=None).item() for batch in batches]
    model.train()
    return sum(losses) / len(losses)


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """Save with weights rounded to what float16 can say.

    So an export to fp16 loses nothing, and what the runtime computes can be compared with torch
    closely.
    """
    model.load_state_dict(
        {name: weight.half().float() for name, weight in model.state_dict().items()}
    )
    stops = [IM_END_ID, END_OF_TEXT_ID]
    model.generation_config = GenerationConfig(eos_token_id=stops, pad_token_id=END_OF_TEXT_ID)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load(out: Path, name: str) -> Qwen3ForCausalLM:
    """A trained model of ``out``, frozen."""
    model = Qwen3ForCausalLM.from_pretrained(out / name / "torch", dtype=torch.float32)
    return model.eval().requires_grad_(False)
