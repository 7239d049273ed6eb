"""The window on the real engine and the real small model."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.application import Session, engine_command
from app.connection import EngineConnection
from app.conversation import Progress
from app.examples import EXAMPLES
from tests.app.conftest import Run, until
from tests.app.test_engine_process import is_alive


@pytest.mark.long
def test_copies_compares_stops_and_leaves_no_process(
    qapp: QApplication, run: Run, opened: list[Session | EngineConnection], smollm2: Path
) -> None:
    async def story() -> None:
        session = Session(qapp, engine_command(["--model", str(smollm2), "--device", "CPU"]))
        opened.append(session)
        session.window.show()
        await session.warm_up()
        await session.connection.ready()
        chat = session.chat
        chat.try_example(EXAMPLES[2])
        await until(lambda: not chat.is_busy, 50)
        _question, drafted, plain = chat.messages
        assert drafted.progress is Progress.DONE
        assert drafted.text == plain.text
        assert drafted.figures is not None
        assert drafted.figures.num_accepted >= 20
        assert plain.figures is not None
        assert plain.figures.num_accepted == 0
        assert plain.notes[-1].endswith("the two answers are identical")
        chat.send("Count from one to one thousand.")
        await until(lambda: chat.messages[-1].text)
        chat.stop()
        assert chat.messages[-1].progress is Progress.STOPPED
        pid = session.connection.pid
        await session.close()
        assert not is_alive(pid)
        session.window.close()
        session.window.deleteLater()

    run(story())
