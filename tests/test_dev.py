"""`dev.py` without installing anything: what it decides, and what it says."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import dev
import dev_system
from dev_system import Fault

LDD_OUTPUT = """
	linux-vdso.so.1 (0x00007ffd)
	libxcb-cursor.so.0 => not found
	libQt6Gui.so.6 => /venv/PySide6/Qt/lib/libQt6Gui.so.6 (0x00007f)
	libEGL.so.1 => not found
	libxcb-cursor.so.0 => not found
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_system, "may_install", lambda: False)


def test_without_a_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main([]) == 0
    assert "python3 dev.py run" in capsys.readouterr().out


def test_an_unknown_command_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["build"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "'build'" in captured.err


@pytest.mark.parametrize("version", [(3, 10, 13), (2, 7, 18)])
def test_refuses_an_old_python_in_one_sentence(version: tuple[int, int, int]) -> None:
    sentence = dev_system.python_fault(version, dev.OLDEST_PYTHON)
    assert sentence is not None
    assert "3.11" in sentence
    assert ".".join(map(str, version)) in sentence


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 1)])
def test_accepts_a_new_python(version: tuple[int, int, int]) -> None:
    assert dev_system.python_fault(version, dev.OLDEST_PYTHON) is None


def test_run_without_a_display_stops_before_it_installs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("it went on without a display")

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(dev, "ensure_installed", fail)
    monkeypatch.setattr(dev.sys, "platform", "linux")
    assert dev.main(["run"]) == 2
    assert "DISPLAY" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"])
def test_any_place_to_show_a_window_will_do(name: str) -> None:
    dev_system.require_display({name: ":0"}, "linux")


def test_other_systems_need_no_display_variable() -> None:
    dev_system.require_display({}, "win32")


def test_the_key_changes_with_dependencies_python_and_place(project: Path) -> None:
    first = dev.installation_key(project, (3, 11, 7))
    assert dev.installation_key(project, (3, 11, 7)) == first
    other_python = dev.installation_key(project, (3, 12, 0))
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    other_dependencies = dev.installation_key(project, (3, 11, 7))
    moved = project / "moved"
    moved.mkdir()
    shutil.copy(project / "pyproject.toml", moved)
    other_place = dev.installation_key(moved, (3, 11, 7))
    assert len({first, other_python, other_dependencies, other_place}) == 4


@pytest.mark.parametrize(
    ("noted_extra", "wanted_extra", "is_installed"),
    [("", "", True), ("[dev]", "", True), ("[dev]", "[dev]", True), ("", "[dev]", False)],
)
def test_an_installation_for_tests_serves_to_run(
    noted_extra: str, wanted_extra: str, *, is_installed: bool
) -> None:
    notes = {"installed": "key", "extra": noted_extra}
    assert dev.is_installed(notes, "key", wanted_extra) is is_installed
    assert not dev.is_installed(notes, "other key", wanted_extra)


def test_nothing_is_installed_before_the_first_run() -> None:
    assert not dev.is_installed({}, "key", "")


def test_a_second_run_starts_no_process(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = dev.Venv(project)
    venv.python.parent.mkdir(parents=True)
    venv.python.touch()
    venv.note(installed=dev.installation_key(project, sys.version_info[:3]), extra="")
    model = project / "model"
    model.mkdir()
    (model / "openvino_model.xml").touch()
    venv.note(model=str(model), model_home=f"{project}|/home/me|")
    monkeypatch.setattr(dev.subprocess, "run", lambda *_, **__: pytest.fail("a process started"))
    monkeypatch.setattr(dev.subprocess, "Popen", lambda *_, **__: pytest.fail("a process started"))
    dev.ensure_installed(venv, extra="")
    dev.ensure_model(venv, {"PACELINE_HOME": str(project), "HOME": "/home/me"})


def test_notes_accumulate_and_survive_damage(project: Path) -> None:
    venv = dev.Venv(project)
    venv.folder.mkdir()
    venv.note(installed="key")
    venv.note(extra="[dev]")
    assert venv.notes() == {"installed": "key", "extra": "[dev]"}
    (venv.folder / "paceline.json").write_text('{"installed": "k', encoding="utf-8")
    assert venv.notes() == {}


@pytest.fixture
def sound_venv(project: Path) -> dev.Venv:
    """An environment whose Python is the one that runs this test."""
    if sys.platform == "win32":
        pytest.skip("needs symbolic links")
    venv = dev.Venv(project)
    venv.python.parent.mkdir(parents=True)
    script = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    venv.python.write_text(script, encoding="utf-8")
    venv.python.chmod(0o755)
    return venv


def test_a_working_environment_is_kept(sound_venv: dev.Venv) -> None:
    assert sound_venv.is_sound()


def test_an_interrupted_installation_is_not_sound(sound_venv: dev.Venv) -> None:
    (sound_venv.folder / "paceline-installing").touch()
    assert not sound_venv.is_sound()


@pytest.mark.parametrize("content", ["#!/nowhere/python\n", "#!/bin/sh\nexit 1\n"])
def test_an_environment_whose_python_is_broken_is_not_sound(
    sound_venv: dev.Venv, content: str
) -> None:
    sound_venv.python.write_text(content, encoding="utf-8")
    assert not sound_venv.is_sound()


def test_an_environment_of_another_python_is_not_sound(sound_venv: dev.Venv) -> None:
    sound_venv.python.write_text('#!/bin/sh\necho "(3, 9)"\n', encoding="utf-8")
    assert not sound_venv.is_sound()


def test_a_failing_step_ends_in_one_sentence_with_its_last_error(tmp_path: Path) -> None:
    script = "print('ERROR: no matching distribution.'); print('a hint'); raise SystemExit(1)"
    log = tmp_path / "log"
    with pytest.raises(Fault, match="Installing failed: no matching distribution ") as caught:
        dev.show_step("Installing", [sys.executable, "-c", script], log)
    assert caught.value.exit_code == 1
    assert "a hint" in log.read_text(encoding="utf-8")


def test_a_step_says_what_it_does_and_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    dev.show_step("Working", [sys.executable, "-c", "print('x')"], log=None)
    title, done = capsys.readouterr().out.splitlines()
    assert title == "Working ..."
    assert done.startswith("  done in ")


def test_reads_missing_libraries_from_ldd() -> None:
    assert dev_system.parse_missing(LDD_OUTPUT) == ["libEGL.so.1", "libxcb-cursor.so.0"]


def test_names_the_debian_packages_and_the_command() -> None:
    sentence = dev_system.advice(["libEGL.so.1", "libxcb-cursor.so.0"], True, "debian")
    assert "`sudo apt-get install -y fonts-dejavu-core libegl1 libxcb-cursor0`" in sentence
    assert "\n" not in sentence


def test_a_library_without_a_known_package_is_still_named() -> None:
    assert "hold libnew.so.7" in dev_system.advice(["libEGL.so.1", "libnew.so.7"], False, "debian")


def test_fedora_finds_packages_by_library() -> None:
    assert "dnf install -y 'libEGL.so.1()(64bit)'" in dev_system.advice(
        ["libEGL.so.1"], False, "fedora"
    )


def test_another_system_is_told_the_libraries() -> None:
    sentence = dev_system.advice(["libEGL.so.1"], True, "arch")
    assert sentence.endswith("install the packages with libEGL.so.1, any font.")


@pytest.mark.parametrize(
    ("environ", "plugins"),
    [
        ({"DISPLAY": ":0"}, ["xcb"]),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, ["wayland", "xcb"]),
        ({"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}, ["offscreen"]),
        ({"QT_QPA_PLATFORM": "wayland:x;xcb"}, ["wayland", "xcb"]),
    ],
)
def test_checks_the_plugins_that_qt_would_choose(
    environ: dict[str, str], plugins: list[str]
) -> None:
    assert dev_system.qt_plugins(environ) == plugins


@pytest.fixture
def pyside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PySide6 whose xcb plugin lacks a library and whose wayland plugin lacks none."""
    platforms = tmp_path / "Qt" / "plugins" / "platforms"
    platforms.mkdir(parents=True)
    for plugin in ("xcb", "wayland"):
        (platforms / f"libq{plugin}.so").touch()

    def fake_ldd(files: list[Path]) -> list[str]:
        return ["libxcb-cursor.so.0"] if files[0].name == "libqxcb.so" else []

    monkeypatch.setattr(dev_system, "missing_libraries", fake_ldd)
    monkeypatch.setattr(dev_system.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(dev_system, "has_fonts", lambda _: True)
    return tmp_path


@pytest.mark.usefixtures("not_root")
def test_names_what_the_only_plugin_lacks(pyside: Path) -> None:
    with pytest.raises(Fault, match="libxcb-cursor"):
        dev_system.require_qt_libraries(pyside, ["xcb"])


def test_one_working_plugin_is_enough(pyside: Path) -> None:
    dev_system.require_qt_libraries(pyside, ["wayland", "xcb"])


def test_root_on_debian_installs_and_looks_again(
    pyside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[str] = []

    def install(packages: list[str]) -> None:
        installed.extend(packages)
        monkeypatch.setattr(dev_system, "missing_libraries", lambda _: [])

    monkeypatch.setattr(dev_system, "may_install", lambda: True)
    monkeypatch.setattr(dev_system, "apt_install", install)
    dev_system.require_qt_libraries(pyside, ["xcb"])
    assert installed == ["libxcb-cursor0"]


@pytest.mark.usefixtures("not_root")
def test_a_machine_without_fonts_is_told_so(pyside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_system, "has_fonts", lambda _: False)
    monkeypatch.setattr(dev_system, "distribution", lambda: "debian")
    with pytest.raises(Fault, match="fonts-dejavu-core"):
        dev_system.require_qt_libraries(pyside, ["wayland"])


def test_finds_fonts_in_any_depth(tmp_path: Path) -> None:
    assert not dev_system.has_fonts([str(tmp_path)])
    (tmp_path / "truetype" / "dejavu").mkdir(parents=True)
    (tmp_path / "truetype" / "dejavu" / "DejaVuSans.ttf").touch()
    assert dev_system.has_fonts([str(tmp_path / "nowhere"), str(tmp_path)])


@pytest.mark.usefixtures("not_root")
def test_a_python_without_ensurepip_is_told_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> object:
        return None if name == "ensurepip" else object()

    monkeypatch.setattr(dev_system.importlib.util, "find_spec", find_spec)
    package = rf"python{sys.version_info[0]}\.{sys.version_info[1]}-venv"
    with pytest.raises(Fault, match=package):
        dev_system.require_venv_module()


def test_a_relative_home_means_the_same_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = dev.with_absolute_home({"PACELINE_HOME": "here", "A": "b"})
    assert environ == {"PACELINE_HOME": str(tmp_path / "here"), "A": "b"}
    assert dev.with_absolute_home({"A": "b"}) == {"A": "b"}
