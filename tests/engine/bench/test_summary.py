from __future__ import annotations

import pytest

from engine.bench.records import Run, StepTotals
from engine.bench.summary import ALL, Comparison, first_difference, summarise, wall_ratio
from tests.engine.bench.made_up import answer, run


def only(runs: list[Run], arm: str, workload: str = "prose") -> Comparison:
    """The one comparison of ``arm`` on ``workload`` with the arm ``plain``."""
    (found,) = (
        one for one in summarise(runs, "plain") if (one.arm, one.workload) == (arm, workload)
    )
    return found


def test_speed_is_the_baseline_over_the_arm() -> None:
    runs = [run("plain", "p", 0, answer(tpot_ms=12.0)), run("fast", "p", 0, answer(tpot_ms=8.0))]
    assert only(runs, "fast").speedup.median == pytest.approx(1.5)
    assert only(runs, "plain").speedup.median == 1.0
    assert only(runs, "fast").tpot_ms == pytest.approx(8.0)


def test_ratios_are_paired_by_round_so_that_a_slow_hour_cancels_out() -> None:
    weather = (1.0, 10.0, 3.0)
    runs = [
        run(arm, "p", number, answer(tpot_ms=cost * slow))
        for number, slow in enumerate(weather)
        for arm, cost in (("plain", 12.0), ("fast", 8.0))
    ]
    speedup = only(runs, "fast").speedup
    assert (speedup.low, speedup.median, speedup.high) == pytest.approx((1.5, 1.5, 1.5))


def test_pairs_are_found_in_whatever_order_the_arms_ran() -> None:
    runs = [
        run("fast", "p", 1, answer(tpot_ms=5.0)),
        run("plain", "p", 0, answer(tpot_ms=30.0)),
        run("fast", "p", 0, answer(tpot_ms=10.0)),
        run("plain", "p", 1, answer(tpot_ms=15.0)),
    ]
    assert only(runs, "fast").speedup.median == pytest.approx(3.0)


def test_the_median_over_prompts_does_not_count_a_prompt_with_more_rounds_twice() -> None:
    ratios = {"a": (1.0, 1.0, 1.0, 1.0), "b": (2.0,), "c": (4.0, 3.0, 5.0)}
    runs = [
        run(arm, prompt, number, answer(tpot_ms=tpot_ms))
        for prompt, values in ratios.items()
        for number, ratio in enumerate(values)
        for arm, tpot_ms in (("plain", 10.0 * ratio), ("fast", 10.0))
    ]
    speedup = only(runs, "fast").speedup
    assert speedup.median == pytest.approx(2.0)
    assert speedup.low == pytest.approx(1.0)
    assert speedup.high == pytest.approx(3.25)


def test_several_workloads_are_also_taken_together() -> None:
    runs = [
        run(arm, workload, 0, answer(tpot_ms=tpot_ms), workload)
        for workload, plain_ms in (("prose", 10.0), ("copy", 20.0), ("code", 30.0))
        for arm, tpot_ms in (("plain", plain_ms), ("fast", 10.0))
    ]
    assert only(runs, "fast", "copy").speedup.median == pytest.approx(2.0)
    assert only(runs, "fast", ALL).speedup.median == pytest.approx(2.0)
    assert only(runs, "fast", ALL).num_runs == 3
    assert [one.workload for one in summarise(runs[:2], "plain")] == ["prose", "prose"]


def test_an_arm_that_differs_is_reported_with_the_earliest_position() -> None:
    runs = [
        run("plain", "p", 0, answer((1, 2, 3, 4))),
        run("plain", "p", 1, answer((1, 2, 3, 4))),
        run("plain", "q", 0, answer((5, 6, 7, 8))),
        run("other", "p", 0, answer((1, 2, 3, 9))),
        run("other", "p", 1, answer((1, 2, 9, 9))),
        run("other", "q", 0, answer((5, 6, 7, 8))),
    ]
    gaps = {"prose/p": (3.0, 2.0, 0.001, 1.0)}
    (other,) = (one for one in summarise(runs, "plain", gaps) if one.arm == "other")
    assert (other.num_equal, other.num_runs) == (1, 3)
    (difference,) = other.differences
    assert (difference.prompt, difference.position, difference.gap) == ("prose/p", 2, 0.001)
    assert only(runs, "plain").differences == ()


@pytest.mark.parametrize(
    ("expected", "got", "position"),
    [((1, 2), (1, 2), None), ((1, 2), (3, 2), 0), ((1, 2), (1,), 1), ((1,), (1, 2), 1)],
)
def test_the_first_difference_may_be_a_missing_token(
    expected: tuple[int, ...], got: tuple[int, ...], position: int | None
) -> None:
    assert first_difference(expected, got) == position


def test_a_figure_is_noisy_when_wall_and_process_time_disagree() -> None:
    quiet = answer(tpot_ms=10.0, busy=2.0)
    disturbed = answer(tpot_ms=20.0, busy=1.0)  # the same work took twice as long
    honest = answer(tpot_ms=20.0, busy=2.0)
    assert only([run("plain", "p", 0, quiet), run("a", "p", 0, disturbed)], "a").is_noisy
    assert not only([run("plain", "p", 0, quiet), run("a", "p", 0, honest)], "a").is_noisy


def test_process_time_has_its_own_ratio() -> None:
    pair = [
        run("plain", "p", 0, answer(tpot_ms=10.0, busy=2.0)),
        run("a", "p", 0, answer(tpot_ms=10.0, busy=1.0)),
    ]
    compared = only(pair, "a")
    assert compared.cpu_speedup == pytest.approx(2.0)
    assert compared.cores_busy == pytest.approx(1.0)


def test_step_figures_come_from_the_steps_after_the_first_token() -> None:
    steps = StepTotals(
        num_steps=2,
        num_verified=4,
        num_accepted=3,
        draft_ms=1.0,
        forward_ms=45.0,
        overhead_ms=3.0,
    )
    given = answer((1, 2, 3, 4, 5, 6), tpot_ms=10.0, steps=steps)  # 50 ms of decoding
    compared = only([run("plain", "p", 0, given)], "plain")
    assert compared.tokens_per_step == pytest.approx(2.5)
    assert compared.acceptance_rate == pytest.approx(0.75)
    assert compared.own_share == pytest.approx(0.1)


def test_an_arm_that_tells_nothing_of_its_steps_has_no_step_figures() -> None:
    compared = only([run("plain", "p", 0, answer())], "plain")
    assert compared.tokens_per_step is None
    assert compared.acceptance_rate is None
    assert compared.own_share is None


def test_a_peer_that_is_slower_gives_a_ratio_above_one() -> None:
    runs = [run("plain", "p", 0, answer(tpot_ms=10.0)), run("peer", "p", 0, answer(tpot_ms=12.0))]
    assert wall_ratio(runs, slower="peer", faster="plain").median == pytest.approx(1.2)
