"""One message's text: a read-only browser as tall as its text, with painted code grounds.

It lays out again only what `StreamingMarkdown` says has changed. Each block of code gets a copy
button.
"""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import (
    QColor,
    QDesktopServices,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QToolButton, QWidget

from app.icons import icon
from app.text.inline import Styles
from app.text.units import StreamingMarkdown
from app.text.writer import CODE_PAD_PX, DocumentWriter, Panel, PanelKind
from app.theme import Theme

_CORNER_PX = 8
_COPIED_MS = 1500
_BUTTON_PX = 26


class AnswerText(QTextBrowser):
    """Shows Markdown. Call `show_markdown` with growing text; height follows."""

    def __init__(
        self, theme: Theme, name: str, *, code_ground: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._code_ground = code_ground
        self._markdown = StreamingMarkdown()
        self._writer = DocumentWriter(self.document(), Styles(theme.colours))
        self._text = ""
        self._areas: list[QRectF] = []
        """Where the writer's panels lie."""
        self.code_buttons: list[QToolButton] = []
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setOpenLinks(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.anchorClicked.connect(QDesktopServices.openUrl)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        theme.changed.connect(self._restyle)

    def show_markdown(self, text: str) -> None:
        """Show ``text``; cheap when it continues what is shown."""
        if text == self._text:
            return
        self._text = text
        change = self._markdown.update(text)
        self._place_panels(self._writer.show(change.keep, change.units))
        self._fit()

    def sizeHint(self) -> QSize:
        """As tall as the text."""
        return QSize(super().sizeHint().width(), self.height())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The conversation scrolls, not the message."""
        event.ignore()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The buttons stay at the right edge."""
        super().resizeEvent(event)
        self._place_panels(0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Grounds first, the text over them."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for panel, area in zip(self._writer.panels, self._areas, strict=True):
            if area.intersects(QRectF(event.rect())):
                self._paint_panel(painter, panel, area)
        painter.end()
        super().paintEvent(event)

    def _paint_panel(self, painter: QPainter, panel: Panel, area: QRectF) -> None:
        colours = self._theme.colours
        painter.setPen(Qt.PenStyle.NoPen)
        if panel.kind is PanelKind.CODE:
            painter.setBrush(QColor(getattr(colours, self._code_ground)))
            painter.drawRoundedRect(area, _CORNER_PX, _CORNER_PX)
        elif panel.kind is PanelKind.QUOTE:
            painter.setBrush(QColor(colours.hairline))
            painter.drawRoundedRect(QRectF(area.left(), area.top(), 3, area.height()), 1.5, 1.5)
        else:
            painter.setBrush(QColor(colours.hairline))
            painter.drawRect(QRectF(area.left(), area.center().y(), area.width(), 1))

    def _area(self, panel: Panel) -> QRectF:
        layout = self.document().documentLayout()
        first = layout.blockBoundingRect(self.document().findBlockByNumber(panel.first))
        last = layout.blockBoundingRect(self.document().findBlockByNumber(panel.last))
        pad = CODE_PAD_PX if panel.kind is PanelKind.CODE else 0
        return QRectF(
            QPointF(panel.left_px, first.top() - pad),
            QPointF(float(self.viewport().width()), last.bottom() + pad),
        )

    def _fit(self) -> None:
        panels = self._writer.panels
        last = panels[-1].last if panels else -1
        # A document drops the margin under its last block, but the ground of code needs it.
        pad = CODE_PAD_PX if last == self.document().blockCount() - 1 else 0
        height = math.ceil(self.document().size().height()) + pad
        if height != self.height():
            self.setFixedHeight(height)

    def _restyle(self) -> None:
        self._writer.restyle(Styles(self._theme.colours))
        self._markdown = StreamingMarkdown()
        change = self._markdown.update(self._text)
        self._place_panels(self._writer.show(0, change.units))
        for button in self.code_buttons:
            button.setIcon(icon("copy", self._theme.colours.soft))

    def _place_panels(self, num_kept: int) -> None:
        """Measure all panels but the first ``num_kept``; a button belongs to each block of code."""
        panels = self._writer.panels
        del self._areas[num_kept:]
        place = sum(panel.kind is PanelKind.CODE for panel in panels[:num_kept])
        for panel in panels[num_kept:]:
            area = self._area(panel)
            self._areas.append(area)
            if panel.kind is PanelKind.CODE:
                self._place_button(place, area)
                place += 1
        for button in self.code_buttons[place:]:
            button.hide()

    def _place_button(self, place: int, area: QRectF) -> None:
        if place == len(self.code_buttons):
            self.code_buttons.append(self._make_button(place))
        button = self.code_buttons[place]
        button.move(int(area.right()) - _BUTTON_PX - 6, int(area.top()) + 6)
        button.show()

    def _make_button(self, place: int) -> QToolButton:
        button = QToolButton(self.viewport())
        button.setObjectName("quiet")
        button.setIcon(icon("copy", self._theme.colours.soft))
        button.setFixedSize(_BUTTON_PX, _BUTTON_PX)
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.setAccessibleName("Copy this code")
        button.setToolTip("Copy this code")
        button.clicked.connect(lambda: self._copy_code(place, button))
        return button

    def _copy_code(self, place: int, button: QToolButton) -> None:
        codes = [panel for panel in self._writer.panels if panel.kind is PanelKind.CODE]
        QGuiApplication.clipboard().setText(codes[place].source)
        button.setIcon(icon("check", self._theme.colours.bonus))
        QTimer.singleShot(
            _COPIED_MS, button, lambda: button.setIcon(icon("copy", self._theme.colours.soft))
        )
