"""The engine's life inside the server: loading, then ready or failed.

The model is loaded on a thread of its own, so that the server answers from its first moment. The
state only moves forward and is replaced as a whole, so any thread may read it without a lock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import EngineStoppedError, PacelineError
from engine.interface import Engine
from engine.server.errors import ModelFailedError, ModelLoadingError

_log = logging.getLogger(__name__)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Loading:
    """``stage`` is a sentence that says what is being done."""

    stage: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The model answers."""

    engine: Engine


@dataclass(frozen=True, slots=True)
class Failed:
    """The model could not be loaded."""

    error: PacelineError


State = Loading | Ready | Failed


class EngineHost:
    """Owns the engine of one server process.

    ``load`` builds the engine and reports its stages; it runs once, on a thread of its own.
    ``on_failure`` is called from that thread when it raises.
    """

    def __init__(
        self,
        load: Callable[[Progress], Engine],
        on_failure: Callable[[PacelineError], None] = lambda error: None,
    ) -> None:
        self._load = load
        self._on_failure = on_failure
        self._started = time.monotonic()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._change = threading.Lock()
        self._state: State = Loading("Starting")

    @property
    def state(self) -> State:
        """Where loading stands."""
        return self._state

    @property
    def is_loading(self) -> bool:
        """Whether the loading thread is still at work, also after `close`."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def uptime_s(self) -> float:
        """Seconds since this host was made."""
        return time.monotonic() - self._started

    def start(self) -> None:
        """Begin to load."""
        self._thread = threading.Thread(target=self._run, name="load-model", daemon=True)
        self._thread.start()

    def engine(self) -> Engine:
        """The engine, for a request.

        Raises:
            ModelLoadingError: not yet. ModelFailedError: never.
        """
        match self._state:
            case Ready(engine):
                return engine
            case Loading(stage):
                raise ModelLoadingError(f"The model is being loaded ({stage}); try again shortly.")
            case Failed(error):
                raise ModelFailedError(f"The model could not be loaded: {error.message}")

    def close(self) -> None:
        """End the engine and every open request. An engine that is still loading ends when it is
        loaded; its requests have been refused anyway."""
        with self._change:
            self._closed = True
            state, self._state = self._state, Failed(EngineStoppedError("The server is stopping."))
        if isinstance(state, Ready):
            state.engine.close()

    def _run(self) -> None:
        try:
            engine = self._load(self._report)
        except PacelineError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a thread must end in a state, whatever happened
            _log.error("Loading the model failed", exc_info=error)
            self._fail(PacelineError(f"Loading the model failed: {error}"))
        else:
            self._accept(engine)

    def _report(self, stage: str) -> None:
        with self._change:
            if isinstance(self._state, Loading):
                self._state = Loading(stage)
        _log.info("%s", stage)

    def _accept(self, engine: Engine) -> None:
        with self._change:
            if not self._closed:
                self._state = Ready(engine)
                return
        engine.close()

    def _fail(self, error: PacelineError) -> None:
        with self._change:
            if self._closed:
                return
            self._state = Failed(error)
        self._on_failure(error)
