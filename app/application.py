"""Starts the window, and the engine beside it; ends both.

The order is chosen for a quick first paint: the engine process first, since it takes longest, then
the window, and only when that is on the screen the slow imports (pyqtgraph, the HTTP library,
Markdown), in a thread so that the window never stands still.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any, cast

from PySide6.QtCore import QObject
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication

from app.chat_model import ChatModel
from app.collector import Collector
from app.connection import EngineConnection, EngineSituation
from app.pulse import Pulse
from app.telemetry import Telemetry
from app.theme import Theme
from app.views.window import Window

_qasync: Any = importlib.import_module("qasync")
_log = logging.getLogger(__name__)

_SLOW_IMPORTS = (
    "app.client",
    "pyqtgraph",
    "app.text.writer",
    "pygments.lexers.python",
)


class Session(QObject):
    """A window with its models and its engine."""

    def __init__(self, application: QApplication, engine_command: Sequence[str]) -> None:
        super().__init__()
        self._collector = Collector(self)
        self.connection = EngineConnection(engine_command, parent=self)
        self.connection.start()
        self.theme = Theme(application)
        pulse = Pulse(self)
        self.telemetry = Telemetry(pulse, self)
        self.chat = ChatModel(self.connection, self.telemetry, pulse, self)
        self.window = Window(self.theme, self.connection, self.chat, self.telemetry)
        self.connection.changed.connect(self._follow_plan)

    async def run(self) -> None:
        """Show the window; returns when it was closed and the engine is gone."""
        loop = asyncio.get_running_loop()
        closed = loop.create_future()
        painted = loop.create_future()
        self.window.closed.connect(lambda: closed.done() or closed.set_result(None))
        self.window.painted.connect(lambda: painted.done() or painted.set_result(None))
        self.window.show()
        await asyncio.wait({closed, painted}, return_when=asyncio.FIRST_COMPLETED)
        if not closed.done():
            await self.warm_up()
        await closed
        await self.close()

    async def warm_up(self) -> None:
        """Do the slow imports, then draw the curves."""
        for name in _SLOW_IMPORTS:
            await asyncio.to_thread(importlib.import_module, name)
        self.window.dock.install_curves()
        self._collector.settle()

    def _follow_plan(self, situation: EngineSituation) -> None:
        self.chat.follow_plan(situation.plan)

    async def close(self) -> None:
        """Stop what runs and end the engine."""
        await self.chat.close()
        await self.connection.close()
        self._collector.stop()


def make_application(arguments: Sequence[str] = ()) -> QApplication:
    """The one `QApplication`, named and prepared."""
    application = QApplication(["paceline", *arguments])
    application.setApplicationName("Paceline")
    application.setDesktopFileName("paceline")
    application.setQuitOnLastWindowClosed(False)  # the engine is ended after the window
    font = application.font()
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    application.setFont(font)
    return application


def event_loop(application: QApplication) -> asyncio.AbstractEventLoop:
    """An asyncio loop that runs on Qt's. Close it."""
    # qasync carries no types; it is used here alone.
    loop = cast(asyncio.AbstractEventLoop, _qasync.QEventLoop(application))
    asyncio.set_event_loop(loop)
    return loop


def engine_command(arguments: Sequence[str]) -> list[str]:
    """The engine as a child; ``arguments`` (such as ``--model DIR``) are handed on to it."""
    serve = ["serve", "--host", "127.0.0.1", "--port", "0", "--child", *arguments]
    return [sys.executable, "-m", "engine.cli", *serve]


def run(arguments: Sequence[str]) -> int:
    """Show the window until it is closed; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    application = make_application()
    session = Session(application, engine_command(arguments))
    with closing(event_loop(application)) as loop:
        loop.run_until_complete(session.run())
    return 0
