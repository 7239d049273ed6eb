"""The telemetry as it is read: who drafted, and a dash for what is not known."""

from __future__ import annotations

import re

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.views.bars import PositionBars, TimeStrip
from app.views.drafter_rows import DrafterRows
from tests.app.conftest import OpenSession, Run, until
from tests.app.views.test_window import ask


def test_the_telemetry_tells_the_drafters_apart(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        await ask(session, qtbot, "a story")
        await until(lambda: not session.chat.is_busy)
        rows = session.window.dock.findChild(DrafterRows)
        assert rows is not None
        words = [label.text() for label in rows.findChildren(QLabel)]
        assert words[0::2] == ["suffix", "prompt lookup"]
        assert all(re.fullmatch(r"\d+ steps · \d+%", text) for text in words[1::2])
        session.chat.set_speculation(False)
        await ask(session, qtbot, "a story")
        await until(lambda: not session.chat.is_busy)
        assert not rows.isVisible()

    run(story())


@pytest.mark.parametrize(
    ("drafter", "rows"), [("none", ["0", "0", "0"]), ("prompt_lookup", ["–", "–", "–"])]
)
def test_the_telemetry_has_a_dash_for_what_the_engine_does_not_tell(
    run: Run, open_session: OpenSession, qtbot: QtBot, drafter: str, rows: list[str]
) -> None:
    async def story() -> None:
        session = open_session("--genai", "--drafter", drafter, "--pace-ms", "1")
        await session.warm_up()
        await ask(session, qtbot, "a story")
        await until(lambda: not session.chat.is_busy)
        dock = session.window.dock
        words = {label.accessibleName(): label.text() for label in dock.findChildren(QLabel)}
        assert [words[name] for name in ("Drafted", "Verified", "Accepted")] == rows
        assert words["Accepted of verified"] == "–"
        strip, positions = dock.findChild(TimeStrip), dock.findChild(PositionBars)
        assert strip is not None
        assert strip.accessibleDescription() == "draft –, verify –, own –"
        assert positions is not None
        assert positions.accessibleDescription() == ("" if drafter == "none" else "not known")
        dock.grab()

    run(story())
