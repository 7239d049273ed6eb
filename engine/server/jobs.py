"""From a checked request to what the engine is asked to do, and how the answer is to be shown.

OpenAI's names become the engine's here (``max_tokens`` is ``max_new_tokens``), and a refusal by the
engine's options is put back into the name that the client used. What is possible is decided by
`engine.config` and by the engine, not here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.config import GenerationConfig, resolve
from engine.errors import (
    InvalidOptionError,
    InvalidRequestError,
    ModelNotFoundError,
    UnsupportedOptionError,
)
from engine.events import GenerationRequest
from engine.interface import Engine
from engine.prompts import Prompt, encode_prompt
from engine.server.messages import conversation
from engine.server.schema import ChatFields, CompletionFields, SharedFields, asked_options

_OPENAI_NAMES = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "n": "num_return_sequences",
    "stop": "stop_strings",
    "seed": "rng_seed",
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
}


@dataclass(frozen=True, slots=True)
class Presentation:
    """What of the answer the client wants to see, and how."""

    stream: bool
    include_usage: bool
    include_steps: bool
    logprobs: bool


@dataclass(frozen=True, slots=True)
class Job:
    """One request, ready for ``engine.submit``; ``said`` are the client's names for the options
    that it gave under another name than ours."""

    request: GenerationRequest
    presentation: Presentation
    said: Mapping[str, str]


def chat_job(fields: ChatFields, engine: Engine) -> Job:
    """The job of a chat request.

    Raises:
        PacelineError: whatever is wrong with it, in the client's own field names.
    """
    if fields.top_logprobs is not None and not fields.logprobs:
        raise InvalidOptionError(
            "'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs"
        )
    options: dict[str, object] = {"logprobs": fields.top_logprobs}
    if getattr(fields, "apply_chat_template", None) is False:
        raise UnsupportedOptionError(
            "A conversation needs the chat template: leave 'apply_chat_template' out, or send text "
            "to /v1/completions.",
            param="apply_chat_template",
        )
    prompt = conversation(fields.messages)
    return _job(fields, engine, prompt, options, logprobs=bool(fields.logprobs))


def completion_job(fields: CompletionFields, engine: Engine) -> Job:
    """The job of a completion request; raw text unless ``apply_chat_template`` asks otherwise.

    Raises:
        PacelineError: whatever is wrong with it, in the client's own field names.
    """
    num_choices = 1 if fields.n is None else fields.n
    if fields.best_of is not None and fields.best_of != num_choices:
        raise UnsupportedOptionError(
            f"'best_of' is {fields.best_of} and 'n' is {num_choices}: answers are not ranked here, "
            "so leave 'best_of' out or make it equal to 'n'.",
            param="best_of",
        )
    if fields.logprobs is not None and getattr(fields, "echo", None):
        raise UnsupportedOptionError(
            "'logprobs' are known for the answer only, not for an echoed prompt: leave out 'echo' "
            "or 'logprobs'.",
            param="echo",
        )
    options: dict[str, object] = {"logprobs": fields.logprobs}
    wants_template: object = getattr(fields, "apply_chat_template", None)
    if wants_template is None:
        options["apply_chat_template"] = False
    prompt: Prompt = fields.prompt
    return _job(fields, engine, prompt, options, logprobs=fields.logprobs is not None)


def _job(
    fields: SharedFields,
    engine: Engine,
    prompt: Prompt,
    options: Mapping[str, object],
    *,
    logprobs: bool,
) -> Job:
    require_model(fields.model, engine)
    backend = engine.plan.backend
    if logprobs and not backend.tells_scores:
        raise UnsupportedOptionError(
            f"Backend '{backend.value}' does not tell log probabilities: leave out 'logprobs'.",
            param="logprobs",
        )
    presentation = _presentation(fields, logprobs=logprobs)
    config, said = _config(fields, options, engine.model_defaults)
    prompt_ids = encode_prompt(
        engine.tokenizer, prompt, apply_chat_template=config.apply_chat_template
    )
    kind = "cmpl" if isinstance(fields, CompletionFields) else "chatcmpl"
    request = GenerationRequest(
        request_id=f"{kind}-{uuid.uuid4().hex}",
        prompt_ids=prompt_ids,
        config=config,
        speculation=fields.speculation,
        drafter=fields.drafter,
        sampled_rule=fields.sampled_rule,
    )
    return Job(request, presentation, said)


def require_model(name: str, engine: Engine) -> None:
    """Refuse the name of another model than the loaded one.

    Raises:
        ModelNotFoundError: saying which one it is.
    """
    if name != engine.model.name:
        raise ModelNotFoundError(
            f"Model {name!r} is not loaded here: use {engine.model.name!r}.", param="model"
        )


def _presentation(fields: SharedFields, *, logprobs: bool) -> Presentation:
    asked = fields.stream_options
    if asked is not None and not fields.stream:
        raise InvalidOptionError(
            "'stream_options' needs 'stream' to be true.", param="stream_options"
        )
    return Presentation(
        stream=bool(fields.stream),
        include_usage=bool(asked and asked.include_usage),
        include_steps=bool(asked and asked.include_steps),
        logprobs=logprobs,
    )


def _config(
    fields: SharedFields, options: Mapping[str, object], model_defaults: Mapping[str, object]
) -> tuple[GenerationConfig, Mapping[str, str]]:
    values = asked_options(fields) | {k: v for k, v in options.items() if v is not None}
    said: dict[str, str] = {}
    for openai_name, own_name, value in _in_other_names(fields):
        if own_name in values and values[own_name] != value:
            raise InvalidOptionError(
                f"'{openai_name}' and '{said.get(own_name, own_name)}' say different things: "
                "give one of them.",
                param=openai_name,
            )
        values[own_name] = value
        said[own_name] = openai_name
    try:
        return resolve(values, model_defaults), said
    except InvalidRequestError as error:
        raise in_words_of_client(error, said) from None


def _in_other_names(fields: SharedFields) -> Iterator[tuple[str, str, object]]:
    """Every option that was given by another name than ours: that name, ours, and the value."""
    for openai_name, own_name in _OPENAI_NAMES.items():
        value: object = getattr(fields, openai_name, None)
        if value is not None:
            yield openai_name, own_name, value
    if fields.response_format is not None:
        for own_name, value in fields.response_format.options().items():
            yield "response_format", own_name, value
    if fields.structured_outputs is not None:
        yield from fields.structured_outputs.options()


def in_words_of_client(error: InvalidRequestError, said: Mapping[str, str]) -> InvalidRequestError:
    """The same refusal, with the client's names for the options."""
    message, param = error.message, error.param
    for own_name, openai_name in said.items():
        message = message.replace(f"'{own_name}'", f"'{openai_name}'")
    return type(error)(message, param=said.get(param, param) if param else None)
