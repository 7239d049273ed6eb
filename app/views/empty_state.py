"""What an empty conversation shows: what this is, and three things to try."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.examples import EXAMPLES, Example
from app.icons import icon
from app.theme import Theme

_WIDTH_PX = 560
_ICON_PX = 20


class ExampleButton(QPushButton):
    """One example: an icon, its title, and a line about it."""

    def __init__(self, theme: Theme, example: Example, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("example")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(example.title)
        self.setAccessibleDescription(example.about)
        self._theme = theme
        self._icon_name = example.icon
        self._icon = QLabel(self)
        self._icon.setFixedSize(_ICON_PX, _ICON_PX)
        title = QLabel(example.title, self)
        title.setObjectName("exampleTitle")
        about = QLabel(example.about, self)
        about.setObjectName("small")
        words = QVBoxLayout()
        words.setSpacing(4)
        words.addWidget(title)
        words.addWidget(about)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(16)
        layout.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignVCenter)
        layout.addLayout(words, 1)
        for label in (self._icon, title, about):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setMinimumHeight(layout.sizeHint().height())
        theme.changed.connect(self._draw_icon)
        self._draw_icon()

    def _draw_icon(self) -> None:
        drawn = icon(self._icon_name, self._theme.colours.accent, _ICON_PX)
        self._icon.setPixmap(drawn.pixmap(self._icon.size(), self.devicePixelRatioF()))


class EmptyState(QScrollArea):
    """Emits the example that was chosen; scrolls where the window is low."""

    chosen = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        heading = QLabel("What shall we write?", self)
        heading.setObjectName("heading")
        heading.setWordWrap(True)
        about = QLabel(
            "Everything runs on this machine. Paceline drafts ahead and checks several tokens in "
            "one go; on the right you see what that brings.",
            self,
        )
        about.setWordWrap(True)
        about.setObjectName("soft")
        column = QVBoxLayout()
        column.setSpacing(8)
        column.addWidget(heading)
        column.addWidget(about)
        column.addSpacing(16)
        self.buttons: list[ExampleButton] = []
        for example in EXAMPLES:
            button = ExampleButton(theme, example, self)
            button.clicked.connect(lambda _=False, chosen=example: self.chosen.emit(chosen))
            self.buttons.append(button)
            column.addWidget(button)
        holder = QWidget(self)
        holder.setLayout(column)
        holder.setMaximumWidth(_WIDTH_PX)
        column.setContentsMargins(0, 0, 0, 0)
        page = QWidget(self)
        page.setObjectName("chatPage")
        self.setWidget(page)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setObjectName("chat")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        layout = QVBoxLayout(page)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.addStretch(2)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(holder, 100)
        row.addStretch(1)
        layout.addLayout(row)
        layout.addStretch(3)
