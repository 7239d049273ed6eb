"""Character formats, and the words within a block: emphasis, code, links.

Pictures are named, never fetched. Colours and sizes come from the theme.
"""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QTextCharFormat, QTextCursor

from app.theme import CODE_LINE_HEIGHT, LINE_HEIGHT, Colours, code_font, text_font

_LINE_BREAK = "\u2028"
_HEADING_PX = {1: 20, 2: 18, 3: 16}


class Styles:
    """The formats of one theme. ``line_gap_px`` lies between lines of text."""

    def __init__(self, colours: Colours) -> None:
        self.colours = colours
        self.text = QTextCharFormat()
        self.text.setFont(text_font())
        self.text.setForeground(QBrush(QColor(colours.text)))
        font = code_font()
        self.code_gap_px = _gap(font, CODE_LINE_HEIGHT)
        self.line_gap_px = _gap(text_font(), LINE_HEIGHT)
        self._code: dict[str, QTextCharFormat] = {}

    def heading(self, level: int) -> QTextCharFormat:
        """Of a heading, 1 the largest."""
        style = QTextCharFormat(self.text)
        font = text_font(_HEADING_PX.get(level, 15))
        font.setWeight(QFont.Weight.DemiBold)
        style.setFont(font)
        return style

    def code(self, role: str) -> QTextCharFormat:
        """Of code in a block; ``role`` is a field of `Colours`, or empty for plain."""
        style = self._code.get(role)
        if style is None:
            style = QTextCharFormat()
            style.setFont(code_font())
            colour = getattr(self.colours, role) if role else self.colours.text
            style.setForeground(QBrush(QColor(str(colour))))
            self._code[role] = style
        return style


def _gap(font: QFont, line_height: float) -> float:
    """Pixels to add to each line so that lines are ``line_height`` times the font size apart."""
    return max(0.0, line_height * font.pixelSize() - QFontMetricsF(font).lineSpacing())


def write_inline(
    cursor: QTextCursor, tokens: Sequence[Token], base: QTextCharFormat, styles: Styles
) -> None:
    """Insert the children of an ``inline`` token at the cursor."""
    formats = [base]
    for token in tokens:
        style = formats[-1]
        match token.type:
            case "text":
                cursor.insertText(token.content, style)
            case "softbreak" | "hardbreak":
                cursor.insertText(_LINE_BREAK, style)
            case "code_inline":
                cursor.insertText(token.content, _inline_code(style, styles))
            case "image":
                cursor.insertText(f"[picture: {token.content or 'no description'}]", style)
            case "strong_open" | "em_open" | "s_open" | "link_open":
                formats.append(_opened(token, style, styles))
            case "strong_close" | "em_close" | "s_close" | "link_close":
                formats.pop()
            case _:
                cursor.insertText(token.content, style)


def _opened(token: Token, style: QTextCharFormat, styles: Styles) -> QTextCharFormat:
    opened = QTextCharFormat(style)
    if token.type == "strong_open":
        opened.setFontWeight(QFont.Weight.Bold)
    elif token.type == "em_open":
        opened.setFontItalic(True)
    elif token.type == "s_open":
        opened.setFontStrikeOut(True)
    else:
        opened.setAnchor(True)
        opened.setAnchorHref(str(token.attrGet("href") or ""))
        opened.setForeground(QBrush(QColor(styles.colours.accent)))
        opened.setFontUnderline(True)
    return opened


def _inline_code(style: QTextCharFormat, styles: Styles) -> QTextCharFormat:
    code = QTextCharFormat(style)
    font = code_font()
    font.setWeight(style.font().weight())
    code.setFont(font)
    code.setBackground(QBrush(QColor(styles.colours.raised)))
    return code
