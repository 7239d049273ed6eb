"""``paceline ...``: the entry point, and how a command ends.

Bad input ends with exit code 2 and one line on standard error; Ctrl-C with 130 and a closed pipe
with 141, both in silence. The commands lie in modules of their own and are imported when they run,
so that ``--help`` is quick. The environment is read here and nowhere else.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from engine.cli.parser import build_parser
from engine.cli.terminal import complain, prepare_streams, silence_stdout
from engine.errors import PacelineError

_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` None means the process's own."""
    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except PacelineError as error:
        complain(error.message)
        return 1 if error.http_status >= 500 else 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return _BROKEN_PIPE


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["bench"]:  # its options are its own
        return int(import_module("engine.bench").main(arguments[1:]))
    args = build_parser().parse_args(arguments)
    _log_to_stderr(logging.INFO if args.command == "serve" else logging.WARNING)
    if args.command is None:
        return _open_window()
    command = import_module(f"engine.cli.{args.command}")
    code = int(command.run(args, os.environ))
    sys.stdout.flush()  # a closed pipe must show while it can still be caught
    return code


def _open_window() -> int:
    try:
        app = import_module("app")
    except ImportError as error:
        complain(
            f"The window cannot be opened ({error}): install PySide6-Essentials, pyqtgraph and "
            "qasync, or use 'paceline chat'."
        )
        return 2
    return int(app.main() or 0)


def _log_to_stderr(level: int) -> None:
    logging.basicConfig(
        level=level,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    for noisy in ("uvicorn", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
