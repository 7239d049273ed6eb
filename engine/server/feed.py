"""Events of one request, carried from the engine's thread to the event loop.

A feed always ends: with a terminal event for every choice, with the failure of the whole request,
or by being cancelled. Leaving its ``with`` block cancels what is still running, so that no way out
of a request (a client that left, an error, a server that stops) leaves work behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

from starlette.concurrency import run_in_threadpool

from engine.errors import EngineStoppedError
from engine.events import Event, FailedEvent, FinishedEvent, GenerationRequest
from engine.interface import Engine, RequestHandle
from engine.values import FinishReason


class EventFeed:
    """The events of one submitted request, for one reader on one event loop."""

    def __init__(self, num_choices: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._num_open = num_choices
        self._handle: RequestHandle | None = None

    @classmethod
    async def submit(cls, engine: Engine, request: GenerationRequest) -> EventFeed:
        """Hand the request to the engine.

        Raises:
            PacelineError: the engine refuses it at once.
        """
        feed = cls(request.config.num_return_sequences)
        feed._handle = await run_in_threadpool(engine.submit, request, feed._push)
        return feed

    def __enter__(self) -> EventFeed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._num_open and self._handle is not None:
            self._handle.cancel()
            self._num_open = 0

    async def batches(self) -> AsyncIterator[list[Event]]:
        """What has come since the last time, never empty; ends after the last terminal event.

        A choice that ends as cancelled while somebody still reads was ended by the engine, and
        comes out as a failure.
        """
        while self._num_open:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            yield [self._seen(event) for event in batch]

    def _seen(self, event: Event) -> Event:
        if isinstance(event, FinishedEvent):
            if event.finish_reason is FinishReason.CANCELLED:
                event = FailedEvent(EngineStoppedError("The request was cancelled."))
            else:
                self._num_open -= 1
        if isinstance(event, FailedEvent):
            self._num_open = 0
        return event

    def _push(self, event: Event) -> None:
        """The engine's sink, on the engine's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
