"""The command line as data: every command and option, and no behaviour.

Options of a request and of the scheduler are taken from the configuration classes, so that a field
added there is an option here. A mistake ends with exit code 2 and one line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from engine.cli.terminal import complain
from engine.config import (
    BackendKind,
    CachePrecision,
    GenerationConfig,
    Option,
    OptionKind,
    SampledRule,
    SchedulerConfig,
    Speculation,
    options,
)
from engine.version import paceline_version


class OneLineParser(argparse.ArgumentParser):
    """Reports a mistake in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        complain(f"{message} (see '{self.prog} --help')")
        self.exit(2)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; ``command`` is None for the window."""
    parser = OneLineParser(
        prog="paceline",
        description="Chat with local language models. Without a command, opens the window.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"paceline {paceline_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, help_text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)

    generate = command("generate", "Answer one prompt.")
    _add_prompt(generate)
    _add_engine(generate)
    add_options(generate, GenerationConfig, "the answer")

    chat = command("chat", "Chat in the terminal.")
    _add_engine(chat)
    add_options(chat, GenerationConfig, "the answers")

    serve = command("serve", "Serve an OpenAI-compatible API on this machine.")
    _add_serve(serve)
    _add_engine(serve)

    doctor = command("doctor", "Show what is installed and what this machine can do.")
    doctor.add_argument("--json", action="store_true", help="Print one JSON object.")

    _add_models(command("models", "Look after the model folders of this machine."))

    command("bench", "Measure speed (its own --help has the options).")
    return parser


def add_options(parser: argparse.ArgumentParser, config: type[object], title: str) -> None:
    """One option for each described field of a configuration class; None where it is not given."""
    group = parser.add_argument_group(f"options of {title}")
    for name, description in options(config).items():
        _add_option(group, name, description)


def given_options(args: argparse.Namespace, config: type[object]) -> dict[str, object]:
    """What was given of the options that `add_options` made."""
    values = {name: getattr(args, name) for name in options(config)}
    return {name: value for name, value in values.items() if value is not None}


def _add_option(group: argparse._ArgumentGroup, name: str, description: Option) -> None:  # pyright: ignore[reportPrivateUsage] - argparse gives its groups no public name
    flag = "--" + name.replace("_", "-")
    bounds = description.bounds_text()
    help_text = f"{description.help} ({bounds})" if bounds else description.help
    help_text = help_text.replace("%", "%%")
    match description.kind:
        case OptionKind.SWITCH:
            group.add_argument(
                flag,
                dest=name,
                nargs="?",
                const=True,
                type=_switch,
                metavar="true|false",
                help=help_text,
            )
        case OptionKind.TEXTS:
            group.add_argument(
                flag, dest=name, nargs="+", action="extend", metavar="TEXT", help=help_text
            )
        case OptionKind.TEXT:
            group.add_argument(flag, dest=name, metavar="TEXT", help=help_text)
        case OptionKind.SCHEMA:
            group.add_argument(flag, dest=name, type=_schema, metavar="JSON|FILE", help=help_text)
        case OptionKind.TOKEN_IDS:
            group.add_argument(
                flag,
                dest=name,
                nargs="+",
                action="extend",
                type=_integer,
                metavar="ID",
                help=help_text,
            )
        case OptionKind.INTEGER:
            group.add_argument(flag, dest=name, type=_integer, metavar="N", help=help_text)
        case OptionKind.NUMBER:
            group.add_argument(flag, dest=name, type=_number, metavar="X", help=help_text)


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompt (one of these)")
    prompt = group.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", metavar="TEXT")
    prompt.add_argument("--prompt-file", metavar="FILE", help="Text file in UTF-8; - reads stdin.")
    prompt.add_argument("--messages-file", metavar="FILE", help="JSON list of chat messages.")
    parser.add_argument("--image", action="append", help=argparse.SUPPRESS)
    parser.add_argument("--raw", action="store_true", help="Skip the chat template.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object at the end.")
    parser.add_argument("--steps", action="store_true", help="With --json: every step as well.")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--model", type=Path, metavar="DIR", help="Model folder; without it the embedded default."
    )
    group.add_argument(
        "--drafter", default="auto", metavar="NAME", help="none, auto, or the name of a strategy."
    )
    _add_choice(group, "--backend", BackendKind.AUTO, "What runs the model.")
    group.add_argument("--device", default="AUTO", help="AUTO, CPU, GPU or NPU.")
    group.add_argument("--draft-device", metavar="DEVICE", help="Device of a draft model.")
    _add_choice(group, "--cache-precision", CachePrecision.F16, "Elements of the cache.")
    group.add_argument(
        "--inference-precision",
        choices=["f32"],
        help="Type to compute in; default: what the device prefers.",
    )
    _add_choice(group, "--speculation", Speculation.ADAPTIVE, "Who decides how much is drafted.")
    _add_choice(group, "--sampled-rule", SampledRule.KEYED, "How random draws are verified.")
    add_options(parser, SchedulerConfig, "the scheduler")


def _add_choice(
    group: argparse._ArgumentGroup,  # pyright: ignore[reportPrivateUsage] - as above
    flag: str,
    default: StrEnum,
    help_text: str,
) -> None:
    choices: Sequence[StrEnum] = list(type(default))
    group.add_argument(
        flag,
        default=default.value,
        choices=[choice.value for choice in choices],
        help=f"{help_text} Default: {default.value}.",
    )


def _add_serve(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument("--host", default="127.0.0.1", help="Default: 127.0.0.1.")
    group.add_argument(
        "--port", type=_integer, default=8000, help="Default: 8000; 0 takes any free one."
    )
    group.add_argument(
        "--api-key",
        metavar="KEY",
        help="Key that clients must send; also PACELINE_API_KEY in the environment.",
    )
    group.add_argument("--child", action="store_true", help=argparse.SUPPRESS)


def _add_models(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    help_text = "List the folders that could draft for a model, and why the others cannot."
    pair = actions.add_parser("pair", help=help_text, description=help_text, allow_abbrev=False)
    pair.add_argument("model", type=Path, metavar="DIR", help="Folder of the model.")
    pair.add_argument(
        "--root",
        dest="roots",
        type=Path,
        action="append",
        metavar="DIR",
        help="Where to look, may be repeated; default: Paceline's models, and beside the model.",
    )
    pair.add_argument("--json", action="store_true", help="Print one JSON list.")


def _converter(convert: Callable[[str], object], what: str) -> Callable[[str], object]:
    def converted(text: str) -> object:
        try:
            return convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None

    return converted


def _truth(text: str) -> bool:
    match text.lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
        case _:
            raise ValueError(text)


def _schema(text: str) -> str:
    """A schema as it is, or the file that holds one."""
    if text.lstrip().startswith("{"):
        return text
    try:
        return Path(text).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise argparse.ArgumentTypeError(
            f"{text!r} is no JSON object and cannot be read as a file ({reason})"
        ) from None


_integer = _converter(int, "a whole number")
_number = _converter(float, "a number")
_switch = _converter(_truth, "true or false")
