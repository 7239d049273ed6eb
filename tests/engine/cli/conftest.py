"""The command line run in this process, with a scripted engine in place of a loaded one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import engine.load
from engine.cli import main
from engine.config import EngineConfig
from engine.drafters import drafter_names
from engine.errors import UnknownDrafterError
from tests.engine.server.fake_engine import EOS, FakeEngine, Script


@dataclass
class Outcome:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


@dataclass
class Terminal:
    """Runs commands; ``engine`` answers them and ``configs`` keeps what was asked of the loader."""

    engine: FakeEngine
    model: Path
    configs: list[EngineConfig]
    capture: pytest.CaptureFixture[str]

    @property
    def script(self) -> Script:
        return self.engine.script

    def run(self, *arguments: str) -> Outcome:
        try:
            code = main(arguments)
        except SystemExit as error:  # argparse ends the process itself
            code = error.code
        streams = self.capture.readouterr()
        return Outcome(int(code or 0), streams.out, streams.err)

    def generate(self, *arguments: str) -> Outcome:
        return self.run("generate", "--model", str(self.model), *arguments)


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A folder with everything that a model folder needs, and nothing that could be compiled."""
    folder = tmp_path / "a model é"
    folder.mkdir()
    for part in ("model", "tokenizer", "detokenizer"):
        (folder / f"openvino_{part}.xml").write_text("<net></net>")
        (folder / f"openvino_{part}.bin").write_bytes(b"")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 2000}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS}))
    return folder


@pytest.fixture
def terminal(
    model_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    """A command line whose engine is scripted."""
    fake = FakeEngine()
    configs: list[EngineConfig] = []

    def load(config: EngineConfig, progress: Callable[[str], None]) -> FakeEngine:
        if config.drafter not in ("auto", *drafter_names()):
            raise UnknownDrafterError(f"There is no drafter {config.drafter}; use auto.")
        configs.append(config)
        fake.closed.clear()
        return fake

    monkeypatch.setattr(engine.load, "load_engine", load)
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    return Terminal(fake, model_folder, configs, capsys)
