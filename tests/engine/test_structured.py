"""Structure and speculation on the table: with any draft, the answer of the plain run."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.config import SampledRule
from engine.drafters.base import Drafter
from engine.errors import InvalidOptionError, StructureFailedError, UnsupportedOptionError
from engine.events import FailedEvent, FinishedEvent, GenerationRequest, StepEvent
from engine.grammar import GrammarConstraint
from engine.interface import stream
from engine.loop import NativeEngine
from engine.values import ROOT, DraftTree, FinishReason
from tests.engine.loop_kit import PROMPT, TARGET, VOCAB, Builder, answer, request
from tests.fakes import ScriptedDrafter, noisy_copy, tree_of

END = 2
"""The small model's own end token, which stands among the first of its vocabulary."""

STRUCTURES: dict[str, dict[str, Any]] = {
    "digits": {"regex": "[0-9]{20}"},
    "words": {"regex": "([A-E]{3}[-+]){1,4}[A-E]{2}=[0-9]{6,9}"},
    "json": {"json_schema": {"type": "string", "minLength": 9, "maxLength": 19}},
}
SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {},
    "seeded": {"do_sample": True, "rng_seed": 5},
    "filtered": {"do_sample": True, "rng_seed": 5, "top_k": 12, "temperature": 0.8},
    "penalised": {"repetition_penalty": 1.3, "frequency_penalty": -0.2, "min_new_tokens": 12},
}


def wanted(**options: Any) -> GenerationRequest:
    return request(eos_token_id=END, **options)


def recalling(expected: Sequence[int], *, trees: bool = False, accuracy: float = 0.7) -> Drafter:
    """Drafts the answer that is expected, with mistakes; in a tree each token has a rival."""
    random = np.random.default_rng(0)

    def script(tokens: list[int], limit: int) -> DraftTree:
        drafted: list[int] = []
        parents: list[int] = []
        last = ROOT
        for right in expected[len(tokens) - len(PROMPT) :]:
            guesses = [right if random.random() < accuracy else int(random.integers(VOCAB))]
            if trees:
                guesses.insert(0, int(random.integers(VOCAB)))
            if len(drafted) + len(guesses) > limit:
                break
            drafted += guesses
            parents += [last] * len(guesses)
            last = len(drafted) - 1
        return tree_of(drafted, parents)

    return ScriptedDrafter(script)


@pytest.mark.parametrize("trees", [False, True], ids=["chain", "tree"])
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_drafted_answer_equals_the_plain_one(
    build: Builder, structure: str, sampling: str, trees: bool
) -> None:
    options = {**STRUCTURES[structure], **SAMPLING[sampling]}
    plain, _ = build()
    expected = answer(plain, wanted(**options))
    engine, _ = build(recalling(expected.token_ids, trees=trees))
    got = answer(engine, wanted(**options, num_assistant_tokens=6))
    assert got.metrics.num_accepted_tokens > 0
    assert got.token_ids == expected.token_ids
    assert got.text == expected.text
    assert expected.finish_reason is FinishReason.STOP
    assert expected.token_ids[-1] == END


def test_tokens_that_the_structure_forbids_are_not_verified(build: Builder) -> None:
    """The drafter begs for a fence; only what may come costs a row."""
    forbidden, allowed = 19, 33  # "#" and "1"
    drafter = ScriptedDrafter(lambda tokens, limit: tree_of([allowed, forbidden, allowed][:limit]))
    engine, _ = build(drafter)
    options = {"regex": "1{10}", "num_assistant_tokens": 3}
    steps = [one for one in stream(engine, wanted(**options)) if isinstance(one, StepEvent)]
    assert {step.draft.tokens for step in steps} == {(), (allowed,)}
    assert {token.token for step in steps for token in step.emitted} == {allowed, END}


@pytest.mark.parametrize("rule", SampledRule)
def test_sampled_drafts_keep_to_the_structure_by_either_rule(
    build: Builder, rule: SampledRule
) -> None:
    engine, _ = build(ScriptedDrafter(noisy_copy(TARGET, accuracy=0.9)))
    for seed in range(20):
        options = {"regex": "[0-9A-F]{12}", "do_sample": True, "rng_seed": seed, "temperature": 2.0}
        got = answer(engine, wanted(**options, num_assistant_tokens=4, sampled_rule=rule))
        assert len(got.text) == 12
        assert set(got.text) <= set("0123456789ABCDEF")


def test_a_mark_that_ends_a_thought_frees_nothing_behind_it(build: Builder) -> None:
    """A structure holds from the first token, in a block that begins with any special token too."""
    thought_ends = 4
    block = [thought_ends, *range(60, 63)]
    drafter = ScriptedDrafter(lambda tokens, limit: tree_of(block[:limit]))
    engine, _ = build(drafter)
    got = answer(engine, wanted(regex="[0-9]{8}", num_assistant_tokens=4))
    assert len(got.text) == 8
    assert got.text.isdigit()
    assert got.metrics.num_verified_tokens == 0


def test_an_answer_that_is_cut_says_so(build: Builder) -> None:
    engine, _ = build()
    got = answer(engine, wanted(regex="[0-9]{20}", max_new_tokens=5))
    assert got.finish_reason is FinishReason.LENGTH


def test_a_complete_structure_goes_before_the_least_length(build: Builder) -> None:
    engine, _ = build()
    got = answer(engine, wanted(regex="[0-9]{4}", min_new_tokens=30))
    assert len(got.text) == 4
    assert got.finish_reason is FinishReason.STOP


def test_several_choices_are_each_in_the_structure(build: Builder) -> None:
    engine, _ = build()
    several = wanted(regex="[0-9]{10}", do_sample=True, temperature=2.0, num_return_sequences=3)
    ended = [one for one in stream(engine, several) if isinstance(one, FinishedEvent)]
    assert all(len(one.text) == 10 and one.text.isdigit() for one in ended)
    assert len({one.text for one in ended}) > 1


def test_a_malformed_structure_is_refused_and_the_next_request_served(build: Builder) -> None:
    engine, backend = build()
    with pytest.raises(InvalidOptionError, match="unclosed group"):
        engine.submit(wanted(regex="("), lambda event: None)
    with pytest.raises(UnsupportedOptionError, match="names none"):
        engine.submit(request(regex="a"), lambda event: None)
    assert answer(engine, wanted(regex="[0-9]{3}")).text.isdigit()
    assert not backend.open_sequences


def test_a_structure_out_of_reach_ends_the_request_with_its_reason(build: Builder) -> None:
    """No token of the table spells what comes after the digits."""
    engine, backend = build(recalling([32, 33, 34]))
    for options in ({}, {"num_return_sequences": 2, "do_sample": True}):
        events = list(stream(engine, wanted(regex="[0-9]{3}é", **options)))
        ended = [one for one in events if not isinstance(one, StepEvent)]
        (failed,) = ended
        assert isinstance(failed, FailedEvent)
        assert isinstance(failed.error, StructureFailedError)
        assert failed.error.param == "regex"
        assert not backend.open_sequences
    assert answer(engine, wanted(regex="[0-9]{3}")).text.isdigit()


def test_the_matcher_goes_with_the_answer(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakSet[GrammarConstraint] = weakref.WeakSet()
    make = GrammarConstraint.__init__

    def counted(self: GrammarConstraint, *arguments: Any) -> None:
        alive.add(self)
        make(self, *arguments)

    monkeypatch.setattr(GrammarConstraint, "__init__", counted)
    engine, _ = build(recalling([32, 33, 34, 35, 36]))
    for index in range(3):
        assert answer(engine, wanted(regex="[0-9]{5}", request_id=str(index))).text.isdigit()
    assert _waits_until_gone(engine, alive)


def _waits_until_gone(engine: NativeEngine, alive: weakref.WeakSet[GrammarConstraint]) -> bool:
    answer(engine, request(max_new_tokens=1))  # the thread has let go of what was before
    gc.collect()
    return not alive
