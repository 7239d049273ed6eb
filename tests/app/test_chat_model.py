"""A conversation with a scripted engine: ask, stream, stop, fail, try again, compare."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest

from app.conversation import Message, Progress, Role
from tests.app.conftest import OpenSession, Run, asked, until


def test_an_answer_streams_in_and_ends_with_its_figures(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        chat = open_session("--pace-ms", "40").chat
        lengths: list[int] = []
        chat.message_changed.connect(lambda message: lengths.append(len(message.text)))
        chat.send("some code please")
        await until(lambda: not chat.is_busy)
        question, answer = chat.messages
        assert (question.role, question.text) == (Role.USER, "some code please")
        assert answer.progress is Progress.DONE
        assert answer.text.startswith("Here is the code")
        assert answer.text.endswith("returns the sum.\n")
        assert "tok/s" in answer.line
        assert "tokens/step" in answer.line
        assert answer.line.endswith("% accepted")
        assert len(set(lengths)) > 5
        assert lengths == sorted(lengths)

    run(story())


def test_changes_come_at_most_thirty_times_a_second(run: Run, open_session: OpenSession) -> None:
    async def story() -> None:
        chat = open_session("--pace-ms", "1").chat
        times: list[float] = []
        chat.message_changed.connect(lambda _: times.append(perf_counter()))
        chat.send("a long story with code")
        await until(lambda: not chat.is_busy, 20)
        gaps = sorted(later - earlier for earlier, later in zip(times, times[1:], strict=False))
        assert len(times) > 10
        assert gaps[len(gaps) // 2] > 0.025

    run(story())


def test_stopping_keeps_what_is_there_and_leaves_the_wire(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "20")
        chat = session.chat
        chat.send("tell a story but stall")
        await until(lambda: chat.messages[-1].text)
        start = perf_counter()
        chat.stop()
        assert perf_counter() - start < 0.1
        assert not chat.is_busy
        answer = chat.messages[-1]
        assert answer.progress is Progress.STOPPED
        assert answer.text.startswith("Once")
        assert answer.line.endswith("stopped")
        await asyncio.sleep(0.2)
        assert (await asked(session))["cancelled"] == 1
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        assert chat.messages[-1].progress is Progress.DONE

    run(story())


def test_the_switch_governs_the_next_answer(run: Run, open_session: OpenSession) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        chat = session.chat
        for on in (True, False, True):
            chat.set_speculation(on)
            chat.send("a story")
            await until(lambda: not chat.is_busy)
        bodies = (await asked(session))["asked"]
        assert [body.get("speculation") for body in bodies] == [None, "off", None]
        assert "speculation off" in chat.messages[3].line
        assert "accepted" not in chat.messages[3].line

    run(story())


def test_speculation_stands_where_the_engine_was_started_until_a_person_sets_it(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        session = open_session("--speculation", "off", "--load-s", "0.3", "--pace-ms", "1")
        chat = session.chat
        assert chat.speculation  # nothing is known yet
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        assert not chat.speculation
        assert "speculation off" in chat.messages[1].line
        chat.set_speculation(True)
        chat.follow_plan(session.connection.situation.plan)
        assert chat.speculation
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        assert "accepted" in chat.messages[3].line
        bodies = (await asked(session))["asked"]
        assert [body.get("speculation") for body in bodies] == [None, "adaptive"]

    run(story())


def test_a_fixed_draft_length_of_the_engine_is_not_overruled(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        session = open_session("--speculation", "static", "--pace-ms", "1")
        session.chat.compare("a story")
        await until(lambda: not session.chat.is_busy)
        bodies = (await asked(session))["asked"]
        assert [body.get("speculation") for body in bodies] == [None, "off"]

    run(story())


@pytest.mark.parametrize(
    ("options", "stands"),
    [
        (("--drafter", "none"), False),
        (("--genai", "--drafter", "none"), False),
        (("--genai", "--drafter", "prompt_lookup"), True),
    ],
)
def test_an_engine_with_one_way_only_is_never_sent_a_wish(
    run: Run, open_session: OpenSession, options: tuple[str, ...], stands: bool
) -> None:
    async def story() -> None:
        session = open_session(*options, "--pace-ms", "1", "--load-s", "0.3")
        chat = session.chat
        chat.set_speculation(not stands)  # before the plan is known
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        assert chat.speculation is stands
        chat.set_speculation(not stands)
        assert chat.speculation is stands
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        bodies = (await asked(session))["asked"]
        assert [body.get("speculation") for body in bodies] == [None, None]
        answers = chat.messages[1::2]
        assert all(answer.progress is Progress.DONE for answer in answers)
        assert all(answer.settings.speculation is stands for answer in answers)

    run(story())


def test_an_engine_with_one_way_only_is_asked_once_and_the_comparison_says_why(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        session = open_session("--genai", "--drafter", "none", "--pace-ms", "1")
        chat = session.chat
        chat.compare("a story")
        await until(lambda: not chat.is_busy)
        _question, answer = chat.messages
        assert answer.settings.speculation is False
        assert answer.notes == ("Speculation is off: the engine runs without a drafter.",)
        assert len((await asked(session))["asked"]) == 1

    run(story())


def test_the_line_of_an_answer_leaves_out_what_the_engine_does_not_tell(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        chat = open_session("--genai", "--drafter", "prompt_lookup", "--pace-ms", "1").chat
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        assert chat.messages[-1].line.endswith("tokens/step")
        figures = chat.messages[-1].figures
        assert figures is not None
        assert figures.num_accepted is figures.by_position is figures.overhead_ms is None

    run(story())


def test_a_stumble_of_the_windows_own_ends_the_answer(
    run: Run, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        chat = session.chat
        await session.connection.ready()
        monkeypatch.setattr("app.chat_model.history", lambda messages, question: 1 / 0)
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        answer = chat.messages[-1]
        assert answer.progress is Progress.FAILED
        assert answer.fault is not None
        assert answer.fault.message == "The window stumbled over this answer."

    run(story())


def test_what_was_said_is_sent_again(run: Run, open_session: OpenSession) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        for text in ("some code", "a story"):
            session.chat.send(text)
            await until(lambda: not session.chat.is_busy)
        sent = (await asked(session))["asked"][1]["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        assert sent[1]["content"] == session.chat.messages[1].text

    run(story())


def test_errors_are_told_in_place_and_the_chat_goes_on(run: Run, open_session: OpenSession) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "1")
        chat = session.chat
        told: list[str] = []
        for text in ("refuse this", "break it", "cut it"):
            chat.send(text)
            await until(lambda: not chat.is_busy)
            answer = chat.messages[-1]
            assert answer.progress is Progress.FAILED
            assert answer.fault is not None
            told.append(answer.fault.message)
        assert told == [
            "The prompt has 9000 tokens; the model's context holds 8192. Begin a new chat.",
            "A step failed: the device was lost.",
            "The engine stopped in the middle of this answer.",
        ]
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        assert chat.messages[-1].progress is Progress.DONE
        assert len((await asked(session))["asked"][-1]["messages"]) == 1

    run(story())


def test_trying_again_answers_the_same_question_in_the_same_place(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        chat = open_session("--pace-ms", "1").chat
        chat.send("cut it")
        await until(lambda: not chat.is_busy)
        failed = chat.messages[-1]
        chat.retry(failed.id)
        assert chat.is_busy
        assert chat.messages[-1].progress is Progress.WAITING
        assert chat.messages[-1].fault is None
        await until(lambda: not chat.is_busy)
        assert len(chat.messages) == 2
        assert chat.messages[-1].id == failed.id

    run(story())


def test_a_comparison_asks_twice_and_says_what_came_of_it(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "5")
        session.chat.compare("a story")
        await until(lambda: not session.chat.is_busy)
        _question, first, second = session.chat.messages
        assert (first.settings.speculation, second.settings.speculation) == (True, False)
        assert second.notes[-1].endswith("× with speculation · the two answers are identical")
        bodies = (await asked(session))["asked"]
        assert [body.get("speculation") for body in bodies] == [None, "off"]
        assert bodies[0]["messages"] == bodies[1]["messages"]
        assert {body["max_tokens"] for body in bodies} == {256}

    run(story())


def test_a_question_asked_while_the_model_loads_waits_for_it(
    run: Run, open_session: OpenSession
) -> None:
    async def story() -> None:
        chat = open_session("--load-s", "0.6", "--pace-ms", "1").chat
        lines: list[str] = []
        chat.message_changed.connect(lambda message: lines.append(message.line))
        chat.send("a story")
        await until(lambda: not chat.is_busy)
        assert any(line.startswith("Waiting for the model · 0.") for line in lines)
        assert chat.messages[-1].progress is Progress.DONE

    run(story())


def test_a_new_chat_stops_the_answer_and_forgets(run: Run, open_session: OpenSession) -> None:
    async def story() -> None:
        session = open_session("--pace-ms", "20")
        changed: list[Message] = []
        session.chat.send("a story")
        await until(lambda: session.chat.messages[-1].text)
        session.chat.clear()
        session.chat.message_changed.connect(changed.append)
        assert session.chat.messages == ()
        assert not session.chat.is_busy
        await asyncio.sleep(0.2)
        assert changed == []
        assert not session.telemetry.rate.x

    run(story())


def test_blank_and_double_questions_are_ignored(run: Run, open_session: OpenSession) -> None:
    async def story() -> None:
        chat = open_session("--pace-ms", "5").chat
        chat.send("  \n ")
        assert not chat.is_busy
        chat.send("a story")
        chat.send("another")
        await until(lambda: not chat.is_busy)
        assert len(chat.messages) == 2

    run(story())
