"""The profile store: whole files or none, and never a failure because of one."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from engine.budget.store import ProfileKey, ProfileStore

KEY = ProfileKey("model", "abc", "paged", "CPU", "1.0", 2, "f16", None)


def test_gives_back_what_was_saved_and_only_for_the_same_key(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "not there yet")
    store.save(KEY, {"a": [1, 2.5]})

    assert store.load(KEY) == {"a": [1, 2.5]}
    assert store.load(replace(KEY, threads=4)) is None
    assert store.load(replace(KEY, cache_precision="f32")) is None


def test_nothing_saved_is_no_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ProfileStore(tmp_path).load(KEY) is None
    assert not caplog.records


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param('{"version": 1, "key"', id="cut off"),
        pytest.param("[]", id="no object"),
        pytest.param('{"version": 99}', id="a version to come"),
        pytest.param("\x00\x01", id="not text"),
    ],
)
def test_a_damaged_file_is_ignored_with_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    store = ProfileStore(tmp_path)
    store.save(KEY, {"a": 1})
    (file,) = tmp_path.iterdir()
    file.write_text(text, encoding="utf-8")

    with caplog.at_level(logging.WARNING):
        assert store.load(KEY) is None

    assert "Ignoring the profile" in caplog.text


def test_a_save_that_is_interrupted_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ProfileStore(tmp_path)
    store.save(KEY, {"a": 1})

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save(KEY, {"a": 2})

    assert store.load(KEY) == {"a": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_made_is_logged_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with caplog.at_level(logging.WARNING):
        ProfileStore(tmp_path / "file" / "folder").save(KEY, {"a": 1})

    assert "Could not save the profile" in caplog.text
