"""A label that cuts its text with an ellipsis rather than make the window wider."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel


class ElidedLabel(QLabel):
    """One line of plain text; the tooltip is free for something else."""

    def minimumSizeHint(self) -> QSize:
        """As narrow as need be."""
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """The text, or its beginning."""
        painter = QPainter(self)
        room = self.contentsRect()
        # A pixel of leeway: the size hint is rounded, and text must not lose its end to that.
        text = self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideRight, room.width() + 1
        )
        painter.setPen(self.palette().windowText().color())
        painter.drawText(room, self.alignment(), text)
