"""Files that the window shows: icons and styles, read through `importlib.resources`.

The icons are those of Lucide (ISC, see `icons/LICENSE-lucide.txt`) and an application icon of our
own. Nothing here knows Qt or the engine.
"""

from __future__ import annotations

from importlib.resources import files


def icon_svg(name: str) -> str:
    """The SVG source of an icon; strokes are in `currentColor`."""
    return files(__name__).joinpath("icons", f"{name}.svg").read_text(encoding="utf-8")


def style_sheet(name: str) -> str:
    """The source of a Qt style sheet; colours stand as `$role`."""
    return files(__name__).joinpath("styles", f"{name}.qss").read_text(encoding="utf-8")
