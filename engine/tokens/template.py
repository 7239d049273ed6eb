"""Chat messages to the one text that a model was trained to answer.

A model brings its template along, in Jinja. It is rendered here with jinja2 as transformers sets
it up: sandboxed, blocks trimmed, loop controls, ``{% generation %}``, ``tojson``,
``raise_exception``, ``strftime_now``. Transformers itself is not imported, although it has the same
thirty lines: that import took 1.6 to 2.3 s and 26 MB on the reference machine (jinja2: 0.08 s and
3 MB), at the very time when the first token is waited for, and it logs that PyTorch is missing.
The tests hold the two renderers side by side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import EmptyPromptError, InvalidRequestError, ModelUnusableError

_REMEDY = "use the raw prompt instead (--raw, or /v1/completions)"

# What a template can raise when it meets messages that it was not written for.
_RENDER_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class ChatTokenizer(Protocol):
    """What rendering needs of a tokenizer."""

    @property
    def chat_template(self) -> str | None: ...

    @property
    def special(self) -> SpecialTexts: ...


class SpecialTexts(Protocol):
    """Special tokens by the names that templates use, such as ``bos_token``."""

    @property
    def texts(self) -> Mapping[str, str]: ...


class _TemplateRefusal(jinja2.TemplateError):
    """What ``raise_exception`` in a template raises: its author's own message."""


def find_chat_template(
    folder: Path, tokenizer_config: Mapping[str, Any], noted: str | None
) -> str | None:
    """The source of a model's chat template, None where there is none.

    Looked for in ``chat_template.jinja``, ``chat_template.json``, ``tokenizer_config.json``
    (``tokenizer_config`` is its content) and ``noted``, the tokenizer graph's own note. Of several
    named templates it is the one called "default".

    Raises:
        ModelUnusableError: ``chat_template.json`` is broken.
    """
    jinja_file, json_file = folder / "chat_template.jinja", folder / "chat_template.json"
    if jinja_file.is_file():
        return jinja_file.read_text(encoding="utf-8")
    if json_file.is_file():
        try:
            content: object = json.loads(json_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelUnusableError(
                f"{json_file} is not valid JSON: download or convert the model again.",
                param="model",
            ) from error
        if isinstance(content, dict):
            source = cast(dict[str, object], content).get("chat_template")
            if isinstance(source, str):
                return source
    return _from_config(tokenizer_config.get("chat_template")) or noted or None


def _from_config(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        named = {each.get("name"): each.get("template") for each in cast(list[Any], value)}
        return named.get("default")
    return None


def render_chat(
    tokenizer: ChatTokenizer,
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool = True,
    tools: Sequence[Mapping[str, object]] | None = None,
) -> str:
    """The prompt of a conversation, up to where the assistant's answer begins.

    ``messages`` are OpenAI's: ``role`` and ``content``, whose content may be a list of text parts
    (joined by line ends). Encode the result without adding special tokens: it spells them out.

    Raises:
        EmptyPromptError: there are no messages.
        InvalidRequestError: a message is malformed, or the template refuses the messages.
        ModelUnusableError: the model has no template, or a broken one.
    """
    if tokenizer.chat_template is None:
        raise ModelUnusableError(f"The model has no chat template: {_REMEDY}.", param="messages")
    if not messages:
        raise EmptyPromptError("'messages' is empty: send at least one.", param="messages")
    checked = [_check_message(index, message) for index, message in enumerate(messages)]
    template = _compile(tokenizer.chat_template)
    try:
        return template.render(
            messages=checked,
            tools=[dict(tool) for tool in tools] if tools else None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **tokenizer.special.texts,
        )
    except _TemplateRefusal as error:
        raise InvalidRequestError(
            f"The model's chat template refuses the messages ({error.message}): change them, or "
            f"{_REMEDY}.",
            param="messages",
        ) from error
    except _RENDER_ERRORS as error:
        raise InvalidRequestError(
            f"The model's chat template cannot render the messages ({error}): change them, or "
            f"{_REMEDY}.",
            param="messages",
        ) from error


def _check_message(index: int, message: Mapping[str, object]) -> dict[str, object]:
    if not isinstance(message.get("role"), str):
        raise InvalidRequestError(
            f"'messages[{index}]' has no 'role': use system, user or assistant.", param="messages"
        )
    content = message.get("content")
    if isinstance(content, list | tuple):
        parts = cast(Sequence[object], content)
        return {**message, "content": "\n".join(_text_of(index, part) for part in parts)}
    if content is not None and not isinstance(content, str):
        raise InvalidRequestError(
            f"The content of 'messages[{index}]' must be text or a list of text parts.",
            param="messages",
        )
    return dict(message)


def _text_of(index: int, part: object) -> str:
    if isinstance(part, Mapping):
        fields = cast(Mapping[str, object], part)
        text = fields.get("text")
        if fields.get("type") == "text" and isinstance(text, str):
            return text
    raise InvalidRequestError(
        f"The content of 'messages[{index}]' has a part that is not text: this model takes only "
        "parts of type text.",
        param="messages",
    )


class _Generation(Extension):
    """Lets ``{% generation %}`` through: it marks the assistant's words for training."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> None:
    raise _TemplateRefusal(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes for HTML, which would change the prompt.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)


@lru_cache(maxsize=8)
def _compile(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    functions: dict[str, Any] = {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
    }
    environment.globals.update(functions)
    try:
        return environment.from_string(source)
    except jinja2.TemplateError as error:
        raise ModelUnusableError(
            f"The model's chat template is broken ({error}): {_REMEDY}.", param="messages"
        ) from error
