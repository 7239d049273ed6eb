"""Training of an EAGLE3 head on a frozen target, with training-time test.

The head is unrolled for several steps on its own features, as it is when it drafts, and learns in
each what the target would say there. The tokens between are the text's.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import AutoTokenizer, Qwen3ForCausalLM

from tests.models.checkpoints import Checkpoint
from tests.models.corpus import Split
from tests.models.eagle3_head import Eagle3Head, HeadShape, UnrolledCache
from tests.models.language_model import (
    STEPS_BETWEEN_MEASURES,
    STEPS_BETWEEN_REPORTS,
    load,
)
from tests.models.optimizer import Descent
from tests.models.recipes import CONTEXT_LENGTH, SHORT_WINDOW, HeadRecipe, Schedule
from tests.models.windows import held_out_batches, token_stream, training_batch

logger = logging.getLogger(__name__)

COUNTED_TOKENS = 40_960
"""Text over which the target's choices are counted to find the draft vocabulary."""
MEASURED_TOKENS = 8_192
LATER_STEP_WEIGHT = 0.8
"""Each further step counts that much of the one before: fewer drafts live to reach it."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the target says about a batch of texts, row t about what follows token t.

    ``features`` is ``float32[B, T, 3H]``, ``taught`` ``float32[B, T, Vd]`` the probabilities of the
    draft vocabulary, ``chosen`` ``int64[B, T]`` the most probable token of the whole one. Rows
    that are not ``counted`` (``bool[B, T]``) are context alone.
    """

    tokens: torch.Tensor
    features: torch.Tensor
    taught: torch.Tensor
    chosen: torch.Tensor
    counted: torch.Tensor


def tapped_layers(num_layers: int) -> tuple[int, int, int]:
    """Layers whose outputs the head reads where nobody says otherwise (OpenVINO GenAI's rule)."""
    return 2, num_layers // 2, num_layers - 3


def train(recipe: HeadRecipe, schedule: Schedule, out: Path) -> Path:
    """Train, or go on training, and save a checkpoint as EAGLE3 heads are published.

    Args and result as of :func:`tests.models.language_model.train`.
    """
    torch.manual_seed(recipe.seed)
    target = load(out, recipe.target)
    tokenizer = AutoTokenizer.from_pretrained(out / recipe.target / "torch")
    stream = token_stream(tokenizer, Split.TRAINING)
    measured = held_out_batches(
        token_stream(tokenizer, Split.HELD_OUT), CONTEXT_LENGTH, MEASURED_TOKENS
    )
    shape = shape_for(target, recipe)
    head = Eagle3Head(
        shape,
        target.get_input_embeddings().weight.detach().clone(),
        most_chosen(target, stream, recipe.num_draft_tokens),
    )
    descent = Descent(head)
    checkpoint = Checkpoint(out / recipe.name / "checkpoint.pt", head, descent)
    lesson_of = partial(teach, target, head)
    began = time.monotonic()
    for step in range(checkpoint.resume(), schedule.num_steps):
        batch = training_batch(stream, step, schedule.window(step), recipe.seed)
        loss = lesson_loss(head, lesson_of(batch), recipe.unroll_steps)
        descent.step(loss, schedule.rate(step))
        checkpoint.save_now_and_then(step + 1)
        if step % STEPS_BETWEEN_REPORTS == 0:
            seconds = time.monotonic() - began
            logger.info("%s step %d: loss %.3f, %.0f s", recipe.name, step, loss.item(), seconds)
        if step % STEPS_BETWEEN_MEASURES == STEPS_BETWEEN_MEASURES - 1:
            rates = survival(head, map(lesson_of, measured), recipe.unroll_steps)
            logger.info("%s held out: %s", recipe.name, rates)
    checkpoint.save(schedule.num_steps)
    rates = survival(head, map(lesson_of, measured), recipe.unroll_steps)
    logger.info("%s held out at the end: %s", recipe.name, rates)
    return save(head, shape, out / recipe.name / "torch")


def shape_for(target: Qwen3ForCausalLM, recipe: HeadRecipe) -> HeadShape:
    """A head as wide as its target."""
    config = target.config
    return HeadShape(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_size=config.head_dim,
        vocabulary_size=config.vocab_size,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=config.rope_parameters["rope_theta"],
        context_length=config.max_position_embeddings,
        num_draft_tokens=recipe.num_draft_tokens,
    )


@torch.no_grad()
def most_chosen(target: Qwen3ForCausalLM, stream: torch.Tensor, count: int) -> torch.Tensor:
    """``int64[count]``: the tokens that the target chooses most often, ascending.

    A token of the text counts a little too, so that ties do not fall to the lowest ids.
    """
    frequency = torch.bincount(stream, minlength=target.config.vocab_size) / len(stream)
    for batch in held_out_batches(stream, SHORT_WINDOW, COUNTED_TOKENS):
        chosen = target(input_ids=batch, use_cache=False).logits.argmax(-1).flatten()
        frequency += torch.bincount(chosen, minlength=len(frequency))
    return frequency.topk(count).indices.sort().values


@torch.no_grad()
def read(target: Qwen3ForCausalLM, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Features ``float32[B, T, 3H]`` and logits ``float32[B, T, V]`` of ``int64[B, T]``."""
    output = target(input_ids=tokens, use_cache=False, output_hidden_states=True)
    # hidden_states[0] are the embeddings, so a layer's output stands one further.
    taps = [output.hidden_states[layer + 1] for layer in tapped_layers(len(target.model.layers))]
    return torch.cat(taps, -1), output.logits


def teach(target: Qwen3ForCausalLM, head: Eagle3Head, tokens: torch.Tensor) -> Lesson:
    """The lesson of whole texts ``int64[B, T]``, all of it counted."""
    features, logits = read(target, tokens)
    return Lesson(
        tokens=tokens,
        features=features,
        taught=logits.softmax(-1)[..., head.t2d],
        chosen=logits.argmax(-1),
        counted=torch.ones_like(tokens, dtype=torch.bool),
    )


def unrolled(
    head: Eagle3Head, lesson: Lesson, num_steps: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Loss (a scalar) and hits (``bool[B, R]``) of each step, the same rows R in all of them.

    Row t of step j holds the feature of position ``t + j``, the target's for j = 0 and the head's
    own guess later, beside the embedding of the token at ``t + j + 1``. It predicts what the
    target says after that token: with tokens a b c d, row 0 of step 0 reads a's feature and b,
    and is judged by the target's distribution after "a b".
    """
    rows = lesson.tokens.shape[1] - num_steps
    feature = head.fc(lesson.features[:, :rows])
    cache = UnrolledCache([], [])
    drafted = head.t2d.nonzero().flatten()
    for step in range(num_steps):
        shifted = slice(step + 1, step + 1 + rows)
        embedded = head.embed_tokens(lesson.tokens[:, shifted])
        feature = head.midlayer(embedded, feature, step, cache)
        logits = head.lm_head(head.norm(feature))
        counted = lesson.counted[:, shifted]
        loss = functional.cross_entropy(logits[counted], lesson.taught[:, shifted][counted])
        yield loss, drafted[logits.argmax(-1)] == lesson.chosen[:, shifted]


def lesson_loss(head: Eagle3Head, lesson: Lesson, num_steps: int) -> torch.Tensor:
    """The losses of all steps as one, the later ones weighing less."""
    losses = (loss for loss, _ in unrolled(head, lesson, num_steps))
    return torch.stack([loss * LATER_STEP_WEIGHT**step for step, loss in enumerate(losses)]).sum()


@torch.no_grad()
def survival(head: Eagle3Head, lessons: Iterable[Lesson], num_steps: int) -> list[float]:
    """Part of the rows whose drafts are right up to and including each step."""
    alive: list[torch.Tensor] = []
    for lesson in lessons:
        hits = torch.stack([hits for _, hits in unrolled(head, lesson, num_steps)], -1)
        counted = lesson.counted[:, 1:].unfold(1, num_steps, 1).all(-1)
        alive.append(hits[counted].long().cumprod(-1))
    return [round(rate, 4) for rate in torch.cat(alive).float().mean(0).tolist()]


def save(head: Eagle3Head, shape: HeadShape, folder: Path) -> Path:
    """Save weights, rounded to float16 as the target's are, and ``config.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.half().float() if weight.is_floating_point() else weight
        for name, weight in head.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.dumps(shape.config(), indent=2) + "\n"
    (folder / "config.json").write_text(config, encoding="utf-8")
    return folder


def load_head(out: Path, name: str) -> Eagle3Head:
    """A trained head of ``out``, frozen."""
    head, _ = load_head_folder(out / name / "torch")
    return head.eval().requires_grad_(False)


def load_head_folder(folder: Path) -> tuple[Eagle3Head, HeadShape]:
    """A head as :func:`save` wrote it."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = load_file(folder / "model.safetensors")
    drafted = weights["t2d"].nonzero().flatten()
    shape = HeadShape.of_config(config)
    head = Eagle3Head(shape, weights["embed_tokens.weight"], drafted)
    head.load_state_dict(weights)
    return head, shape
