"""An on/off switch with its words beside it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QWidget

from app.theme import SMALL_PX, Theme, text_font

_TRACK_WIDTH = 32
_TRACK_HEIGHT = 18
_GAP = 8
_MARGIN = 4
_DISABLED_OPACITY = 0.5


class Switch(QAbstractButton):
    """Says what it switches and how it stands: colour is not the only sign."""

    def __init__(self, theme: Theme, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._label = label
        self.setCheckable(True)
        self.setFont(text_font(SMALL_PX))
        self.setAccessibleName(label)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Room for the longer of the two words."""
        metrics = self.fontMetrics()
        words = max(metrics.horizontalAdvance(self._words(on)) for on in (True, False))
        height = max(_TRACK_HEIGHT, metrics.height())
        return QSize(_TRACK_WIDTH + _GAP + words + 2 * _MARGIN + 2, height + 2 * _MARGIN)

    def changeEvent(self, event: QEvent) -> None:
        """The hand points only at what can be pressed."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.EnabledChange:
            shapes = Qt.CursorShape
            self.setCursor(shapes.PointingHandCursor if self.isEnabled() else shapes.ArrowCursor)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Track, knob, words, focus ring; pale where it cannot be pressed."""
        colours = self._theme.colours
        painter = QPainter(self)
        painter.setOpacity(1.0 if self.isEnabled() else _DISABLED_OPACITY)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        top = (self.height() - _TRACK_HEIGHT) / 2
        track = QRectF(_MARGIN, top, _TRACK_WIDTH, _TRACK_HEIGHT)
        radius = _TRACK_HEIGHT / 2
        on = self.isChecked()
        painter.setPen(Qt.PenStyle.NoPen if on else QPen(QColor(colours.soft), 1))
        painter.setBrush(QColor(colours.accent if on else colours.surface))
        painter.drawRoundedRect(track.adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
        knob = _TRACK_HEIGHT - 6
        left = track.right() - knob - 3 if on else track.left() + 3
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colours.on_accent if on else colours.soft))
        painter.drawEllipse(QRectF(left, top + 3, knob, knob))
        painter.setPen(QColor(colours.text if on else colours.soft))
        words = self.rect().adjusted(_MARGIN + _TRACK_WIDTH + _GAP, 0, 0, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, self._words(on))
        if self.hasFocus():
            painter.setPen(QPen(QColor(colours.accent), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)

    def _words(self, on: bool) -> str:
        return f"{self._label} {'on' if on else 'off'}"
