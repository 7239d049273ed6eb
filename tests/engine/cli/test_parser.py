"""Options and configuration are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cli.parser import build_parser, given_options
from engine.config import GenerationConfig, SchedulerConfig, options
from tests.engine.cli.conftest import Terminal


@pytest.mark.parametrize("name", options(GenerationConfig))
def test_every_generation_option_is_an_option_with_its_help(terminal: Terminal, name: str):
    help_text = " ".join(terminal.run("generate", "--help").out.split())
    assert "--" + name.replace("_", "-") in help_text


def test_options_that_were_not_given_stay_unset():
    args = build_parser().parse_args(["generate", "--prompt", "x"])
    assert given_options(args, GenerationConfig) == {}
    assert given_options(args, SchedulerConfig) == {}


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--do-sample"], True),
        (["--do-sample", "true"], True),
        (["--do-sample", "no"], False),
        (["--do-sample=OFF"], False),
    ],
)
def test_a_switch_may_stand_alone_or_have_a_value(arguments: list[str], value: bool):
    args = build_parser().parse_args(["generate", "--prompt", "x", *arguments])
    assert given_options(args, GenerationConfig) == {"do_sample": value}


def test_a_schema_is_given_as_text_or_as_a_file(tmp_path: Path):
    text = '{"type": "integer"}'
    (tmp_path / "schema.json").write_text(text, encoding="utf-8-sig")
    for given in (text, str(tmp_path / "schema.json")):
        args = build_parser().parse_args(["generate", "--prompt", "x", "--json-schema", given])
        assert given_options(args, GenerationConfig) == {"json_schema": text}


def test_a_schema_that_cannot_be_read_is_one_line(terminal: Terminal):
    outcome = terminal.generate("--prompt", "x", "--json-schema", "no-such.json")
    assert outcome.code == 2
    assert "'no-such.json'" in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_structures_on_the_command_line():
    arguments = ["generate", "--prompt", "x", "--regex", "a+", "--choice", "a", "b c"]
    args = build_parser().parse_args(arguments)
    assert given_options(args, GenerationConfig) == {"regex": "a+", "choice": ["a", "b c"]}


def test_abbreviations_are_not_guessed(terminal: Terminal):
    assert terminal.generate("--prompt", "x", "--max-new", "3").code == 2


@pytest.mark.parametrize("command", ["generate", "chat", "serve", "doctor"])
def test_every_command_has_help(terminal: Terminal, command: str):
    outcome = terminal.run(command, "--help")
    assert outcome.code == 0
    assert "--child" not in outcome.out
    assert "--image" not in outcome.out


def test_an_unknown_command_is_one_line(terminal: Terminal):
    outcome = terminal.run("models", "list")
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1


def test_the_version(terminal: Terminal):
    assert terminal.run("--version").out.startswith("paceline ")
