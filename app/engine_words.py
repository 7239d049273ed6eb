"""The engine's situation in words: for the model bar, and for the notice when something is wrong.

Pure functions, and `EngineWords`, which says them again as time passes while the engine is on its
way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter

from PySide6.QtCore import QObject, QTimer, Signal

from app.connection import EngineConnection, EngineSituation, Phase
from app.figures import SEPARATOR
from app.wire import PlanReport, Speculation

_TICK_MS = 100


@dataclass(frozen=True, slots=True)
class BarText:
    """``name`` of the model, ``detail`` how it runs, ``progress`` what is being done now."""

    name: str
    detail: str
    progress: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """Something is wrong: one sentence, what happens next, and the engine's last lines."""

    sentence: str
    then: str
    last_lines: tuple[str, ...]


def drafter_words(drafter: str) -> str:
    """``suffix + prompt lookup`` for the engine's ``suffix+prompt_lookup``; empty for none."""
    names = [name.replace("_", " ").strip() for name in drafter.split("+")]
    return " + ".join(name for name in names if name not in ("", "none"))


def drafter_text(plan: PlanReport) -> str:
    """The drafter in words, with ``Auto:`` before it where the engine chose it."""
    words = drafter_words(plan.drafter)
    if not words:
        return "no drafter"
    return f"Auto: {words}" if plan.is_auto_drafter else words


def fixed_speculation_text(plan: PlanReport | None) -> str:
    """Why nobody can turn speculation on or off; empty where it can be turned."""
    if plan is None or plan.fixed_speculation is None:
        return ""
    if plan.fixed_speculation:
        return "Speculation stays on: OpenVINO GenAI drafts at every step once it has a drafter."
    return "Speculation is off: the engine runs without a drafter."


def bar_text(situation: EngineSituation, now: float) -> BarText:
    """What the model bar says. ``now`` is a `perf_counter` reading."""
    name = situation.model.name if situation.model else "Paceline"
    plan = situation.plan
    parts = [part for part in (plan.device, drafter_text(plan)) if part] if plan else []
    progress = ""
    if situation.phase in (Phase.STARTING, Phase.LOADING):
        progress = f"{situation.sentence}{SEPARATOR}{now - situation.since:.1f} s"
    elif situation.is_in_trouble:
        progress = "Not ready"
    return BarText(name, SEPARATOR.join(parts), progress, _reasons(plan))


def _reasons(plan: PlanReport | None) -> tuple[str, ...]:
    if plan is None:
        return ()
    rows = (
        ("Backend", plan.backend),
        ("Device", plan.device),
        ("Drafter", drafter_words(plan.drafter) or plan.drafter),
        ("Speculation", _speculation_word(plan)),
        ("Cache", plan.cache_precision),
    )
    return (*(f"{label}: {value}" for label, value in rows if value), *plan.reasons)


def _speculation_word(plan: PlanReport) -> str:
    if plan.fixed_speculation is False:
        return Speculation.OFF.value
    return plan.speculation.value if plan.speculation else ""


def notice(situation: EngineSituation, now: float) -> Notice | None:
    """The notice to show, or None while all is well."""
    if not situation.is_in_trouble:
        return None
    then = ""
    if situation.phase is Phase.PAUSING:
        left = max(0.0, situation.pause_s - (now - situation.since))
        then = f"Starting it again in {math.ceil(left)} s."
    return Notice(situation.sentence, then, situation.last_lines)


class EngineWords(QObject):
    """Keeps the words of a connection current."""

    bar_changed = Signal(object)
    notice_changed = Signal(object)

    def __init__(self, connection: EngineConnection, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._connection = connection
        self._timer = QTimer(self)
        self._timer.setInterval(_TICK_MS)
        self._timer.timeout.connect(self.refresh)
        self._bar: BarText | None = None
        self._notice: Notice | None = None
        connection.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Say what has changed; the clock runs only while the engine is on its way."""
        situation = self._connection.situation
        now = perf_counter()
        bar = bar_text(situation, now)
        if bar != self._bar:
            self._bar = bar
            self.bar_changed.emit(bar)
        trouble = notice(situation, now)
        if trouble != self._notice:
            self._notice = trouble
            self.notice_changed.emit(trouble)
        if situation.is_on_its_way != self._timer.isActive():
            (self._timer.start if situation.is_on_its_way else self._timer.stop)()
