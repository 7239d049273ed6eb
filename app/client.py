"""The engine over HTTP: its status, and one streamed answer at a time.

Everything is asynchronous and belongs to the thread of the window's event loop. Leaving the
iterator of `EngineClient.chat` closes the connection, which is how an answer is stopped.
Supervision of the process is not done here, see `app.engine_process`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import cast

import httpx

from app.wire import (
    ChatRequest,
    Delta,
    Ended,
    EngineError,
    Fault,
    Json,
    PlanReport,
    StatusReport,
    parse_chunk,
    parse_fault,
    parse_status,
)

_CONNECT_S = 5.0
_STATUS_S = 5.0


UNREACHABLE = Fault("The engine cannot be reached.", "unreachable")
BROKEN_OFF = Fault("The engine stopped in the middle of this answer.", "broken_off")
NOT_UNDERSTOOD = Fault("The engine sent something that is not an answer.", "not_understood")


class EngineClient:
    """Speaks to one engine at ``base_url``, such as ``http://127.0.0.1:8000``."""

    def __init__(self, base_url: str, key: str) -> None:
        # The proxies of the environment must never see what goes to this very machine.
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            trust_env=False,
        )

    async def status(self) -> StatusReport:
        """How far the engine is. Raises `EngineError`."""
        try:
            response = await self._http.get("/paceline/v1/status", timeout=_STATUS_S)
        except httpx.HTTPError as error:
            raise EngineError(UNREACHABLE) from error
        body = _decode(response.content)
        if response.is_error:
            raise EngineError(parse_fault(body.get("error")) or NOT_UNDERSTOOD)
        return parse_status(body)

    async def chat(
        self, request: ChatRequest, model: str, plan: PlanReport | None = None
    ) -> AsyncGenerator[Delta | Ended]:
        """The answer as it is made; the last event is `Ended`. ``plan`` is what the engine said of
        itself. Raises `EngineError`."""
        ended = False
        fault: Fault | None = None
        try:
            async with self._http.stream(
                "POST", "/v1/chat/completions", json=request.to_json(model, plan)
            ) as response:
                if response.is_error:
                    body = _decode(await response.aread())
                    raise EngineError(parse_fault(body.get("error")) or NOT_UNDERSTOOD)
                # Read to the end even after a fault: an iteration that is left in the middle
                # is closed by the loop in another task, and the connection with noise.
                async for line in response.aiter_lines():
                    event = None if fault else _event(line)
                    if isinstance(event, Fault):
                        fault = event
                    elif event is not None:
                        ended = isinstance(event, Ended)
                        yield event
        except httpx.ConnectError as error:
            raise EngineError(UNREACHABLE) from error
        except httpx.HTTPError as error:
            raise EngineError(BROKEN_OFF) from error
        if fault or not ended:
            raise EngineError(fault or BROKEN_OFF)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()


def _decode(content: bytes | str) -> Json:
    try:
        body: object = json.loads(content)
    except ValueError as error:
        raise EngineError(NOT_UNDERSTOOD) from error
    if not isinstance(body, dict):
        raise EngineError(NOT_UNDERSTOOD)
    return cast(Json, body)


def _event(line: str) -> Delta | Ended | Fault | None:
    """One line of the event stream; None where it carries nothing to show."""
    if not line.startswith("data:"):
        return None
    data = line.removeprefix("data:").strip()
    if data == "[DONE]":
        return None
    try:
        chunk = _decode(data)
    except EngineError as error:
        return error.fault
    return parse_fault(chunk.get("error")) or parse_chunk(chunk)
