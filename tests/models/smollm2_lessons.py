"""Lessons for a head of SmolLM2: what the model computes along its own answers, kept in files.

Reading half a million tokens with a model of 135M parameters takes most of an hour on two cores
and each pass of a training would need it again, so it is done once and can be interrupted::

    python -m tests.models.smollm2_lessons --model FOLDER --out DIR ANSWERS.jsonl ...

``FOLDER`` is the model as the engine runs it. A line of ``ANSWERS.jsonl`` is a prompt and its
answer as token ids, ``{"p": [...], "o": [...]}``.
"""

from __future__ import annotations

import argparse
import json
import logging
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import torch
from numpy.typing import NDArray
from openvino import opset13 as opset

from tests.models.corpus import Split
from tests.models.eagle3_head import Eagle3Head
from tests.models.eagle3_training import Lesson, tapped_layers

logger = logging.getLogger(__name__)

NUM_LAYERS, HIDDEN_SIZE = 30, 576
NUM_TAUGHT = 32
"""Most probable tokens that are kept of each distribution; the rest counts as never said."""
LAYER_OUTPUT = "model.layers.self_attn.add1.layer{}"
"""Name that OpenVINO GenAI gives a layer's last residual sum when it imports a GGUF file."""
NUM_TEMPLATE_TOKENS, NUM_OPENING_TOKENS = 24, 2
"""What the chat template puts first, and the words by which prompts are told apart in kind."""
HELD_OUT_EVERY = 10


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A prompt and the model's answer, as token ids."""

    prompt: list[int]
    answer: list[int]

    @property
    def split(self) -> Split:
        """Prompts that open with the same words are of one kind, and held out or not together."""
        opening = self.prompt[NUM_TEMPLATE_TOKENS : NUM_TEMPLATE_TOKENS + NUM_OPENING_TOKENS]
        is_held_out = zlib.crc32(np.array(opening, "<i4").tobytes()) % HELD_OUT_EVERY == 0
        return Split.HELD_OUT if is_held_out else Split.TRAINING


def read_dialogues(paths: Iterable[Path]) -> list[Dialogue]:
    """All lines of all files, in order."""
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    return [Dialogue(row["p"], row["o"]) for row in map(json.loads, lines)]


class LessonFiles:
    """Arrays over all tokens of the dialogues, in files below ``folder`` (about 4 kB a token).

    ``features`` is ``float16[N, 3H]``; ``taught_ids`` (``int32[N, 32]``) are the most probable next
    tokens, best first, ``taught`` (``float16[N, 32]``) their probabilities.
    """

    def __init__(self, folder: Path, dialogues: list[Dialogue]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        lengths = [len(dialogue.prompt) + len(dialogue.answer) for dialogue in dialogues]
        self.dialogues = dialogues
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.features = self._array(folder / "features.f16", np.float16, 3 * HIDDEN_SIZE)
        self.taught_ids = self._array(folder / "taught_ids.i32", np.int32, NUM_TAUGHT)
        self.taught = self._array(folder / "taught.f16", np.float16, NUM_TAUGHT)
        self._progress = folder / "num_done"

    @property
    def num_done(self) -> int:
        """Dialogues that are in the files, from the first."""
        return int(self._progress.read_text()) if self._progress.exists() else 0

    def mark_done(self, count: int) -> None:
        """Write what is in memory, then the count."""
        for array in (self.features, self.taught_ids, self.taught):
            array.flush()
        self._progress.write_text(str(count))

    def lesson(self, indices: list[int], head: Eagle3Head) -> Lesson:
        """Dialogues as one batch, padded at the end; rows that speak of the answer count."""
        length = max(int(self.starts[i + 1] - self.starts[i]) for i in indices)
        batch = Lesson(
            tokens=torch.zeros(len(indices), length, dtype=torch.long),
            features=torch.zeros(len(indices), length, 3 * HIDDEN_SIZE),
            taught=torch.zeros(len(indices), length, int(head.t2d.sum())),
            chosen=torch.zeros(len(indices), length, dtype=torch.long),
            counted=torch.zeros(len(indices), length, dtype=torch.bool),
        )
        draft_ids = head.t2d.cumsum(0) - 1
        for row, index in enumerate(indices):
            dialogue = self.dialogues[index]
            part = slice(int(self.starts[index]), int(self.starts[index + 1]))
            size = part.stop - part.start
            ids = torch.from_numpy(self.taught_ids[part].astype(np.int64))
            shares = torch.from_numpy(self.taught[part].astype(np.float32)) * head.t2d[ids]
            batch.tokens[row, :size] = torch.tensor(dialogue.prompt + dialogue.answer)
            features = self.features[part].astype(np.float32)
            batch.features[row, :size] = torch.from_numpy(features)
            batch.taught[row, :size].scatter_add_(1, draft_ids[ids].clamp(min=0), shares)
            batch.chosen[row, :size] = ids[:, 0]
            batch.counted[row, len(dialogue.prompt) - 1 : size] = True
        return batch

    def _array(self, path: Path, dtype: Any, width: int) -> NDArray[Any]:
        mode = "r+" if path.exists() else "w+"
        return np.memmap(path, dtype=dtype, mode=mode, shape=(int(self.starts[-1]), width))


def compile_reader(folder: Path) -> ov.CompiledModel:
    """The model, giving beside its logits the tapped features as output ``features``."""
    core = ov.Core()
    model = core.read_model(folder / "openvino_model.xml")
    by_name = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    layers = tapped_layers(NUM_LAYERS)
    taps = [by_name[LAYER_OUTPUT.format(layer)].output(0) for layer in layers]
    result = opset.result(opset.concat(taps, -1))
    result.output(0).set_names({"features"})
    model.add_results([result])
    return core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": torch.get_num_threads()})


def collect(folder: Path, files: LessonFiles, limit: int | None = None) -> None:
    """Read the dialogues that are not in the files yet, at most up to number ``limit``."""
    request = compile_reader(folder).create_infer_request()
    stop = len(files.dialogues) if limit is None else min(limit, len(files.dialogues))
    for index in range(files.num_done, stop):
        dialogue = files.dialogues[index]
        ids = np.array([dialogue.prompt + dialogue.answer], np.int64)
        request.reset_state()
        request.infer(
            {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "position_ids": np.arange(ids.shape[1], dtype=np.int64)[None],
                "beam_idx": np.zeros(1, np.int32),
            }
        )
        part = slice(files.starts[index], files.starts[index + 1])
        logits = torch.from_numpy(request.get_tensor("logits").data[0])
        best = logits.softmax(-1).topk(NUM_TAUGHT)
        files.features[part] = request.get_tensor("features").data[0]
        files.taught_ids[part], files.taught[part] = best.indices.numpy(), best.values.numpy()
        if index % 20 == 19 or index == stop - 1:
            files.mark_done(index + 1)
            logger.info("%d of %d dialogues", index + 1, len(files.dialogues))


def main() -> None:
    """Read the options and collect."""
    parser = argparse.ArgumentParser(description="Collect lessons for a head of SmolLM2.")
    parser.add_argument("answers", type=Path, nargs="+", help="files of prompts and answers")
    parser.add_argument("--model", type=Path, required=True, help="the model's folder")
    parser.add_argument("--out", type=Path, required=True, help="folder of the lessons")
    parser.add_argument("--limit", type=int, help="stop after that many dialogues")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    files = LessonFiles(options.out, read_dialogues(options.answers))
    collect(options.model, files, options.limit)


if __name__ == "__main__":
    main()
