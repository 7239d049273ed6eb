"""What the commands say, and where: answers on standard output, all else on standard error.

Output is UTF-8 on every system, because JSON must be and because answers hold any character.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from engine.metrics import RequestMetrics


def prepare_streams() -> None:
    """Make the standard streams UTF-8; half a surrogate pair, which has none, becomes ``?``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def silence_stdout() -> None:
    """Let nothing more go to a closed pipe, not even the flush at the end of the interpreter."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str, *, end: str = "\n") -> None:
    """Part of the result, shown at once."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def tell(text: str) -> None:
    """A line beside the result: progress, figures, hints."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def quiet_progress() -> Callable[[str], None]:
    """Tells what is going on to a person at a terminal, and nothing to a program."""
    return tell if sys.stderr.isatty() else lambda stage: None


def complain(message: str) -> None:
    """The one line that an error gets, whatever line breaks the message has."""
    tell("paceline: " + " ".join(message.split()))


def metrics_line(metrics: RequestMetrics) -> str:
    """``41 tokens · 96 tok/s · first 0.11 s · 2.3 tokens/step · 71% accepted``.

    Parts that the answer was too short for, or that were not drafted, are left out.
    """
    count = metrics.num_generated_tokens
    parts = [f"{count} token{'' if count == 1 else 's'}"]
    if metrics.throughput_tok_s is not None:
        parts.append(f"{metrics.throughput_tok_s:.0f} tok/s")
    if count:
        parts.append(f"first {metrics.ttft_ms / 1000:.2f} s")
    if metrics.tokens_per_step is not None:
        parts.append(f"{metrics.tokens_per_step:.1f} tokens/step")
    if metrics.acceptance_rate is not None:
        parts.append(f"{metrics.acceptance_rate:.0%} accepted")
    return " · ".join(parts)
