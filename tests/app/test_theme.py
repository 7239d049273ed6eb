"""Colours are legible in light and dark."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

from app.theme import DARK, LIGHT, Colours, Theme

TEXT_ON = (
    ("text", ("ground", "surface", "raised", "code_ground", "danger_ground", "selection")),
    ("soft", ("ground", "surface", "raised", "danger_ground")),
    ("on_accent", ("accent", "accent_hover")),
    ("accent", ("surface",)),
    ("danger", ("danger_ground",)),
    *(
        (f"code_{role}", ("code_ground", "surface"))
        for role in ("keyword", "string", "number", "name", "comment")
    ),
)
DRAWN_ON_GROUND = ("accent", "accepted", "without", "verify", "own", "draft")


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""

    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue, _ = QColor(colour).getRgbF()
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_reaches_a_contrast_of_four_and_a_half(colours: Colours) -> None:
    table = asdict(colours)
    weak = [
        (role, ground, round(contrast(table[role], table[ground]), 2))
        for role, grounds in TEXT_ON
        for ground in grounds
        if contrast(table[role], table[ground]) < 4.5
    ]
    assert weak == []


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_curves_and_bars_stand_out_from_the_ground(colours: Colours) -> None:
    table = asdict(colours)
    weak = [role for role in DRAWN_ON_GROUND if contrast(table[role], colours.ground) < 2.8]
    assert weak == []


def test_a_change_of_scheme_is_told_once(qapp: QApplication) -> None:
    theme = Theme(qapp)
    told: list[bool] = []
    theme.changed.connect(lambda: told.append(theme.is_dark))
    theme.fix(dark=True)
    theme.fix(dark=True)
    theme.fix(dark=False)
    assert told == [True, False] if told[0] else [False]
    assert theme.colours is LIGHT
    theme.deleteLater()
