"""`paceline chat`, with lines from a list in place of a keyboard."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.cli import session
from engine.config import GenerationConfig, Speculation
from engine.values import FinishReason
from tests.engine.cli.conftest import Outcome, Terminal


@pytest.fixture
def chat(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    """Runs a chat with the given lines; an exception among them is raised at the prompt."""

    def run(*lines: str | BaseException, options: tuple[str, ...] = ()) -> Outcome:
        source: Iterator[str | BaseException] = iter(lines)

        def typed(prompt: str = "") -> str:
            line = next(source, EOFError())
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr("builtins.input", typed)
        return terminal.run("chat", "--model", str(terminal.model), *options)

    return run


def _prompts(terminal: Terminal) -> list[str]:
    decode = terminal.engine.tokenizer.decode
    return [decode(list(request.prompt_ids)) for request in terminal.engine.requests]


def test_each_answer_is_followed_by_its_figures(terminal: Terminal, chat):
    outcome = chat("Hi", "/exit", "never read")
    assert (outcome.code, outcome.out) == (0, "Hello, world\n")
    assert outcome.err.splitlines()[-1].startswith("13 tokens · ")
    assert terminal.engine.closed.is_set()


def test_the_conversation_goes_on(terminal: Terminal, chat):
    chat("one", "two")
    assert _prompts(terminal)[1] == (
        "<user>one</user><assistant>Hello, world</assistant><user>two</user><assistant>"
    )


def test_new_forgets_it(terminal: Terminal, chat):
    chat("one", "/new", "two")
    assert _prompts(terminal)[1] == "<user>two</user><assistant>"


def test_speculation_is_switched_for_the_next_answer(terminal: Terminal, chat):
    chat("a", "/speculation off", "b", "/speculation on", "c")
    assert [request.speculation for request in terminal.engine.requests] == [
        None,
        Speculation.OFF,
        Speculation.ADAPTIVE,
    ]


def test_without_a_drafter_speculation_cannot_be_switched_on(terminal: Terminal, chat):
    terminal.engine.plan = replace(terminal.engine.plan, drafter="none")
    outcome = chat("/speculation on", "a")
    assert "There is no drafter" in outcome.err
    assert [request.speculation for request in terminal.engine.requests] == [None]


def test_a_wrong_command_is_not_sent_to_the_model(terminal: Terminal, chat):
    outcome = chat("/speculation sideways", "/dance", "", "   ", "/help")
    assert terminal.engine.requests == []
    assert "There is no command /dance; /help lists them." in outcome.err
    assert "/speculation on|off" in outcome.err


def test_a_refused_message_is_told_and_forgotten(terminal: Terminal, chat):
    outcome = chat("x" * 3000, "short")
    assert outcome.code == 0
    assert "paceline: The prompt is too long." in outcome.err
    assert _prompts(terminal) == ["<user>short</user><assistant>"]


def test_ctrl_c_stops_the_answer_and_keeps_the_conversation(
    terminal: Terminal, chat, monkeypatch: pytest.MonkeyPatch
):
    terminal.script.reply = lambda prompt: "endless " * 100
    terminal.script.pace_s = 0.01
    said: list[str] = []

    def interrupt_once(text: str, *, end: str = "\n") -> None:
        said.append(text)
        if len(said) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("engine.cli.chat.say", interrupt_once)
    outcome = chat("go", "/exit")
    assert outcome.code == 0
    assert terminal.engine.handles[0].cancelled.is_set()
    assert " tokens · " in outcome.err
    assert len("".join(said)) < 400


def test_ctrl_c_at_the_prompt_leaves(terminal: Terminal, chat):
    outcome = chat(KeyboardInterrupt())
    assert (outcome.code, outcome.err) == (130, "")
    assert terminal.engine.closed.is_set()


@pytest.mark.parametrize(
    "options", [("--num-return-sequences", "2", "--do-sample"), ("--num-assistant-tokens", "101")]
)
def test_options_that_a_chat_cannot_have_are_refused_at_once(
    terminal: Terminal, chat, options: tuple[str, ...]
):
    outcome = chat("Hi", options=options)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert terminal.configs == []


def test_cancelling_still_gives_a_terminal_event(terminal: Terminal):
    terminal.script.pace_s = 30
    engine = terminal.engine
    request = session.new_request((1, 2), GenerationConfig(max_new_tokens=5))
    answering = session.Answering(engine, request)
    threading.Timer(0.05, answering.cancel).start()
    [event] = list(answering)
    assert event.finish_reason is FinishReason.CANCELLED
