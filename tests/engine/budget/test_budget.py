"""The budget as the loop sees it, on scripted texts and made-up cost curves."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from engine.budget import (
    MAX_DRAFT_TOKENS,
    Budget,
    Candidate,
    Drafting,
    Outcome,
    ProfileKey,
    ProfileStore,
    StepCost,
    StepTiming,
    load_budget,
)
from engine.drafters.prompt_lookup import NAME
from engine.values import DraftTree
from tests.engine.budget.texts import prose, reference_machine, run, speed_up, verdict

KEY = ProfileKey("model", "abc", "paged", "CPU", "1.0", 2, "f16", None)


def chain(length: int, match_len: int) -> DraftTree:
    """A prompt lookup draft that looks like a match of ``match_len`` tokens, seen once."""
    evidence = np.array([[match_len + i, 1, 1, 0] for i in range(length)], np.float32)
    return DraftTree.chain(np.arange(100, 100 + length, dtype=np.int32), evidence)


def test_copying_is_at_least_1_4_times_as_fast_as_plain_decoding() -> None:
    text = prose(200, np.random.default_rng(1))

    steps = run(Budget(reference_machine()), text, text, reference_machine())

    assert speed_up(steps, reference_machine()) > 1.4


@pytest.mark.parametrize("seed", range(5))
def test_prose_is_not_slower_than_plain_decoding_by_more_than_2_percent(seed: int) -> None:
    random = np.random.default_rng(seed)

    steps = run(
        Budget(reference_machine()), prose(200, random), prose(400, random), reference_machine()
    )

    assert speed_up(steps, reference_machine()) > 0.98


def test_a_change_of_regime_is_followed_within_ten_tokens() -> None:
    random = np.random.default_rng(2)
    prompt = prose(300, random)
    answer = prompt[:80] + prose(120, random) + prompt[150:230]
    budget = Budget(reference_machine())

    steps = run(budget, prompt, answer, reference_machine())

    def verified(begin: int, end: int) -> float:
        return float(np.mean([s.num_verified for s in steps if begin <= s.position < end]))

    assert verified(10, 80) > 4
    assert verified(90, 200) < 0.5
    assert verified(210, 280) > 4
    assert speed_up([s for s in steps if s.position >= 210], reference_machine()) > 1.4


def test_drafts_that_look_good_and_are_always_wrong_cost_at_most_2_percent() -> None:
    budget, cost = Budget(reference_machine()), reference_machine()
    total_ms = 0.0
    for _ in range(500):
        tree = chain(8, match_len=4)
        (kept,) = budget.choose([Candidate(0, NAME, tree)], 1, 100).kept
        ms = cost.ms(1 + len(kept))
        total_ms += ms
        outcome = Outcome(NAME, tree, verdict(0, [1], len(kept)))
        budget.observe([outcome], StepTiming(1 + len(kept), 100, ms, 0.0, False))

    assert total_ms < 1.02 * 500 * cost.ms(1)


def test_shows_survivals_and_reasons_for_people() -> None:
    budget = Budget(reference_machine())

    choice = budget.choose(
        [
            Candidate(0, NAME, chain(10, match_len=16)),
            Candidate(1, NAME, chain(3, match_len=1)),
            Candidate(2, NAME, DraftTree.empty()),
            Candidate(3, NAME, chain(3, match_len=1), is_fixed=True),
        ],
        base_rows=4,
        context_len=100,
    )

    assert [len(survival) for survival in choice.survivals] == [10, 3, 0, 3]
    assert [len(nodes) for nodes in choice.kept[1:]] == [0, 0, 3]
    number = len(choice.kept[0])
    assert choice.reasons[0].startswith(f"verifying {number} of 10: ")
    assert choice.reasons[0].endswith("x the cost")
    assert choice.reasons[1:] == (
        "plain: the draft would cost more than it saves",
        "plain: there is no draft",
        "verifying all 3: the length is fixed",
    )


def test_a_step_without_sequences_is_no_trouble() -> None:
    budget = Budget(reference_machine())

    assert budget.choose([], base_rows=64, context_len=0).kept == ()
    budget.observe([], StepTiming(64, 0, 50.0, 0.0, contains_prefill=True))


def test_the_limit_follows_the_cost_curve() -> None:
    def limit(cost: StepCost) -> int:
        return Budget(cost).limit(Drafting(NAME, True, 1, 1, 0)).max_tokens

    assert limit(StepCost((1, 32), (12.0, 12.0))) == MAX_DRAFT_TOKENS
    assert limit(StepCost((1, 4, 5, 32), (12.0, 12.0, 60.0, 400.0))) == 3


def test_a_model_free_drafter_is_asked_even_where_nothing_pays() -> None:
    rows_cost_all_the_same = StepCost((1, 2), (10.0, 30.0))

    limit = Budget(rows_cost_all_the_same).limit(Drafting(NAME, True, 1, 1, 0))

    assert limit.max_tokens == 1


def test_a_drafter_that_costs_time_rests_when_it_does_not_pay_and_is_tried_again() -> None:
    budget = Budget(reference_machine())
    drafting = Drafting("some_head", False, 1, 1, 100)
    tree = DraftTree.chain(np.array([5, 6], np.int32), np.zeros((2, 0), np.float32))
    asked: list[bool] = []
    for _ in range(300):
        limit = budget.limit(drafting)
        asked.append(limit.max_tokens > 0)
        if not limit.max_tokens:
            assert limit.reason.startswith("plain: drafting has not paid lately")
        outcome = Outcome("some_head", tree if asked[-1] else DraftTree.empty(), verdict(0, [1]))
        budget.observe([outcome], StepTiming(1, 100, 12.0, 6.0 if asked[-1] else 0.0, False))

    assert asked[0]
    assert sum(asked) < 60
    assert any(asked[100:])


def test_a_drafter_that_costs_time_goes_on_when_it_pays() -> None:
    budget = Budget(reference_machine())
    drafting = Drafting("some_head", False, 1, 1, 100)
    tree = DraftTree.chain(np.array([5, 6, 7], np.int32), np.zeros((3, 0), np.float32))
    for _ in range(100):
        assert budget.limit(drafting).max_tokens > 1
        outcome = Outcome("some_head", tree, verdict(0, [5, 6, 7, 8], 3))
        budget.observe([outcome], StepTiming(4, 100, 19.2, 1.5, False))


def test_an_autoregressive_drafter_is_stopped_where_no_token_could_pay() -> None:
    budget = Budget(reference_machine())
    drafting = Drafting("some_head", False, 1, 1, 100)
    evidence = np.zeros(0, np.float32)
    tree = DraftTree.chain(np.array([5, 6, 7], np.int32), np.zeros((3, 0), np.float32))

    assert budget.limit(drafting).draft.may_continue(1, evidence)
    for _ in range(60):
        outcome = Outcome("some_head", tree, verdict(0, [5, 1], 3))
        budget.observe([outcome], StepTiming(4, 100, 19.2, 3.0, False))
    may_continue = budget.limit(drafting).draft.may_continue

    assert not may_continue(2, evidence)
    assert not may_continue(MAX_DRAFT_TOKENS, evidence)


def test_learns_between_runs_through_the_store(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    first = load_budget(store, KEY, lambda rows: 10.0 + rows, budget_s=0.01)
    tree = chain(4, match_len=4)
    for _ in range(50):
        outcome = Outcome(NAME, tree, verdict(0, [1]))
        first.observe([outcome], StepTiming(1, 0, 11.0, 0.0, False))
    store.save(KEY, first.to_json())

    def unexpected(rows: int) -> float:
        raise AssertionError("profiled again")

    second = load_budget(store, KEY, unexpected)

    def survival(budget: Budget) -> float:
        return float(budget.choose([Candidate(9, NAME, tree)], 1, 0).survivals[0][0])

    fresh = Budget(reference_machine())
    assert survival(first) < survival(second) < survival(fresh)


def test_a_stored_profile_with_nonsense_in_it_is_measured_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ProfileStore(tmp_path)
    store.save(KEY, {"cost": {"rows": [2, 1], "ms": [1.0, 1.0]}, "survival": {}})

    with caplog.at_level(logging.WARNING):
        budget = load_budget(store, KEY, lambda rows: 10.0 + rows, budget_s=0.01)

    assert budget.to_json()["cost"]["rows"][0] == 1
    assert "Ignoring a stored profile" in caplog.text


def test_what_a_drafter_says_of_tokens_that_it_drew_changes_nothing() -> None:
    budget = Budget(reference_machine())

    def survival(match_len: int, *, sampled: bool) -> list[float]:
        candidate = Candidate(0, NAME, chain(6, match_len), sampled=sampled)
        return budget.choose([candidate], 1, 0).survivals[0].tolist()

    def goes_on(match_len: int, *, sampled: bool) -> bool:
        drafting = Drafting(NAME, False, 1, 1, 0, sampled=sampled)
        evidence = np.array([match_len, 1, 1, 0], np.float32)
        return budget.limit(drafting).draft.may_continue(2, evidence)

    assert survival(1, sampled=True) == survival(64, sampled=True)
    assert goes_on(0, sampled=True) == goes_on(64, sampled=True)
    # Of the past, everything may be known.
    assert survival(1, sampled=False) != survival(64, sampled=False)


def test_drawn_drafts_are_learnt_about_apart() -> None:
    budget = Budget(reference_machine())
    timing = StepTiming(rows=7, context_len=0, verify_ms=12.0, draft_ms=0.0, contains_prefill=False)

    def survivals(*, sampled: bool) -> list[float]:
        candidate = Candidate(1, NAME, chain(6, 4), sampled=sampled)
        return budget.choose([candidate], 1, 0).survivals[0].tolist()

    drawn, deterministic = survivals(sampled=True), survivals(sampled=False)
    for _ in range(30):
        wrong = Outcome(NAME, chain(6, 4), verdict(0, [1]), sampled=True)
        budget.observe([wrong], timing)
    assert survivals(sampled=True)[0] < 0.8 * drawn[0]
    assert survivals(sampled=False) == deterministic
