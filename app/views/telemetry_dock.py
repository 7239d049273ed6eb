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

from app.figures import number_text, rate_text, seconds_text, share_text, steps_text
from app.icons import icon
from app.telemetry import Telemetry
from app.theme import FIGURE_PX, SMALL_PX, Theme, figure_font
from app.views.bars import PositionBars, TimeStrip
from app.views.drafter_rows import DrafterRows
from app.views.elided_label import ElidedLabel

if TYPE_CHECKING:
    from app.views.plots import CurveSpec, CurveStack

_WIDTH_PX = 296
_HEAD_PX = 34
_CURVE_PX = 64
_FRAMES_PER_PICTURE = 2
_FRAMES_PER_FIGURE = 4
_ROWS = ("First token", "Forward passes", "Drafted", "Verified", "Accepted")


class _Head(QWidget):
    """A label and a large figure, above a curve."""

    def __init__(self, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(_HEAD_PX)
        self.name = ElidedLabel(label, self)
        self.name.setObjectName("small")
        self.name.setAlignment(Qt.AlignmentFlag.AlignBottom)
        self.value = QLabel("–", self)
        self.value.setFont(figure_font(FIGURE_PX, bold=True))
        self.value.setAccessibleName(label)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 2)
        row.addWidget(self.name, 1)
        row.addWidget(self.value, 0, Qt.AlignmentFlag.AlignBottom)


class TelemetryDock(QDockWidget):
    """Shows a `Telemetry`."""

    def __init__(self, theme: Theme, telemetry: Telemetry, parent: QWidget | None = None) -> None:
        super().__init__("Telemetry", parent)
        self.setObjectName("telemetry")
        self._theme = theme
        self._telemetry = telemetry
        self._curves: CurveStack | None = None
        self._num_frames = 0
        self.setFeatures(QDockWidget.DockWidgetFeature.DockWidgetClosable)
        self.setAllowedAreas(Qt.DockWidgetArea.RightDockWidgetArea)
        self._close = QToolButton(self)
        self.setTitleBarWidget(self._title_bar())
        self._rate = _Head("Token rate", self)
        self._acceptance = _Head("Accepted of verified", self)
        self._steps = _Head("Tokens per step", self)
        self._curve_room = QGridLayout()
        self._positions = PositionBars(theme, self)
        self._strip = TimeStrip(theme, self)
        self._drafters = DrafterRows(self)
        self._by_drafter = self._labelled("Accepted by drafter", self._drafters)
        self._values: list[QLabel] = []
        self.setWidget(self._page())
        self.setMinimumWidth(_WIDTH_PX)
        telemetry.frame.connect(self._on_frame)
        telemetry.cleared.connect(self._show_all)
        self.visibilityChanged.connect(self._show_all)
        theme.changed.connect(self._restyle)
        self._restyle()

    def install_curves(self) -> None:
        """Fill the empty space; `app.views.plots` must be imported by now, or this takes long."""
        plots = importlib.import_module("app.views.plots")
        spec = cast("type[CurveSpec]", plots.CurveSpec)
        specs = (
            spec("Token rate over time", 20),
            spec("Acceptance over time", 100, "%"),
            spec("Tokens per step over time", 2),
        )
        make = cast("type[CurveStack]", plots.CurveStack)
        self._curves = make(specs, head_px=_HEAD_PX, plot_px=_CURVE_PX)
        self._curve_room.addWidget(self._curves, 0, 0)
        self._curves.lower()
        self._restyle()
        self._show_all()

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
        layout.setSpacing(8)
        layout.addLayout(self._arrange_curves())
        layout.addWidget(self._labelled("Accepted by position", self._positions))
        layout.addWidget(self._labelled("Time", self._strip))
        layout.addLayout(self._rows())
        layout.addWidget(self._by_drafter)
        layout.addStretch(1)
        scroll = QScrollArea(self)
        scroll.setObjectName("telemetryScroll")
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(page)
        return scroll

    def _arrange_curves(self) -> QGridLayout:
        """The heads lie over the free rows of the curves."""
        heads = QVBoxLayout()
        heads.setSpacing(0)
        for head in (self._rate, self._acceptance, self._steps):
            heads.addWidget(head)
            heads.addSpacing(_CURVE_PX)
        self._curve_room.addLayout(heads, 0, 0)
        return self._curve_room

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

    def _on_frame(self) -> None:
        """Curves and figures in turn: at 12 pixels a second a curve needs no more to look smooth,
        and nobody reads figures that fast."""
        self._num_frames += 1
        is_last = not self._telemetry.is_running
        if is_last or self._num_frames % _FRAMES_PER_PICTURE == 0:
            self._show_curves()
        if is_last or self._num_frames % _FRAMES_PER_FIGURE == 1:
            self._show_figures()

    def _show_all(self) -> None:
        self._show_curves()
        self._show_figures()

    def _show_curves(self) -> None:
        telemetry = self._telemetry
        if self._curves and self.isVisible():
            rate, accepted, steps = self._curves.plots
            rate.show_curves(telemetry.now, telemetry.rate, telemetry.rate_without)
            accepted.show_curves(telemetry.now, telemetry.acceptance)
            steps.show_curves(telemetry.now, telemetry.tokens_per_step)

    def _show_figures(self) -> None:
        telemetry = self._telemetry
        figures = telemetry.figures
        self._rate.name.setText(telemetry.rate_label)
        self._rate.value.setText(rate_text(telemetry.latest_rate))
        self._acceptance.value.setText(share_text(telemetry.latest_acceptance))
        self._steps.value.setText(steps_text(telemetry.latest_tokens_per_step))
        self._positions.show_shares(figures.by_position)
        self._strip.show_figures(figures)
        self._drafters.show_drafters(figures.by_drafter)
        self._by_drafter.setVisible(bool(figures.by_drafter))  # the last: nothing moves with it
        texts = (
            seconds_text(figures.first_token_s),
            f"{figures.num_steps:,}",
            number_text(figures.num_drafted),
            number_text(figures.num_verified),
            number_text(figures.num_accepted),
        )
        for value, text in zip(self._values, texts, strict=True):
            value.setText(text)

    def _restyle(self) -> None:
        colours = self._theme.colours
        self._close.setIcon(icon("x", colours.soft))
        if self._curves:
            self._curves.use(colours, (colours.accent, colours.accepted, colours.accepted))
