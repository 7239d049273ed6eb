"""What the curves and bars show: rates over the last moments, computed from step events.

Time runs only while an answer streams, so that the curves stand still when nothing happens and two
answers, such as the halves of a comparison, lie side by side. Times within an answer are the
engine's own, so that a busy window cannot bend a curve. No widgets, no drawing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import isnan, nan
from time import perf_counter

from PySide6.QtCore import QObject, Signal

from app.figures import Figures, Tally, plus, share
from app.pulse import Pulse
from app.wire import Ended, Step

SPAN_S = 20.0
"""Width of the curves in seconds of streaming."""
_WINDOW_S = 1.0
"""A rate is taken over this much of the recent past..."""
_ENOUGH_S = 0.15
"""... and over no less than this, else the first steps would draw a spike."""
_ACCEPTANCE_STEPS = 32
"""Rolling acceptance looks at this many steps."""
_ENOUGH_STEPS = 4
_POINT_S = 0.08
"""Points closer than this would share a pixel."""
_GAP_S = 0.4
"""Room between two answers."""


@dataclass(slots=True)
class Curve:
    """Points of one curve, oldest first; a NaN breaks the line between two answers."""

    x: list[float] = field(default_factory=list[float])
    y: list[float] = field(default_factory=list[float])

    def add(self, x: float, y: float) -> None:
        """Append a point, or move the last one if it is too close."""
        solid = len(self.x) > 1 and not isnan(self.y[-1])
        if solid and x - self.x[-2] < _POINT_S:
            self.x[-1], self.y[-1] = x, y
            return
        self.x.append(x)
        self.y.append(y)

    def lift(self, x: float) -> None:
        """Break the line."""
        if self.x and not isnan(self.y[-1]):
            self.x.append(x)
            self.y.append(nan)

    def forget_before(self, x: float) -> None:
        """Drop what has left the picture, in large pieces."""
        keep = next((place for place, value in enumerate(self.x) if value >= x), len(self.x))
        if keep > 200:
            del self.x[: keep - 1], self.y[: keep - 1]


@dataclass(frozen=True, slots=True)
class _Recent:
    x: float
    num_tokens: int
    num_verified: int | None
    num_accepted: int | None


class Telemetry(QObject):
    """Feeds the telemetry dock. `frame` comes with the pulse, only while streaming."""

    frame = Signal()
    cleared = Signal()

    def __init__(self, pulse: Pulse, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pulse = pulse
        self._is_running = False
        pulse.beat.connect(self._on_beat)
        self.rate = Curve()
        self.rate_without = Curve()
        """Token rate of answers with speculation off: drawn apart."""
        self.acceptance = Curve()
        self.tokens_per_step = Curve()
        self.now = 0.0
        """Right edge of the curves, in seconds of streaming."""
        self.latest_rate: float | None = None
        self.latest_acceptance: float | None = None
        self.latest_tokens_per_step: float | None = None
        self.figures = Figures()
        self._tally = Tally()
        self._recent: deque[_Recent] = deque()
        self._start = 0.0
        self._clock_start = 0.0
        self._rate_curve = self.rate

    @property
    def rate_label(self) -> str:
        """Name of the first curve; explains the dashed line once there is one."""
        return "Token rate · dashed: off" if self.rate_without.x else "Token rate"

    @property
    def is_running(self) -> bool:
        """An answer is streaming."""
        return self._is_running

    def begin(self, *, speculation: bool) -> None:
        """An answer was asked for; the clock runs."""
        for curve in (self.rate, self.rate_without, self.acceptance, self.tokens_per_step):
            curve.lift(self.now)
        self._start = self.now + _GAP_S if self.rate.x or self.rate_without.x else self.now
        self._clock_start = perf_counter()
        self._rate_curve = self.rate if speculation else self.rate_without
        self._tally = Tally()
        self._recent.clear()
        self.latest_rate = self.latest_acceptance = self.latest_tokens_per_step = None
        self.figures = Figures()
        self._is_running = True
        self._pulse.request()

    def add(self, step: Step) -> None:
        """Count one step and extend the curves."""
        self._tally.add(step)
        if not step.tokens:
            return
        x = self._start + step.t_ms / 1000
        self._recent.append(_Recent(x, len(step.tokens), step.num_verified, step.num_accepted))
        self._extend_rate(x)
        self._extend_acceptance(x)

    def _extend_rate(self, x: float) -> None:
        recent = self._recent
        while len(recent) > _ACCEPTANCE_STEPS and recent[1].x <= x - _WINDOW_S:
            recent.popleft()
        base = 0
        while base + 1 < len(recent) and recent[base + 1].x <= x - _WINDOW_S:
            base += 1
        elapsed = x - recent[base].x
        if elapsed < _ENOUGH_S:
            return
        tokens = sum(step.num_tokens for step in list(recent)[base + 1 :])
        self.latest_rate = tokens / elapsed
        self._rate_curve.add(x, self.latest_rate)

    def _extend_acceptance(self, x: float) -> None:
        last = list(self._recent)[-_ACCEPTANCE_STEPS:]
        if len(last) < _ENOUGH_STEPS:
            return
        self.latest_tokens_per_step = sum(step.num_tokens for step in last) / len(last)
        self.tokens_per_step.add(x, self.latest_tokens_per_step)
        verified: int | None = 0
        accepted: int | None = 0
        for step in last:
            verified = plus(verified, step.num_verified)
            accepted = plus(accepted, step.num_accepted)
        if verified == 0:
            return  # the last share still stands
        self.latest_acceptance = share(accepted, verified)
        if self.latest_acceptance is not None:
            self.acceptance.add(x, 100 * self.latest_acceptance)

    def end(self, ended: Ended | None = None) -> None:
        """The answer is over (``ended`` None: stopped or failed); the picture stands still."""
        if not self._is_running:
            return
        self._is_running = False
        self._advance()
        self.figures = self._tally.settled(ended) if ended else self._tally.figures()
        self.frame.emit()

    def clear(self) -> None:
        """Forget everything, for a new conversation."""
        self._is_running = False
        for curve in (self.rate, self.rate_without, self.acceptance, self.tokens_per_step):
            curve.x.clear()
            curve.y.clear()
        self.now = 0.0
        self.latest_rate = self.latest_acceptance = self.latest_tokens_per_step = None
        self.figures = Figures()
        self.cleared.emit()

    def _advance(self) -> None:
        self.now = max(self.now, self._start + perf_counter() - self._clock_start)
        for curve in (self.rate, self.rate_without, self.acceptance, self.tokens_per_step):
            curve.forget_before(self.now - SPAN_S)

    def _on_beat(self) -> None:
        if not self._is_running:
            return
        self._pulse.request()  # the picture scrolls whether or not a step came
        self._advance()
        self.figures = self._tally.figures()
        self.frame.emit()
