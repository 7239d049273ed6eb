"""Colours, fonts and the style sheet, for light and dark.

The fixed palette for meaning is Okabe-Ito's (safe for colour-blind eyes), lightened on dark ground
where the original would be hard to see. Text reaches a contrast of 4.5 : 1 on every ground that it
stands on; a test computes it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from string import Template

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from resources import style_sheet

TEXT_PX = 14
SMALL_PX = 12
FIGURE_PX = 20
LINE_HEIGHT = 1.5
CODE_LINE_HEIGHT = 1.4
"""Of text in answers, as a multiple of its size."""


@dataclass(frozen=True, slots=True)
class Colours:
    """One colour for each role, as ``#rrggbb``."""

    ground: str
    """Bars, dock, input: around the conversation."""
    surface: str
    """The conversation itself."""
    raised: str
    """Questions, buttons, what the pointer is over."""
    code_ground: str
    hairline: str
    text: str
    soft: str
    """Labels and small print."""
    accent: str
    on_accent: str
    accent_hover: str
    selection: str
    danger: str
    danger_ground: str
    accepted: str
    recovered: str
    bonus: str
    draft: str
    verify: str
    own: str
    without: str
    """The curve of answers without speculation."""
    code_keyword: str
    code_string: str
    code_number: str
    code_name: str
    code_comment: str


LIGHT = Colours(
    ground="#F6F7F8",
    surface="#FFFFFF",
    raised="#EEF0F3",
    code_ground="#F4F5F7",
    hairline="#DDE1E6",
    text="#1B1F24",
    soft="#57606B",
    accent="#2F4BC4",
    on_accent="#FFFFFF",
    accent_hover="#2740AA",
    selection="#C9D5FA",
    danger="#A8201A",
    danger_ground="#FBEDEC",
    accepted="#0072B2",
    recovered="#E69F00",
    bonus="#009E73",
    draft="#CC79A7",
    verify="#0072B2",
    own="#8A929C",
    without="#6B7480",
    code_keyword="#8A2A8F",
    code_string="#1F6B3A",
    code_number="#9A4A00",
    code_name="#1D4FA8",
    code_comment="#616A75",
)

DARK = Colours(
    ground="#14171A",
    surface="#1B1F24",
    raised="#262C33",
    code_ground="#14171A",
    hairline="#2E353D",
    text="#E6E8EA",
    soft="#A0A9B4",
    accent="#8FA4FF",
    on_accent="#11141C",
    accent_hover="#A9B9FF",
    selection="#34447F",
    danger="#FF9A92",
    danger_ground="#33211F",
    accepted="#3FA3DE",
    recovered="#E69F00",
    bonus="#1FB98C",
    draft="#D88DB6",
    verify="#3FA3DE",
    own="#7C8590",
    without="#98A1AC",
    code_keyword="#D79BE8",
    code_string="#8CCB9B",
    code_number="#E8B06A",
    code_name="#8DB8FF",
    code_comment="#8E97A2",
)


class Theme(QObject):
    """The colours in force. Follows the system until `fix` is called."""

    changed = Signal()

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        # A platform that reports no scheme still has a palette: dark if its windows are.
        window = QGuiApplication.palette().color(QPalette.ColorRole.Window)
        self._is_dark_by_palette = window.lightness() < 128
        self._is_fixed = False
        self._is_dark = self._system_is_dark()
        application.styleHints().colorSchemeChanged.connect(self._follow)
        application.setStyle("Fusion")
        self._apply()

    @property
    def colours(self) -> Colours:
        """The colours in force."""
        return DARK if self._is_dark else LIGHT

    @property
    def is_dark(self) -> bool:
        """Light text on dark ground."""
        return self._is_dark

    def fix(self, *, dark: bool) -> None:
        """Use one scheme whatever the system says."""
        self._is_fixed = True
        self._use(dark)

    def _system_is_dark(self) -> bool:
        scheme = self._application.styleHints().colorScheme()
        if scheme is Qt.ColorScheme.Unknown:
            return self._is_dark_by_palette
        return scheme is Qt.ColorScheme.Dark

    def _follow(self) -> None:
        if not self._is_fixed:
            self._use(self._system_is_dark())

    def _use(self, dark: bool) -> None:
        if dark != self._is_dark:
            self._is_dark = dark
            self._apply()
            self.changed.emit()

    def _apply(self) -> None:
        colours = self.colours
        self._application.setPalette(_palette(colours))
        self._application.setFont(text_font())
        sheet = Template(style_sheet("window")).substitute(asdict(colours))
        self._application.setStyleSheet(sheet)


def _palette(colours: Colours) -> QPalette:
    palette = QPalette()
    role = QPalette.ColorRole
    for name, value in (
        (role.Window, colours.ground),
        (role.WindowText, colours.text),
        (role.Base, colours.surface),
        (role.AlternateBase, colours.raised),
        (role.Text, colours.text),
        (role.PlaceholderText, colours.soft),
        (role.Button, colours.raised),
        (role.ButtonText, colours.text),
        (role.ToolTipBase, colours.raised),
        (role.ToolTipText, colours.text),
        (role.Highlight, colours.selection),
        (role.HighlightedText, colours.text),
        (role.Link, colours.accent),
        (role.Accent, colours.accent),
    ):
        palette.setColor(name, QColor(value))
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(colours.soft))
    return palette


def text_font(pixels: int = TEXT_PX) -> QFont:
    """The platform's interface font."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPixelSize(pixels)
    return font


def figure_font(pixels: int = SMALL_PX, *, bold: bool = False) -> QFont:
    """The interface font with digits of one width, so that changing numbers do not dance."""
    font = text_font(pixels)
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    return font


@cache
def _code_family() -> str:
    families = set(QFontDatabase.families())
    for family in ("Cascadia Code", "SF Mono", "Menlo", "JetBrains Mono", "DejaVu Sans Mono"):
        if family in families:
            return family
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()


def code_font(pixels: int = TEXT_PX - 1) -> QFont:
    """A monospace font; well-drawn ones are preferred where they are installed."""
    font = QFont(_code_family())
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPixelSize(pixels)
    return font
