"""Errors on the wire: OpenAI's error object for everything that can go wrong.

The HTTP status of a fault stands on its class (``PacelineError.http_status``) and nowhere else; the
faults that only HTTP knows (a route, a method, a body) are added to the same tree here. This module
says how a fault looks to a client. It does not decide what is a fault.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import InvalidRequestError, PacelineError

_log = logging.getLogger(__name__)

_BROKEN_TEXT = re.compile(r"(?:surrogate|hex escape|unicode code point).* at (line \d+ column \d+)")
"""What pydantic says of half a surrogate pair, and of bytes that are not UTF-8."""


class RouteNotFoundError(PacelineError):
    """No such address."""

    code = "not_found"
    http_status = 404


class MethodNotAllowedError(PacelineError):
    """The address exists, but not for this method."""

    code = "method_not_allowed"
    http_status = 405


class BodyTooLargeError(PacelineError):
    """The body is over the documented limit."""

    code = "body_too_large"
    http_status = 413


class ContentTypeError(PacelineError):
    """The body is not declared to be JSON."""

    code = "unsupported_media_type"
    http_status = 415


class ForeignOriginError(PacelineError):
    """A server without a key was reached by a name or a web page that is not of this machine."""

    code = "foreign_origin"
    http_status = 403


class ModelLoadingError(PacelineError):
    """The model is still being loaded; try again."""

    code = "model_loading"
    http_status = 503


class ModelFailedError(PacelineError):
    """The model could not be loaded; the server has nothing to answer with."""

    code = "model_failed"
    http_status = 503


def error_body(error: PacelineError) -> dict[str, dict[str, str | None]]:
    """OpenAI's error object for ``error``."""
    kind = "server_error" if error.http_status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": error.message,
            "type": kind,
            "param": error.param,
            "code": error.code,
        }
    }


def encode_json(value: object) -> bytes:
    """Compact UTF-8 JSON, whatever ``value`` holds.

    A lone surrogate, which UTF-8 cannot hold, becomes ``?``; NaN and the infinities, which JSON
    cannot hold, become null.
    """
    try:
        text = _dumps(value, allow_nan=False)
    except ValueError:
        text = _dumps(json.loads(_dumps(value), parse_constant=lambda name: None))
    return text.encode("utf-8", "replace")


def _dumps(value: object, *, allow_nan: bool = True) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":"))


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer that can always be encoded."""
    return Response(encode_json(value), status, headers, media_type="application/json")


def error_response(error: PacelineError, headers: Mapping[str, str] | None = None) -> Response:
    """The HTTP answer for ``error``."""
    return json_response(error_body(error), error.http_status, headers)


async def on_paceline_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for our own errors."""
    assert isinstance(error, PacelineError)
    return error_response(error)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such route, wrong method) in the same form."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    if error.status_code == 404:
        return error_response(
            RouteNotFoundError(f"There is nothing at {where}; the API lies under /v1.")
        )
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        return error_response(
            MethodNotAllowedError(f"{where} is not possible here; use {allowed}."), error.headers
        )
    return error_response(InvalidRequestError(f"{where}: {error.detail}."), error.headers)


async def on_unexpected_error(request: Request, error: Exception) -> Response:
    """A fault of our own: the log has the trace, the client a clean object."""
    _log.error("Unexpected error in %s %s", request.method, request.url.path, exc_info=error)
    return error_response(
        PacelineError("Paceline itself failed on this request; the log of the server says where.")
    )


def from_validation_error(
    error: ValidationError, known: Iterable[str], whole: str = "The body"
) -> InvalidRequestError:
    """The first fault that pydantic found, as one sentence.

    ``known`` are the field names that there are, ``whole`` is what was parsed.
    """
    detail = error.errors(include_url=False, include_context=False)[0]
    path = _path(detail["loc"])
    return InvalidRequestError(_sentence(detail, path, known, whole), param=path or None)


def _sentence(detail: ErrorDetails, path: str, known: Iterable[str], whole: str) -> str:
    match detail["type"]:
        case "json_invalid" if place := _BROKEN_TEXT.search(detail["msg"]):
            return (
                f"{whole} has text that is not valid Unicode ({place[1]}): send whole characters."
            )
        case "json_invalid":
            return f"{whole} is not valid JSON ({detail['msg'].removeprefix('Invalid JSON: ')})."
        case "model_type" | "dict_type" if not path:
            return f"{whole} must be a JSON object."
        case "list_type" if not path:
            return f"{whole} must be a JSON list."
        case "finite_number" | "float_type":
            return f"{path} must be a number."
        case "missing":
            return f"{path} is missing; it is required."
        case "extra_forbidden":
            near = difflib.get_close_matches(str(detail["loc"][-1]), list(known), n=1)
            remedy = f"did you mean {near[0]}?" if near else "leave it out."
            return f"{path} is not a field that this server knows; {remedy}"
        case _:
            message = detail["msg"].rstrip(".")
            if message.startswith("must "):
                return f"{path} {message}."
            return f"{path}: {message[:1].lower()}{message[1:]}."


def _path(location: Sequence[int | str]) -> str:
    """``("messages", 0, "content")`` as ``messages[0].content``."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path
