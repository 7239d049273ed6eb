"""Set up Paceline in its own `.venv`, start it, and test it.

    python3 dev.py run               install what is missing, prepare the model, open the window
    python3 dev.py test              install what is missing, then ruff, pyright and pytest
    python3 dev.py test --long       the same with the tests that take minutes
    python3 dev.py test -k budget    further arguments go to pytest

Standard library alone, Python 3.11 or newer, Linux, macOS and Windows. What was done is noted in
`.venv/paceline.json` with what it depends on, so that a second run does none of it again; an
installation that was interrupted is made anew. The system's own packages are `dev_system.py`'s.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import dev_system
from dev_system import Fault, say

ROOT = Path(__file__).resolve().parent
OLDEST_PYTHON = (3, 11)
SECONDS_BETWEEN_LINES = 10.0
"""How often a long step shows a sign of life where its output is not a terminal."""


class Venv:
    """The project's virtual environment and the notes on what was done to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".venv"
        scripts = "Scripts/python.exe" if os.name == "nt" else "bin/python"
        self.python = self.folder / scripts
        self.log = self.folder / "paceline-install.log"
        self._notes = self.folder / "paceline.json"
        self._installing = self.folder / "paceline-installing"

    def notes(self) -> dict[str, str]:
        """What was done; empty if nothing, or if the notes cannot be read."""
        try:
            return dict(json.loads(self._notes.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def note(self, **values: str) -> None:
        """Remember ``values`` for the next run."""
        self._notes.write_text(json.dumps({**self.notes(), **values}, indent=2), encoding="utf-8")

    def is_sound(self) -> bool:
        """Whether its Python starts, has pip, is of our version, and no installation broke off."""
        if not self.python.exists() or self._installing.exists():
            return False
        ask = "import pip, sys; print(sys.version_info[:2])"
        try:
            asked = subprocess.run(
                [self.python, "-c", ask], capture_output=True, text=True, check=False
            )
        except OSError:
            return False
        return asked.stdout.strip() == str(sys.version_info[:2])

    def make(self) -> None:
        """Make it from nothing, in place of what may be there."""
        if Path(sys.prefix).resolve() == self.folder.resolve():
            raise Fault("This .venv is broken and cannot mend itself; use the system's Python.")
        dev_system.require_venv_module()
        command = [sys.executable, "-m", "venv", "--clear", str(self.folder)]
        show_step("Making .venv", command, log=None)

    def install(self, extra: str) -> None:
        """Install the project, editable, and what it depends on. Raises ``Fault``."""
        self._installing.touch()
        command = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check"]
        command += ["--no-input", "--progress-bar", "off", "--editable", f".{extra}"]
        title = "Installing Paceline and its packages (the first time about 1 GB on disk)"
        show_step(title, command, log=self.log)
        self._installing.unlink()


def ensure_installed(venv: Venv, extra: str) -> None:
    """Bring ``venv`` up to date with pyproject.toml; at once if it is. ``extra``: "" or "[dev]"."""
    key = installation_key(venv.root, sys.version_info[:3])
    if is_installed(venv.notes(), key, extra) and venv.python.exists():
        return
    if not venv.is_sound():
        venv.make()
    venv.install(extra)
    venv.note(installed=key, extra=extra)


def installation_key(root: Path, version: Sequence[int]) -> str:
    """Changes with whatever asks for a new installation."""
    digest = hashlib.sha256((root / "pyproject.toml").read_bytes())
    digest.update(f"{root}|{'.'.join(map(str, version))}|{platform.machine()}".encode())
    return digest.hexdigest()


def is_installed(notes: Mapping[str, str], key: str, extra: str) -> bool:
    """Whether the installation that ``notes`` tell of is this one, or has more than it."""
    return notes.get("installed") == key and extra in ("", notes.get("extra"))


def ensure_system_libraries(venv: Venv, environ: Mapping[str, str]) -> None:
    """Check what Qt needs of the system, again only when the system's libraries changed."""
    if sys.platform != "linux":
        return
    plugins = dev_system.qt_plugins(environ)
    fingerprint = f"{' '.join(plugins)}|{dev_system.libraries_fingerprint()}"
    if venv.notes().get("libraries") == fingerprint:
        return
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    pyside = venv.folder / "lib" / version / "site-packages" / "PySide6"
    dev_system.require_qt_libraries(pyside, plugins)
    venv.note(libraries=f"{' '.join(plugins)}|{dev_system.libraries_fingerprint()}")


def ensure_model(venv: Venv, environ: Mapping[str, str]) -> None:
    """Prepare the default model, unless it was prepared before and is still there."""
    home = "|".join(environ.get(name, "") for name in ("PACELINE_HOME", "HOME", "XDG_DATA_HOME"))
    notes = venv.notes()
    if notes.get("model_home") == home and Path(notes["model"], "openvino_model.xml").is_file():
        return
    started = time.monotonic()
    say("Preparing the default model ...")
    command = [str(venv.python), "-m", "engine.library.embedded"]
    with subprocess.Popen(
        command, cwd=venv.root, env=dict(environ), stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        last = ""
        for line in child.stdout:
            last = line.strip()
            if not Path(last).is_dir():  # its last line is the folder, for us
                say(f"  {last}")
    if child.returncode != 0:  # it has said why
        raise SystemExit(child.returncode)
    say(f"  done in {time.monotonic() - started:.1f} s")
    venv.note(model=last, model_home=home)


def show_step(title: str, command: Sequence[str], log: Path | None) -> None:
    """Run ``command`` and show that it lives, and how long it took. Raises ``Fault`` if it fails.

    On a terminal its latest line is shown in place; elsewhere one now and then. ``log`` keeps all.
    """
    started = shown = time.monotonic()
    on_terminal = sys.stdout.isatty()
    say(f"{title} ...")
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if on_terminal:
                say(f"\r  {line.strip()[:76]:<76}", end="")
            elif time.monotonic() - shown > SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                say(f"  {line.strip()[:100]}")
    if on_terminal and lines:
        say(f"\r{'':<79}\r", end="")
    if log is not None:
        log.write_text("".join(lines), encoding="utf-8")
    if child.returncode != 0:
        kept = "" if log is None else f" (all of it in {log})"
        raise Fault(f"{title} failed: {last_complaint(lines)}{kept}.", exit_code=1)
    say(f"  done in {time.monotonic() - started:.1f} s")


def last_complaint(lines: Iterable[str]) -> str:
    """The line that says most of why a command failed: pip's last error, else the last line."""
    spoken = [line.strip() for line in lines if line.strip()]
    errors = [line for line in spoken if line.startswith("ERROR: ")]
    return (errors or spoken or ["it said nothing"])[-1].removeprefix("ERROR: ").rstrip(".")


def run(arguments: Sequence[str]) -> int:
    """Open the window. Replaces this process where the system can."""
    environ = with_absolute_home(os.environ)
    dev_system.require_display(environ, sys.platform)
    venv = Venv(ROOT)
    ensure_installed(venv, extra="")
    ensure_system_libraries(venv, environ)
    ensure_model(venv, environ)
    command = [str(venv.python), "-m", "app", *arguments]
    os.chdir(ROOT)
    if os.name != "nt":  # there it would return to the prompt while the window is open
        os.execve(command[0], command, environ)
    return subprocess.call(command, env=environ)


def with_absolute_home(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with a PACELINE_HOME that means the same in any working folder."""
    home = environ.get("PACELINE_HOME")
    absolute = {"PACELINE_HOME": str(Path(home).expanduser().absolute())} if home else {}
    return {**environ, **absolute}


def test(arguments: Sequence[str]) -> int:
    """Run every check, also after one failed; 0 only if all passed."""
    environ = {**with_absolute_home(os.environ), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    venv = Venv(ROOT)
    ensure_installed(venv, extra="[dev]")
    ensure_system_libraries(venv, environ)
    checks = {
        "ruff check": ["ruff", "check", "."],
        "ruff format": ["ruff", "format", "--check", "."],
        "pyright": ["pyright"],
        "pytest": ["pytest", *arguments],
    }
    codes: dict[str, int] = {}
    for title, module in checks.items():
        started = time.monotonic()
        say(f"{title} ...")
        codes[title] = subprocess.call([venv.python, "-m", *module], cwd=ROOT, env=environ)
        outcome = "failed after" if codes[title] else "passed in"
        say(f"  {title} {outcome} {time.monotonic() - started:.1f} s")
    failed = [title for title, code in codes.items() if code]
    say(f"Failed: {', '.join(failed)}." if failed else "All passed.")
    return codes["pytest"] or min(len(failed), 1)


def main(arguments: Sequence[str]) -> int:
    """Do what the first argument says; the exit code."""
    fault = dev_system.python_fault(sys.version_info[:3], OLDEST_PYTHON)
    commands = {"run": run, "test": test}
    try:
        if fault:
            raise Fault(fault)
        if not arguments or arguments[0] in ("-h", "--help", "help"):
            say((__doc__ or "").strip())
            return 0
        if arguments[0] not in commands:
            raise Fault(f"dev.py has no command {arguments[0]!r}; it has `run` and `test`.")
        return commands[arguments[0]](arguments[1:])
    except Fault as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
