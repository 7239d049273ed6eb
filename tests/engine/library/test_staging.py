"""A staged folder appears whole or not at all, and one process at a time makes it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine.library.staging import staged_folder

ROOT = Path(__file__).parents[3]


def never() -> None:
    pytest.fail("waited for nobody")


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_appears_when_published(tmp_path: Path) -> None:
    destination = tmp_path / "models" / "tiny"
    with staged_folder(destination, "import", never) as staged:
        (staged.path / "file").write_text("whole", encoding="utf-8")
        assert not destination.exists()
        staged.publish()
    assert (destination / "file").read_text(encoding="utf-8") == "whole"
    assert visible(destination.parent) == ["tiny"]


def test_replaces_a_folder_that_was_not_whole(tmp_path: Path) -> None:
    destination = tmp_path / "tiny"
    destination.mkdir()
    (destination / "old").touch()
    with staged_folder(destination, "import", never) as staged:
        (staged.path / "new").touch()
        staged.publish()
    assert visible(destination) == ["new"]
    assert visible(tmp_path) == ["tiny"]


def test_leaves_nothing_behind_after_a_failure(tmp_path: Path) -> None:
    destination = tmp_path / "tiny"

    def break_off() -> None:
        with staged_folder(destination, "import", never) as staged:
            (staged.path / "half").touch()
            raise RuntimeError("broke")

    with pytest.raises(RuntimeError, match="broke"):
        break_off()
    assert visible(tmp_path) == []


def holder(destination: Path) -> subprocess.Popen[str]:
    """A process that holds the lock, with a half-made folder, until it is killed."""
    script = f"""
        import sys, time
        from pathlib import Path
        from engine.library.staging import staged_folder
        with staged_folder(Path({str(destination)!r}), "import", lambda: None) as staged:
            (staged.path / "half").touch()
            print("holding", flush=True)
            time.sleep(60)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "holding\n"
    return child


def test_waits_for_another_process_and_clears_up_after_its_death(tmp_path: Path) -> None:
    destination = tmp_path / "tiny"
    child = holder(destination)
    assert len(visible(tmp_path)) == 1

    def on_wait() -> None:
        child.kill()
        child.communicate()

    with staged_folder(destination, "import", on_wait) as staged:
        assert child.returncode is not None
        assert visible(tmp_path) == [staged.path.parent.name]
        assert visible(staged.path) == []
    assert visible(tmp_path) == []


def test_different_purposes_do_not_wait_for_each_other(tmp_path: Path) -> None:
    destination = tmp_path / "tiny"
    with (
        staged_folder(destination, "download", never),
        staged_folder(destination, "import", never) as staged,
    ):
        staged.publish()
    assert visible(tmp_path) == ["tiny"]
