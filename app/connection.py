"""The window's hold on its engine: which phase it is in, what to say of it, and when to try again.

`EngineConnection` starts the child process, asks for its status until the model is ready, and
starts it again with growing pauses when it dies. It is the one place that decides any of this;
views only show `EngineSituation`. It draws nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_process import Announcement, EngineExit, EngineProcess
from app.tasks import Tasks
from app.wire import EngineError, EngineState, Fault, ModelReport, PlanReport, StatusReport

if TYPE_CHECKING:
    from app.client import EngineClient

_POLL_S = 0.2
_MAX_POLL_ERRORS = 25
"""In a row, which takes five seconds or more; an engine that dies is told of by its process."""
_PAUSES_S = (1.0, 2.0, 4.0)
"""Before each further start, as long as the engine keeps dying; then a person must ask."""
_STEADY_S = 60.0
"""An engine that was ready for this long starts the count anew when it dies."""
_USAGE_EXIT_CODE = 2
"""The engine refused its own options: it would do so again."""


class Phase(StrEnum):
    """Where the engine is between its start and its end."""

    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    """It runs but cannot use the model."""
    PAUSING = "pausing"
    """It died and will be started again."""
    DEAD = "dead"
    """It died, or the window cannot follow it, and a person must ask for another start."""


@dataclass(frozen=True, slots=True)
class EngineSituation:
    """All that can be said of the engine now. ``since`` is a `perf_counter` reading."""

    phase: Phase
    sentence: str
    since: float
    model: ModelReport | None = None
    plan: PlanReport | None = None
    last_lines: tuple[str, ...] = ()
    pause_s: float = 0.0

    @property
    def is_on_its_way(self) -> bool:
        """Waiting helps."""
        return self.phase in (Phase.STARTING, Phase.LOADING, Phase.PAUSING)

    @property
    def is_in_trouble(self) -> bool:
        """There is something to tell beyond progress."""
        return self.phase in (Phase.FAILED, Phase.PAUSING, Phase.DEAD)


@dataclass(frozen=True, slots=True)
class ReadyEngine:
    """An engine that answers, its model, and what it chose to run it with."""

    client: EngineClient
    model: ModelReport
    plan: PlanReport | None = None


class EngineConnection(QObject):
    """Starts, watches and restarts the engine that ``command`` runs."""

    changed = Signal(object)
    """Emits the new `EngineSituation`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        pauses_s: Sequence[float] = _PAUSES_S,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._command = tuple(command)
        self._pauses_s = tuple(pauses_s)
        self._key = secrets.token_urlsafe(24)
        self._process: EngineProcess | None = None
        self._client: EngineClient | None = None
        self._watch: asyncio.Task[None] | None = None
        self._replacement: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._tasks = Tasks(self._on_failure)
        self._num_deaths = 0
        self._situation = EngineSituation(Phase.STARTING, "Starting the engine", perf_counter())
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.timeout.connect(self._start_process)

    @property
    def situation(self) -> EngineSituation:
        """Where the engine is now."""
        return self._situation

    @property
    def pid(self) -> int:
        """Process id of the engine; 0 when it does not run."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start the engine for the first time; needs no running event loop."""
        self._start_process()

    def start_again(self) -> None:
        """A person asks for a fresh start, whatever the phase; once is enough."""
        if self._replacement and not self._replacement.done():
            return
        self._num_deaths = 0
        self._pause.stop()
        if self.pid:
            self._replacement = self._tasks.start(self._replace_process())
        else:
            self._start_process()

    async def ready(self) -> ReadyEngine:
        """Wait for the engine. Raises `EngineError` when waiting cannot help."""
        while True:
            situation = self._situation
            if situation.phase is Phase.READY and self._client and situation.model:
                return ReadyEngine(self._client, situation.model, situation.plan)
            if not situation.is_on_its_way:
                raise EngineError(Fault(situation.sentence, situation.phase.value))
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(change)
            await change

    async def close(self) -> None:
        """End the engine and every connection to it, within five seconds."""
        self._pause.stop()
        if self._replacement:
            self._replacement.cancel()
        await self._drop_client()
        if self._process:
            await self._process.close()

    def _start_process(self) -> None:
        self._set(EngineSituation(Phase.STARTING, "Starting the engine", perf_counter()))
        self._process = process = EngineProcess(self._command, self._key, self)
        process.announced.connect(self._on_announced)
        process.ended.connect(self._on_ended)
        process.start()

    async def _replace_process(self) -> None:
        old = self._process
        self._set(EngineSituation(Phase.STARTING, "Ending the old engine", perf_counter()))
        await self._drop_client()
        if old:
            await old.close()
            old.deleteLater()
            self._process = None
        self._start_process()

    def _on_announced(self, announcement: Announcement) -> None:
        self._watch = self._tasks.start(self._watch_until_ready(announcement.port))

    async def _watch_until_ready(self, port: int) -> None:
        # The HTTP library takes a while to import; the window must not stand still for it.
        module = await asyncio.to_thread(importlib.import_module, "app.client")
        self._client = client = cast("type[EngineClient]", module.EngineClient)(
            f"http://127.0.0.1:{port}", self._key
        )
        since = self._situation.since
        num_errors = 0
        while self._client is client and self._situation.is_on_its_way:
            try:
                self._set(_told_by(await client.status(), since))
                num_errors = 0
            except EngineError as error:
                num_errors += 1
                if num_errors == _MAX_POLL_ERRORS:
                    sentence = f"The engine does not say how far it is. {error.fault.message}"
                    self._set(EngineSituation(Phase.DEAD, sentence, perf_counter()))
            await asyncio.sleep(_POLL_S)

    def _on_ended(self, end: EngineExit) -> None:
        before = self._situation
        if before.phase is Phase.READY and perf_counter() - before.since > _STEADY_S:
            self._num_deaths = 0
        self._num_deaths += 1
        hopeless = end.exit_code == _USAGE_EXIT_CODE or self._num_deaths > len(self._pauses_s)
        pause_s = 0.0 if hopeless else self._pauses_s[self._num_deaths - 1]
        sentence = end.sentence
        if end.exit_code == _USAGE_EXIT_CODE and end.last_lines:
            sentence = end.last_lines[-1]
        if self._process:
            self._process.deleteLater()
            self._process = None
        self._tasks.start(self._drop_client())
        self._set(
            EngineSituation(
                Phase.DEAD if hopeless else Phase.PAUSING,
                sentence,
                perf_counter(),
                last_lines=end.last_lines,
                pause_s=pause_s,
            )
        )
        if not hopeless:
            self._pause.start(round(pause_s * 1000))

    async def _drop_client(self) -> None:
        client, self._client = self._client, None
        watch, self._watch = self._watch, None
        if watch and not watch.done():
            watch.cancel()
        if client:
            await client.close()

    def _on_failure(self, task: asyncio.Task[Any]) -> None:
        """A fault of the window's own, after which it does not know what its engine does."""
        self._pause.stop()
        sentence = "The window stumbled and lost sight of its engine."
        self._set(EngineSituation(Phase.DEAD, sentence, perf_counter()))

    def _set(self, situation: EngineSituation) -> None:
        if situation == self._situation:
            return
        self._situation = situation
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)
        self.changed.emit(situation)


def _told_by(report: StatusReport, since: float) -> EngineSituation:
    """What a status report comes to, for an engine that has been on its way ``since`` then."""
    situation = EngineSituation(
        Phase.LOADING,
        report.stage.rstrip(".") or "Loading the model",
        since,
        report.model,
        report.plan,
    )
    if report.state is EngineState.READY and report.model:
        return replace(situation, phase=Phase.READY, sentence="", since=perf_counter())
    if report.state is EngineState.FAILED:
        fault = report.fault or Fault("The engine could not load the model.", "failed")
        return replace(situation, phase=Phase.FAILED, sentence=fault.message)
    return situation
