"""The speculation switch: how it stands, what it does, and when it is held."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from tests.app.conftest import OpenSession, Run, asked, until
from tests.app.views.test_window import ask, last_view


def test_the_switch_turns_speculation_off_for_the_next_answer(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        switch = session.window.composer.switch
        assert switch.isChecked()
        qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
        await ask(session, qtbot, "a story")
        await until(lambda: not session.chat.is_busy)
        assert (await asked(session))["asked"][0]["speculation"] == "off"
        assert "speculation off" in last_view(session).line.text()

    run(story())


def test_the_switch_starts_where_the_engines_plan_stands(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        session = open_session("--speculation", "off")
        await session.connection.ready()
        assert not session.window.composer.switch.isChecked()

    run(story())


@pytest.mark.parametrize(("drafter", "stands"), [("none", False), ("prompt_lookup", True)])
def test_the_switch_is_held_and_says_why_where_the_engine_has_one_way_only(
    run: Run, open_session: OpenSession, qtbot: QtBot, drafter: str, stands: bool
) -> None:
    async def story() -> None:
        session = open_session("--genai", "--drafter", drafter, "--load-s", "0.3")
        switch = session.window.composer.switch
        assert switch.isEnabled()
        await session.connection.ready()
        assert switch.isChecked() is stands
        assert not switch.isEnabled()
        assert switch.toolTip() == session.chat.fixed_speculation != ""
        modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        session.window.activateWindow()
        qtbot.keyClick(session.window, Qt.Key.Key_S, modifiers)
        qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
        assert switch.isChecked() is stands

    run(story())
