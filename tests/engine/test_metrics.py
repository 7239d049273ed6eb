"""Ratios of one request, from what its verifications said."""

from __future__ import annotations

import pytest

from engine.metrics import RequestMetrics, StepFigures


def test_acceptance_by_position_counts_only_verifications_that_got_there() -> None:
    metrics = RequestMetrics()
    metrics.record_positions(num_reached=3, num_accepted=3)  # a chain of three, all right
    metrics.record_positions(num_reached=2, num_accepted=1)  # wrong at the second
    metrics.record_positions(num_reached=1, num_accepted=0)  # wrong at once
    assert metrics.acceptance_by_position == [2 / 3, 1 / 2, 1.0]


def test_a_path_that_ends_in_a_leaf_has_not_reached_deeper() -> None:
    """Two deep on one branch of a tree, three on the other: the third depth was never compared."""
    metrics = RequestMetrics()
    metrics.record_positions(num_reached=2, num_accepted=2)
    assert metrics.acceptance_by_position == [1.0, 1.0]
    assert metrics.reached == [1, 1]


def test_a_step_without_drafts_reaches_no_position() -> None:
    metrics = RequestMetrics()
    metrics.record_positions(num_reached=0, num_accepted=0)
    assert metrics.acceptance_by_position == []


@pytest.mark.parametrize(("num_reached", "num_accepted"), [(1, 2), (3, 1)])
def test_refuses_counts_that_no_verification_can_give(num_reached: int, num_accepted: int) -> None:
    with pytest.raises(AssertionError):
        RequestMetrics().record_positions(num_reached, num_accepted)


def test_ratios_are_absent_rather_than_zero_before_there_is_anything() -> None:
    metrics = RequestMetrics(num_generated_tokens=1)
    assert metrics.acceptance_rate is None
    assert metrics.tokens_per_step is None
    assert metrics.tpot_ms is None
    assert metrics.throughput_tok_s is None


def test_each_ratio_has_one_definition() -> None:
    metrics = RequestMetrics(
        num_generated_tokens=11,
        num_target_steps=5,
        num_draft_tokens=20,
        num_verified_tokens=12,
        num_accepted_tokens=6,
        ttft_ms=100.0,
        last_token_ms=300.0,
    )
    assert metrics.acceptance_rate == 0.5
    assert metrics.tokens_per_step == 2.2
    assert metrics.tpot_ms == 20.0
    assert metrics.throughput_tok_s == 50.0


def test_one_step_that_does_not_tell_leaves_the_total_blank() -> None:
    metrics = RequestMetrics(positions_told=False)
    told = StepFigures(3, 3, 1, draft_ms=0.5, verify_ms=9.0, overhead_ms=0.2)
    metrics.add(told, now_ms=100.0)
    assert (metrics.num_draft_tokens, metrics.verify_ms) == (3, 9.0)
    metrics.add(StepFigures(None, None, None, None, 8.0, None), now_ms=120.0)
    metrics.add(told, now_ms=140.0)
    assert (metrics.ttft_ms, metrics.last_token_ms, metrics.num_target_steps) == (100.0, 140.0, 3)
    blank = metrics.to_json()
    for name in ("num_draft_tokens", "num_verified_tokens", "num_accepted_tokens", "draft_ms"):
        assert blank[name] is None
    assert blank["acceptance_rate"] is blank["acceptance_by_position"] is None
    assert blank["verify_ms"] == 26.0
