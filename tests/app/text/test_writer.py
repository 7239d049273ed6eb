"""The document after streaming equals the document written at once."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from app.text.inline import Styles
from app.text.units import StreamingMarkdown
from app.text.writer import DocumentWriter, PanelKind
from app.theme import LIGHT
from tests.app.text.test_units import TEXTS


class Shown:
    """A document, its writer, and the Markdown that goes in."""

    def __init__(self) -> None:
        self.document = QTextDocument()
        self.writer = DocumentWriter(self.document, Styles(LIGHT))
        self._markdown = StreamingMarkdown()

    def show(self, text: str) -> None:
        change = self._markdown.update(text)
        self.writer.show(change.keep, change.units)


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("text", [*TEXTS, "\n".join(TEXTS), "\n".join(reversed(TEXTS))])
@pytest.mark.parametrize("stride", [1, 3, 11])
def test_streaming_ends_like_writing_at_once(text: str, stride: int) -> None:
    whole = Shown()
    whole.show(text)
    grown = Shown()
    for cut in range(0, len(text), stride):
        grown.show(text[:cut])
    grown.show(text)
    assert grown.document.toPlainText() == whole.document.toPlainText()
    assert grown.document.toHtml() == whole.document.toHtml()
    assert grown.writer.panels == whole.writer.panels


@pytest.mark.usefixtures("qapp")
def test_code_keeps_its_source_for_copying() -> None:
    shown = Shown()
    shown.show("Look:\n\n```python\nif x:\n\n    y = 1\n```\n")
    codes = [panel for panel in shown.writer.panels if panel.kind is PanelKind.CODE]
    assert [panel.source for panel in codes] == ["if x:\n\n    y = 1"]
    assert codes[0].last - codes[0].first == 2


@pytest.mark.usefixtures("qapp")
def test_html_stays_text_and_pictures_are_named() -> None:
    shown = Shown()
    shown.show("<script>alert(1)</script> and ![a cat](http://example.org/cat.png)")
    assert shown.document.toPlainText() == "<script>alert(1)</script> and [picture: a cat]"


def numbers_of(document: QTextDocument) -> list[str]:
    """The markers of all list items, in order."""
    block, found = document.begin(), list[str]()
    while block.isValid():
        if list_ := block.textList():
            found.append(list_.itemText(block))
        block = block.next()
    return found


def test_lists_show_their_numbers(qapp: QApplication) -> None:
    shown = Shown()
    shown.show("3. three\n4. four\n\n- dot\n")
    assert numbers_of(shown.document)[:2] == ["3.", "4."]
