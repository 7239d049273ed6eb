"""Where a message is written: grows with its text, Enter sends, Shift+Enter begins a new line.

A composition of an input method (Chinese, Japanese, Korean, accents) never sends.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.icons import icon
from app.theme import Theme
from app.views.switch import Switch

_MAX_LINES = 8
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_SWITCH_TIP = (
    "Let a drafter propose tokens for the next answer. It changes the speed, never the words. "
    "(Ctrl+Shift+S)"
)
_NEW_LINE = Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.AltModifier


class MessageEdit(QPlainTextEdit):
    """The text field alone."""

    submitted = Signal()
    focus_changed = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_composing = False
        self.setObjectName("message")
        self.setPlaceholderText("Ask anything")
        self.setAccessibleName("Message")
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(4)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Remember whether a composition is open."""
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter sends, unless a modifier or an input method says otherwise."""
        if event.key() not in _ENTER or event.modifiers() & _NEW_LINE:
            super().keyPressEvent(event)
        elif not self._is_composing:
            self.submitted.emit()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Tell the frame."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell the frame; a composition ends with the focus."""
        self._is_composing = False
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def changeEvent(self, event: QEvent) -> None:
        """Another font is another height."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        # A plain-text layout measures its height in lines, not in pixels.
        lines = min(_MAX_LINES, max(1, round(self.document().size().height())))
        margins = 2 * self.document().documentMargin()
        self.setFixedHeight(round(lines * self.fontMetrics().lineSpacing() + margins) + 2)


class Composer(QFrame):
    """Text field, speculation switch, and one button that sends or stops."""

    submitted = Signal(str)
    stop_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self._theme = theme
        self._is_busy = False
        self.edit = MessageEdit(self)
        self.switch = Switch(theme, "Speculation", self)
        self.switch.setToolTip(_SWITCH_TIP)
        self.button = QToolButton(self)
        self.button.setObjectName("send")
        self.button.setFixedSize(32, 32)
        self.button.setCursor(Qt.CursorShape.PointingHandCursor)
        self._arrange()
        self.edit.submitted.connect(self._submit)
        self.edit.textChanged.connect(self._refresh)
        self.edit.focus_changed.connect(self._mark_focus)
        self.button.clicked.connect(self._press)
        theme.changed.connect(self._refresh)
        self._refresh()

    def _arrange(self) -> None:
        below = QHBoxLayout()
        below.setContentsMargins(4, 0, 0, 0)
        below.addWidget(self.switch)
        below.addStretch(1)
        below.addWidget(self.button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(4)
        layout.addWidget(self.edit)
        layout.addLayout(below)

    def set_busy(self, busy: bool) -> None:
        """While an answer is made the button stops it."""
        self._is_busy = busy
        self._refresh()

    def fix_switch(self, reason: str) -> None:
        """Hold the switch where it stands and say why; an empty ``reason`` frees it."""
        self.switch.setEnabled(not reason)
        self.switch.setToolTip(reason or _SWITCH_TIP)
        self.switch.setAccessibleDescription(reason)

    def set_text(self, text: str) -> None:
        """Put ``text`` into the field, the cursor behind it."""
        self.edit.setPlainText(text)
        self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)

    def focus(self) -> None:
        """Put the keyboard into the field."""
        self.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _submit(self) -> None:
        text = self.edit.toPlainText()
        if text.strip() and not self._is_busy:
            self.edit.clear()
            self.submitted.emit(text)

    def _press(self) -> None:
        if self._is_busy:
            self.stop_requested.emit()
        else:
            self._submit()

    def _mark_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().unpolish(self)
        self.style().polish(self)

    def _refresh(self) -> None:
        name, picture = ("Stop", "stop") if self._is_busy else ("Send", "arrow-up")
        enabled = self._is_busy or bool(self.edit.toPlainText().strip())
        colours = self._theme.colours
        self.button.setEnabled(enabled)
        self.button.setIcon(icon(picture, colours.on_accent if enabled else colours.soft))
        self.button.setAccessibleName(name)
        self.button.setToolTip(f"{name} ({'Esc' if self._is_busy else 'Enter'})")
