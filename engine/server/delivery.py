"""Sending an answer: as one JSON object, or as server-sent events while it comes.

Both watch the connection while they wait, so that a client that leaves ends its request even if no
byte was due to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.events import Event, FailedEvent, FinishedEvent, StepEvent
from engine.server.answers import Answer, Json
from engine.server.errors import encode_json, error_body, json_response
from engine.server.feed import EventFeed

_DONE = b"data: [DONE]\n\n"
_CLIENT_CLOSED_REQUEST = 499
"""Nobody reads this status; it is nginx's name for a client that left."""


async def send_whole(request: Request, feed: EventFeed, answer: Answer) -> Response:
    """Wait for the end of all choices and answer once.

    Raises:
        PacelineError: the request failed.
    """
    with feed:
        finished = asyncio.ensure_future(_collect(feed))
        left = asyncio.ensure_future(_disconnected(request.receive))
        await _first_of(finished, left)
        if finished.cancelled():
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
    return json_response(answer.whole(finished.result()))


class EventStream(Response):
    """A response of ``text/event-stream`` that runs as long as the answer does."""

    media_type = "text/event-stream"

    def __init__(self, feed: EventFeed, answer: Answer) -> None:
        self.status_code = 200
        self.background = None
        self._feed = feed
        self._answer = answer
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the answer has ended or the client has left."""
        with self._feed:
            sent = asyncio.ensure_future(self._send_all(send))
            left = asyncio.ensure_future(_disconnected(receive))
            await _first_of(sent, left)
        if not sent.cancelled():
            sent.result()

    async def _send_all(self, send: Send) -> None:
        async def send_bytes(body: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": more})

        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await send_bytes(_lines(self._answer.opening()))
        failed = False
        async for batch in self._feed.batches():
            failed = failed or any(isinstance(event, FailedEvent) for event in batch)
            await send_bytes(b"".join(map(self._encode, batch)))
        if not failed:
            await send_bytes(_lines(self._answer.closing()))
        await send_bytes(_DONE, more=False)

    def _encode(self, event: Event) -> bytes:
        match event:
            case StepEvent():
                return _lines(self._answer.step(event))
            case FinishedEvent():
                return _lines(self._answer.finished(event))
            case FailedEvent(error):
                return _lines([dict(error_body(error))])


def _lines(chunks: Iterable[Json]) -> bytes:
    return b"".join(b"data: " + encode_json(chunk) + b"\n\n" for chunk in chunks)


async def _collect(feed: EventFeed) -> list[FinishedEvent]:
    finished: list[FinishedEvent] = []
    async for batch in feed.batches():
        for event in batch:
            if isinstance(event, FailedEvent):
                raise event.error
            if isinstance(event, FinishedEvent):
                finished.append(event)
    return finished


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first_of(work: asyncio.Future[Any], other: asyncio.Future[Any]) -> None:
    """Run both until one ends, then cancel the one that has not; ends when both have."""
    try:
        await asyncio.wait({work, other}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, other):
            task.cancel()
        await asyncio.wait({work, other})
