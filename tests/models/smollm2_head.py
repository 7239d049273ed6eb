"""Training of the EAGLE3 head for SmolLM2-135M-Instruct, on lessons that were collected before.

Goes on from a first head that is given as a folder::

    python -m tests.models.smollm2_head --start FOLDER --lessons DIR --out DIR ANSWERS.jsonl ...

``FOLDER`` and the result, ``DIR/smollm2-eagle3/torch``, are checkpoints that optimum-cli reads. Its
held-out prompts are of other kinds than those it is trained on.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

import torch

from tests.models.checkpoints import Checkpoint
from tests.models.corpus import Split
from tests.models.eagle3_head import Eagle3Head
from tests.models.eagle3_training import (
    lesson_loss,
    load_head_folder,
    save,
    survival,
)
from tests.models.language_model import STEPS_BETWEEN_REPORTS
from tests.models.optimizer import Descent
from tests.models.recipes import Schedule
from tests.models.smollm2_lessons import LessonFiles, read_dialogues

logger = logging.getLogger(__name__)

NAME = "smollm2-eagle3"
SCHEDULE = Schedule(num_steps=2_000, full_rate=0.25)
"""The head starts trained, so with small steps."""
DIALOGUES_PER_STEP = 8
UNROLL_STEPS = 3
NUM_MEASURED = 80
STEPS_BETWEEN_MEASURES = 200
SEED = 4


def train(start: Path, files: LessonFiles, schedule: Schedule, out: Path) -> Path:
    """Train, or go on training, on the lessons that are there; the checkpoint's folder."""
    head, shape = load_head_folder(start)
    for name, weight in head.named_parameters():
        weight.requires_grad_(not name.startswith("embed_tokens"))
    by_split = {
        split: [i for i in range(files.num_done) if files.dialogues[i].split is split]
        for split in Split
    }
    measured = by_split[Split.HELD_OUT]
    if not measured:
        raise ValueError("No held-out dialogue is among the collected lessons: collect more.")
    measured = measured[:: max(1, len(measured) // NUM_MEASURED)]
    descent = Descent(head)
    checkpoint = Checkpoint(out / NAME / "checkpoint.pt", head, descent)
    logger.info("held out before: %s", measure(head, files, measured))
    began = time.monotonic()
    for step in range(checkpoint.resume(), schedule.num_steps):
        lesson = files.lesson(chosen_for(step, by_split[Split.TRAINING]), head)
        loss = lesson_loss(head, lesson, UNROLL_STEPS)
        descent.step(loss, schedule.rate(step))
        checkpoint.save_now_and_then(step + 1)
        if step % STEPS_BETWEEN_REPORTS == 0:
            logger.info("step %d: loss %.3f, %.0f s", step, loss.item(), time.monotonic() - began)
        if step % STEPS_BETWEEN_MEASURES == STEPS_BETWEEN_MEASURES - 1:
            logger.info("held out: %s", measure(head, files, measured))
            save(head, shape, out / NAME / "torch")
    checkpoint.save(schedule.num_steps)
    logger.info("held out at the end: %s", measure(head, files, measured))
    return save(head, shape, out / NAME / "torch")


def chosen_for(step: int, indices: list[int]) -> list[int]:
    """Dialogues of a step: passes over all of them, each in an order of its own."""
    per_pass = max(1, len(indices) // DIALOGUES_PER_STEP)
    generator = torch.Generator().manual_seed(SEED * 1_000_003 + step // per_pass)
    order = torch.randperm(len(indices), generator=generator).tolist()
    first = step % per_pass * DIALOGUES_PER_STEP
    return [indices[i] for i in order[first : first + DIALOGUES_PER_STEP]]


def measure(head: Eagle3Head, files: LessonFiles, indices: list[int]) -> list[float]:
    """Survival by position along the model's own answers to prompts of kinds not trained on."""
    batches = [indices[i : i + DIALOGUES_PER_STEP] for i in range(0, len(indices), 8)]
    return survival(head, (files.lesson(batch, head) for batch in batches), UNROLL_STEPS)


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description="Train a head for SmolLM2.")
    parser.add_argument("answers", type=Path, nargs="+", help="files of prompts and answers")
    parser.add_argument(
        "--start", type=Path, required=True, help="folder of the head to go on from"
    )
    parser.add_argument("--lessons", type=Path, required=True, help="folder of the lessons")
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoint and result")
    parser.add_argument("--steps", type=int, default=SCHEDULE.num_steps)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    schedule = Schedule(num_steps=options.steps, full_rate=SCHEDULE.full_rate)
    files = LessonFiles(options.lessons, read_dialogues(options.answers))
    train(options.start, files, schedule, options.out)


if __name__ == "__main__":
    main()
