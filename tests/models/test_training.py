"""The training scripts still run: a few steps of each on a little text. Skipped without torch."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the packages of tests/models/requirements.txt")

import torch  # noqa: E402 - only after it is known to be there

from tests.models import corpus, eagle3_training, language_model, recipes  # noqa: E402
from tests.models.vocabulary import train_tokenizer  # noqa: E402
from tests.models.windows import token_stream  # noqa: E402

pytestmark = pytest.mark.long

NUM_STEPS = 20


@pytest.fixture(autouse=True, scope="module")
def _a_little_text() -> Iterator[None]:
    everything = corpus.sources
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "sources", lambda split: itertools.islice(everything(split), 3))
        patch.setattr(corpus, "reference_topics", lambda split: iter(()))
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this module's checkpoints and models lie."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def target(out: Path) -> recipes.LanguageModelRecipe:
    """A recipe of the target's shape, much narrower, trained for some steps in ``out``."""
    recipe = dataclasses.replace(
        recipes.TARGET, hidden_size=32, intermediate_size=64, num_heads=2, num_kv_heads=1
    )
    language_model.train(recipe, short(recipe.schedule), out)
    return recipe


def short(schedule: recipes.Schedule) -> recipes.Schedule:
    """The same schedule in a few steps."""
    return dataclasses.replace(schedule, num_steps=NUM_STEPS, warmup_steps=2)


def test_a_target_learns_in_a_few_steps(target: recipes.LanguageModelRecipe, out: Path) -> None:
    model = language_model.load(out, target.name)
    untaught = math.log(model.config.vocab_size)
    text = token_stream(train_tokenizer(target.vocabulary), corpus.Split.HELD_OUT)
    assert language_model.held_out_loss(model, [text[None, :257]]) < untaught - 0.5


def test_a_training_goes_on_where_it_was_ended(
    target: recipes.LanguageModelRecipe, out: Path
) -> None:
    saved = torch.load(out / target.name / "checkpoint.pt")
    assert saved["next_step"] == NUM_STEPS
    before = language_model.load(out, target.name).state_dict()
    language_model.train(target, short(target.schedule), out)  # nothing is left to do
    after = language_model.load(out, target.name).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_head_learns_from_its_target(target: recipes.LanguageModelRecipe, out: Path) -> None:
    folder = eagle3_training.train(recipes.EAGLE3, short(recipes.EAGLE3.schedule), out)
    assert (folder / "config.json").exists()
    head = eagle3_training.load_head(out, recipes.EAGLE3.name)
    teacher = language_model.load(out, target.name)
    batch = torch.arange(100, 200)[None]
    lesson = eagle3_training.teach(teacher, head, batch)
    assert lesson.features.shape == (1, 100, 3 * 32)
    steps = list(eagle3_training.unrolled(head, lesson, 3))
    assert [hits.shape for _, hits in steps] == [(1, 97)] * 3
