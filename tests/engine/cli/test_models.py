"""``paceline models pair``: a line or an object for each candidate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.paths import Folders
from tests.engine.cli.conftest import Terminal
from tests.engine.library.tiny_folders import model_folder

PIECES = [b"<s>", b"a", b"b"]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return model_folder(tmp_path / "library" / "big", PIECES, weight_bytes=1000)


def test_each_candidate_has_a_line_with_verdict_and_reason(
    terminal: Terminal, tmp_path: Path, target: Path
) -> None:
    model_folder(tmp_path / "drafts" / "other", [b"<s>", b"x"])
    model_folder(tmp_path / "drafts" / "small", PIECES)
    outcome = terminal.run("models", "pair", str(target), "--root", str(tmp_path / "drafts"))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert [line.split()[:2] for line in lines] == [["no", "fast_draft"], ["yes", "fast_draft"]]
    assert "token 1 is 'a' in the first and 'x' in the second" in lines[0]


def test_json_is_one_list(terminal: Terminal, target: Path) -> None:
    small = model_folder(target.parent / "small", PIECES)  # beside the model is where it looks
    outcome = terminal.run("models", "pair", str(target), "--json")
    assert json.loads(outcome.out) == [
        {
            "folder": str(small),
            "kind": "fast_draft",
            "compatible": True,
            "reason": "The same 3 tokens, and 10% of the weights.",
        }
    ]


def test_the_models_of_this_machine_are_looked_at(
    terminal: Terminal, tmp_path: Path, target: Path
) -> None:
    home = Folders.below(tmp_path / "home")
    small = model_folder(home.models / "small", PIECES)
    assert str(small) in terminal.run("models", "pair", str(target)).out


def test_without_a_candidate_it_says_where_it_looked(terminal: Terminal, target: Path) -> None:
    outcome = terminal.run("models", "pair", str(target))
    assert (outcome.code, outcome.out) == (0, "")
    assert str(target.parent) in outcome.err
    assert json.loads(terminal.run("models", "pair", str(target), "--json").out) == []


@pytest.mark.parametrize("arguments", [("gone",), ("big", "--root", "gone")])
def test_a_folder_that_is_not_there_is_one_line(
    terminal: Terminal, target: Path, arguments: tuple[str, ...]
) -> None:
    paths = [word if word == "--root" else str(target.parent / word) for word in arguments]
    outcome = terminal.run("models", "pair", *paths)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert "gone" in outcome.err


def test_an_action_is_asked_for(terminal: Terminal) -> None:
    outcome = terminal.run("models")
    assert outcome.code == 2
    assert "ACTION" in outcome.err
