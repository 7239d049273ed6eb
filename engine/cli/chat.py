"""``paceline chat``: a conversation in the terminal.

An answer streams as it comes; Ctrl-C ends the answer, not the conversation. Lines that start with
a slash are commands. `Conversation` does not know where its lines come from.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from engine.cli.parser import given_options
from engine.cli.session import Answering, engine_config, model_folder, new_request
from engine.cli.terminal import complain, metrics_line, quiet_progress, say, tell
from engine.config import GenerationConfig, Speculation, resolve
from engine.drafters import NO_DRAFTER
from engine.errors import EngineStoppedError, InvalidOptionError, PacelineError
from engine.events import FinishedEvent, StepEvent
from engine.paths import Folders
from engine.prompts import ChatPrompt, encode_prompt

if TYPE_CHECKING:
    from engine.interface import Engine

_HELP = """\
/new                  forget the conversation
/speculation on|off   draft ahead, or not, from the next answer on
/help                 this list
/exit                 leave (so does Ctrl-D)
Ctrl-C stops an answer."""


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Chat until the input ends.

    Raises:
        PacelineError: the model cannot be loaded, or an option is wrong.
    """
    from engine.library.folder import model_defaults
    from engine.load import load_engine  # heavy: imports OpenVINO

    folders = Folders.from_environment(environ)
    folder = model_folder(args, folders, tell)
    config = resolve(given_options(args, GenerationConfig), model_defaults(folder))
    if config.num_return_sequences > 1:
        raise InvalidOptionError(
            "'num_return_sequences' must be 1 in a chat: 'paceline generate' can give several.",
            param="num_return_sequences",
        )
    engine = load_engine(engine_config(args, folder, folders), quiet_progress())
    try:
        conversation = Conversation(engine, config, args)
        if sys.stdin.isatty():
            tell(f"{engine.model.name} on {engine.plan.device}. /help lists the commands.")
        for line in _typed_lines():
            if not conversation.handle(line):
                break
    finally:
        engine.close()
    return 0


class Conversation:
    """The messages so far and the settings of the next answer."""

    def __init__(self, engine: Engine, config: GenerationConfig, args: argparse.Namespace) -> None:
        self._engine = engine
        self._config = config
        self._args = args
        self._messages: list[Mapping[str, object]] = []
        self._speculation: Speculation | None = None

    def handle(self, line: str) -> bool:
        """Act on one typed line; False to leave."""
        words = line.split()
        match words:
            case []:
                pass
            case ["/exit" | "/quit"]:
                return False
            case ["/new"]:
                self._messages.clear()
                tell("New conversation.")
            case ["/speculation", "on" | "off" as wanted]:
                self._switch(wanted == "on")
            case ["/help"]:
                tell(_HELP)
            case [command, *_] if command.startswith("/"):
                tell(f"There is no command {line.strip()}; /help lists them.")
            case _:
                self._ask(line)
        return True

    def _switch(self, on: bool) -> None:
        if on and self._engine.plan.drafter == NO_DRAFTER:
            complain("There is no drafter: start with --drafter auto, or another one.")
            return
        wanted = Speculation(self._args.speculation)
        if wanted is Speculation.OFF:
            wanted = Speculation.ADAPTIVE
        self._speculation = wanted if on else Speculation.OFF
        tell(f"Speculation is {'on' if on else 'off'} from the next answer on.")

    def _ask(self, text: str) -> None:
        """Answer one message; a refusal is shown and the message forgotten."""
        asked = [*self._messages, {"role": "user", "content": text}]
        try:
            answer = self._answer(asked)
        except EngineStoppedError:
            raise
        except PacelineError as error:
            complain(error.message)
            return
        self._messages = [*asked, {"role": "assistant", "content": answer}]

    def _answer(self, messages: list[Mapping[str, object]]) -> str:
        engine = self._engine
        prompt = encode_prompt(
            engine.tokenizer, ChatPrompt(tuple(messages)), apply_chat_template=True
        )
        request = new_request(prompt, self._config, self._speculation)
        answering = Answering(engine, request)
        while True:
            try:
                return _show(answering)
            except KeyboardInterrupt:  # the answer so far still comes, as the end of the request
                answering.cancel()


def _show(answering: Answering) -> str:
    """Print an answer while it comes; returns its text."""
    text = ""
    for event in answering:
        match event:
            case StepEvent():
                say(event.text, end="")
            case FinishedEvent():
                say(event.tail)
                for note in event.notes:
                    tell(note)
                tell(metrics_line(event.metrics))
                text = event.text
            case _:
                pass
    return text


def _typed_lines() -> Iterator[str]:
    """Lines from the keyboard with editing and history, or from a pipe; ends at end of input."""
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        with contextlib.suppress(ImportError):  # not on Windows, whose console edits lines itself
            import_module("readline")
    while True:
        try:
            yield input("\n> " if at_terminal else "")
        except EOFError:
            return
