"""The cost curve: how it is measured, and what it learns and refuses to learn while running."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.budget.cost import PROFILE_ROWS, LongContext, StepCost, profile

TRUE_MS = dict(
    zip(PROFILE_ROWS, (12.0, 15.6, 17.4, 19.2, 24.0, 27.4, 34.0, 40.8, 54.0, 68.0), strict=True)
)


class Machine:
    """Runs passes on a clock of its own; ``noise(random)`` multiplies each pass's time."""

    def __init__(self, scale: float = 1.0, spikes: float = 0.0) -> None:
        self.now = 0.0
        self.runs: list[int] = []
        self._scale = scale
        self._spikes = spikes
        self._random = np.random.default_rng(0)

    def clock(self) -> float:
        return self.now

    def run(self, rows: int) -> float:
        ms = TRUE_MS[rows] * self._scale * (1.0 + 0.05 * self._random.random())
        if self._random.random() < self._spikes:
            ms *= 3.0
        self.runs.append(rows)
        self.now += ms / 1000.0
        return ms


def test_the_profile_recovers_the_curve_on_a_noisy_machine() -> None:
    machine = Machine(spikes=0.2)

    cost = profile(machine.run, 2.0, clock=machine.clock)

    for rows, ms in TRUE_MS.items():
        assert cost.ms(rows) == pytest.approx(ms, rel=0.06 if rows <= 16 else 0.15)


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_the_profile_keeps_to_its_time(scale: float) -> None:
    machine = Machine(scale=scale)

    profile(machine.run, 2.0, clock=machine.clock)

    assert machine.now < 2.2


def test_a_slow_model_is_measured_at_the_small_sizes_alone() -> None:
    machine = Machine(scale=20.0)

    cost = profile(machine.run, 2.0, clock=machine.clock)

    assert set(machine.runs) < set(TRUE_MS)
    assert {1, 2} <= set(machine.runs)
    assert cost.ms(2) > cost.ms(1)


def test_the_profile_runs_no_more_rows_than_may_be() -> None:
    machine = Machine()

    profile(machine.run, 2.0, max_rows=7, clock=machine.clock)

    assert set(machine.runs) == {size for size in PROFILE_ROWS if size <= 7}


def test_the_profile_takes_the_sizes_in_turns() -> None:
    machine = Machine()

    profile(machine.run, 2.0, clock=machine.clock)

    sizes = sorted(set(machine.runs))
    assert len(machine.runs) >= 5 * len(sizes)
    assert machine.runs[: 3 * len(sizes)] == [*sizes, *reversed(sizes), *sizes]


def test_the_profile_measures_what_a_long_context_adds() -> None:
    machine = Machine()
    long_context = LongContext(lambda rows: TRUE_MS[rows] + 0.002 * rows * 2000, 2000)

    cost = profile(machine.run, 2.0, long_context=long_context, clock=machine.clock)

    assert cost.ms(8, 2000) - cost.ms(8) == pytest.approx(0.002 * 8 * 2000, rel=0.1)


def test_more_rows_never_cost_less() -> None:
    cost = StepCost((1, 2, 4, 8), (10.0, 9.0, 14.0, 13.0))

    assert np.all(np.diff(cost.curve(1, 40)) >= 0)


def test_the_curve_is_straight_between_and_beyond_the_points() -> None:
    cost = StepCost((1, 3, 5), (10.0, 14.0, 20.0))

    assert cost.ms(2) == pytest.approx(12.0)
    assert cost.ms(4) == pytest.approx(17.0)
    assert cost.ms(7) == pytest.approx(26.0)
    assert cost.ms(1000) == pytest.approx(20.0 + 995 * 3.0)


def test_a_flat_end_is_not_believed_for_ever() -> None:
    cost = StepCost((1, 4, 5), (10.0, 18.0, 18.0))

    assert cost.ms(9) == pytest.approx(18.0 + 4 * 2.0)


def test_a_slower_machine_does_not_change_the_shape() -> None:
    cost = StepCost(tuple(TRUE_MS), tuple(TRUE_MS.values()))
    before = cost.curve(1, 15) / cost.ms(1)
    for step in range(200):
        rows = 1 if step % 3 else 6
        cost.observe(rows, 0, 2.0 * TRUE_MS[rows], is_plain=rows == 1)

    assert cost.ms(1) == pytest.approx(24.0, rel=0.03)
    assert cost.curve(1, 15) / cost.ms(1) == pytest.approx(before, rel=0.05)


def test_a_slowdown_during_a_long_copy_is_taken_for_drift() -> None:
    cost = StepCost(tuple(TRUE_MS), tuple(TRUE_MS.values()))
    for _ in range(200):
        cost.observe(6, 0, 2.0 * TRUE_MS[6], is_plain=False)

    assert cost.ms(6) / cost.ms(1) == pytest.approx(2.0, rel=0.01)
    assert cost.ms(1) == pytest.approx(24.0, rel=0.05)


def test_a_size_that_was_measured_wrong_is_corrected() -> None:
    cost = StepCost(tuple(TRUE_MS), tuple(TRUE_MS.values()))
    for step in range(300):
        rows = 1 if step % 2 else 6
        cost.observe(rows, 0, TRUE_MS[rows] * (1.4 if rows == 6 else 1.0), is_plain=rows == 1)

    assert cost.ms(6) / cost.ms(1) == pytest.approx(2.0 * 1.4, rel=0.05)


def test_one_stalled_step_hardly_counts() -> None:
    cost = StepCost(tuple(TRUE_MS), tuple(TRUE_MS.values()))
    for _ in range(20):
        cost.observe(1, 0, 12.0, is_plain=True)
    cost.observe(6, 0, 2400.0, is_plain=False)

    assert cost.ms(6) / cost.ms(1) == pytest.approx(2.0, rel=0.03)


def test_the_curve_survives_a_round_through_json_without_the_drift() -> None:
    cost = StepCost((1, 2, 6), (12.0, 15.0, 24.0), context_ms=0.001)
    for step in range(100):
        rows = 1 if step % 2 else 6
        cost.observe(rows, 0, 36.0 if rows == 1 else 90.0, is_plain=rows == 1)

    again = StepCost.from_json(json.loads(json.dumps(cost.to_json())))

    assert again.ms(1) == pytest.approx(12.0)
    ratios = cost.curve(1, 9, 50) / cost.ms(1, 50)
    assert again.curve(1, 9, 50) / again.ms(1, 50) == pytest.approx(ratios)


@pytest.mark.parametrize(
    ("rows", "ms"),
    [
        pytest.param([], [], id="no points"),
        pytest.param([1, 2], [1.0], id="a time is missing"),
        pytest.param([2, 1], [1.0, 2.0], id="not ascending"),
        pytest.param([1, 2], [1.0, float("nan")], id="not a number"),
        pytest.param([1, 2], [0.0, 1.0], id="no time at all"),
    ],
)
def test_a_curve_that_cannot_be_is_refused(rows: list[int], ms: list[float]) -> None:
    with pytest.raises(ValueError, match="cost curve"):
        StepCost(rows, ms)
