"""Painted bars: accepted by position, and where the time of an answer went."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.figures import Figures
from app.theme import SMALL_PX, Theme, figure_font

_ROW_PX = 18
_BAR_PX = 10
_LABEL_PX = 20
_VALUE_PX = 40
_MAX_ROWS = 5
_STRIP_PX = 10
_PIECES = ("draft", "verify", "own")


class PositionBars(QWidget):
    """Share accepted at each drafted position, deeper blue for later positions."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shares: tuple[float, ...] | None = ()
        self.setFont(figure_font(SMALL_PX))
        self.setAccessibleName("Share of draft tokens accepted, by position")
        theme.changed.connect(self.update)

    def show_shares(self, shares: tuple[float, ...] | None) -> None:
        """``shares[0]`` belongs to the first drafted token; None: not known."""
        if shares != self._shares:
            self._shares = shares
            parts = (f"{place + 1}: {share:.0%}" for place, share in enumerate(shares or ()))
            self.setAccessibleDescription("not known" if shares is None else ", ".join(parts))
            self.update()

    def sizeHint(self) -> QSize:
        """Room for the most rows, so that nothing below moves."""
        return QSize(200, _ROW_PX * _MAX_ROWS)

    def minimumSizeHint(self) -> QSize:
        """As tall as the hint."""
        return QSize(120, _ROW_PX * _MAX_ROWS)

    def paintEvent(self, event: QPaintEvent) -> None:
        """One row each: number, bar, percent."""
        colours = self._theme.colours
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self._shares:
            painter.setPen(QColor(colours.soft))
            top = QRectF(0, 0, self.width(), _ROW_PX)
            said = "–" if self._shares is None else "Nothing drafted."
            painter.drawText(top, Qt.AlignmentFlag.AlignVCenter, said)
            return
        for row, share in enumerate(self._shares[:_MAX_ROWS]):
            self._paint_row(painter, row, share)

    def _paint_row(self, painter: QPainter, row: int, share: float) -> None:
        colours = self._theme.colours
        top = row * _ROW_PX
        painter.setPen(QColor(colours.soft))
        label = QRectF(0, top, _LABEL_PX - 6, _ROW_PX)
        centre = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(label, centre | Qt.AlignmentFlag.AlignRight, str(row + 1))
        room = self.width() - _LABEL_PX - _VALUE_PX
        bar = QRectF(_LABEL_PX, top + (_ROW_PX - _BAR_PX) / 2, room, _BAR_PX)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colours.raised))
        painter.drawRoundedRect(bar, 3, 3)
        if share > 0:
            bar.setWidth(max(4.0, room * share))
            painter.setBrush(self._depth_colour(row))
            painter.drawRoundedRect(bar, 3, 3)
        painter.setPen(QColor(colours.text))
        value = QRectF(self.width() - _VALUE_PX, top, _VALUE_PX, _ROW_PX)
        painter.drawText(value, centre | Qt.AlignmentFlag.AlignRight, f"{share:.0%}")

    def _depth_colour(self, row: int) -> QColor:
        colour = QColor(self._theme.colours.accepted)
        return colour.darker(100 + 12 * row)


class TimeStrip(QWidget):
    """Drafting, verifying and everything else, as shares of an answer's time, with a legend.

    Of a whole that is not known there are no shares.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._times: tuple[float | None, ...] = (0.0,) * len(_PIECES)
        self._shares: tuple[float, ...] = ()
        self._legend: tuple[str, ...] = _PIECES
        self.setFont(figure_font(SMALL_PX))
        self.setAccessibleName("Where the time went")
        theme.changed.connect(self.update)

    def show_figures(self, figures: Figures) -> None:
        """Take the times of an answer."""
        times = (figures.draft_ms, figures.verify_ms, figures.overhead_ms)
        if times == self._times:
            return
        self._times = times
        known = [time_ms for time_ms in times if time_ms is not None]
        total = sum(known) if len(known) == len(times) else 0.0
        self._shares = tuple(time_ms / total for time_ms in known) if total else ()
        words = tuple(f"{share:.0%}" for share in self._shares)
        if None in times:
            words = ("–",) * len(times)
        self._legend = tuple(map(" ".join, zip(_PIECES, words, strict=True))) if words else _PIECES
        self.setAccessibleDescription(", ".join(self._legend))
        self.update()

    def sizeHint(self) -> QSize:
        """The strip and its legend."""
        return QSize(200, _STRIP_PX + 8 + self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        """As tall as the hint."""
        return QSize(120, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Three pieces with a gap of the ground between them, words below."""
        colours = self._theme.colours
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colours.raised))
        strip = QRectF(0, 0, self.width(), _STRIP_PX)
        painter.drawRoundedRect(strip, 3, 3)
        hues = (colours.draft, colours.verify, colours.own)
        left = 0.0
        for colour, share in zip(hues, self._shares, strict=False):
            width = self.width() * share
            if width >= 1:
                painter.setBrush(QColor(colour))
                painter.drawRoundedRect(QRectF(left, 0, max(1.0, width - 1), _STRIP_PX), 3, 3)
            left += width
        self._paint_legend(painter, hues)

    def _paint_legend(self, painter: QPainter, hues: tuple[str, ...]) -> None:
        height = self.fontMetrics().height()
        top = _STRIP_PX + 8
        column = self.width() / len(hues)
        for place, (words, colour) in enumerate(zip(self._legend, hues, strict=True)):
            left = place * column
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(left, top + (height - 8) / 2, 8, 8), 2, 2)
            painter.setPen(QColor(self._theme.colours.soft))
            room = QRectF(left + 14, top, column - 14, height)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, words)
