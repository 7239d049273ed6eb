"""The window: a client of the engine's HTTP interface. It never imports the engine.

`main` shows it; every import of Qt waits until then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Open the window; ``arguments`` (default: the process's own) are handed on to the engine."""
    from app.application import run

    return run(sys.argv[1:] if arguments is None else arguments)
