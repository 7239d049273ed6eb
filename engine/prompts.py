"""From what a person or a program gives as a prompt to the tokens that the model reads.

Shared by the server, the command line and the benchmark, so that the same words become the same
tokens everywhere. It knows neither HTTP nor options; settings of a request are `engine.config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import EmptyPromptError, InvalidOptionError, InvalidRequestError

if TYPE_CHECKING:  # imports OpenVINO, which a wrong prompt should not wait for
    from engine.tokens import Tokenizer


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation for the model's chat template; each message has ``role`` and ``content``."""

    messages: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Text that the model goes on with."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Tokens that the model goes on with."""

    ids: tuple[int, ...]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


def encode_prompt(
    tokenizer: Tokenizer, prompt: Prompt, *, apply_chat_template: bool
) -> tuple[int, ...]:
    """The prompt's token ids.

    ``apply_chat_template`` wraps a text prompt as the message of a user; it says nothing about a
    conversation, which always goes through the template, or about tokens, which never do. Special
    tokens that a raw text starts with are the tokenizer's own habit; a template writes its own.

    Raises:
        EmptyPromptError: there is no message, no text, or no token.
        InvalidRequestError: text that is not valid Unicode, or messages that the template refuses.
        InvalidOptionError: a token id that is not in the vocabulary.
    """
    match prompt:
        case TokenPrompt(ids):
            encoded = _checked_ids(tokenizer, ids)
        case TextPrompt(""):
            encoded = ()
        case TextPrompt(text) if not apply_chat_template:
            encoded = tuple(tokenizer.encode(_valid(text), add_special_tokens=True))
        case TextPrompt(text):
            encoded = _through_template(tokenizer, ({"role": "user", "content": text},))
        case ChatPrompt(messages):
            encoded = _through_template(tokenizer, messages) if messages else ()
    if not encoded:
        raise EmptyPromptError("The prompt is empty: give it some text.", param="prompt")
    return encoded


def _through_template(
    tokenizer: Tokenizer, messages: tuple[Mapping[str, object], ...]
) -> tuple[int, ...]:
    from engine.tokens import render_chat

    text = render_chat(tokenizer, messages, add_generation_prompt=True)
    return tuple(tokenizer.encode(_valid(text), add_special_tokens=False))


def _valid(text: str) -> str:
    """Text that can be encoded; half of a surrogate pair, or a byte that was not UTF-8, cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"The prompt is not valid Unicode at character {error.start}: send it as UTF-8.",
            param="prompt",
        ) from None
    return text


def _checked_ids(tokenizer: Tokenizer, ids: tuple[int, ...]) -> tuple[int, ...]:
    for token in ids:
        if not 0 <= token < tokenizer.vocab_size:
            raise InvalidOptionError(
                f"'prompt' has token id {token}, but the ids of this model go from 0 to "
                f"{tokenizer.vocab_size - 1}.",
                param="prompt",
            )
    return ids
