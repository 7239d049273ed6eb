"""The conversation: one column of messages, kept at its end unless the reader scrolls up."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.conversation import Message
from app.icons import icon
from app.theme import Theme
from app.views.empty_state import EmptyState
from app.views.message_view import MessageView

COLUMN_PX = 760
"""Widest column: about 80 characters of text with its margins."""
SCROLL_BAR_PX = 10
"""As in the style sheet."""
_NEAR_END_PX = 24
_JUMP_PX = 36


class ChatView(QWidget):
    """Shows messages by id; knows nothing of how they come about."""

    retry_requested = Signal(int)
    example_chosen = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._views: dict[int, MessageView] = {}
        self._is_following = True
        self.area = QScrollArea(self)
        self.area.setObjectName("chat")
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Always there, or the column would jump aside when it first appears.
        self.area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._column = QVBoxLayout()
        self._column.setSpacing(16)
        self._column.setContentsMargins(0, 16, 0, 24)
        self._column.addStretch(1)
        self.area.setWidget(self._page())
        self.empty = EmptyState(theme, self)
        self.empty.chosen.connect(self.example_chosen)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.area)
        self.jump = self._make_jump()
        bar = self.area.verticalScrollBar()
        bar.rangeChanged.connect(self._on_range)
        bar.valueChanged.connect(self._on_value)
        theme.changed.connect(self._draw_icons)
        self._draw_icons()

    def _page(self) -> QWidget:
        page = QWidget()
        page.setObjectName("chatPage")
        holder = QWidget(page)
        holder.setMaximumWidth(COLUMN_PX)
        holder.setLayout(self._column)
        row = QHBoxLayout(page)
        row.setContentsMargins(16, 0, 16, 0)
        row.addStretch(1)
        row.addWidget(holder, 1000)
        row.addStretch(1)
        return page

    def _make_jump(self) -> QToolButton:
        jump = QToolButton(self)
        jump.setObjectName("jump")
        jump.setFixedSize(_JUMP_PX, _JUMP_PX)
        jump.setAccessibleName("Go to the end")
        jump.setToolTip("Go to the end (Ctrl+End)")
        jump.setCursor(Qt.CursorShape.PointingHandCursor)
        jump.clicked.connect(self.follow)
        jump.hide()
        return jump

    def view(self, message_id: int) -> MessageView:
        """The widget of one message."""
        return self._views[message_id]

    def add(self, message: Message) -> None:
        """Append a message and go to the end."""
        view = MessageView(self._theme, message)
        view.retry_requested.connect(self.retry_requested)
        self._views[message.id] = view
        self._column.insertWidget(self._column.count() - 1, view)
        self._stack.setCurrentWidget(self.area)
        self.follow()

    def change(self, message: Message) -> None:
        """Show the newer value of a message."""
        self._views[message.id].show_message(message)

    def clear(self) -> None:
        """Remove every message; the empty state teaches again."""
        for view in self._views.values():
            self._column.removeWidget(view)
            view.hide()
            view.deleteLater()
        self._views.clear()
        self._stack.setCurrentWidget(self.empty)
        self.follow()

    def follow(self) -> None:
        """Go to the end and stay there while text comes."""
        self._is_following = True
        bar = self.area.verticalScrollBar()
        bar.setValue(bar.maximum())
        self.jump.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The button floats over the lower edge."""
        super().resizeEvent(event)
        self.jump.move((self.width() - _JUMP_PX) // 2, self.height() - _JUMP_PX - 12)
        self.jump.raise_()

    def _on_range(self, _minimum: int, maximum: int) -> None:
        bar = self.area.verticalScrollBar()
        if bar.property("idle") != (maximum == 0):
            bar.setProperty("idle", maximum == 0)
            bar.style().polish(bar)
        if self._is_following:
            self.area.verticalScrollBar().setValue(maximum)
        self._show_jump()

    def _on_value(self, value: int) -> None:
        self._is_following = value >= self.area.verticalScrollBar().maximum() - _NEAR_END_PX
        self._show_jump()

    def _show_jump(self) -> None:
        self.jump.setVisible(not self._is_following and bool(self._views))
        self.jump.raise_()

    def _draw_icons(self) -> None:
        self.jump.setIcon(icon("arrow-down", self._theme.colours.text))
