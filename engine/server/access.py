"""Who may talk to the server.

With a key: whoever sends it. Without one the server listens on loopback alone, and then only
programs of this machine may use it: a web page that a browser here has open must not, neither
directly (``Origin``) nor by a name of its own that points to loopback (``Host``).
"""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.errors import PacelineError, UnauthorizedError
from engine.server.errors import ForeignOriginError, error_response

_OPEN_TO_ALL = "/health"


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine and no other."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AccessGuard:
    """ASGI middleware that answers 401 or 403 in place of the application."""

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._api_key = api_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or refuse it."""
        if scope["type"] == "http" and scope["path"] != _OPEN_TO_ALL:
            refusal = self._refusal(Headers(scope=scope))
            if refusal is not None:
                headers = {"www-authenticate": "Bearer"} if refusal.http_status == 401 else None
                await error_response(refusal, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> PacelineError | None:
        if self._api_key is not None:
            given = headers.get("authorization", "").encode("latin-1")
            if hmac.compare_digest(given, f"Bearer {self._api_key}".encode()):
                return None
            return UnauthorizedError(
                "The key is missing or wrong: send it as 'Authorization: Bearer KEY'."
            )
        origin = headers.get("origin")
        addresses = [f"//{headers.get('host', '')}", *([origin] if origin else [])]
        if all(_points_here(address) for address in addresses):
            return None
        return ForeignOriginError(
            "A server without a key answers programs of this machine only: start it with --api-key."
        )


def _points_here(address: str) -> bool:
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False
