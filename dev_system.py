"""What `dev.py` needs of the machine itself: Python, a display, and the system libraries of Qt.

The wheels of PySide6 bring Qt but not the libraries under it. Which of those are missing is asked
of the dynamic linker (`ldd`) rather than guessed; this file knows in which package each one lies.
As root on Debian or Ubuntu they are installed, elsewhere they are named. Standard library alone.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

DEBIAN_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libOpenGL.so.0": "libopengl0",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libstdc++.so.6": "libstdc++6",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-glx.so.0": "libxcb-glx0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libz.so.1": "zlib1g",
    "libzstd.so.1": "libzstd1",
}
DEBIAN_FONTS = "fonts-dejavu-core"
FEDORA_FONTS = "dejavu-sans-fonts"
"""On Fedora a library is named by itself (``libEGL.so.1()(64bit)``): dnf knows its package."""

FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")
FONT_SUFFIXES = (".ttf", ".otf", ".ttc", ".pfb")
NOT_FOUND = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)


class Fault(Exception):
    """Ends the command with one sentence; exit code 2 where the user can mend it."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def say(text: str, end: str = "\n") -> None:
    """Write to standard output at once, also into a pipe."""
    sys.stdout.write(f"{text}{end}")
    sys.stdout.flush()


def python_fault(version: Sequence[int], oldest: Sequence[int]) -> str | None:
    """What is wrong with this Python, None if nothing."""
    if tuple(version) >= tuple(oldest):
        return None
    wanted, found = (".".join(map(str, numbers)) for numbers in (oldest, version))
    return f"Paceline needs Python {wanted} or newer and this is {found}; start it with another."


def require_display(environ: Mapping[str, str], system: str) -> None:
    """Raise ``Fault`` if a window could not be shown anywhere."""
    shown_by = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if system == "linux" and not any(environ.get(name) for name in shown_by):
        raise Fault(
            "There is no display (DISPLAY and WAYLAND_DISPLAY are not set); start this in a "
            "desktop session, or with QT_QPA_PLATFORM=offscreen to run it unseen."
        )


def require_venv_module() -> None:
    """Raise ``Fault`` if this Python cannot make environments, as Debian's cannot on its own."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    if sys.executable.startswith("/usr/bin/") and may_install():
        apt_install([package])
        return
    raise Fault(
        "This Python lacks the modules venv and ensurepip; on Debian or Ubuntu install them with "
        f"`sudo apt-get install -y {package}`."
    )


def qt_plugins(environ: Mapping[str, str]) -> list[str]:
    """The platform plugins that Qt may choose from here; any one of them will do."""
    chosen = environ.get("QT_QPA_PLATFORM")
    if chosen:
        return [name.partition(":")[0] for name in chosen.split(";")]
    by_variable = {"WAYLAND_DISPLAY": "wayland", "DISPLAY": "xcb"}
    return [plugin for name, plugin in by_variable.items() if environ.get(name)]


def libraries_fingerprint() -> str:
    """Changes when the system's libraries do: the linker's cache is then written again."""
    try:
        return str(Path("/etc/ld.so.cache").stat().st_mtime_ns)
    except OSError:
        return "unknown"


def require_qt_libraries(pyside: Path, plugins: Sequence[str]) -> None:
    """Install or name what Qt lacks. ``pyside`` is the folder of the package PySide6."""
    libraries, fonts_missing = missing_for_any(pyside, plugins), not has_fonts(FONT_FOLDERS)
    if not libraries and not fonts_missing:
        return
    packages = debian_packages(libraries, fonts_missing)
    if may_install():
        apt_install(packages)
        libraries = missing_for_any(pyside, plugins)
        if not libraries:
            return
    raise Fault(advice(libraries, fonts_missing, distribution()))


def missing_for_any(pyside: Path, plugins: Sequence[str]) -> list[str]:
    """Libraries that the plugin with the fewest missing ones still lacks."""
    if shutil.which("ldd") is None:  # without it Qt itself has to complain
        return []
    folder = pyside / "Qt" / "plugins" / "platforms"
    candidates = [folder / f"libq{plugin}.so" for plugin in plugins]
    found = [path for path in candidates if path.is_file()]
    lacking = [missing_libraries([path, pyside / "QtWidgets.abi3.so"]) for path in found]
    return min(lacking, key=len) if lacking else []


def missing_libraries(files: Iterable[Path]) -> list[str]:
    """Names of the shared libraries that ``files`` need, directly or not, and the linker lacks."""
    command = ["ldd", *map(str, files)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return parse_missing(said)


def parse_missing(ldd_output: str) -> list[str]:
    """Sorted names of the libraries that ``ldd`` did not find."""
    return sorted(set(NOT_FOUND.findall(ldd_output)))


def has_fonts(folders: Iterable[str]) -> bool:
    """Whether there is any font; without one Qt shows no letters at all."""
    return any(
        name.endswith(FONT_SUFFIXES)
        for folder in folders
        for _, _, names in os.walk(os.path.expanduser(folder))
        for name in names
    )


def debian_packages(libraries: Iterable[str], fonts_missing: bool) -> list[str]:
    """Packages of Debian and Ubuntu; a library whose package is not known here is left out."""
    packages = {DEBIAN_PACKAGES[name] for name in libraries if name in DEBIAN_PACKAGES}
    return sorted(packages | ({DEBIAN_FONTS} if fonts_missing else set()))


def advice(libraries: Sequence[str], fonts_missing: bool, family: str) -> str:
    """One sentence: what is missing and the command that installs it on this ``family``."""
    if family == "debian":
        packages = " ".join(debian_packages(libraries, fonts_missing))
        unknown = [name for name in libraries if name not in DEBIAN_PACKAGES]
        rest = f" and the packages that hold {', '.join(unknown)}" if unknown else ""
        command = f"`sudo apt-get install -y {packages}`{rest}"
    elif family == "fedora":
        wanted = [f"'{name}()(64bit)'" for name in libraries]
        packages = " ".join([*wanted, *([FEDORA_FONTS] if fonts_missing else [])])
        command = f"`sudo dnf install -y {packages}`"
    else:
        missing = [*libraries, *(["any font"] if fonts_missing else [])]
        return f"Qt needs what this system lacks; install the packages with {', '.join(missing)}."
    return f"Qt needs what this system lacks; install it with {command}."


def distribution() -> str:
    """``debian`` or ``fedora`` for those and what derives from them, else the system's own id."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    names = [release.get("ID", "unknown"), *release.get("ID_LIKE", "").split()]
    family = {"debian": "debian", "ubuntu": "debian", "fedora": "fedora", "rhel": "fedora"}
    return next((family[name] for name in names if name in family), names[0])


def may_install() -> bool:
    """Whether packages can be installed without asking anybody."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return is_root and shutil.which("apt-get") is not None and distribution() == "debian"


def apt_install(packages: Sequence[str]) -> None:
    """Install ``packages`` with apt-get. Raises ``Fault`` with its last words if that fails."""
    say(f"Installing system packages: {' '.join(packages)} ...")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", "-q", *arguments], env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode != 0 and arguments[0] == "install":  # an update may fail in part
            words = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no reason given"]
            raise Fault(f"apt-get could not install {' '.join(packages)}: {words[-1]}", exit_code=1)
