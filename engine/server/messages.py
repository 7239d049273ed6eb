"""The messages of a conversation as OpenAI writes them, for a model that reads text only.

Shared by the chat endpoint, the token counter and ``paceline generate --messages-file``.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from engine.errors import InvalidRequestError, UnsupportedOptionError
from engine.prompts import ChatPrompt
from engine.server.errors import from_validation_error

_ROLES = ("system", "developer", "user", "assistant")


class Message(BaseModel):
    """One message. ``content`` is text, or a list of parts of type ``text``.

    The fields that a client sends back when it repeats an answer of ours are accepted as long as
    they are empty.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    role: str
    content: Any
    name: str | None = None
    refusal: None = None
    annotations: None = None
    audio: None = None
    function_call: None = None
    tool_calls: None = None

    @field_validator("role")
    @classmethod
    def _known_role(cls, role: str) -> str:
        if role not in _ROLES:
            raise PydanticCustomError(
                "role", "role must be one of {roles}", {"roles": ", ".join(_ROLES)}
            )
        return role

    @field_validator("content")
    @classmethod
    def _text_or_parts(cls, content: object) -> object:
        if not isinstance(content, str | list) or content == []:
            raise PydanticCustomError("content", "content must be text or a list of text parts")
        return cast(object, content)


_MESSAGES = TypeAdapter(list[Message])


def parse_messages(content: bytes, name: str) -> ChatPrompt:
    """A conversation from a JSON list of messages that lies in the file ``name``.

    Raises:
        InvalidRequestError: the JSON or a message is not as it must be.
        UnsupportedOptionError: a part that is not text.
    """
    try:
        messages = _MESSAGES.validate_json(content)
    except ValidationError as error:
        raise from_validation_error(error, Message.model_fields, name) from None
    return conversation(messages)


def conversation(messages: list[Message]) -> ChatPrompt:
    """The messages as chat templates expect them: plain text, ``developer`` as ``system``.

    OpenAI defines ``developer`` as the newer name of ``system``; templates know the old one only.

    Raises:
        UnsupportedOptionError: a part that is not text, named by its type.
    """
    return ChatPrompt(
        tuple(_for_template(index, message) for index, message in enumerate(messages))
    )


def _for_template(index: int, message: Message) -> dict[str, object]:
    role = "system" if message.role == "developer" else message.role
    plain: dict[str, object] = {
        "role": role,
        "content": _text(message.content, f"messages[{index}].content"),
    }
    if message.name is not None:
        plain["name"] = message.name
    return plain


def _text(content: object, path: str) -> str:
    if isinstance(content, str):
        return content
    parts = cast(list[object], content)
    return "\n".join(_part_text(part, f"{path}[{index}]") for index, part in enumerate(parts))


def _part_text(part: object, path: str) -> str:
    fields = cast(dict[str, object], part) if isinstance(part, dict) else {}
    kind, text = fields.get("type"), fields.get("text")
    if isinstance(kind, str) and kind != "text":
        raise UnsupportedOptionError(
            f"{path} is of type {kind!r}, but this model reads text only: leave it out.", param=path
        )
    if kind is None or not isinstance(text, str) or fields.keys() != {"type", "text"}:
        raise InvalidRequestError(
            f'{path} must be of the form {{"type": "text", "text": "..."}}.', param=path
        )
    return text
