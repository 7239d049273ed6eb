"""The bar on top: which model runs how, what is being done, and the window's two commands."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.engine_words import BarText
from app.icons import icon
from app.theme import SMALL_PX, Theme, figure_font
from app.views.elided_label import ElidedLabel

_BUTTON_PX = 32


class ModelBar(QWidget):
    """Shows a `BarText`."""

    new_chat_requested = Signal()
    telemetry_toggled = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelBar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._theme = theme
        self._name = QLabel(self)
        self._name.setObjectName("modelName")
        self._detail = ElidedLabel(self)
        self._detail.setObjectName("soft")
        self._progress = ElidedLabel(self)
        self._progress.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._progress.setObjectName("soft")
        self._progress.setFont(figure_font(SMALL_PX))
        self.new_chat = self._button("plus", "New chat", "Ctrl+N")
        self.new_chat.setText("New chat")
        self.new_chat.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.telemetry = self._button("chart-line", "Show the telemetry", "Ctrl+T")
        self.telemetry.setCheckable(True)
        self.telemetry.setChecked(True)
        self.new_chat.clicked.connect(self.new_chat_requested)
        self.telemetry.toggled.connect(self.telemetry_toggled)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 8, 12, 8)
        layout.setSpacing(12)
        layout.addWidget(self._name)
        layout.addWidget(self._detail, 1)
        layout.addWidget(self._progress, 1)
        layout.addWidget(self.new_chat)
        layout.addWidget(self.telemetry)
        theme.changed.connect(self._draw_icons)
        self._draw_icons()

    def show_text(self, text: BarText) -> None:
        """Show what is known of the model."""
        self._name.setText(text.name)
        self._detail.setText(text.detail)
        self._progress.setText(text.progress)
        self._progress.setVisible(bool(text.progress))
        reasons = "\n".join(text.reasons)
        self._name.setToolTip(reasons)
        self._detail.setToolTip(reasons)

    def _button(self, name: str, label: str, shortcut: str) -> QToolButton:
        button = QToolButton(self)
        button.setProperty("iconName", name)
        button.setObjectName("bar")
        button.setFixedHeight(_BUTTON_PX)
        button.setAccessibleName(label)
        button.setToolTip(f"{label} ({shortcut})")
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        return button

    def _draw_icons(self) -> None:
        for button in (self.new_chat, self.telemetry):
            button.setIcon(icon(str(button.property("iconName")), self._theme.colours.text))
