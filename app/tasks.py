"""Tasks that belong to somebody: held until they end, and looked at when they do.

asyncio holds a running task weakly and keeps its exception to itself, so that one without a holder
may vanish, or fail unseen. What a failure means is for the owner to say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Tasks:
    """The tasks of one owner. ``on_failure`` is told of each that ends with an exception, after it
    was logged; being cancelled is no failure."""

    def __init__(self, on_failure: Callable[[asyncio.Task[Any]], None]) -> None:
        self._on_failure = on_failure
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run ``work`` on the event loop of the window, from within a task or a Qt signal."""
        task = asyncio.get_event_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        _log.error("A task of the window failed", exc_info=error)
        self._on_failure(task)
