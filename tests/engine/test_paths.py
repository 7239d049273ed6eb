"""Where files go, and what moves them."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest

from engine.paths import Folders


def test_home_moves_every_folder_and_keeps_them_apart(tmp_path: Path) -> None:
    folders = astuple(Folders.from_environment({"PACELINE_HOME": str(tmp_path)}))
    assert all(folder.parent == tmp_path for folder in folders)
    assert len(set(folders)) == len(folders)


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folders.from_environment({"PACELINE_HOME": "here"}).models == tmp_path / "here/models"


@pytest.mark.parametrize("environ", [{}, {"PACELINE_HOME": ""}])
def test_without_home_the_platform_decides(environ: dict[str, str]) -> None:
    folders = astuple(Folders.from_environment(environ))
    assert all(folder.is_absolute() for folder in folders)
    assert all("paceline" in folder.parts for folder in folders)
    assert len(set(folders)) == len(folders)


def test_nothing_is_created_by_asking(tmp_path: Path) -> None:
    Folders.below(tmp_path / "home")
    assert list(tmp_path.iterdir()) == []
