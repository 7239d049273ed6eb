"""The curves of the telemetry dock, drawn by pyqtgraph.

The one module that touches pyqtgraph. It takes half a second to import, so nothing may import this
module before the window is on the screen, see `app.application`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGraphicsLineItem, QVBoxLayout, QWidget

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
_NUM_TICKS = 3


@dataclass(frozen=True, slots=True)
class CurveSpec:
    """What a plot shows. ``floor``: least height of its y axis; ``unit`` follows its numbers."""

    name: str
    floor: float
    unit: str = ""


class CurveStack(QWidget):
    """Plots below each other, in one scene: three scenes would paint the window three times."""

    def __init__(self, specs: Sequence[CurveSpec], *, head_px: int, plot_px: int) -> None:
        super().__init__()
        self._view: Any = _pg.GraphicsLayoutWidget()
        self._view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._view.setFrameShape(QFrame.Shape.NoFrame)
        self._view.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        grid: Any = self._view.ci.layout
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(0)
        self.plots: list[CurvePlot] = []
        for place, spec in enumerate(specs):
            item = self._view.addPlot(row=2 * place + 1, col=0)
            grid.setRowFixedHeight(2 * place, head_px)
            grid.setRowFixedHeight(2 * place + 1, plot_px)
            self.plots.append(CurvePlot(item, spec))
        self.setFixedHeight(len(specs) * (head_px + plot_px))
        self.setAccessibleName(", ".join(spec.name for spec in specs))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._view)

    def use(self, colours: Colours, curve_colours: Sequence[str]) -> None:
        """Take the colours of a theme, and one for the first curve of each plot."""
        # pyqtgraph counts the width of a line in pixels of the screen.
        scale = self.devicePixelRatioF()
        self._view.setBackground(colours.ground)
        for plot, colour in zip(self.plots, curve_colours, strict=True):
            plot.use(colours, colour, scale)


class CurvePlot:
    """One or two curves over the last `SPAN_S` seconds of streaming, from zero upwards.

    The view never moves: its x axis runs from 0 to 1 and the points are shifted instead, since a
    changed view makes pyqtgraph rebuild everything at each frame.
    """

    def __init__(self, item: Any, spec: CurveSpec) -> None:
        self._item = item
        self._spec = spec
        self._top = 0.0
        item.hideButtons()
        item.setMenuEnabled(False)
        item.setMouseEnabled(x=False, y=False)
        item.disableAutoRange()
        item.hideAxis("bottom")
        self._axis: Any = item.getAxis("left")
        self._axis.setWidth(_AXIS_PX)
        self._axis.setStyle(tickLength=0, tickFont=figure_font(_LABEL_PX))
        self._lines: list[Any] = [QGraphicsLineItem(0, 0, 1, 0) for _ in range(_NUM_TICKS)]
        self._curves: list[Any] = [_pg.PlotCurveItem(connect="finite") for _ in range(2)]
        for drawn in (*self._lines, *self._curves):
            item.getViewBox().addItem(drawn, ignoreBounds=True)
        item.setXRange(0, 1, padding=0)
        self._fit(spec.floor)

    def use(self, colours: Colours, colour: str, scale: float) -> None:
        """Take the colours of a theme; the first curve is drawn in ``colour``.

        ``scale``: pixels of the screen for one of the window.
        """
        self._axis.setPen(_pg.mkPen(None))
        self._axis.setTextPen(colours.soft)
        curve, second = self._curves
        curve.setPen(_pg.mkPen(colour, width=_LINE_PX * scale))
        dashes = Qt.PenStyle.DashLine
        second.setPen(_pg.mkPen(colours.without, width=_LINE_PX * scale, style=dashes))
        for line in self._lines:
            line.setPen(_pg.mkPen(colours.hairline, width=scale))

    def show_curves(self, now: float, curve: Curve, second: Curve | None = None) -> None:
        """Draw up to ``now``, the right edge."""
        start = max(0.0, now - SPAN_S)
        span = max(_SHORTEST_S, now) - start
        top = 0.0
        for drawn, points in zip(self._curves, (curve, second), strict=True):
            if points is None:
                continue
            x = (np.array(points.x) - start) / span
            y = np.array(points.y)
            seen = x >= 0
            drawn.setData(x[seen], y[seen], connect="finite")
            top = max(top, float(np.nanmax(y[seen], initial=0.0)))
        self._fit(max(self._spec.floor, top))

    def _fit(self, value: float) -> None:
        top = _round_up(value)
        if top == self._top:
            return
        self._top = top
        ticks = [top * place / (_NUM_TICKS - 1) for place in range(_NUM_TICKS)]
        self._axis.setTicks([[(tick, f"{tick:g}{self._spec.unit}") for tick in ticks]])
        # Room for half a label below and above, or pyqtgraph cuts it.
        self._item.setYRange(-0.16 * top, 1.16 * top, padding=0)
        for line, tick in zip(self._lines, ticks, strict=True):
            line.setLine(0, tick, 1, tick)


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 6, 8, 10 times a power of ten: halves of it are short numbers."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 4, 6, 8) if step * power >= value), 10 * power)
