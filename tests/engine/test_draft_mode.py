"""By whom and how much a request drafts, as `make_plan` and the request resolve it together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.budget import MAX_DRAFT_TOKENS
from engine.config import EngineConfig, Speculation
from engine.devices import DeviceInfo, DeviceKind
from engine.draft_mode import DRAFTER_OPTIONS, DraftMode, draft_mode
from engine.drafters import drafter_info, drafter_names, owners_of
from engine.errors import InvalidOptionError, UnknownDrafterError, UnsupportedOptionError
from engine.library.folder import ModelInfo, read_model_folder
from engine.plan import Plan, make_plan
from tests.engine.loop_kit import request

CPU = DeviceInfo("CPU", DeviceKind.CPU, "A processor", False, None, ())
BOTH = ("suffix", "prompt_lookup")


@pytest.fixture(scope="module")
def model(smollm2: Path) -> ModelInfo:
    return read_model_folder(smollm2)


def plan_for(model: ModelInfo, **options: Any) -> Plan:
    return make_plan(model, [CPU], EngineConfig(model=model.path, **options))


@pytest.mark.parametrize(
    ("of_engine", "of_request", "drafters", "length"),
    [
        ({}, {}, BOTH, None),
        ({}, {"drafter": "auto"}, BOTH, None),
        ({}, {"drafter": "suffix"}, ("suffix",), None),
        ({"drafter": "suffix"}, {"drafter": "auto"}, ("suffix",), None),
        ({"speculation": Speculation.STATIC}, {}, BOTH, 5),
        ({"speculation": Speculation.STATIC}, {"speculation": Speculation.ADAPTIVE}, BOTH, None),
        ({"speculation": Speculation.OFF}, {}, (), None),
        ({"speculation": Speculation.OFF}, {"speculation": Speculation.ADAPTIVE}, BOTH, None),
        ({"speculation": Speculation.OFF}, {"speculation": Speculation.STATIC}, BOTH, 5),
        ({"speculation": Speculation.OFF}, {"num_assistant_tokens": 7}, BOTH, 7),
        ({"speculation": Speculation.OFF, "drafter": "suffix"}, {}, (), None),
        ({}, {"num_assistant_tokens": 0}, (), None),
        ({"drafter": "none"}, {}, (), None),
        ({"drafter": "none"}, {"drafter": "suffix"}, ("suffix",), None),
    ],
)
def test_the_request_speaks_before_the_engine(
    model: ModelInfo,
    of_engine: dict[str, Any],
    of_request: dict[str, Any],
    drafters: tuple[str, ...],
    length: int | None,
) -> None:
    mode = draft_mode(request(**of_request), plan_for(model, **of_engine), drafter_info)
    assert (mode.drafters, mode.fixed_length) == (drafters, length)
    assert mode.reason.startswith("plain: ") is (not drafters)


@pytest.mark.parametrize(
    ("of_engine", "of_request", "words"),
    [
        ({"drafter": "none"}, {"num_assistant_tokens": 5}, "5, which contradicts drafter 'none'"),
        ({"drafter": "none"}, {"speculation": Speculation.ADAPTIVE}, "contradicts drafter 'none'"),
        ({}, {"drafter": "none", "speculation": Speculation.STATIC}, "contradicts drafter 'none'"),
        (
            {},
            {"speculation": Speculation.OFF, "num_assistant_tokens": 5},
            "5, which contradicts speculation off",
        ),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(
    model: ModelInfo, of_engine: dict[str, Any], of_request: dict[str, Any], words: str
) -> None:
    plan = plan_for(model, **of_engine)
    with pytest.raises(InvalidOptionError, match=words):
        draft_mode(request(**of_request), plan, drafter_info)


def test_an_unknown_drafter_is_refused(model: ModelInfo) -> None:
    with pytest.raises(UnknownDrafterError, match="'sufix'.*Did you mean 'suffix'"):
        draft_mode(request(drafter="prompt_lookup+sufix"), plan_for(model), drafter_info)


def test_an_option_of_another_drafter_is_refused_with_its_owner(model: ModelInfo) -> None:
    lookup_alone = request(drafter="prompt_lookup", max_ngram_size=4)
    assert draft_mode(lookup_alone, plan_for(model), drafter_info) == DraftMode(("prompt_lookup",))
    with pytest.raises(UnsupportedOptionError, match="use drafter prompt_lookup") as caught:
        draft_mode(request(drafter="suffix", max_ngram_size=4), plan_for(model), drafter_info)
    assert caught.value.param == "max_ngram_size"
    off = request(speculation=Speculation.OFF, max_ngram_size=4)
    with pytest.raises(UnsupportedOptionError, match="'max_ngram_size'"):
        draft_mode(off, plan_for(model), drafter_info)


def test_several_answers_may_draft_a_fixed_length(model: ModelInfo) -> None:
    several = request(num_return_sequences=3, num_assistant_tokens=4, do_sample=True)
    assert draft_mode(several, plan_for(model), drafter_info).fixed_length == 4


def test_a_threshold_without_a_draft_model_is_refused_with_what_would_honour_it(
    model: ModelInfo,
) -> None:
    with pytest.raises(UnsupportedOptionError, match="use a draft model, or leave it unset"):
        draft_mode(request(assistant_confidence_threshold=0.4), plan_for(model), drafter_info)


def test_a_confidence_threshold_alone_ends_a_draft(model: ModelInfo) -> None:
    wanted = request(drafter="fast_draft", assistant_confidence_threshold=0.4)
    mode = draft_mode(wanted, plan_for(model), drafter_info)
    assert mode.fixed_length == MAX_DRAFT_TOKENS


def test_every_option_that_a_drafter_owns_is_looked_at() -> None:
    _, *names = drafter_names()
    owned = frozenset[str]().union(*(drafter_info(name).options for name in names))
    assert owned <= DRAFTER_OPTIONS
    assert owners_of("max_ngram_size") == ["prompt_lookup"]
