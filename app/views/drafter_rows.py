"""Which drafters made the drafts of an answer, and how much of them was accepted."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.engine_words import drafter_words
from app.figures import SEPARATOR, DrafterFigures, count, share_text
from app.theme import SMALL_PX, figure_font
from app.views.elided_label import ElidedLabel


class DrafterRows(QWidget):
    """One row for each drafter: its name, in how many steps its drafts were verified, and the
    share of them that was accepted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: tuple[DrafterFigures, ...] = ()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self._rows: list[tuple[ElidedLabel, QLabel]] = []

    def show_drafters(self, drafters: tuple[DrafterFigures, ...]) -> None:
        """Show what each drafter came to; without any, the place stays empty."""
        if drafters == self._shown:
            return
        self._shown = drafters
        while len(self._rows) < len(drafters):
            self._add_row()
        for place, (name, value) in enumerate(self._rows):
            name.setVisible(place < len(drafters))
            value.setVisible(place < len(drafters))
        for drafter, (name, value) in zip(drafters, self._rows, strict=False):
            name.setText(drafter_words(drafter.drafter))
            steps = count(drafter.num_steps, "step")
            value.setText(f"{steps}{SEPARATOR}{share_text(drafter.acceptance)}")

    def _add_row(self) -> None:
        name, value = ElidedLabel("", self), QLabel("", self)
        name.setObjectName("small")
        value.setFont(figure_font(SMALL_PX))
        row = len(self._rows)
        self._grid.addWidget(name, row, 0)
        self._grid.addWidget(value, row, 1, Qt.AlignmentFlag.AlignRight)
        self._rows.append((name, value))
