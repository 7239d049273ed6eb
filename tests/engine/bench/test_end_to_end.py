"""The benchmark on the real small model: one prompt, eight tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.bench.arms import EngineArm, top_two_gaps
from engine.bench.command import make_tasks
from engine.bench.measure import measure
from engine.bench.summary import summarise
from engine.bench.workloads import load_workload
from engine.cli import main
from engine.config import EngineConfig, Speculation
from engine.interface import Engine
from engine.load import load_engine


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    engine = load_engine(EngineConfig(model=smollm2))
    yield engine
    engine.close()


def test_measures_our_arms_on_a_real_prompt(engine: Engine) -> None:
    arms = [
        EngineArm(engine, "plain", Speculation.OFF),
        EngineArm(engine, "static-5", Speculation.STATIC, 5),
    ]
    tasks = make_tasks(engine, [load_workload("copy")], num_tokens=8, num_prompts=1)
    runs = [*measure(arms, tasks, num_rounds=1)]
    for run in runs:
        answer = run.answer
        assert len(answer.token_ids) == 8
        assert 0 < answer.decode_ms < answer.total_ms
        assert answer.ttft_ms + answer.decode_ms <= answer.total_ms
        assert answer.cpu_ms > 0
        assert answer.own_share is not None
        assert 0 < answer.own_share < 1
    plain, drafted = (run.answer.steps for run in runs)
    assert plain is not None
    assert drafted is not None
    assert (plain.num_steps, plain.num_verified) == (7, 0)
    assert drafted.num_steps + drafted.num_accepted == 7
    _, compared = summarise(runs, "plain")
    assert compared.num_runs == 1


def test_gaps_are_known_for_every_token(engine: Engine) -> None:
    (task,) = make_tasks(engine, [load_workload("prose")], num_tokens=8, num_prompts=1)
    gaps = top_two_gaps(engine, task.prompt_ids, task.num_tokens)
    assert len(gaps) == 8
    assert all(gap >= 0 for gap in gaps)


@pytest.mark.long
def test_the_command_compares_with_a_peer(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    options = ["--workload", "copy", "--prompts", "1", "--rounds", "1", "--tokens", "8"]
    places = ["--model", str(smollm2), "--json", str(target)]
    assert main(["bench", *options, *places, "--peer", "genai", "--peer", "genai-lookup"]) == 0
    assert "plain runs at" in capsys.readouterr().out
    content = json.loads(target.read_text(encoding="utf-8"))
    arms = [run["arm"] for run in content["runs"]]
    assert arms == ["plain", "adaptive", "genai", "genai-lookup"]
    assert all(len(run["answer"]["token_ids"]) == 8 for run in content["runs"])
