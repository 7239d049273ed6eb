"""Garbage is collected on the window's thread alone; and PySide6 counts its references."""

from __future__ import annotations

import gc
import sys
import threading

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.collector import Collector


@pytest.mark.usefixtures("qapp")
def test_collects_on_its_own_thread_and_nowhere_else(qtbot: QtBot) -> None:
    threads: set[str] = set()

    def note(phase: str, info: dict[str, int]) -> None:
        threads.add(threading.current_thread().name)

    def litter() -> None:
        for _ in range(20_000):
            cycle: list[object] = []
            cycle.append(cycle)

    gc.callbacks.append(note)
    collector = Collector()
    try:
        thread = threading.Thread(target=litter, name="foreign")
        thread.start()
        thread.join()
        assert threads == set()
        qtbot.waitUntil(lambda: bool(threads), timeout=3000)
        assert threads == {"MainThread"}
    finally:
        collector.stop()
        gc.callbacks.remove(note)
    assert gc.isenabled()


class _Emitter(QObject):
    told = Signal(object)


def test_emitting_takes_no_reference_away(qapp: QApplication) -> None:
    """PySide6 6.12.0 on Python 3.11 lost one reference to True at each emit, and so aborted."""
    emitter = _Emitter(qapp)
    emitter.told.emit(None)
    before = sys.getrefcount(True)
    for _ in range(500):
        emitter.told.emit(None)
    assert sys.getrefcount(True) > before - 100
