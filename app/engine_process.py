"""The engine as a child process: start it, hear where it listens, keep its last words, end it.

The child prints one JSON line when its port listens. Its standard input stays open for as long as
this process lives; end of file there tells it to go, so even a crash of the window leaves no engine
behind. When to start it again is decided in `app.connection`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

_log = logging.getLogger(__name__)

KEY_VARIABLE = "PACELINE_API_KEY"
_KEPT_LINES = 40
_PATIENCE_S = 3.0
"""How long an engine that was asked to go may take before it is killed."""
_KILL_S = 1.5


@dataclass(frozen=True, slots=True)
class Announcement:
    """The child's first line: where it listens and what it is."""

    port: int
    pid: int
    version: str


@dataclass(frozen=True, slots=True)
class EngineExit:
    """How the child ended, in one sentence, with the last lines that it wrote."""

    sentence: str
    exit_code: int
    last_lines: tuple[str, ...]


class EngineProcess(QObject):
    """One run of the engine. For another run make another object."""

    announced = Signal(object)
    """Emits an `Announcement`."""
    ended = Signal(object)
    """Emits an `EngineExit`, once; not after `close`."""

    def __init__(self, command: Sequence[str], key: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._is_announced = False
        self._is_closing = False
        self._gone: list[asyncio.Future[None]] = []
        self._process = process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert(KEY_VARIABLE, key)
        process.setProcessEnvironment(environment)
        process.setProgram(command[0])
        process.setArguments(list(command[1:]))
        process.readyReadStandardOutput.connect(self._read_output)
        process.readyReadStandardError.connect(self._read_errors)
        process.finished.connect(self._on_finished)
        process.errorOccurred.connect(self._on_error)

    @property
    def pid(self) -> int:
        """Process id of the child; 0 when it does not run."""
        return self._process.processId()

    def start(self) -> None:
        """Start the child; returns at once."""
        self._process.start()

    async def close(self) -> None:
        """End the child: ask by closing its input, insist after three seconds. At most 5 s."""
        self._is_closing = True
        if self._process.state() is QProcess.ProcessState.NotRunning:
            return
        self._process.closeWriteChannel()
        if not await self._wait_gone(_PATIENCE_S):
            _log.warning("The engine did not go when asked; it is killed")
            self._process.kill()
            await self._wait_gone(_KILL_S)

    async def _wait_gone(self, seconds: float) -> bool:
        if self._process.state() is QProcess.ProcessState.NotRunning:
            return True
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gone.append(gone)
        try:
            await asyncio.wait_for(gone, seconds)
        except TimeoutError:
            return False
        return True

    def _read_output(self) -> None:
        while self._process.canReadLine():
            line = bytes(self._process.readLine().data())
            if not self._is_announced:
                self._announce(line)

    def _announce(self, line: bytes) -> None:
        try:
            said = cast("dict[str, Any]", json.loads(line))
            announcement = Announcement(int(said["port"]), int(said["pid"]), str(said["version"]))
        except (ValueError, KeyError, TypeError):
            _log.warning("The engine's first line is no announcement")
            return
        self._is_announced = True
        self.announced.emit(announcement)

    def _read_errors(self) -> None:
        said = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace")
        self._lines.extend(line for line in said.splitlines() if line.strip())

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self._finish(f"The engine could not be started: {self._process.errorString()}.", -1)

    def _on_finished(self, exit_code: int, status: QProcess.ExitStatus) -> None:
        self._read_errors()
        if status is QProcess.ExitStatus.CrashExit:
            self._finish("The engine crashed.", exit_code)
        elif exit_code:
            self._finish(f"The engine stopped with exit code {exit_code}.", exit_code)
        else:
            self._finish("The engine stopped.", 0)

    def _finish(self, sentence: str, exit_code: int) -> None:
        for gone in self._gone:
            if not gone.done():
                gone.set_result(None)
        if not self._is_closing:
            self.ended.emit(EngineExit(sentence, exit_code, tuple(self._lines)))
