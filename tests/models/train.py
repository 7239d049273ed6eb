"""Command line of the training: ``python -m tests.models.train target --out DIR``.

Order: target, then draft and eagle3, which learn from it; other stands alone. A training that
was ended goes on from its last checkpoint when the same command is given again.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from pathlib import Path

from tests.models import eagle3_training, language_model, recipes
from tests.models.recipes import Schedule

LANGUAGE_MODELS = {recipe.name: recipe for recipe in (recipes.TARGET, recipes.DRAFT, recipes.OTHER)}
NAMES = (*LANGUAGE_MODELS, recipes.EAGLE3.name)


def train(name: str, out: Path, num_steps: int | None = None) -> Path:
    """Train the model of this name; its folder for optimum-cli.

    Args:
        num_steps: Instead of the recipe's own number.
    """
    if name == recipes.EAGLE3.name:
        schedule = _lasting(recipes.EAGLE3.schedule, num_steps)
        return eagle3_training.train(recipes.EAGLE3, schedule, out)
    recipe = LANGUAGE_MODELS[name]
    return language_model.train(recipe, _lasting(recipe.schedule, num_steps), out)


def weight_format(name: str) -> str:
    """How the weights of the model of this name are stored when it is exported."""
    return (LANGUAGE_MODELS | {recipes.EAGLE3.name: recipes.EAGLE3})[name].weight_format


def _lasting(schedule: Schedule, num_steps: int | None) -> Schedule:
    return schedule if num_steps is None else dataclasses.replace(schedule, num_steps=num_steps)


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description="Train a test model.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoints and models")
    parser.add_argument("--steps", type=int, help="instead of the recipe's number of steps")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    train(options.name, options.out, options.steps)


if __name__ == "__main__":
    main()
