"""What an engine is to those who use it: the server, the command line and the benchmark.

Two things fit behind it: our own engine (`engine.loop`), and OpenVINO GenAI's pipelines
(`engine.reference`), the peer to compare with and the way out for a model that ours refuses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from engine.events import Event, FailedEvent, FinishedEvent, GenerationRequest, Sink

if TYPE_CHECKING:  # these import OpenVINO, for which the server's first answer should not wait
    from engine.library.folder import ModelInfo
    from engine.plan import Plan
    from engine.tokens import Tokenizer

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """A glance at the engine; the figures may be a step old, and are None where the engine does not
    tell."""

    num_running: int
    num_waiting: int
    cache_total_tokens: int | None
    cache_free_tokens: int | None

    def to_json(self) -> dict[str, object]:
        """The status as it stands in ``/paceline/v1/status``."""
        return {
            "num_running": self.num_running,
            "num_waiting": self.num_waiting,
            "cache_total_tokens": self.cache_total_tokens,
            "cache_free_tokens": self.cache_free_tokens,
        }


@dataclass(frozen=True, slots=True)
class RequestHandle:
    """What the submitter of a request holds."""

    request_id: str
    _cancel: Callable[[], None]

    def cancel(self) -> None:
        """End every choice of the request within a step; harmless when it has ended already."""
        self._cancel()


class Engine(Protocol):
    """One loaded model, serving any number of requests at once. Safe from any thread."""

    @property
    def model(self) -> ModelInfo: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def model_defaults(self) -> Mapping[str, object]:
        """The model's own ``generation_config.json``."""
        ...

    def submit(self, request: GenerationRequest, sink: Sink) -> RequestHandle:
        """Start answering ``request``.

        ``sink`` is called on the engine's thread and must return at once: step events, then a
        `FinishedEvent` for each choice, or one `FailedEvent` for the whole request.

        Raises:
            PacelineError: what can be known at once: the prompt does not fit into the context or
                the cache, an option that drafter or backend cannot honour, an unknown drafter, or
                the engine is closed.
        """
        ...

    def status(self) -> EngineStatus:
        """How busy the engine is."""
        ...

    def forget(self) -> None:
        """Let drafters forget earlier answers as soon as nothing runs: what is asked next is
        drafted as in a fresh engine."""
        ...

    def close(self) -> None:
        """End every open request with an error, and give back the model."""
        ...


def guarded(sink: Sink) -> Sink:
    """A sink whose failure is its own: the other requests of the engine go on."""

    def call(event: Event) -> None:
        try:
            sink(event)
        except Exception:
            _logger.exception("Whoever listens to a request failed on an event.")

    return call


def stream(engine: Engine, request: GenerationRequest) -> Iterator[Event]:
    """Submit ``request`` and yield its events to the last; leaving early cancels it.

    Raises:
        PacelineError: as `Engine.submit`. A failure on the way is a `FailedEvent`, not raised.
    """
    events: SimpleQueue[Event] = SimpleQueue()
    handle = engine.submit(request, events.put)
    num_open = request.config.num_return_sequences
    try:
        while num_open:
            event = events.get()
            match event:
                case FinishedEvent():
                    num_open -= 1
                case FailedEvent():
                    num_open = 0
                case _:
                    pass
            yield event
    finally:
        if num_open:
            handle.cancel()
