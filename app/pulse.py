"""A beat for redrawing: 25 times a second at most, and never more than a quarter of the time.

`Pulse` merges any number of requests into one beat. Text and curves share one, so that the window
is painted once for both. It is no clock: without requests it is still.
"""

from __future__ import annotations

from time import perf_counter

from PySide6.QtCore import QObject, Qt, QTimer, Signal

FRAME_MS = 40
_REST = 3
"""Milliseconds of rest for each millisecond that the last beat took."""


class Pulse(QObject):
    """Emits `beat` soon after `request`; a slow receiver gets fewer beats, not a frozen window."""

    beat = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._earliest = 0.0
        self._is_beating = False
        self._is_wanted = False
        """Asked for during a beat: for the next one."""

    def request(self) -> None:
        """Ask for a beat; further requests before it change nothing."""
        if self._is_beating:
            self._is_wanted = True
        elif not self._timer.isActive():
            self._timer.start(max(0, round((self._earliest - perf_counter()) * 1000)))

    def _beat(self) -> None:
        start = perf_counter()
        self._is_beating, self._is_wanted = True, False
        self.beat.emit()
        self._is_beating = False
        took = perf_counter() - start
        self._earliest = start + max(FRAME_MS / 1000, took * (1 + _REST))
        if self._is_wanted:
            self.request()
