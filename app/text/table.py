"""A Markdown table as a `QTextTable` with hairlines."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFrameFormat,
    QTextTableFormat,
)

from app.text.inline import Styles, write_inline

_CELL_PAD_PX = 6
_GAP_PX = 12
_ALIGNMENTS = {
    "text-align:center": Qt.AlignmentFlag.AlignHCenter,
    "text-align:right": Qt.AlignmentFlag.AlignRight,
}


def write_table(cursor: QTextCursor, tokens: Sequence[Token], at: int, styles: Styles) -> int:
    """Insert the table that opens at ``tokens[at]``; returns the place of its closing token."""
    end = next(place for place in range(at, len(tokens)) if tokens[place].type == "table_close")
    rows = _rows(tokens[at:end])
    columns = max(len(row) for row in rows)
    table = cursor.insertTable(len(rows), columns, _format(styles))
    for row_number, row in enumerate(rows):
        base = QTextCharFormat(styles.text)
        if row_number == 0:
            base.setFontWeight(QFont.Weight.DemiBold)
        for column, (opening, inline) in enumerate(row):
            cell = table.cellAt(row_number, column).firstCursorPosition()
            style = QTextBlockFormat()
            alignment = _ALIGNMENTS.get(str(opening.attrGet("style")), Qt.AlignmentFlag.AlignLeft)
            style.setAlignment(alignment)
            cell.setBlockFormat(style)
            write_inline(cell, inline.children or [], base, styles)
    return end


def _rows(tokens: Sequence[Token]) -> list[list[tuple[Token, Token]]]:
    rows: list[list[tuple[Token, Token]]] = []
    for place, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append((token, tokens[place + 1]))
    return rows


def _format(styles: Styles) -> QTextTableFormat:
    style = QTextTableFormat()
    style.setBorderCollapse(True)
    style.setBorder(1)
    style.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    style.setBorderBrush(QBrush(QColor(styles.colours.hairline)))
    style.setCellPadding(_CELL_PAD_PX)
    style.setCellSpacing(0)
    style.setBottomMargin(_GAP_PX)
    style.setHeaderRowCount(1)
    return style
