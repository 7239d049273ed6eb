"""One message: who speaks, the text, the small print under it, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from app.conversation import Message, Role
from app.icons import icon
from app.message_words import words_of
from app.theme import SMALL_PX, Theme, figure_font
from app.views.answer_text import AnswerText

_COPIED_MS = 1500
_BUTTON_PX = 28
_ICON_PX = 18


class MessageView(QWidget):
    """Shows the newest value of one `Message`."""

    retry_requested = Signal(int)

    def __init__(self, theme: Theme, message: Message, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._id = message.id
        self._copied = ""
        self.setObjectName("question" if message.role is Role.USER else "answer")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._speaker = QLabel(self)
        self._speaker.setObjectName("speaker")
        self._caption = QLabel(self)
        self._caption.setObjectName("small")
        words = words_of(message)
        self.text = AnswerText(
            theme, f"{words.speaker} said", code_ground=words.code_ground, parent=self
        )
        self.line = QLabel(self)
        self.line.setObjectName("small")
        self.line.setFont(figure_font(SMALL_PX))
        self.line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.notes = QLabel(self)
        self.notes.setObjectName("note")
        self.notes.setWordWrap(True)
        self.copy = self._button("copy", "Copy this message")
        self.copy.clicked.connect(self._copy)
        self.fault = QWidget(self)
        self.fault.setObjectName("fault")
        self.fault.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._fault_icon = QLabel(self.fault)
        self.fault_text = QLabel(self.fault)
        self.fault_text.setWordWrap(True)
        self.fault_text.setObjectName("faultText")
        self.retry = QPushButton(self)
        self.retry.setObjectName("plain")
        self.retry.clicked.connect(lambda: self.retry_requested.emit(self._id))
        self._arrange(message.role is Role.USER)
        theme.changed.connect(self._draw_icons)
        self._draw_icons()
        self.show_message(message)

    def _arrange(self, is_question: bool) -> None:
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self._speaker)
        top.addWidget(self._caption)
        top.addStretch(1)
        fault_row = QHBoxLayout(self.fault)
        fault_row.setContentsMargins(12, 8, 12, 8)
        fault_row.setSpacing(12)
        fault_row.addWidget(self._fault_icon, 0, Qt.AlignmentFlag.AlignTop)
        fault_row.addWidget(self.fault_text, 1)
        below = QHBoxLayout()
        below.setSpacing(8)
        below.addWidget(self.line)
        below.addStretch(1)
        below.addWidget(self.retry)
        (top if is_question else below).addWidget(self.copy)
        layout = QVBoxLayout(self)
        layout.setSpacing(8)
        layout.setContentsMargins(*((16, 12, 12, 12) if is_question else (16, 8, 12, 8)))
        layout.addLayout(top)
        layout.addWidget(self.text)
        layout.addWidget(self.fault)
        layout.addWidget(self.notes)
        layout.addLayout(below)

    def show_message(self, message: Message) -> None:
        """Show the newest value."""
        words = words_of(message)
        self._copied = words.text
        self.text.show_markdown(words.text)
        self.text.setVisible(bool(words.text))
        self._show(self._speaker, words.speaker)
        self._show(self._caption, words.caption)
        self._show(self.line, words.line)
        self._show(self.notes, words.notes)
        self.fault_text.setText(words.fault)
        self.fault.setVisible(bool(words.fault))
        self.retry.setText(words.retry)
        self.retry.setVisible(bool(words.retry))
        self.copy.setVisible(words.can_copy)

    @staticmethod
    def _show(label: QLabel, text: str) -> None:
        if text != label.text():
            label.setText(text)
        label.setVisible(bool(text))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._copied)
        self.copy.setIcon(icon("check", self._theme.colours.bonus))
        QTimer.singleShot(_COPIED_MS, self, self._draw_icons)

    def _button(self, name: str, label: str) -> QToolButton:
        button = QToolButton(self)
        button.setProperty("iconName", name)
        button.setObjectName("quiet")
        button.setFixedSize(_BUTTON_PX, _BUTTON_PX)
        button.setAccessibleName(label)
        button.setToolTip(label)
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        return button

    def _draw_icons(self) -> None:
        colours = self._theme.colours
        self.copy.setIcon(icon("copy", colours.soft))
        self.retry.setIcon(icon("rotate-ccw", colours.text))
        drawn = icon("circle-alert", colours.danger, _ICON_PX)
        self._fault_icon.setPixmap(drawn.pixmap(_ICON_PX, _ICON_PX))
