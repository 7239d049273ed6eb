"""The dock on the right: how fast, how much accepted, at which positions, and the plain figures.

Until `install_curves` is called the curves are empty space: pyqtgraph comes after the first paint.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.figures import rate_text, seconds_text, share_text, steps_text
from app.icons import icon
from app.telemetry import Telemetry
from app.theme import FIGURE_PX, SMALL_PX, Theme, figure_font
from app.views.bars import PositionBars, TimeStrip

if TYPE_CHECKING:
    from app.views.plots import CurvePlot

_WIDTH_PX = 296
_CURVE_PX = 68
_ROWS = ("First token", "Forward passes", "Drafted", "Verified", "Accepted")


class _Section(QWidget):
    """A label, a large figure, and room for a curve."""

    def __init__(self, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        name = QLabel(label, self)
        name.setObjectName("small")
        self.value = QLabel("–", self)
        self.value.setFont(figure_font(FIGURE_PX, bold=True))
        self.value.setAccessibleName(label)
        self.room = QWidget(self)
        self.room.setFixedHeight(_CURVE_PX)
        inside = QVBoxLayout(self.room)
        inside.setContentsMargins(0, 0, 0, 0)
        top = QHBoxLayout()
        top.addWidget(name, 1, Qt.AlignmentFlag.AlignBottom)
        top.addWidget(self.value, 0, Qt.AlignmentFlag.AlignBottom)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(top)
        layout.addWidget(self.room)


class TelemetryDock(QDockWidget):
    """Shows a `Telemetry`."""

    def __init__(self, theme: Theme, telemetry: Telemetry, parent: QWidget | None = None) -> None:
        super().__init__("Telemetry", parent)
        self.setObjectName("telemetry")
        self._theme = theme
        self._telemetry = telemetry
        self._curves: tuple[CurvePlot, CurvePlot, CurvePlot] | None = None
        self.setFeatures(QDockWidget.DockWidgetFeature.DockWidgetClosable)
        self.setAllowedAreas(Qt.DockWidgetArea.RightDockWidgetArea)
        self._close = QToolButton(self)
        self.setTitleBarWidget(self._title_bar())
        self._rate = _Section("Token rate", self)
        self._acceptance = _Section("Accepted of verified", self)
        self._steps = _Section("Tokens per step", self)
        self._positions = PositionBars(theme, self)
        self._strip = TimeStrip(theme, self)
        self._values: list[QLabel] = []
        self.setWidget(self._page())
        self.setMinimumWidth(_WIDTH_PX)
        telemetry.frame.connect(self._show)
        telemetry.cleared.connect(self._show)
        theme.changed.connect(self._restyle)
        self._restyle()

    def install_curves(self) -> None:
        """Fill the empty space; `app.views.plots` must be imported by now, or this takes long."""
        plots = importlib.import_module("app.views.plots")
        make = cast("type[CurvePlot]", plots.CurvePlot)
        rate = make("Token rate over time", floor=20, parent=self._rate.room)
        accepted = make("Acceptance over time", floor=100, unit="%", parent=self._acceptance.room)
        steps = make("Tokens per step over time", floor=2, parent=self._steps.room)
        self._curves = (rate, accepted, steps)
        for section, curve in zip(
            (self._rate, self._acceptance, self._steps), self._curves, strict=True
        ):
            layout = section.room.layout()
            if layout is not None:
                layout.addWidget(curve)
        self._restyle()
        self._show()

    def _title_bar(self) -> QWidget:
        bar = QWidget(self)
        bar.setObjectName("dockTitle")
        title = QLabel("Telemetry", bar)
        title.setObjectName("speaker")
        self._close.setObjectName("quiet")
        self._close.setFixedSize(24, 24)
        self._close.setAccessibleName("Close the telemetry")
        self._close.setToolTip("Close the telemetry (Ctrl+T)")
        self._close.setCursor(Qt.CursorShape.PointingHandCursor)
        self._close.clicked.connect(self.close)
        row = QHBoxLayout(bar)
        row.setContentsMargins(16, 8, 12, 0)
        row.addWidget(title, 1)
        row.addWidget(self._close)
        return bar

    def _page(self) -> QWidget:
        page = QWidget(self)
        page.setObjectName("telemetryPage")
        layout = QVBoxLayout(page)
        layout.setContentsMargins(16, 4, 16, 8)
        layout.setSpacing(12)
        layout.addWidget(self._rate)
        layout.addWidget(self._acceptance)
        layout.addWidget(self._steps)
        layout.addWidget(self._labelled("Accepted by position", self._positions))
        layout.addWidget(self._labelled("Time", self._strip))
        layout.addLayout(self._rows())
        layout.addStretch(1)
        scroll = QScrollArea(self)
        scroll.setObjectName("telemetryScroll")
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(page)
        return scroll

    def _labelled(self, label: str, content: QWidget) -> QWidget:
        holder = QWidget(self)
        name = QLabel(label, holder)
        name.setObjectName("small")
        layout = QVBoxLayout(holder)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(name)
        layout.addWidget(content)
        return holder

    def _rows(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setVerticalSpacing(2)
        for row, label in enumerate(_ROWS):
            name = QLabel(label, self)
            name.setObjectName("small")
            value = QLabel("–", self)
            value.setFont(figure_font(SMALL_PX))
            value.setAccessibleName(label)
            grid.addWidget(name, row, 0)
            grid.addWidget(value, row, 1, Qt.AlignmentFlag.AlignRight)
            self._values.append(value)
        return grid

    def _show(self) -> None:
        telemetry = self._telemetry
        if self._curves:
            rate, accepted, steps = self._curves
            rate.show_curves(telemetry.now, telemetry.rate, telemetry.rate_without)
            accepted.show_curves(telemetry.now, telemetry.acceptance)
            steps.show_curves(telemetry.now, telemetry.tokens_per_step)
        figures = telemetry.figures
        self._rate.value.setText(rate_text(telemetry.latest_rate))
        self._acceptance.value.setText(share_text(telemetry.latest_acceptance))
        self._steps.value.setText(steps_text(telemetry.latest_tokens_per_step))
        self._positions.show_shares(figures.by_position)
        self._strip.show_figures(figures)
        texts = (
            seconds_text(figures.first_token_s),
            f"{figures.num_steps:,}",
            f"{figures.num_drafted:,}",
            f"{figures.num_verified:,}",
            f"{figures.num_accepted:,}",
        )
        for value, text in zip(self._values, texts, strict=True):
            value.setText(text)

    def _restyle(self) -> None:
        colours = self._theme.colours
        self._close.setIcon(icon("x", colours.soft))
        if self._curves:
            rate, accepted, steps = self._curves
            rate.use(colours, colours.accent)
            accepted.use(colours, colours.accepted)
            steps.use(colours, colours.accepted)
