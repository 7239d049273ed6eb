"""Put a trained model into the repository: export, measure, compute reference arrays, copy.

``python -m tests.models.publish draft --out DIR`` after its training. A drafter that is not
accepted often enough to test anything with is refused.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

from tests.models import acceptance, recipes, trained
from tests.models import reference as references
from tests.models.corpus import Split
from tests.models.eagle3_training import load_head
from tests.models.export import export
from tests.models.language_model import load
from tests.models.train import NAMES
from tests.models.windows import token_stream

logger = logging.getLogger(__name__)

MIN_FIRST_ACCEPTANCE = 0.5


def publish(name: str, out: Path) -> Path:
    """Export and describe the model of this name; its folder in the repository.

    Raises:
        ValueError: The target accepts too few of its first drafts on held-out text.
    """
    measured = measure(name, out)
    if measured is not None:
        logger.info("%s: %s", name, measured)
        first = measured["held_out_text"]["survival"][0]
        if first < MIN_FIRST_ACCEPTANCE:
            raise ValueError(f"{name} is accepted at {first:.0%} of positions: train it longer.")
    folder = trained.ARTEFACTS / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(export(name, out), folder)
    if measured is not None:
        text = json.dumps(measured, indent=2) + "\n"
        (folder / trained.ACCEPTANCE_FILE).write_text(text, encoding="utf-8")
    np.savez_compressed(folder / trained.REFERENCE_FILE, **reference(name, out))
    return folder


def measure(name: str, out: Path) -> dict | None:
    """Acceptance of a drafter; None for a model that drafts for nobody."""
    target = recipes.TARGET.name
    if name == recipes.DRAFT.name:
        hits = acceptance.draft_hits(load(out, name), load(out, target))
    elif name == recipes.EAGLE3.name:
        hits = acceptance.head_hits(load_head(out, name), load(out, target))
    else:
        return None
    return acceptance.measure(out, target, hits)


def reference(name: str, out: Path) -> references.Arrays:
    """Reference arrays of the model of this name, for the beginning of the held-out text."""
    target = recipes.TARGET.name
    with_tokenizer = target if name == recipes.EAGLE3.name else name
    tokens = _fixed_tokens(out / with_tokenizer / "torch")
    if name == recipes.EAGLE3.name:
        return references.head_reference(load_head(out, name), load(out, target), tokens)
    model = load(out, name)
    if name == target:
        return references.target_reference(model, tokens)
    return references.language_model_reference(model, tokens)


def _fixed_tokens(folder: Path) -> torch.Tensor:
    stream = token_stream(AutoTokenizer.from_pretrained(folder), Split.HELD_OUT)
    return stream[: references.NUM_ROWS].clone()


def main() -> None:
    """Read the options and publish."""
    parser = argparse.ArgumentParser(description="Publish a trained test model.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the training")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    print(publish(options.name, options.out))


if __name__ == "__main__":
    main()
