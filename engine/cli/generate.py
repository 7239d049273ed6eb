"""``paceline generate``: one prompt, one answer, as text while it comes or as one JSON object."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from engine.cli.parser import given_options
from engine.cli.session import Answering, engine_config, model_folder, new_request
from engine.cli.terminal import metrics_line, quiet_progress, say, tell
from engine.config import GenerationConfig, resolve
from engine.errors import EmptyPromptError, InvalidRequestError, UnsupportedOptionError
from engine.events import FinishedEvent, StepEvent
from engine.paths import Folders
from engine.prompts import Prompt, TextPrompt, encode_prompt


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Answer and return the exit code.

    Raises:
        PacelineError: whatever is wrong with the input.
    """
    if args.image:
        raise UnsupportedOptionError(
            "--image is not supported yet: this version reads text only.", param="image"
        )
    if args.steps and not args.json:
        raise InvalidRequestError("--steps needs --json: text has no place for them.")
    prompt = read_prompt(args)
    folders = Folders.from_environment(environ)
    folder = model_folder(args, folders, tell)
    config = _request_config(args, folder)
    from engine.load import load_engine  # heavy: imports OpenVINO

    engine = load_engine(engine_config(args, folder, folders), quiet_progress())
    try:
        ids = encode_prompt(
            engine.tokenizer, prompt, apply_chat_template=config.apply_chat_template
        )
        answering = Answering(engine, new_request(ids, config))
        if args.json:
            answer = _as_json(answering, steps=args.steps)
            whole = answer | {"prompt_tokens": len(ids), "plan": engine.plan.to_json()}
            say(json.dumps(whole, ensure_ascii=False))
        else:
            _as_text(answering, config.num_return_sequences)
    finally:
        engine.close()
    return 0


def read_prompt(args: argparse.Namespace) -> Prompt:
    """The prompt that the arguments give.

    Raises:
        InvalidRequestError: a file that cannot be read, or messages that are no messages.
        EmptyPromptError: there is nothing in it.
    """
    if args.messages_file is not None:
        from engine.server.messages import parse_messages

        if args.raw:
            raise InvalidRequestError(
                "--raw and --messages-file exclude each other: messages need the chat template."
            )
        conversation = parse_messages(_read_bytes(args.messages_file), args.messages_file)
        if not conversation.messages:
            raise EmptyPromptError(f"{args.messages_file} holds no message: give it at least one.")
        return conversation
    text = args.prompt
    if args.prompt_file is not None:
        try:
            text = _read_bytes(args.prompt_file).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidRequestError(
                f"{args.prompt_file} is not UTF-8 (byte {error.start}): save it as UTF-8."
            ) from None
    if not text:
        raise EmptyPromptError("The prompt is empty: give it some text.", param="prompt")
    return TextPrompt(text)


def _read_bytes(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidRequestError(f"{name} cannot be read ({reason}): check the path.") from None


def _request_config(args: argparse.Namespace, folder: Path) -> GenerationConfig:
    from engine.library.folder import model_defaults

    asked = given_options(args, GenerationConfig)
    if args.raw:
        if asked.get("apply_chat_template"):
            raise InvalidRequestError(
                "--raw and --apply-chat-template true exclude each other: give one of them."
            )
        asked["apply_chat_template"] = False
    return resolve(asked, model_defaults(folder))


def _as_text(answering: Answering, num_choices: int) -> None:
    """One answer streams; several grow at the same time and are shown when all have ended."""
    finished: list[FinishedEvent] = []
    for event in answering:
        match event:
            case StepEvent() if num_choices == 1:
                say(event.text, end="")
            case FinishedEvent():
                finished.append(event)
            case _:
                pass
    for event in sorted(finished, key=lambda each: each.choice):
        if num_choices == 1:
            say(event.tail)
        else:
            say(f"[{event.choice + 1}] {event.text}")
        for note in event.notes:
            tell(note)
        tell(metrics_line(event.metrics))


def _as_json(answering: Answering, *, steps: bool) -> dict[str, object]:
    """The first answer; where there are several, all of them under ``choices`` as well."""
    by_choice: dict[int, list[dict[str, object]]] = {}
    finished: list[FinishedEvent] = []
    for event in answering:
        if isinstance(event, StepEvent):
            by_choice.setdefault(event.choice, []).append(event.to_json())
        elif isinstance(event, FinishedEvent):
            finished.append(event)
    choices: list[dict[str, object]] = []
    for event in sorted(finished, key=lambda each: each.choice):
        choice: dict[str, object] = {
            "text": event.text,
            "token_ids": list(event.token_ids),
            "finish_reason": event.finish_reason.value,
            "metrics": event.metrics.to_json(),
            "notes": list(event.notes),
        }
        if steps:
            choice["steps"] = by_choice.get(event.choice, [])
        choices.append(choice)
    several = {"choices": choices} if len(choices) > 1 else {}
    return choices[0] | several
