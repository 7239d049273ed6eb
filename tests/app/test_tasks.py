"""No task is lost, and none fails unseen."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from app.tasks import Tasks


async def fail() -> None:
    raise RuntimeError("broken")


def test_a_task_that_nobody_holds_runs_to_its_end() -> None:
    done: list[str] = []

    async def work() -> None:
        waiting = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, waiting.set_result, None)
        await waiting
        done.append("done")

    async def story() -> None:
        tasks = Tasks(lambda task: None)
        tasks.start(work())
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0.05)

    asyncio.run(story())
    assert done == ["done"]


def test_a_failure_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[asyncio.Task[Any]] = []

    async def story() -> None:
        task = Tasks(told.append).start(fail())
        await asyncio.wait({task})
        await asyncio.sleep(0)
        assert told == [task]

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    assert "broken" in caplog.text


def test_being_cancelled_is_no_failure() -> None:
    told: list[asyncio.Task[Any]] = []

    async def story() -> None:
        task = Tasks(told.append).start(asyncio.sleep(10))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(0)

    asyncio.run(story())
    assert told == []
