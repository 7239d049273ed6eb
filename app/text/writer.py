"""Writes Markdown units into a `QTextDocument`, and takes them back from the end.

Rewriting the last unit alone is what keeps a streaming answer cheap. Grounds of code, bars of
quotations and rules cannot be expressed in a text document; the writer leaves them as `Panel` for
the view to paint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from markdown_it.token import Token
from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextDocument, QTextListFormat

from app.text.highlight import coloured_lines
from app.text.inline import Styles, write_inline
from app.text.table import write_table
from app.text.units import Unit, list_start

INDENT_PX = 24
CODE_PAD_PX = 12
_PARAGRAPH_GAP_PX = 12
_ITEM_GAP_PX = 4
_NO_SPACE = QTextBlockFormat.LineHeightTypes.FixedHeight


class PanelKind(StrEnum):
    """What is to be painted behind some blocks."""

    CODE = "code"
    QUOTE = "quote"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Panel:
    """Blocks ``first`` to ``last`` (numbers in the document) share a painted ground."""

    kind: PanelKind
    first: int
    last: int
    left_px: float
    source: str = ""
    """The code itself, for copying."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state of the document before a unit was written."""

    position: int
    is_fresh: bool
    num_panels: int


@dataclass(slots=True)
class _Place:
    """Where in lists and quotations the writer is."""

    depth: int = 0
    quotes: int = 0
    marker: QTextListFormat | None = None
    """To be put on the next block: it begins a list item."""


class DocumentWriter:
    """Owns the contents of ``document``; nothing else may edit it."""

    def __init__(self, document: QTextDocument, styles: Styles) -> None:
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(0)
        document.setIndentWidth(INDENT_PX)
        self._document = document
        self._cursor = QTextCursor(document)
        self._styles = styles
        self._marks: list[_Mark] = []
        self._panels: list[Panel] = []
        self._is_fresh = True
        """The last block is empty and may be used."""

    @property
    def panels(self) -> Sequence[Panel]:
        """What to paint, in document order."""
        return self._panels

    def restyle(self, styles: Styles) -> None:
        """Use other styles for what is written from now on."""
        self._styles = styles

    def show(self, keep: int, units: Sequence[Unit]) -> int:
        """Keep the first ``keep`` units of what is there and write ``units`` after them.

        Returns how many of the panels are still as they were.
        """
        self._cursor.beginEditBlock()
        self._truncate(keep)
        num_kept = len(self._panels)
        for unit in units:
            self._marks.append(_Mark(self._end(), self._is_fresh, len(self._panels)))
            self._write(unit)
        self._leave_room_above()
        self._cursor.endEditBlock()
        return num_kept

    def _leave_room_above(self) -> None:
        """A document drops the margin over its first block, but the ground of code needs it."""
        begins_with_code = any(
            panel.kind is PanelKind.CODE and panel.first == 0 for panel in self._panels[:1]
        )
        frame = self._document.rootFrame()
        style = frame.frameFormat()
        wanted = CODE_PAD_PX if begins_with_code else 0
        if style.topMargin() != wanted:
            style.setTopMargin(wanted)
            frame.setFrameFormat(style)

    def _end(self) -> int:
        return self._document.characterCount() - 1

    def _truncate(self, keep: int) -> None:
        if keep >= len(self._marks):
            return
        mark = self._marks[keep]
        del self._marks[keep:], self._panels[mark.num_panels :]
        cursor = self._cursor
        cursor.setPosition(mark.position)
        block_format, char_format = cursor.blockFormat(), cursor.blockCharFormat()
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        # An empty block would take over the format of the block that was removed after it.
        cursor.setBlockFormat(block_format)
        cursor.setBlockCharFormat(char_format)
        self._is_fresh = mark.is_fresh

    def _write(self, unit: Unit) -> None:
        place = _Place()
        if unit.is_item:
            place.depth = 1
            place.marker = self._marker(unit.ordinal, 1)
        self._cursor.movePosition(QTextCursor.MoveOperation.End)
        self._write_tokens(unit.tokens, place)
        if place.marker:
            self._block(place, _ITEM_GAP_PX)  # an item without any content yet

    def _write_tokens(self, tokens: Sequence[Token], place: _Place) -> None:
        ordinals: list[int | None] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            match token.type:
                case "paragraph_open" | "heading_open":
                    self._write_text(token, tokens[at + 1], place)
                    at += 2
                case "bullet_list_open" | "ordered_list_open":
                    ordinals.append(list_start(token))
                    place.depth += 1
                case "bullet_list_close" | "ordered_list_close":
                    ordinals.pop()
                    place.depth -= 1
                case "list_item_open":
                    place.marker = self._marker(ordinals[-1], place.depth)
                    ordinals[-1] = None if ordinals[-1] is None else ordinals[-1] + 1
                case "blockquote_open":
                    place.quotes += 1
                case "blockquote_close":
                    place.quotes -= 1
                case "fence" | "code_block":
                    self._write_code(token, place)
                case "hr":
                    self._write_rule(place)
                case "table_open":
                    at = self._write_table(tokens, at)
                case _:
                    pass
            at += 1

    def _marker(self, ordinal: int | None, depth: int) -> QTextListFormat:
        marker = QTextListFormat()
        marker.setIndent(depth)
        if ordinal is None:
            disc, circle = QTextListFormat.Style.ListDisc, QTextListFormat.Style.ListCircle
            marker.setStyle(disc if depth % 2 else circle)
        else:
            marker.setStyle(QTextListFormat.Style.ListDecimal)
            marker.setStart(ordinal)
        return marker

    def _block(self, place: _Place, gap_px: float, line_gap_px: float | None = None) -> None:
        """Begin a block at the end, with the marker and the bars that are due there."""
        style = QTextBlockFormat()
        style.setBottomMargin(gap_px)
        style.setLeftMargin(16 * place.quotes)
        style.setLineHeight(
            self._styles.line_gap_px if line_gap_px is None else line_gap_px,
            QTextBlockFormat.LineHeightTypes.LineDistanceHeight.value,
        )
        if place.marker is None:
            style.setIndent(place.depth)
        cursor = self._cursor
        if self._is_fresh:
            cursor.setBlockFormat(style)
            cursor.setBlockCharFormat(self._styles.text)
        else:
            cursor.insertBlock(style, self._styles.text)
            if list_ := cursor.currentList():
                list_.remove(cursor.block())
                cursor.setBlockFormat(style)
        self._is_fresh = False
        if place.marker is not None:
            cursor.createList(place.marker)
            place.marker = None
        if place.quotes:
            self._add_quoted(place)

    def _add_quoted(self, place: _Place) -> None:
        number = self._cursor.blockNumber()
        left = float(INDENT_PX * place.depth)
        last = self._panels[-1] if self._panels else None
        if last and last.kind is PanelKind.QUOTE and last.last == number - 1:
            self._panels[-1] = Panel(PanelKind.QUOTE, last.first, number, last.left_px)
        else:
            self._panels.append(Panel(PanelKind.QUOTE, number, number, left))

    def _write_text(self, opening: Token, inline: Token, place: _Place) -> None:
        gap = _ITEM_GAP_PX if place.depth else _PARAGRAPH_GAP_PX
        self._block(place, gap)
        base = self._styles.text
        if opening.type == "heading_open":
            base = self._styles.heading(int(opening.tag[1:]))
            style = self._cursor.blockFormat()
            style.setTopMargin(8)
            style.setBottomMargin(6)
            self._cursor.setBlockFormat(style)
        write_inline(self._cursor, inline.children or [], base, self._styles)

    def _write_code(self, token: Token, place: _Place) -> None:
        source = token.content.removesuffix("\n")
        language = token.info.split()[0] if token.info.strip() else ""
        lines = list(coloured_lines(source, language))
        first = 0
        for number, line in enumerate(lines):
            self._block(place, 0, self._styles.code_gap_px)
            if number == 0:
                first = self._cursor.blockNumber()
            self._pad_code(number == 0, number == len(lines) - 1)
            for text, role in line:
                self._cursor.insertText(text, self._styles.code(role))
        left = float(INDENT_PX * place.depth + 16 * place.quotes)
        self._panels.append(Panel(PanelKind.CODE, first, self._cursor.blockNumber(), left, source))

    def _pad_code(self, is_first: bool, is_last: bool) -> None:
        style = self._cursor.blockFormat()
        style.setLeftMargin(style.leftMargin() + CODE_PAD_PX)
        style.setRightMargin(CODE_PAD_PX)
        style.setTopMargin(CODE_PAD_PX + _PARAGRAPH_GAP_PX if is_first else 0)
        style.setBottomMargin(CODE_PAD_PX + _PARAGRAPH_GAP_PX if is_last else 0)
        self._cursor.setBlockFormat(style)
        self._cursor.setBlockCharFormat(self._styles.code(""))

    def _write_rule(self, place: _Place) -> None:
        self._block(place, _PARAGRAPH_GAP_PX)
        number = self._cursor.blockNumber()
        self._panels.append(Panel(PanelKind.RULE, number, number, 0.0))

    def _write_table(self, tokens: Sequence[Token], at: int) -> int:
        if not self._is_fresh:
            self._thin_block()
        end = write_table(self._cursor, tokens, at, self._styles)
        self._cursor.movePosition(QTextCursor.MoveOperation.End)
        self._thin_block(is_new=False)
        return end

    def _thin_block(self, *, is_new: bool = True) -> None:
        """A table needs a block before and after; make it as thin as can be."""
        style = QTextBlockFormat()
        style.setLineHeight(1, _NO_SPACE.value)
        if is_new:
            self._cursor.insertBlock(style)
        else:
            self._cursor.setBlockFormat(style)
        self._is_fresh = True
