"""What is shown of a message and offered with it: the conditions that its view must not hold."""

from __future__ import annotations

from dataclasses import dataclass

from app.conversation import Message, Progress, Role


@dataclass(frozen=True, slots=True)
class MessageWords:
    """Empty strings are not shown. ``retry`` is the label of the button that asks again."""

    speaker: str
    caption: str
    text: str
    line: str
    notes: str
    fault: str
    retry: str
    can_copy: bool
    code_ground: str
    """Field of `Colours`: what code stands on, apart from what the message stands on."""


def words_of(message: Message) -> MessageWords:
    """The words of ``message`` as it stands."""
    is_question = message.role is Role.USER
    ended_early = message.progress in (Progress.FAILED, Progress.STOPPED)
    return MessageWords(
        speaker="You" if is_question else "Paceline",
        caption="" if is_question or message.settings.may_draft else "without speculation",
        text=message.text,
        line=message.line,
        notes="\n".join(message.notes),
        fault=message.fault.message if message.fault else "",
        retry="Try again" if ended_early else "",
        can_copy=bool(message.text) and not message.progress.is_open,
        code_ground="surface" if is_question else "code_ground",
    )
