"""The plan for OpenVINO GenAI: asked for by name, or the way out for a model that ours refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine.load
import engine.reference
from engine.config import BackendKind, EngineConfig, SampledRule, SchedulerConfig, Speculation
from engine.devices import DeviceInfo
from engine.errors import ModelUnusableError, PlanRefusedError
from engine.library.folder import ModelInfo
from engine.load import load_engine
from engine.plan import Plan, make_plan
from tests.engine.server.fake_engine import fake_model

GENAI, STATEFUL = BackendKind.GENAI, BackendKind.GENAI_STATEFUL
CPU = DeviceInfo("CPU", "CPU", "A processor", False, None, ())


def plan_for(backend: BackendKind = GENAI, **wishes: Any) -> Plan:
    return make_plan(fake_model(), [CPU], EngineConfig(Path("/m"), backend=backend, **wishes))


def test_it_decodes_plainly_unless_a_drafter_is_asked_for() -> None:
    plain = plan_for()
    assert (plain.drafter, plain.speculation) == ("none", Speculation.OFF)
    assert plain.sampled_rule is None
    assert plain.to_json()["sampled_rule"] is None
    assert any("Log probabilities" in reason for reason in plain.reasons)
    drafted = plan_for(drafter="prompt_lookup")
    assert (drafted.drafter, drafted.speculation) == ("prompt_lookup", Speculation.STATIC)
    assert any("drafted and verified is blank for" in reason for reason in drafted.reasons)
    paired = plan_for(drafter="/models/small", draft_device="cpu")
    assert paired.drafter == "/models/small"
    assert any("apart from totals" in reason for reason in paired.reasons)


def test_the_stateful_cache_is_not_bounded() -> None:
    assert plan_for(STATEFUL).cache_bytes == 0
    assert plan_for(scheduler=SchedulerConfig(cache_size_gib=2.0)).cache_bytes == 2 << 30


@pytest.mark.parametrize(
    ("backend", "wishes", "param"),
    [
        (GENAI, {"drafter": "suffix"}, "drafter"),
        (GENAI, {"drafter": "suffix+prompt_lookup"}, "drafter"),
        (GENAI, {"drafter": "prompt_lookup", "speculation": Speculation.OFF}, "speculation"),
        (GENAI, {"sampled_rule": SampledRule.REJECTION}, "sampled_rule"),
        (GENAI, {"draft_device": "CPU"}, "draft_device"),
        (GENAI, {"drafter": "/models/small", "draft_device": "GPU"}, "device"),
        (GENAI, {"scheduler": SchedulerConfig(cache_size_gib=0.5)}, "cache_size_gib"),
        (STATEFUL, {"drafter": "prompt_lookup"}, "drafter"),
        (STATEFUL, {"scheduler": SchedulerConfig(num_kv_blocks=9)}, "num_kv_blocks"),
    ],
)
def test_refuses_what_it_cannot_have_by_name(
    backend: BackendKind, wishes: dict[str, Any], param: str
) -> None:
    with pytest.raises(PlanRefusedError) as refusal:
        plan_for(backend, **wishes)
    assert refusal.value.param == param


REFUSAL = ModelUnusableError("The model has inputs that nobody feeds.", param="model")

OpenEngine = Callable[[ModelInfo, Plan, EngineConfig], Plan]


@pytest.fixture
def refused(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that our own backends refuse; what GenAI would be opened with comes back instead of
    an engine."""

    def refuse(*_: object) -> None:
        raise REFUSAL

    def show_plan(model: ModelInfo, plan: Plan, config: EngineConfig) -> Plan:
        return plan

    monkeypatch.setattr(engine.load._Native, "load", refuse)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(engine.reference, "open_engine", show_plan)
    return smollm2


def test_auto_takes_it_for_a_model_that_ours_refuse_and_says_why(refused: Path) -> None:
    plan = load_engine(EngineConfig(refused))
    assert isinstance(plan, Plan)
    assert plan.backend is GENAI
    assert REFUSAL.message in plan.reasons[0]


@pytest.mark.parametrize(
    "wish", [{"backend": BackendKind.PAGED}, {"drafter": "suffix"}], ids=["backend", "drafter"]
)
def test_an_explicit_wish_is_never_replaced(refused: Path, wish: dict[str, Any]) -> None:
    with pytest.raises(ModelUnusableError) as refusal:
        load_engine(EngineConfig(refused, **wish))
    assert refusal.value is REFUSAL


def test_a_model_that_it_refuses_too_is_refused_in_our_words(
    refused: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ModelUnusableError("OpenVINO GenAI cannot load it.")

    monkeypatch.setattr(engine.reference, "open_engine", refuse)
    with pytest.raises(ModelUnusableError) as refusal:
        load_engine(EngineConfig(refused))
    assert refusal.value is REFUSAL
