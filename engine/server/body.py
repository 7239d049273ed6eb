"""Reading a request's body: JSON alone, and never more of it in memory than the limit.

A body over the limit is read to its end and thrown away (up to a second limit), because a client
that is cut off while it writes often never sees the answer that says why.
"""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

from engine.errors import InvalidRequestError
from engine.server.errors import BodyTooLargeError, ContentTypeError

MAX_BODY_BYTES = 16 * 2**20
"""Largest accepted body: 16 MiB, about four million tokens of English."""

MAX_DISCARDED_BYTES = 256 * 2**20
"""How much of a refused body is read before the connection is dropped."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


async def read_json_body(request: Request) -> bytes:
    """The whole body, a leading byte order mark removed.

    Raises:
        ContentTypeError: the body is not declared as ``application/json``.
        BodyTooLargeError: it is over ``MAX_BODY_BYTES``; says both figures.
        InvalidRequestError: it is empty, or the client left while sending it.
    """
    _require_json(request.headers.get("content-type", ""))
    chunks: list[bytes] = []
    received = 0
    try:
        async for chunk in request.stream():
            received += len(chunk)
            if received > MAX_DISCARDED_BYTES:
                break
            if received <= MAX_BODY_BYTES:
                chunks.append(chunk)
            else:
                chunks.clear()
    except ClientDisconnect:
        raise InvalidRequestError("The connection closed before the body was complete.") from None
    if received > MAX_BODY_BYTES:
        raise BodyTooLargeError(
            f"The body has {_size(received, request)} and the limit is {MAX_BODY_BYTES:,} bytes; "
            "send less text."
        )
    body = b"".join(chunks).removeprefix(_BYTE_ORDER_MARK)
    if not body.strip():
        raise InvalidRequestError("The body is empty; send a JSON object.")
    return body


def _require_json(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        seen = f"is {kind}" if kind else "is missing"
        raise ContentTypeError(f"The content type {seen}; send application/json.")


def _size(received: int, request: Request) -> str:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal():
        return f"{int(declared):,} bytes"
    return f"at least {received:,} bytes"
