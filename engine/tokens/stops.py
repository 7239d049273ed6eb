"""Ends a text at a stop string, wherever it lies.

Text arrives in pieces. What could be the beginning of a stop string is held back until it is clear
that it is not; so no part of a stop string is ever shown and then missed. Each stop string is
matched by the automaton of Knuth, Morris and Pratt (1977), which reads every letter once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Released:
    """Text that may be shown now, and whether a stop string has ended it."""

    text: str
    hit: bool


class _Matcher:
    """Follows one stop string through a text, letter by letter."""

    def __init__(self, stop: str) -> None:
        self._stop = stop
        self._fallback = _prefix_function(stop)
        self.num_matched = 0
        """Letters of the stop string that the text ends in now."""

    def push(self, letter: str) -> bool:
        """Take one letter; True when it completes the stop string."""
        stop = self._stop
        while self.num_matched and stop[self.num_matched] != letter:
            self.num_matched = self._fallback[self.num_matched - 1]
        if stop[self.num_matched] == letter:
            self.num_matched += 1
        return self.num_matched == len(stop)


class StopStrings:
    """Watches the text of one sequence for its stop strings.

    The stop string that is complete first ends the text, of several complete at the same letter the
    longest. With ``include`` it stays in the text. None of ``stops`` is empty
    (`GenerationConfig.validate` sees to it).
    """

    def __init__(self, stops: Sequence[str], include: bool) -> None:
        self._matchers = [_Matcher(stop) for stop in stops]
        self._include = include
        self._held = ""
        self._hit = False

    def push(self, text: str) -> Released:
        """Take more text. Example, stop string "aab": "xaa" -> "x", then "ab" -> "a" and a hit.

        After a hit nothing is released any more.
        """
        if self._hit:
            return Released("", True)
        if not self._matchers:
            return Released(text, False)
        data = self._held + text
        for end, letter in enumerate(text, start=len(self._held) + 1):
            completed = [m.num_matched for m in self._matchers if m.push(letter)]
            if completed:
                self._hit, self._held = True, ""
                return Released(data[: end if self._include else end - max(completed)], True)
        num_held = max(m.num_matched for m in self._matchers)
        self._held = data[len(data) - num_held :]
        return Released(data[: len(data) - num_held], False)

    def flush(self) -> str:
        """What is still held back, at the end of the text."""
        rest, self._held = self._held, ""
        return rest


def _prefix_function(stop: str) -> list[int]:
    """``[i]``: length of the longest proper prefix of ``stop[: i + 1]`` that is also its suffix."""
    lengths = [0] * len(stop)
    for i in range(1, len(stop)):
        length = lengths[i - 1]
        while length and stop[i] != stop[length]:
            length = lengths[length - 1]
        lengths[i] = length + (stop[i] == stop[length])
    return lengths
