"""Suffix drafts on the table target: they change no token, and a question that is asked again is
drafted from its first answer."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import Speculation
from engine.drafters.prompt_lookup import PromptLookup
from engine.drafters.suffix import SuffixDrafter
from engine.events import FinishedEvent
from engine.interface import Engine
from tests.engine.loop_kit import TARGET, Builder, answer, request
from tests.fakes import TableBackend

RULES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "seeded": {"do_sample": True, "temperature": 0.4, "rng_seed": 5},
}
PROMPT = (20, 40, 30, 20, 40)


def ask(engine: Engine, prompt: tuple[int, ...] = PROMPT, **options: Any) -> FinishedEvent:
    return answer(engine, request(prompt, **{"max_new_tokens": 60, **options}))


@pytest.mark.parametrize("trees", [False, True], ids=["chain", "tree"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("together", [False, True], ids=["alone", "with prompt lookup"])
def test_no_draft_and_no_memory_changes_a_token(
    build: Builder, rule: str, trees: bool, together: bool
) -> None:
    drafters = (SuffixDrafter(), PromptLookup()) if together else (SuffixDrafter(),)
    engine, backend = build(*drafters, backend=TableBackend(TARGET, num_top=8, trees=trees))
    accepted = rejected = 0
    for start in (*range(17, 29), *range(17, 23)):  # the last ones for the second time
        prompt = (start, 40, 30, start, 40)
        drafted = ask(engine, prompt, **RULES[rule])
        plain = ask(engine, prompt, **RULES[rule], speculation=Speculation.OFF)
        assert drafted.token_ids == plain.token_ids
        assert drafted.text == plain.text
        accepted += drafted.metrics.num_accepted_tokens
        rejected += drafted.metrics.num_verified_tokens - drafted.metrics.num_accepted_tokens
    assert accepted >= 50
    assert rejected >= 50
    slices = [part for batch in backend.batches for part in batch.slices]
    rows = [part.parents.tolist() for part in slices if part.parents is not None]
    assert trees == any(parents != list(range(-1, len(parents) - 1)) for parents in rows)


@pytest.mark.parametrize("rule", RULES)
def test_a_question_asked_again_is_drafted_from_its_first_answer(build: Builder, rule: str) -> None:
    engine, _ = build(SuffixDrafter())
    first = ask(engine, **RULES[rule], num_assistant_tokens=6)
    again = ask(engine, **RULES[rule], num_assistant_tokens=6)

    assert again.token_ids == first.token_ids
    assert again.metrics.num_target_steps < 0.5 * first.metrics.num_target_steps
    assert again.metrics.acceptance_rate is not None
    assert again.metrics.acceptance_rate > 0.9


def test_prompt_lookup_alone_remembers_nothing(build: Builder) -> None:
    engine, _ = build(PromptLookup())

    steps = [ask(engine, num_assistant_tokens=6).metrics.num_target_steps for _ in range(2)]

    assert steps[0] == steps[1]
