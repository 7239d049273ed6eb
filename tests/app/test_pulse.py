"""Beats merge requests, keep their distance, and leave the window time to live."""

from __future__ import annotations

from time import perf_counter, sleep

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.pulse import FRAME_MS, Pulse


@pytest.fixture
def pulse(qapp: QApplication) -> Pulse:
    return Pulse()


def test_many_requests_make_one_beat(pulse: Pulse, qtbot: QtBot) -> None:
    beats: list[float] = []
    pulse.beat.connect(lambda: beats.append(perf_counter()))
    for _ in range(100):
        pulse.request()
    qtbot.wait(3 * FRAME_MS)
    assert len(beats) == 1


def test_a_request_within_a_beat_waits_for_the_next_frame(pulse: Pulse, qtbot: QtBot) -> None:
    beats: list[float] = []

    def beat() -> None:
        beats.append(perf_counter())
        if len(beats) < 4:
            pulse.request()

    pulse.beat.connect(beat)
    pulse.request()
    qtbot.waitUntil(lambda: len(beats) == 4)
    gaps = [later - earlier for earlier, later in zip(beats, beats[1:], strict=False)]
    assert min(gaps) > 0.9 * FRAME_MS / 1000


def test_a_slow_receiver_gets_fewer_beats(pulse: Pulse, qtbot: QtBot) -> None:
    beats: list[float] = []

    def beat() -> None:
        beats.append(perf_counter())
        sleep(0.05)
        pulse.request()

    pulse.beat.connect(beat)
    pulse.request()
    qtbot.waitUntil(lambda: len(beats) == 3)
    pulse.beat.disconnect()
    assert beats[1] - beats[0] > 0.19  # 50 ms of work, then 150 ms of rest


def test_without_requests_there_is_no_beat(pulse: Pulse, qtbot: QtBot) -> None:
    beats: list[float] = []
    pulse.beat.connect(lambda: beats.append(perf_counter()))
    qtbot.wait(3 * FRAME_MS)
    assert beats == []
