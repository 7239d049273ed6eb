"""The main window: puts the parts together and binds them to their models."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QKeySequence,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QVBoxLayout, QWidget

from app.chat_model import ChatModel
from app.connection import EngineConnection
from app.engine_words import EngineWords
from app.examples import Example
from app.icons import application_icon
from app.telemetry import Telemetry
from app.theme import Theme
from app.views.chat_view import COLUMN_PX, SCROLL_BAR_PX, ChatView
from app.views.composer import Composer
from app.views.model_bar import ModelBar
from app.views.notice_bar import NoticeBar
from app.views.telemetry_dock import TelemetryDock

_SIZE_PX = (1200, 760)
_SMALLEST_PX = (560, 420)
_NARROW_PX = 860
"""Below this width the telemetry gives its room to the conversation."""


class Window(QMainWindow):
    """One window with one conversation. The left side and the bar's middle are free for more."""

    painted = Signal()
    """Once, when the window has been drawn for the first time."""
    closed = Signal()

    def __init__(
        self, theme: Theme, connection: EngineConnection, chat: ChatModel, telemetry: Telemetry
    ) -> None:
        super().__init__()
        self._is_painted = False
        self._is_narrow = False
        self._chat = chat
        self._connection = connection
        self.setWindowTitle("Paceline")
        self.setWindowIcon(application_icon())
        self.resize(*_SIZE_PX)
        self.setMinimumSize(*_SMALLEST_PX)
        self.bar = ModelBar(theme, self)
        self.notice = NoticeBar(theme, self)
        self.chat = ChatView(theme, self)
        self.composer = Composer(theme, self)
        self.dock = TelemetryDock(theme, telemetry, self)
        self.words = EngineWords(connection, self)
        self._arrange()
        self._bind_chat()
        self._bind_engine()
        self._add_shortcuts()
        self.composer.switch.setChecked(chat.speculation)
        self.composer.fix_switch(chat.fixed_speculation)
        self.words.refresh()

    def _arrange(self) -> None:
        self.setMenuWidget(self.bar)
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.dock)
        centre = QWidget(self)
        centre.setObjectName("centre")
        centre.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.composer.setMaximumWidth(COLUMN_PX)
        row = QHBoxLayout()
        row.setContentsMargins(16, 0, 16 + SCROLL_BAR_PX, 16)
        row.addStretch(1)
        row.addWidget(self.composer, 1000)
        row.addStretch(1)
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.notice)
        column.addWidget(self.chat, 1)
        column.addLayout(row)
        self.setCentralWidget(centre)

    def _bind_chat(self) -> None:
        chat = self._chat
        chat.message_added.connect(self.chat.add)
        chat.message_changed.connect(self.chat.change)
        chat.cleared.connect(self.chat.clear)
        chat.busy_changed.connect(self.composer.set_busy)
        chat.speculation_changed.connect(self.composer.switch.setChecked)
        chat.speculation_fixed.connect(self.composer.fix_switch)
        self.composer.submitted.connect(chat.send)
        self.composer.stop_requested.connect(chat.stop)
        self.composer.switch.toggled.connect(chat.set_speculation)
        self.chat.retry_requested.connect(chat.retry)
        self.chat.example_chosen.connect(self._try_example)
        self.bar.new_chat_requested.connect(self._new_chat)

    def _bind_engine(self) -> None:
        self.words.bar_changed.connect(self.bar.show_text)
        self.words.notice_changed.connect(self.notice.show_notice)
        self.notice.start_again_requested.connect(self._connection.start_again)
        self.bar.telemetry_toggled.connect(self.dock.setVisible)
        self.dock.visibilityChanged.connect(self._follow_dock)

    def _add_shortcuts(self) -> None:
        for keys, action in (
            ("Ctrl+N", self._new_chat),
            ("Ctrl+L", self.composer.focus),
            ("Esc", self._chat.stop),
            ("Ctrl+.", self._chat.stop),
            ("Ctrl+T", self.bar.telemetry.toggle),
            ("Ctrl+Shift+S", self.composer.switch.click),
            ("Ctrl+End", self.chat.follow),
            ("Ctrl+Q", self.close),
        ):
            QShortcut(QKeySequence(keys), self, action)

    def _try_example(self, example: Example) -> None:
        self._chat.try_example(example)
        self.composer.focus()

    def _new_chat(self) -> None:
        self._chat.clear()
        self.composer.focus()

    def _follow_dock(self, visible: bool) -> None:
        if not self.isMinimized() and self.isVisible():
            self.bar.telemetry.setChecked(visible)

    def showEvent(self, event: QShowEvent) -> None:
        """The keyboard belongs to the message field from the start."""
        super().showEvent(event)
        self.composer.focus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The telemetry goes when the window becomes narrow, and comes back with the room."""
        super().resizeEvent(event)
        is_narrow = self.width() < _NARROW_PX
        if is_narrow != self._is_narrow:
            self._is_narrow = is_narrow
            self.bar.telemetry.setChecked(not is_narrow)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Tell of the first paint."""
        super().paintEvent(event)
        if not self._is_painted:
            self._is_painted = True
            self.painted.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Go at once; the engine is ended behind the scenes."""
        super().closeEvent(event)
        self.closed.emit()
