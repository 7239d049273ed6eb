"""Icons from `resources`, drawn in the colour of the theme, sharp at every scaling."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from resources import icon_svg

ICON_PX = 16
_SCALES = (1.0, 1.25, 1.5, 1.75, 2.0, 3.0)


def icon(name: str, colour: str, pixels: int = ICON_PX) -> QIcon:
    """The icon ``name`` in ``colour``, ``pixels`` wide at 100% scaling."""
    svg = icon_svg(name).replace("currentColor", colour)
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    drawn = QIcon()
    for scale in _SCALES:
        drawn.addPixmap(_pixmap(renderer, pixels, scale))
    return drawn


def application_icon() -> QIcon:
    """The icon of the program."""
    renderer = QSvgRenderer(QByteArray(icon_svg("paceline").encode()))
    drawn = QIcon()
    for pixels in (16, 24, 32, 48, 64, 128, 256):
        drawn.addPixmap(_pixmap(renderer, pixels, 1.0))
    return drawn


def _pixmap(renderer: QSvgRenderer, pixels: int, scale: float) -> QPixmap:
    pixmap = QPixmap(round(pixels * scale), round(pixels * scale))
    pixmap.setDevicePixelRatio(scale)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    return pixmap
