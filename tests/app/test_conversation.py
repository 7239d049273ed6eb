"""What the model is told again of a conversation."""

from __future__ import annotations

from app.conversation import Message, Progress, Role, history
from app.wire import Fault


def question(number: int, text: str) -> Message:
    return Message(number, Role.USER, text)


def answer(number: int, to: int, text: str, progress: Progress = Progress.DONE) -> Message:
    return Message(number, Role.ASSISTANT, text, progress, question=to)


def test_sends_answered_turns_and_then_the_question() -> None:
    messages = [question(1, "a"), answer(2, 1, "A"), question(3, "b"), answer(4, 3, "")]
    assert history(messages, messages[2]) == (("user", "a"), ("assistant", "A"), ("user", "b"))


def test_leaves_out_a_turn_that_failed_or_stayed_empty() -> None:
    failed = Message(
        2, Role.ASSISTANT, "A", Progress.FAILED, question=1, fault=Fault("It broke.", "x")
    )
    messages = [question(1, "a"), failed, question(3, "b"), answer(4, 3, " "), question(5, "c")]
    assert history(messages, messages[4]) == (("user", "c"),)


def test_keeps_the_part_of_a_stopped_answer() -> None:
    messages = [question(1, "a"), answer(2, 1, "half", Progress.STOPPED), question(3, "b")]
    assert ("assistant", "half") in history(messages, messages[2])


def test_tells_only_the_first_half_of_a_comparison() -> None:
    second = Message(3, Role.ASSISTANT, "B", question=1, remembered=False)
    messages = [question(1, "a"), answer(2, 1, "A"), second, question(4, "b")]
    assert history(messages, messages[3]) == (("user", "a"), ("assistant", "A"), ("user", "b"))


def test_asking_again_does_not_send_what_came_later() -> None:
    messages = [question(1, "a"), answer(2, 1, ""), question(3, "b"), answer(4, 3, "B")]
    assert history(messages, messages[0]) == (("user", "a"),)
