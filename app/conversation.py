"""Messages of one conversation, as frozen values, and what of them the model is told again.

A message changes by being replaced by a newer value with the same id. Keeping conversations on disk
is not done here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from app.figures import Figures
from app.wire import AnswerSettings, Fault


class Role(StrEnum):
    """Who speaks, in the words of the wire format."""

    USER = "user"
    ASSISTANT = "assistant"


class Progress(StrEnum):
    """How far a message is."""

    WAITING = "waiting"
    """Sent; nothing has come back yet."""
    STREAMING = "streaming"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """More may still come."""
        return self in (Progress.WAITING, Progress.STREAMING)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``line`` is the small print under it: progress first, then its figures.

    An answer names the message that it answers in ``question``. One that is not ``remembered`` (the
    second half of a comparison) is shown but not sent again.
    """

    id: int
    role: Role
    text: str = ""
    progress: Progress = Progress.DONE
    question: int | None = None
    settings: AnswerSettings = AnswerSettings()
    remembered: bool = True
    line: str = ""
    notes: tuple[str, ...] = ()
    figures: Figures | None = None
    fault: Fault | None = None


def history(messages: Iterable[Message], question: Message) -> tuple[tuple[str, str], ...]:
    """(role, text) pairs to send for ``question``: the answered turns before it, then itself.

    A question whose answer failed or stayed empty is left out with its answer, since chat templates
    expect the speakers to take turns.
    """
    known = {message.id: message for message in messages}
    turns: list[tuple[str, str]] = []
    for answer in known.values():
        if answer.question is None or answer.question == question.id:
            continue
        told = answer.remembered and answer.text.strip() and answer.progress is not Progress.FAILED
        if told and answer.id < question.id:
            turns.append((Role.USER.value, known[answer.question].text))
            turns.append((Role.ASSISTANT.value, answer.text))
    turns.append((Role.USER.value, question.text))
    return tuple(turns)
