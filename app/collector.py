"""Python's cyclic garbage collector, kept on the thread of the window.

Left alone, a collection starts on whichever thread allocates, and a Qt object that dies on a
foreign thread takes its timers down the wrong way: the window crashes. So automatic collection is
off while the window lives, and a timer of the window's own thread collects instead.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

_INTERVAL_MS = 500


class Collector(QObject):
    """Collects on the thread that made it, until `stop`."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.timeout.connect(self._collect)
        gc.disable()
        self._timer.start()

    def settle(self) -> None:
        """Leave what the start has made alone from now on: later collections become short."""
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        """Hand collection back to Python."""
        self._timer.stop()
        gc.enable()

    @staticmethod
    def _collect() -> None:
        """The oldest generation that is due, as Python would do it."""
        counts, thresholds = gc.get_count(), gc.get_threshold()
        for generation in (2, 1, 0):
            if counts[generation] > thresholds[generation]:
                gc.collect(generation)
                return
