"""The engine is started again when that may help, and a person is asked when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.client import EngineClient  # the first import is slow: not within a test
from app.connection import EngineConnection, EngineSituation, Phase
from app.engine_words import bar_text, drafter_text, fixed_speculation_text, notice
from app.wire import EngineError, PlanReport, Speculation
from tests.app.conftest import Run, until

Connect = Callable[..., EngineConnection]


def phases(connection: EngineConnection) -> list[Phase]:
    """Fills with the phases that follow."""
    seen = [connection.situation.phase]

    def note(situation: EngineSituation) -> None:
        if situation.phase is not seen[-1]:
            seen.append(situation.phase)

    connection.changed.connect(note)
    return seen


def test_goes_from_starting_over_loading_to_ready(run: Run, connect: Connect) -> None:
    async def story() -> None:
        connection = connect("--load-s", "0.5")
        seen = phases(connection)
        ready = await connection.ready()
        assert seen == [Phase.STARTING, Phase.LOADING, Phase.READY]
        assert ready.model.name == "SmolLM2-135M-Instruct"
        assert connection.situation.plan is not None
        assert connection.situation.plan.drafter == "suffix+prompt_lookup"

    run(story())


def test_says_what_is_being_done_and_for_how_long(run: Run, connect: Connect) -> None:
    async def story() -> None:
        connection = connect("--load-s", "0.5")
        await until(lambda: connection.situation.phase is Phase.LOADING)
        situation = connection.situation
        text = bar_text(situation, situation.since + 3.21)
        assert text.progress == "Compiling the model for CPU · 3.2 s"
        await connection.ready()
        text = bar_text(connection.situation, 0.0)
        assert (text.name, text.progress) == ("SmolLM2-135M-Instruct", "")
        assert text.detail == "CPU · Auto: suffix + prompt lookup"
        assert "Speculation: adaptive" in text.reasons
        assert "Prompt lookup needs no second model." in text.reasons

    run(story())


def test_a_plan_without_a_drafter_says_that_speculation_is_off() -> None:
    plan = PlanReport("paged", "CPU", "none", "f16", speculation=Speculation.ADAPTIVE)
    situation = EngineSituation(Phase.READY, "", 0.0, plan=plan)
    text = bar_text(situation, 0.0)
    assert text.detail == "CPU · no drafter"
    assert "Speculation: off" in text.reasons
    assert fixed_speculation_text(plan).startswith("Speculation is off")
    assert fixed_speculation_text(None) == ""
    assert fixed_speculation_text(replace(plan, drafter="suffix")) == ""
    theirs = replace(plan, backend="genai", drafter="prompt_lookup")
    assert fixed_speculation_text(theirs).startswith("Speculation stays on")


def test_gives_up_after_the_last_pause_and_shows_the_last_lines(run: Run, connect: Connect) -> None:
    async def story() -> None:
        connection = connect("--exit-code", "3", pauses_s=(0.05, 0.05))
        seen = phases(connection)
        with pytest.raises(EngineError, match="exit code 3"):
            await connection.ready()
        assert seen.count(Phase.STARTING) == 3
        assert seen[-1] is Phase.DEAD
        said = notice(connection.situation, 0.0)
        assert said is not None
        assert said.then == ""
        assert "no model folder" in said.last_lines[-1]

    run(story())


def test_does_not_repeat_a_start_that_was_refused_for_its_options(
    run: Run, connect: Connect
) -> None:
    async def story() -> None:
        connection = connect("--exit-code", "2")
        seen = phases(connection)
        with pytest.raises(EngineError, match="There is no model folder at /nowhere"):
            await connection.ready()
        assert seen.count(Phase.STARTING) == 1

    run(story())


def test_counts_down_to_the_next_start(run: Run, connect: Connect) -> None:
    async def story() -> None:
        connection = connect("--exit-code", "3", pauses_s=(5.0,))
        await until(lambda: connection.situation.phase is Phase.PAUSING)
        situation = connection.situation
        said = notice(situation, situation.since + 2.5)
        assert said is not None
        assert said.then == "Starting it again in 3 s."
        await asyncio.sleep(0)

    run(story())


def test_a_person_may_start_it_again_at_any_time(run: Run, connect: Connect) -> None:
    async def story() -> None:
        connection = connect()
        first = (await connection.ready(), connection.pid)[1]
        connection.start_again()
        await until(lambda: connection.situation.phase is not Phase.READY)
        await connection.ready()
        assert connection.pid not in (0, first)

    run(story())


def test_a_model_that_cannot_be_loaded_is_told_in_the_engines_words(
    run: Run, connect: Connect
) -> None:
    async def story() -> None:
        connection = connect("--fail-load")
        with pytest.raises(EngineError, match=r"The model folder has no tokenizer\."):
            await connection.ready()
        assert connection.situation.phase is Phase.FAILED

    run(story())


def test_an_engine_that_refuses_the_key_is_not_asked_for_ever(
    run: Run, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.connection._POLL_S", 0.01)

    async def story() -> None:
        connection = connect("--other-key")
        with pytest.raises(EngineError, match=r"does not say how far it is. Wrong key\."):
            await connection.ready()
        assert connection.situation.phase is Phase.DEAD

    run(story())


def test_a_stumble_of_the_windows_own_is_told_and_can_be_got_over(
    run: Run, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        connection = connect()
        with monkeypatch.context() as broken:
            broken.setattr(EngineClient, "status", lambda client: 1 / 0)
            with pytest.raises(EngineError, match="lost sight of its engine"):
                await connection.ready()
        assert connection.situation.phase is Phase.DEAD
        connection.start_again()
        await until(lambda: connection.situation.phase is Phase.READY)

    run(story())


def test_no_engine_is_started_once_the_window_has_closed(run: Run, connect: Connect) -> None:
    async def story() -> None:
        connection = connect()
        await connection.ready()
        connection.start_again()
        connection.start_again()
        await asyncio.sleep(0)
        await connection.close()
        await asyncio.sleep(0.2)
        assert connection.pid == 0

    run(story())


@pytest.mark.parametrize(
    ("drafter", "is_auto", "text"),
    [
        ("prompt_lookup", True, "Auto: prompt lookup"),
        ("prompt_lookup", False, "prompt lookup"),
        ("suffix+prompt_lookup", False, "suffix + prompt lookup"),
        ("none", True, "no drafter"),
    ],
)
def test_auto_is_said_only_of_the_engines_own_choice(
    drafter: str, is_auto: bool, text: str
) -> None:
    plan = PlanReport("paged", "CPU", drafter, "f16", is_auto_drafter=is_auto)
    assert drafter_text(plan) == text
