"""What clients may send, field by field: OpenAI's requests, widened by every generation option.

The options are taken from `GenerationConfig` itself and stay unchecked here, because
`engine.config.resolve` checks them, and does it for the command line too. A field of OpenAI's that
this server cannot honour stands in a table with the values that ask for nothing; any other value is
refused by name. An unknown field is refused, never ignored. JSON null means "not given" everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import PydanticCustomError

from engine.config import REQUEST_KEYS, SampledRule, Speculation
from engine.errors import UnsupportedOptionError
from engine.prompts import Prompt, TextPrompt, TokenPrompt
from engine.server.errors import from_validation_error
from engine.server.messages import Message
from engine.server.structure import ResponseFormat, StructuredOutputs


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class StreamOptions(_Body):
    """``include_steps`` is ours: each chunk then carries the step that made it."""

    include_usage: bool | None = None
    include_steps: bool | None = None


def _stop_strings(value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in cast(list[object], value)):
        return cast(object, value)
    raise PydanticCustomError("stop", "must be a string or a list of strings")


class SharedFields(_Body):
    """What both endpoints know. Bounds are OpenAI's where it has some of its own."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    n: Annotated[int | None, Field(le=128)] = None
    stop: Annotated[Any, BeforeValidator(_stop_strings)] = None
    seed: int | None = None
    user: str | None = None
    speculation: Speculation | None = None
    drafter: str | None = None
    sampled_rule: SampledRule | None = None
    logit_bias: Any = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None


class ChatFields(SharedFields):
    """``POST /v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    audio: Any = None
    function_call: Any = None
    functions: Any = None
    modalities: Any = None
    parallel_tool_calls: Any = None
    prediction: Any = None
    reasoning_effort: Any = None
    service_tier: Any = None
    store: Any = None
    tool_choice: Any = None
    tools: Any = None
    verbosity: Any = None
    web_search_options: Any = None


def _completion_prompt(value: object) -> Prompt:
    """One prompt, as text or tokens; also as the only entry of a list, which OpenAI allows."""
    if isinstance(value, list):
        entries = cast(list[object], value)
        if entries and all(type(entry) is int for entry in entries):
            return TokenPrompt(tuple(cast(list[int], entries)))
        if len(entries) > 1 and all(isinstance(entry, str | list) for entry in entries):
            raise PydanticCustomError(
                "prompt", "several prompts in one request are not supported; send them one by one"
            )
        if len(entries) == 1 and isinstance(entries[0], str | list):
            return _completion_prompt(cast(object, entries[0]))
    if isinstance(value, str):
        return TextPrompt(value)
    raise PydanticCustomError("prompt", "must be text or a list of token ids")


class CompletionFields(SharedFields):
    """``POST /v1/completions``."""

    prompt: Annotated[Any, BeforeValidator(_completion_prompt)]
    logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    best_of: Annotated[int | None, Field(ge=1)] = None
    suffix: Any = None


class TokenizeFields(_Body):
    """``POST /paceline/v1/tokenize``: text as it is, or messages through the chat template."""

    text: str | None = None
    messages: list[Message] | None = None


NOTHING_ASKED: Mapping[str, tuple[object, ...]] = {
    "logit_bias": ({},),
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "reasoning_effort": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "verbosity": ("medium",),
    "web_search_options": (),
    "suffix": ("",),
}
"""OpenAI's fields that this server cannot honour, each with the values that change no answer."""

Fields = TypeVar("Fields", bound=_Body)


def _with_options(name: str, base: type[Fields]) -> type[Fields]:
    """``base`` and every generation option that it does not name itself."""
    fields: dict[str, Any] = {
        each: (Any, None) for each in REQUEST_KEYS if each not in base.model_fields
    }
    return create_model(name, __base__=base, **fields)


CHAT_REQUEST = _with_options("ChatRequest", ChatFields)
COMPLETION_REQUEST = _with_options("CompletionRequest", CompletionFields)


def parse(model: type[Fields], body: bytes) -> Fields:
    """One request from its JSON.

    Raises:
        InvalidRequestError: naming the first field at fault.
        UnsupportedOptionError: a field of OpenAI's that cannot be honoured.
    """
    try:
        fields = model.model_validate_json(body)
    except ValidationError as error:
        raise from_validation_error(error, model.model_fields) from None
    for name, harmless in NOTHING_ASKED.items():
        value = getattr(fields, name, None)
        if value is not None and value not in harmless:
            raise UnsupportedOptionError(
                f"'{name}' is not supported by this server: leave it out.", param=name
            )
    return fields


def asked_options(fields: SharedFields) -> dict[str, object]:
    """The generation options that the request gives by their own names, unchecked."""
    own = {name: getattr(fields, name, None) for name in REQUEST_KEYS if name != "logprobs"}
    return {name: value for name, value in own.items() if value is not None}
