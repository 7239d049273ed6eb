"""A strip that tells that the engine is in trouble, what it said last, and starts it again."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.engine_words import Notice
from app.icons import icon
from app.theme import SMALL_PX, Theme, code_font

_ICON_PX = 18
_LINES_SHOWN = 8


class NoticeBar(QWidget):
    """Shows a `Notice`, or nothing."""

    start_again_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("notice")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._theme = theme
        self._icon = QLabel(self)
        self.sentence = QLabel(self)
        self.sentence.setObjectName("noticeText")
        self.sentence.setWordWrap(True)
        self.sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._then = QLabel(self)
        self._then.setObjectName("soft")
        self.details = QPushButton("What it said", self)
        self.details.setCheckable(True)
        self.details.setObjectName("plain")
        self.start_again = QPushButton("Start again", self)
        self.start_again.setObjectName("plain")
        self.lines = QPlainTextEdit(self)
        self.lines.setObjectName("lines")
        self.lines.setReadOnly(True)
        self.lines.setAccessibleName("The engine's last lines")
        self.lines.setFrameShape(QFrame.Shape.NoFrame)
        self.lines.setFont(code_font(SMALL_PX))
        self.lines.setFixedHeight(self.lines.fontMetrics().lineSpacing() * _LINES_SHOWN + 20)
        self.details.toggled.connect(self.lines.setVisible)
        self.start_again.clicked.connect(self.start_again_requested)
        self._arrange()
        theme.changed.connect(self._draw_icon)
        self._draw_icon()
        self.lines.hide()
        self.hide()

    def show_notice(self, notice: Notice | None) -> None:
        """Show ``notice``; None hides the strip."""
        self.setVisible(notice is not None)
        if notice is None:
            return
        self.sentence.setText(notice.sentence)
        self._then.setText(notice.then)
        said = "\n".join(notice.last_lines)
        self.details.setVisible(bool(said))
        if said != self.lines.toPlainText():
            self.lines.setPlainText(said)
            self.lines.moveCursor(self.lines.textCursor().MoveOperation.End)

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self._icon)
        row.addWidget(self.sentence, 1)
        row.addWidget(self._then)
        row.addWidget(self.details)
        row.addWidget(self.start_again)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 8)
        layout.setSpacing(8)
        layout.addLayout(row)
        layout.addWidget(self.lines)

    def _draw_icon(self) -> None:
        drawn = icon("circle-alert", self._theme.colours.danger, _ICON_PX)
        self._icon.setPixmap(drawn.pixmap(_ICON_PX, _ICON_PX))
