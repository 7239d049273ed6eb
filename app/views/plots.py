"""The curves of the telemetry dock, drawn by pyqtgraph.

The one module that touches pyqtgraph. It takes half a second to import, so nothing may import this
module before the window is on the screen, see `app.application`.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.telemetry import SPAN_S, Curve
from app.theme import Colours, figure_font

# pyqtgraph carries no types; what is used of it stays inside this module.
_pg: Any = importlib.import_module("pyqtgraph")
_pg.setConfigOptions(antialias=True)

_SHORTEST_S = 4.0
"""The first answer is not squeezed into a corner: the picture widens until it scrolls."""
_AXIS_PX = 34
_LABEL_PX = 11
_LINE_PX = 1.8


class CurvePlot(QWidget):
    """One or two curves over the last `SPAN_S` seconds of streaming, from zero upwards."""

    def __init__(self, name: str, *, floor: float, unit: str = "", parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self._floor = floor
        self._unit = unit
        self._top = 0.0
        self._plot: Any = _pg.PlotWidget(self)
        self._plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._plot.setFrameShape(self._plot.Shape.NoFrame)
        self._plot.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._item: Any = self._plot.getPlotItem()
        self._item.hideButtons()
        self._item.setMenuEnabled(False)
        self._item.setMouseEnabled(x=False, y=False)
        self._item.getViewBox().setDefaultPadding(0)
        self._item.hideAxis("bottom")
        self._axis: Any = self._item.getAxis("left")
        self._axis.setWidth(_AXIS_PX)
        self._axis.setStyle(tickLength=0, tickFont=figure_font(_LABEL_PX))
        self._curve: Any = self._item.plot(connect="finite")
        self._second: Any = self._item.plot(connect="finite")
        self._lines: list[Any] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._plot)
        self._fit(floor)

    def use(self, colours: Colours, colour: str) -> None:
        """Take the colours of a theme; the first curve is drawn in ``colour``."""
        self._plot.setBackground(colours.ground)
        self._axis.setPen(_pg.mkPen(None))
        self._axis.setTextPen(colours.soft)
        self._curve.setPen(_pg.mkPen(colour, width=_LINE_PX))
        dashes = Qt.PenStyle.DashLine
        self._second.setPen(_pg.mkPen(colours.without, width=_LINE_PX, style=dashes))
        for line in self._lines:
            line.setPen(_pg.mkPen(colours.hairline, width=1))

    def show_curves(self, now: float, curve: Curve, second: Curve | None = None) -> None:
        """Draw up to ``now``, the right edge."""
        start = now - SPAN_S
        self._curve.setData(curve.x, curve.y)
        top = self._highest(curve, start)
        if second is not None:
            self._second.setData(second.x, second.y)
            top = max(top, self._highest(second, start))
        self._fit(max(self._floor, top))
        self._item.setXRange(max(0.0, start), max(_SHORTEST_S, now), padding=0)

    @staticmethod
    def _highest(curve: Curve, start: float) -> float:
        seen = zip(curve.x, curve.y, strict=True)
        return max((y for x, y in seen if x >= start and not math.isnan(y)), default=0.0)

    def _fit(self, value: float) -> None:
        top = _round_up(value)
        if top == self._top:
            return
        self._top = top
        ticks = [0.0, top / 2, top]
        self._axis.setTicks([[(tick, f"{tick:g}{self._unit}") for tick in ticks]])
        # Room for half a label below and above, or pyqtgraph cuts it.
        self._item.setYRange(-0.12 * top, 1.12 * top, padding=0)
        for line in self._lines:
            self._item.removeItem(line)
        pen = self._lines[0].pen if self._lines else None
        self._lines = [_pg.InfiniteLine(tick, angle=0, pen=pen) for tick in ticks]
        for line in self._lines:
            line.setZValue(-10)
            self._item.addItem(line)


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 6, 8, 10 times a power of ten: halves of it are short numbers."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 4, 6, 8) if step * power >= value), 10 * power)
