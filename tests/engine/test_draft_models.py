"""Draft models by their folder: found, refused, loaded, and drafting beside their target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig, resolve
from engine.devices import DeviceInfo, DeviceKind
from engine.draft_models import LoadedDrafters, find_draft_model
from engine.errors import ModelUnusableError, PlanRefusedError, UnknownDrafterError
from engine.events import FinishedEvent, GenerationRequest
from engine.interface import Engine, stream
from engine.library.folder import read_model_folder
from engine.load import load_engine
from engine.plan import Plan, make_plan

CPU = DeviceInfo("CPU", DeviceKind.CPU, "A processor", False, None, ())


@pytest.fixture
def twin(smollm2: Path, tmp_path: Path) -> Path:
    """The target itself under another name: it drafts what the target would say."""
    folder = tmp_path / "a + b"  # the sign that joins names, in a path
    folder.symlink_to(smollm2, target_is_directory=True)
    return folder


def plan_for(model: Path, **options: Any) -> Plan:
    config = EngineConfig(model=model, **options)
    return make_plan(read_model_folder(model), [CPU], config, find_draft_model(str(config.drafter)))


def test_a_folder_stands_for_fast_draft_and_is_named_in_the_plan(smollm2: Path, twin: Path) -> None:
    plan = plan_for(smollm2, drafter=str(twin))
    assert (plan.drafter, plan.draft_model, plan.draft_device) == ("fast_draft", twin, "CPU")
    assert plan.to_json()["draft_model"] == "a + b"
    assert any("a + b drafts" in reason for reason in plan.reasons)


def test_a_folder_may_be_joined_with_names(smollm2: Path, tmp_path: Path) -> None:
    folder = tmp_path / "twin"
    folder.symlink_to(smollm2, target_is_directory=True)
    assert plan_for(smollm2, drafter=f"suffix+{folder}").drafter == "suffix+fast_draft"
    with pytest.raises(PlanRefusedError, match="one draft model.*names 2"):
        find_draft_model(f"{folder}+{smollm2}")


def test_names_alone_need_no_model(smollm2: Path) -> None:
    assert find_draft_model("auto") is None
    assert find_draft_model("prompt_lookup+suffix") is None
    with pytest.raises(PlanRefusedError, match="folder"):
        plan_for(smollm2, drafter="fast_draft")
    with pytest.raises(PlanRefusedError, match="nothing to place"):
        plan_for(smollm2, draft_device="CPU")
    with pytest.raises(UnknownDrafterError, match="the folder of a draft model"):
        plan_for(smollm2, drafter="/nowhere/at/all")


def test_a_folder_without_a_model_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusableError, match=r"openvino_model\.xml"):
        find_draft_model(str(tmp_path))


def test_a_request_cannot_have_a_draft_model_that_was_not_loaded() -> None:
    loaded = LoadedDrafters()
    assert loaded.info("suffix").options == frozenset()
    with pytest.raises(UnknownDrafterError, match="started without a model"):
        loaded.info("fast_draft")


@pytest.mark.timeout(300)
def test_a_draft_model_drafts_beside_its_target(smollm2: Path, twin: Path) -> None:
    engine = load_engine(EngineConfig(model=smollm2, drafter=str(twin)))
    try:
        drafted = answer(engine, num_assistant_tokens=4)
        plain = answer(engine, num_assistant_tokens=0)
    finally:
        engine.close()
    assert drafted.token_ids == plain.token_ids
    assert drafted.metrics.num_accepted_tokens >= 12
    assert drafted.metrics.num_target_steps < 10


def answer(engine: Engine, **options: Any) -> FinishedEvent:
    config = resolve({"max_new_tokens": 24, "ignore_eos": True, **options}, engine.model_defaults)
    prompt = tuple(engine.tokenizer.encode("Once upon a time there was a"))
    *_, last = stream(engine, GenerationRequest("draft", prompt, config))
    assert isinstance(last, FinishedEvent)
    return last
