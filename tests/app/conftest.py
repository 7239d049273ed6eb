"""A window on a scripted engine, an asyncio loop on Qt's, and patience with a limit."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from app.application import Session, event_loop
from app.collector import Collector
from app.connection import EngineConnection

Run = Callable[[Coroutine[Any, Any, None]], None]
OpenSession = Callable[..., Session]

_LONGEST_S = 60.0
FAKE_SERVER = Path(__file__).with_name("fake_server.py")


def fake_engine(*options: str) -> list[str]:
    """The command that runs the scripted engine."""
    return [sys.executable, str(FAKE_SERVER), *options]


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for ``condition``; fail when it takes too long."""
    end = perf_counter() + seconds
    while not condition():
        assert perf_counter() < end, "It did not happen in time."
        await asyncio.sleep(0.005)


async def asked(session: Session) -> dict[str, Any]:
    """What the scripted engine was asked, by its own account."""
    ready = await session.connection.ready()
    http: httpx.AsyncClient = ready.client._http
    return (await http.get("/asked")).json()


@pytest.fixture
def loop(qapp: QApplication) -> Iterator[asyncio.AbstractEventLoop]:
    qapp.setQuitOnLastWindowClosed(False)  # it would end the loop under the test
    gc.collect()
    collector = Collector()  # what a test leaves must not die on a thread of another's
    made = event_loop(qapp)
    yield made
    for task in asyncio.all_tasks(made):
        task.cancel()
    made.close()
    asyncio.set_event_loop(None)
    collector.stop()


@pytest.fixture
def opened() -> list[Session | EngineConnection]:
    """What a test has opened and `run` closes."""
    return []


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop, opened: list[Session | EngineConnection]) -> Run:
    """Runs the coroutine of a test to its end, and closes what it has opened.

    All in one run of the loop: between two runs qasync still steps tasks, but without the loop
    that they expect to be running, which an HTTP stream does not survive.
    """

    async def to_the_end(story: Coroutine[Any, Any, None]) -> None:
        try:
            await asyncio.wait_for(story, _LONGEST_S)
        finally:
            for each in opened:
                await each.close()

    return lambda story: loop.run_until_complete(to_the_end(story))


@pytest.fixture
def open_session(
    qapp: QApplication, opened: list[Session | EngineConnection]
) -> Iterator[OpenSession]:
    """Opens windows on scripted engines with the given options."""
    sessions: list[Session] = []

    def open_one(*options: str) -> Session:
        session = Session(qapp, fake_engine(*options))
        sessions.append(session)
        opened.append(session)
        session.window.show()
        return session

    yield open_one
    for session in sessions:
        session.window.close()
        session.window.deleteLater()
        session.theme.deleteLater()
        session.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


@pytest.fixture
def connect(opened: list[Session | EngineConnection]) -> Callable[..., EngineConnection]:
    """Makes started connections without a window."""

    def connect_one(*options: str, pauses_s: tuple[float, ...] = (0.05, 0.05)) -> EngineConnection:
        connection = EngineConnection(fake_engine(*options), pauses_s=pauses_s)
        opened.append(connection)
        connection.start()
        return connection

    return connect_one
