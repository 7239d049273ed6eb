"""What OpenVINO GenAI cannot honour is refused by name, and the rest reaches it under its names."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import BackendKind, CachePrecision, GenerationConfig, SampledRule, Speculation
from engine.errors import (
    ContextLengthError,
    EmptyPromptError,
    InvalidRequestError,
    UnsupportedOptionError,
)
from engine.plan import Plan
from engine.reference.pipeline import DrafterKind
from engine.reference.terms import Conditions, Terms
from tests.engine.loop_kit import PROMPT, request

NONE, LOOKUP, MODEL = DrafterKind.NONE, DrafterKind.PROMPT_LOOKUP, DrafterKind.MODEL
_NAMES = {NONE: "none", LOOKUP: "prompt_lookup", MODEL: "/models/small"}


def conditions(drafter: DrafterKind = NONE, context_length: int | None = None) -> Conditions:
    plan = Plan(
        backend=BackendKind.GENAI,
        device="CPU",
        drafter=_NAMES[drafter],
        speculation=Speculation.OFF,
        cache_precision=CachePrecision.F16,
        cache_bytes=0,
        reasons=(),
    )
    return Conditions(plan, drafter, context_length, vocab_size=1000)


@pytest.mark.parametrize(
    ("drafter", "options", "param"),
    [
        (NONE, {"sampled_rule": SampledRule.KEYED, "do_sample": True}, "sampled_rule"),
        (NONE, {"drafter": "suffix"}, "drafter"),
        (NONE, {"num_assistant_tokens": 3}, "num_assistant_tokens"),
        (NONE, {"max_ngram_size": 3}, "max_ngram_size"),
        (NONE, {"speculation": Speculation.STATIC}, "speculation"),
        (LOOKUP, {"drafter": "none"}, "drafter"),
        (LOOKUP, {"speculation": Speculation.ADAPTIVE}, "speculation"),
        (LOOKUP, {"speculation": Speculation.OFF}, "speculation"),
        (LOOKUP, {"num_assistant_tokens": 0}, "num_assistant_tokens"),
        (LOOKUP, {"assistant_confidence_threshold": 0.4}, "assistant_confidence_threshold"),
        (LOOKUP, {"tree_depth": 2, "num_assistant_tokens": 2}, "tree_depth"),
        (MODEL, {"max_ngram_size": 3}, "max_ngram_size"),
    ],
)
def test_refuses_by_name(drafter: DrafterKind, options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        conditions(drafter).terms(request(**options))
    assert refusal.value.param == param


@pytest.mark.parametrize(
    ("drafter", "options", "expected"),
    [
        (NONE, {}, Terms(40, 0)),
        (NONE, {"speculation": Speculation.OFF, "drafter": "none"}, Terms(40, 0)),
        (NONE, {"sampled_rule": SampledRule.REJECTION}, Terms(40, 0)),  # greedy: no rule at work
        (LOOKUP, {}, Terms(40, 5, 3)),
        (LOOKUP, {"num_assistant_tokens": 7, "max_ngram_size": 2}, Terms(40, 7, 2)),
        (LOOKUP, {"speculation": Speculation.STATIC, "drafter": "auto"}, Terms(40, 5, 3)),
        (MODEL, {"assistant_confidence_threshold": 0.4}, Terms(40, None)),
    ],
)
def test_accepts(drafter: DrafterKind, options: dict[str, Any], expected: Terms) -> None:
    assert conditions(drafter).terms(request(**options)) == expected


def test_limits_follow_prompt_and_context() -> None:
    assert conditions(context_length=10).terms(request()).max_new_tokens == 10 - len(PROMPT)
    with pytest.raises(ContextLengthError):
        conditions(context_length=len(PROMPT)).terms(request())
    with pytest.raises(EmptyPromptError):
        conditions().terms(request(prompt=()))
    open_ended = {"max_new_tokens": None, "stop_token_ids": [2]}
    assert conditions().terms(request(**open_ended)).max_new_tokens is None
    assert conditions().terms(request(**open_ended, max_length=9)).max_new_tokens == 6
    with pytest.raises(InvalidRequestError):
        conditions().terms(request(**open_ended, max_length=len(PROMPT)))


def test_settings_reach_genai_under_its_names() -> None:
    config = GenerationConfig(
        do_sample=True,
        temperature=0.5,
        top_k=7,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        rng_seed=2**64 - 1,
        min_new_tokens=2,
        eos_token_id=2,
        stop_token_ids=frozenset({2, 5}),
    )
    peer = Terms(9, 4, 2).peer_config(config, choice=1)
    assert (peer.do_sample, peer.top_k, peer.rng_seed) == (True, 7, 0)
    floats = (peer.temperature, peer.top_p, peer.min_p, peer.repetition_penalty)
    assert floats == pytest.approx((0.5, 0.9, 0.1, 1.1))
    assert (peer.presence_penalty, peer.frequency_penalty) == pytest.approx((0.2, 0.3))
    assert (peer.max_new_tokens, peer.min_new_tokens) == (9, 2)
    assert (peer.eos_token_id, peer.stop_token_ids) == (2, {2, 5})
    assert (peer.num_assistant_tokens, peer.max_ngram_size) == (4, 2)
    assert not peer.apply_chat_template


def test_greedy_settings_leave_those_of_sampling_at_genais_defaults() -> None:
    """A temperature of 0 means greedy here, and is refused by GenAI even where it is not used."""
    peer = Terms(9, 0).peer_config(GenerationConfig(temperature=0.0, ignore_eos=True), choice=0)
    assert peer.temperature == 1.0
    assert peer.ignore_eos
    assert not peer.stop_token_ids


def test_the_refusal_says_which_backend_and_what_to_do() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"Backend 'genai'.*leave it unset"):
        conditions(LOOKUP).terms(request(speculation=Speculation.OFF))
