"""The version of this installation, from the distribution's own metadata."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def paceline_version() -> str:
    """Such as ``0.1.0``; ``0+source`` where the code runs without having been installed."""
    try:
        return version("paceline")
    except PackageNotFoundError:
        return "0+source"
