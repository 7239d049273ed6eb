"""Curves are computed from the engine's own times."""

from __future__ import annotations

from math import isnan

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.pulse import Pulse
from app.telemetry import Curve, Telemetry
from tests.app.test_figures import a_blank_step, a_step


@pytest.fixture
def telemetry(qapp: QApplication) -> Telemetry:
    return Telemetry(Pulse())


def test_the_rate_is_that_of_the_last_second(telemetry: Telemetry) -> None:
    telemetry.begin(speculation=True)
    for number in range(20):  # two seconds of one token each 100 ms
        telemetry.add(a_step(100.0 * number, 0, 0))
    for number in range(20):  # then three tokens each 100 ms
        telemetry.add(a_step(2000 + 100.0 * number, 2, 2))
    assert telemetry.latest_rate == pytest.approx(30.0, rel=0.02)
    assert telemetry.rate.y[2] == pytest.approx(10.0, rel=0.02)
    telemetry.end()


def test_acceptance_and_tokens_per_step_roll_with_the_last_steps(telemetry: Telemetry) -> None:
    telemetry.begin(speculation=True)
    for number in range(40):
        telemetry.add(a_step(10.0 * number, 3, 3))
    for number in range(40):
        telemetry.add(a_step(400 + 10.0 * number, 0, 1))
    assert telemetry.latest_acceptance == 0.0
    assert telemetry.latest_tokens_per_step == 1.0
    assert max(telemetry.acceptance.y) == 100.0
    telemetry.end()


def test_acceptance_is_blank_as_long_as_one_of_the_last_steps_is(telemetry: Telemetry) -> None:
    telemetry.begin(speculation=True)
    for number in range(5):
        telemetry.add(a_step(100.0 * number, 3, 3))
    assert telemetry.latest_acceptance == 1.0
    drawn = len(telemetry.acceptance.x)
    for number in range(5, 10):
        telemetry.add(a_blank_step(100.0 * number, 2))
    assert telemetry.latest_acceptance is None
    assert len(telemetry.acceptance.x) == drawn
    assert telemetry.latest_tokens_per_step == pytest.approx((5 * 4 + 5 * 3) / 10)
    for number in range(10, 42):
        telemetry.add(a_step(100.0 * number, 0, 1))
    assert telemetry.latest_acceptance == 0.0
    telemetry.end()


def test_an_answer_without_speculation_is_drawn_apart(telemetry: Telemetry) -> None:
    telemetry.begin(speculation=False)
    for number in range(10):
        telemetry.add(a_step(100.0 * number, 0, 0))
    telemetry.end()
    assert not telemetry.rate.x
    assert telemetry.rate_without.x
    assert not telemetry.acceptance.x


def test_a_gap_lies_between_two_answers(telemetry: Telemetry) -> None:
    for _ in range(2):
        telemetry.begin(speculation=True)
        for number in range(10):
            telemetry.add(a_step(100.0 * number, 1, 1))
        telemetry.end()
    assert sum(isnan(value) for value in telemetry.rate.y) == 1


def test_frames_come_while_an_answer_streams_and_then_stop(
    telemetry: Telemetry, qtbot: QtBot
) -> None:
    frames: list[float] = []
    telemetry.frame.connect(lambda: frames.append(telemetry.now))
    telemetry.begin(speculation=True)
    qtbot.wait(400)
    telemetry.end()
    seen = len(frames)
    assert 4 <= seen <= 14  # at most thirty a second
    assert frames == sorted(frames)
    qtbot.wait(150)
    assert len(frames) == seen


def test_points_closer_than_a_frame_are_merged_and_old_ones_forgotten() -> None:
    curve = Curve()
    for number in range(1000):
        curve.add(number / 1000, float(number))
    assert len(curve.x) < 64
    assert curve.y[-1] == 999.0
    long = Curve([float(number) for number in range(500)], [1.0] * 500)
    long.forget_before(400.0)
    assert long.x[0] == 399.0
