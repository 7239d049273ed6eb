"""The training scripts still run: a few steps of each on a little text. Skipped without torch."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the packages of tests/models/requirements.txt")

import torch  # noqa: E402 - only after it is known to be there

from tests.models import corpus, eagle3_training, language_model, recipes  # noqa: E402
from tests.models.vocabulary import train_tokenizer  # noqa: E402
from tests.models.windows import token_stream  # noqa: E402

NUM_STEPS = 20


@pytest.fixture(autouse=True)
def _a_little_text(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = corpus.sources
    monkeypatch.setattr(corpus, "sources", lambda split: itertools.islice(everything(split), 5))


@pytest.fixture
def target(tmp_path: Path) -> recipes.LanguageModelRecipe:
    """A recipe of the target's shape, much narrower, trained for some steps in ``tmp_path``."""
    recipe = dataclasses.replace(
        recipes.TARGET, hidden_size=32, intermediate_size=64, num_heads=2, num_kv_heads=1
    )
    language_model.train(recipe, short(recipe.schedule), tmp_path)
    return recipe


def short(schedule: recipes.Schedule) -> recipes.Schedule:
    """The same schedule in a few steps."""
    return dataclasses.replace(schedule, num_steps=NUM_STEPS, warmup_steps=2)


def test_a_target_learns_in_a_few_steps(
    target: recipes.LanguageModelRecipe, tmp_path: Path
) -> None:
    model = language_model.load(tmp_path, target.name)
    untaught = math.log(model.config.vocab_size)
    text = token_stream(train_tokenizer(target.vocabulary), corpus.Split.HELD_OUT)
    assert language_model.held_out_loss(model, [text[None, :257]]) < untaught - 1


def test_a_training_goes_on_where_it_was_ended(
    target: recipes.LanguageModelRecipe, tmp_path: Path
) -> None:
    saved = torch.load(tmp_path / target.name / "checkpoint.pt")
    assert saved["next_step"] == NUM_STEPS
    before = language_model.load(tmp_path, target.name).state_dict()
    language_model.train(target, short(target.schedule), tmp_path)  # nothing is left to do
    after = language_model.load(tmp_path, target.name).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_head_learns_from_its_target(target: recipes.LanguageModelRecipe, tmp_path: Path) -> None:
    folder = eagle3_training.train(recipes.EAGLE3, short(recipes.EAGLE3.schedule), tmp_path)
    assert (folder / "config.json").exists()
    head = eagle3_training.load_head(tmp_path, recipes.EAGLE3.name)
    teacher = language_model.load(tmp_path, target.name)
    batch = torch.arange(100, 200)[None]
    lesson = eagle3_training.teach(teacher, head, batch)
    assert lesson.features.shape == (1, 100, 3 * 32)
    steps = list(eagle3_training.unrolled(head, lesson, 3))
    assert [hits.shape for _, hits in steps] == [(1, 97)] * 3
