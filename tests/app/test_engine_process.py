"""The engine child is started, heard, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from time import perf_counter

import pytest

from app.engine_process import Announcement, EngineExit, EngineProcess
from tests.app.conftest import Run, fake_engine, until


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def watched(command: list[str]) -> tuple[EngineProcess, list[Announcement], list[EngineExit]]:
    process = EngineProcess(command, "key")
    announced: list[Announcement] = []
    ended: list[EngineExit] = []
    process.announced.connect(announced.append)
    process.ended.connect(ended.append)
    process.start()
    return process, announced, ended


def test_tells_where_the_engine_listens(run: Run) -> None:
    async def story() -> None:
        process, announced, ended = watched(fake_engine())
        await until(lambda: announced)
        assert announced[0].port > 0
        assert announced[0].pid == process.pid
        await process.close()
        assert not ended

    run(story())


def test_closing_ends_the_child_by_its_input(run: Run) -> None:
    async def story() -> None:
        process, announced, _ = watched(fake_engine())
        await until(lambda: announced)
        start = perf_counter()
        await process.close()
        assert perf_counter() - start < 2
        assert not is_alive(announced[0].pid)

    run(story())


def test_a_child_that_does_not_listen_is_killed_within_five_seconds(run: Run) -> None:
    async def story() -> None:
        process, announced, _ = watched(fake_engine("--stubborn"))
        await until(lambda: announced)
        start = perf_counter()
        await process.close()
        assert perf_counter() - start < 5
        assert not is_alive(announced[0].pid)

    run(story())


def test_keeps_the_last_lines_of_a_child_that_ended(run: Run) -> None:
    async def story() -> None:
        _process, announced, ended = watched(fake_engine("--exit-code", "3"))
        await until(lambda: ended)
        assert not announced
        assert ended[0].exit_code == 3
        assert ended[0].sentence == "The engine stopped with exit code 3."
        assert ended[0].last_lines == (
            "There is no model folder at /nowhere. Name one with --model.",
        )

    run(story())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
def test_a_crash_is_called_one(run: Run) -> None:
    async def story() -> None:
        _process, announced, ended = watched(fake_engine())
        await until(lambda: announced)
        os.kill(announced[0].pid, signal.SIGKILL)
        await until(lambda: ended)
        assert ended[0].sentence == "The engine crashed."

    run(story())


def test_a_program_that_is_not_there_is_an_end_with_a_reason(run: Run) -> None:
    async def story() -> None:
        process, _announced, ended = watched(["/nowhere/python"])
        await until(lambda: ended)
        assert ended[0].sentence.startswith("The engine could not be started")
        await process.close()

    run(story())


def test_the_child_goes_when_its_parent_is_killed(run: Run) -> None:
    async def story() -> None:
        program = (
            "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:], stdin=-1);"
            " print(p.pid, flush=True); time.sleep(60)"
        )
        parent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, *fake_engine(), stdout=asyncio.subprocess.PIPE
        )
        assert parent.stdout
        child = int(await parent.stdout.readline())
        await parent.stdout.readline()  # its announcement
        parent.kill()
        await parent.wait()
        await until(lambda: not is_alive(child), 3)

    asyncio.run(story())
    run(asyncio.sleep(0))
