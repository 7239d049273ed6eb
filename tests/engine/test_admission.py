"""What the engine refuses before it starts, and how requests choose their draft length."""

from __future__ import annotations

from typing import Any

import pytest

from engine.admission import Admission
from engine.config import BackendKind, CachePrecision, SampledRule, Speculation
from engine.drafters import DrafterInfo
from engine.errors import (
    CacheTooSmallError,
    ContextLengthError,
    EmptyPromptError,
    InvalidOptionError,
    PacelineError,
    UnknownDrafterError,
    UnsupportedOptionError,
)
from engine.events import GenerationRequest, StepEvent
from engine.interface import stream
from engine.plan import Plan
from engine.tokens import Tokenizer
from tests.engine.loop_kit import TARGET, VOCAB, Builder, answer, greedy_walk, request
from tests.fakes import ScriptedDrafter, TableBackend, noisy_copy, tree_of

_DRAFTER = ScriptedDrafter(noisy_copy(TARGET, accuracy=0.5), trees=False)


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        (request(prompt=()), EmptyPromptError, "prompt is empty"),
        (request(prompt=[20] * 512), ContextLengthError, "512 tokens.*512"),
        (request(prompt=[20] * 300), CacheTooSmallError, "339 rows.*has 100"),
        (request(max_new_tokens=400), CacheTooSmallError, "402 rows.*has 100"),
        (request(drafter="sufix"), UnknownDrafterError, "'sufix'"),
        (
            request(speculation=Speculation.OFF, num_assistant_tokens=3),
            InvalidOptionError,
            "'num_assistant_tokens' is 3, which contradicts speculation off",
        ),
        (
            request(drafter="none", num_assistant_tokens=3),
            InvalidOptionError,
            "contradicts drafter 'none'",
        ),
        (request(stop_token_ids=[10**9]), InvalidOptionError, "'stop_token_ids' has.*0 to 49151"),
        (request(eos_token_id=2**63), InvalidOptionError, "'eos_token_id' has token id 9223"),
        (request(max_ngram_size=3), UnsupportedOptionError, "'max_ngram_size'.*leave it unset"),
        (
            request(tree_depth=2, branching_factor=2, num_assistant_tokens=4),
            UnsupportedOptionError,
            "'branching_factor'",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_at_once(
    build: Builder, wanted: GenerationRequest, error: type[PacelineError], words: str
) -> None:
    engine, _ = build(_DRAFTER, backend=TableBackend(TARGET, cache_tokens=100))
    with pytest.raises(error, match=words):
        engine.submit(wanted, lambda event: None)
    assert answer(engine, request()).token_ids == greedy_walk(40)


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ({"num_assistant_tokens": 0}, {0}),
        ({"num_assistant_tokens": 1}, {1}),
        ({"num_assistant_tokens": 7}, {7}),
        ({"num_assistant_tokens": 100}, {38, 37, 36}),
        ({"speculation": Speculation.OFF}, {0}),
        ({"speculation": Speculation.STATIC}, {5}),
        ({"drafter": "none"}, {0}),
    ],
)
def test_draft_lengths_are_what_was_asked_for(
    build: Builder, options: dict[str, Any], lengths: set[int]
) -> None:
    wrong = ScriptedDrafter(lambda tokens, limit: tree_of([0] * limit), trees=False)
    engine, _ = build(wrong, speculation=Speculation.ADAPTIVE)
    steps = [one for one in stream(engine, request(**options)) if isinstance(one, StepEvent)]
    chosen = [step.chosen_length for step in steps[1:4]]
    assert set(chosen) == lengths
    assert steps[0].chosen_length == 0


@pytest.mark.parametrize(
    ("of_engine", "options", "expected"),
    [
        (SampledRule.KEYED, {"do_sample": True}, False),
        (SampledRule.REJECTION, {"do_sample": True}, True),
        (SampledRule.REJECTION, {"do_sample": True, "sampled_rule": SampledRule.KEYED}, False),
        (SampledRule.KEYED, {"do_sample": True, "sampled_rule": SampledRule.REJECTION}, True),
        (SampledRule.REJECTION, {}, False),
    ],
    ids=["engine-keyed", "engine-rejection", "request-keyed", "request-rejection", "greedy"],
)
def test_the_rule_is_the_requests_own_or_the_engines_and_none_for_greedy_answers(
    tokenizer: Tokenizer, of_engine: SampledRule, options: dict[str, Any], expected: bool
) -> None:
    backend = TableBackend(TARGET)
    plan = Plan(
        backend=BackendKind.PAGED,
        device="CPU",
        drafter=_DRAFTER.name,
        speculation=Speculation.STATIC,
        cache_precision=CachePrecision.F32,
        cache_bytes=0,
        reasons=(),
        sampled_rule=of_engine,
    )
    admission = Admission(plan, tokenizer, backend.cache, VOCAB, 512, lambda name: DrafterInfo(""))
    (choice,) = admission.choices(request(**options))
    assert choice.mode.by_rejection is expected
