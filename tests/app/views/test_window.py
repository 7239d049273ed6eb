"""The window as a person uses it: keys, clicks, and what is on the screen."""

from __future__ import annotations

import asyncio
from time import perf_counter, thread_time

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

from app.application import Session
from app.connection import Phase
from app.views.message_view import MessageView
from tests.app.conftest import OpenSession, Run, asked, until
from tests.app.test_engine_process import is_alive


async def ask(session: Session, qtbot: QtBot, text: str) -> None:
    """Type and press Enter, once the engine is ready."""
    await session.connection.ready()
    edit = session.window.composer.edit
    qtbot.keyClicks(edit, text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def last_view(session: Session) -> MessageView:
    return session.window.chat.view(session.chat.messages[-1].id)


def test_typing_and_enter_brings_an_answer_with_its_figures(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "5")
        await ask(session, qtbot, "some code")
        assert session.window.composer.edit.toPlainText() == ""
        await until(lambda: not session.chat.is_busy)
        view = last_view(session)
        assert "amount = amount + item.price" in view.text.toPlainText()
        assert "tok/s" in view.line.text()
        assert view.line.isVisible()

    run(story())


def test_curves_move_while_the_answer_streams(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "15")
        await session.warm_up()
        await ask(session, qtbot, "a long story")
        await until(lambda: len(session.telemetry.rate.x) > 3)
        dock = session.window.dock
        first = dock.grab().toImage()
        await until(lambda: dock.grab().toImage() != first)
        assert session.telemetry.acceptance.x
        session.chat.stop()
        await asyncio.sleep(0.1)
        still = dock.grab().toImage()
        await asyncio.sleep(0.3)
        assert dock.grab().toImage() == still

    run(story())


@pytest.mark.parametrize("way", ["escape", "button", "dot"])
def test_stop_shows_within_a_tenth_of_a_second(
    run: Run, open_session: OpenSession, qtbot: QtBot, way: str
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "10")
        window = session.window
        window.activateWindow()
        await ask(session, qtbot, "a long story, then stall")
        await until(lambda: session.chat.messages[-1].text)
        assert window.composer.button.accessibleName() == "Stop"
        start = perf_counter()
        if way == "button":
            qtbot.mouseClick(window.composer.button, Qt.MouseButton.LeftButton)
        elif way == "escape":
            qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
        else:
            modifier = Qt.KeyboardModifier.ControlModifier
            qtbot.keyClick(window.composer.edit, Qt.Key.Key_Period, modifier)
        await until(lambda: "stopped" in last_view(session).line.text(), 1)
        assert perf_counter() - start < 0.1
        assert window.composer.button.accessibleName() == "Send"
        await asyncio.sleep(0.2)
        assert (await asked(session))["cancelled"] == 1

    run(story())


def test_shift_enter_begins_a_new_line_and_the_field_grows(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session()
        edit = session.window.composer.edit
        before = edit.height()
        qtbot.keyClicks(edit, "one")
        qtbot.keyClick(edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
        qtbot.keyClicks(edit, "two")
        assert edit.toPlainText() == "one\ntwo"
        assert edit.height() > before
        assert not session.chat.messages
        edit.setPlainText("\n" * 100)
        assert edit.height() < 10 * before

    run(story())


def test_enter_within_a_composition_never_sends(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session()
        edit = session.window.composer.edit
        edit.setPlainText("written")
        QApplication.sendEvent(edit, QInputMethodEvent("にほ", []))
        qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert not session.chat.messages
        committed = QInputMethodEvent("", [])
        committed.setCommitString("日本")
        QApplication.sendEvent(edit, committed)
        qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert len(session.chat.messages) == 2

    run(story())


def test_an_error_stands_in_place_and_can_be_tried_again(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        await ask(session, qtbot, "refuse this")
        await until(lambda: not session.chat.is_busy)
        view = last_view(session)
        assert view.fault.isVisible()
        assert view.fault_text.text().startswith("The prompt has 9000 tokens")
        qtbot.mouseClick(view.retry, Qt.MouseButton.LeftButton)
        await until(lambda: not session.chat.is_busy)
        assert len((await asked(session))["asked"]) == 2
        await ask(session, qtbot, "a story")
        await until(lambda: not session.chat.is_busy)
        assert "fox" in last_view(session).text.toPlainText()

    run(story())


def test_an_engine_that_dies_shows_its_last_lines_and_comes_back(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        notice = session.window.notice
        await ask(session, qtbot, "die")
        await until(lambda: notice.isVisible())
        assert notice.sentence.text() == "The engine stopped with exit code 7."
        assert "Out of memory: 512 MiB wanted" in notice.lines.toPlainText()
        assert not notice.lines.isVisible()
        qtbot.mouseClick(notice.details, Qt.MouseButton.LeftButton)
        assert notice.lines.isVisible()
        await until(lambda: last_view(session).fault.isVisible())
        qtbot.mouseClick(notice.start_again, Qt.MouseButton.LeftButton)
        await until(lambda: session.connection.situation.phase is Phase.READY)
        assert not notice.isVisible()
        await ask(session, qtbot, "a story")
        await until(lambda: not session.chat.is_busy)
        assert "fox" in last_view(session).text.toPlainText()

    run(story())


def test_closing_the_window_ends_the_engine(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "20")
        session.window.hide()
        running = asyncio.ensure_future(session.run())
        await ask(session, qtbot, "a long story")
        await until(lambda: session.chat.messages[-1].text)
        pid = session.connection.pid
        assert is_alive(pid)
        start = perf_counter()
        session.window.close()
        await running
        assert perf_counter() - start < 5
        assert not is_alive(pid)

    run(story())


def test_an_example_is_one_click(run: Run, open_session: OpenSession, qtbot: QtBot) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        empty = session.window.chat.empty
        assert empty.isVisible()
        assert len(empty.buttons) == 3
        await session.connection.ready()
        qtbot.mouseClick(empty.buttons[2], Qt.MouseButton.LeftButton)
        assert not empty.isVisible()
        await until(lambda: not session.chat.is_busy)
        assert last_view(session).notes.text().endswith("the two answers are identical")
        session.window.bar.new_chat.click()
        assert empty.isVisible()

    run(story())


def test_follows_the_end_unless_the_reader_scrolls_up(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "4")
        chat = session.window.chat
        bar = chat.area.verticalScrollBar()
        await ask(session, qtbot, "a long story with code")
        await until(lambda: bar.maximum() > 600)
        await asyncio.sleep(0.05)
        assert bar.value() > bar.maximum() - 100
        # From a timer, since it handles events meanwhile, which no task may do.
        window, over_the_text = session.window.windowHandle(), QPointF(300, 300)
        QTimer.singleShot(0, lambda: QTest.wheelEvent(window, over_the_text, QPoint(0, 960)))
        await until(lambda: chat.jump.isVisible())
        place = bar.value()
        await until(lambda: bar.maximum() > place + 900)
        assert bar.value() == place
        assert chat.jump.isVisible()
        qtbot.mouseClick(chat.jump, Qt.MouseButton.LeftButton)
        assert bar.value() == bar.maximum()
        assert not chat.jump.isVisible()

    run(story())


def test_a_message_and_its_code_can_be_copied(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        await ask(session, qtbot, "some code")
        await until(lambda: not session.chat.is_busy)
        view = last_view(session)
        qtbot.mouseClick(view.copy, Qt.MouseButton.LeftButton)
        assert QGuiApplication.clipboard().text() == session.chat.messages[-1].text
        view.text.code_buttons[0].click()
        assert QGuiApplication.clipboard().text().startswith("def add_all(items):")

    run(story())


def test_every_button_without_words_has_a_name(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        await ask(session, qtbot, "some code")
        await until(lambda: not session.chat.is_busy)
        window = session.window
        buttons = [b for b in window.findChildren(QAbstractButton) if b.isVisibleTo(window)]
        nameless = [b for b in buttons if not b.text() and not b.accessibleName()]
        assert len(buttons) >= 8
        assert nameless == []

    run(story())


def test_shortcuts_reach_their_commands(run: Run, open_session: OpenSession, qtbot: QtBot) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        window = session.window
        window.activateWindow()
        control = Qt.KeyboardModifier.ControlModifier
        await ask(session, qtbot, "a story")
        await until(lambda: not session.chat.is_busy)
        qtbot.keyClick(window, Qt.Key.Key_T, control)
        assert not window.dock.isVisible()
        qtbot.keyClick(window, Qt.Key.Key_T, control)
        assert window.dock.isVisible()
        window.composer.button.setFocus()
        qtbot.keyClick(window, Qt.Key.Key_L, control)
        assert window.composer.edit.hasFocus()
        qtbot.keyClick(window, Qt.Key.Key_S, control | Qt.KeyboardModifier.ShiftModifier)
        assert not session.chat.speculation
        qtbot.keyClick(window, Qt.Key.Key_N, control)
        assert session.chat.messages == ()

    run(story())


def test_a_change_of_scheme_repaints_everything(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        await session.warm_up()
        session.theme.fix(dark=False)
        await ask(session, qtbot, "some code")
        await until(lambda: not session.chat.is_busy)
        words = last_view(session).text.toPlainText()
        session.theme.fix(dark=True)
        await asyncio.sleep(0.05)
        image = session.window.grab().toImage()
        ground = session.theme.colours
        assert image.pixelColor(4, 300).name() == ground.surface.lower()
        assert image.pixelColor(image.width() - 4, 740).name() == ground.ground.lower()
        assert last_view(session).text.toPlainText() == words
        session.theme.fix(dark=False)

    run(story())


def test_two_hundred_tokens_a_second_leave_no_gap_over_fifty_milliseconds(
    run: Run, open_session: OpenSession, qtbot: QtBot
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "10")  # steps of two to three tokens
        await session.warm_up()
        await ask(session, qtbot, "some code")  # so that the highlighter is there
        await until(lambda: not session.chat.is_busy)
        await ask(session, qtbot, "a long story with code")
        # Counted in this thread's own processor time: other programs must not fail the test.
        gaps: list[float] = []
        last = thread_time()
        while session.chat.is_busy:
            await asyncio.sleep(0.002)
            now = thread_time()
            gaps.append(now - last)
            last = now
        assert len(gaps) > 50
        assert max(gaps) < 0.05

    run(story())
