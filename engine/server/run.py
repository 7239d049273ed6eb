"""One server process: the socket, uvicorn, and how it all ends.

The port listens before the model is loaded. The process ends on a signal, on the shutdown request,
and, as the child of a window, when its standard input closes: then the parent is gone. The engine
is closed before uvicorn waits for its connections, so that open streams end instead of being
waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from dataclasses import dataclass

import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp

from engine.errors import InvalidOptionError
from engine.server.access import is_loopback
from engine.server.host import EngineHost

_log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_ORPHAN_TIMEOUT_S = 0.8
_HIGHEST_PORT = 65535
_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes any free one."""

    host: str
    port: int


def listen(address: Address, api_key: str | None) -> socket.socket:
    """A listening socket.

    Raises:
        InvalidOptionError: other machines could reach it and no key protects it, or the address
            cannot be had.
    """
    if api_key is None and not is_loopback(address.host):
        raise InvalidOptionError(
            f"Host {address.host!r} can be reached from other machines, which would be free to use "
            "this one: set a key with --api-key, or use 127.0.0.1.",
            param="host",
        )
    if not 0 <= address.port <= _HIGHEST_PORT:
        raise InvalidOptionError(
            f"Port {address.port} does not exist: choose one from 0 to {_HIGHEST_PORT}.",
            param="port",
        )
    try:
        family, _, _, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server((place[0], place[1]), family=family, backlog=128)
    except OSError as error:
        raise InvalidOptionError(
            f"Port {address.port} on {address.host!r} cannot be used ({error}): choose another "
            "with --port, or 0 for any free one.",
            param="port",
        ) from error


class LocalServer:
    """Serves one application on one socket until it is told to stop."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._stopping = threading.Event()
        self._uvicorn: uvicorn.Server | None = None

    def stop(self) -> None:
        """End soon; from any thread, also before `run`. Does not block."""
        self._stopping.set()
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True

    def run(self, app: ASGIApp, listening: socket.socket) -> None:
        """Serve until `stop` or a signal; closes the engine and the socket. Blocks."""
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=3,
        )
        self._uvicorn = _ClosingServer(config, self._host)
        if self._stopping.is_set():
            self._uvicorn.should_exit = True
        self._uvicorn.run(sockets=[listening])


class _ClosingServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, host: EngineHost) -> None:
        super().__init__(config)
        self._host = host

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await to_thread.run_sync(self._host.close, abandon_on_cancel=True)
        except TimeoutError:
            _log.warning("The engine did not close within %s s", _CLOSE_TIMEOUT_S)
        await super().shutdown(sockets)


def end_with_parent(server: LocalServer, stdin_descriptor: int = 0) -> None:
    """Stop ``server`` when the parent closes our standard input; end hard if that takes too long.

    The descriptor is read below Python's own buffer, whose lock would still be held by the waiting
    thread when the interpreter ends.
    """

    def watch() -> None:
        try:
            while os.read(stdin_descriptor, _CHUNK):
                pass
        except OSError:
            pass  # a standard input that cannot be read is as good as closed
        server.stop()
        timer = threading.Timer(_ORPHAN_TIMEOUT_S, os._exit, (0,))
        timer.daemon = True
        timer.start()

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
