"""Turn a GGUF file into a model folder.

OpenVINO GenAI reads the file and saves the model, its tokenizer and its detokenizer; it does so in
a child process, because what fails inside it may end the process, and because its memory is then
given back. Beside them go a ``config.json`` from the file's header and a ``generation_config.json``
with the special tokens, which GenAI does not write. The folder appears all at once or not at all.
Which architectures and quantisations work is GenAI's to say.

Run as ``python -m engine.library.import_gguf SOURCE FOLDER`` this is the child: it saves the graphs
of SOURCE into the existing FOLDER and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from engine.errors import ModelNotFoundError, ModelUnusableError
from engine.library.folder import MODEL_FILES, is_complete, model_defaults
from engine.library.gguf_header import (
    Header,
    checkpoint_config,
    read_gguf_header,
    stop_token_ids,
)
from engine.library.staging import staged_folder

Progress = Callable[[str], None]
"""Is told in sentences what goes on."""

_LINK_NAME = "source.gguf"
_HIDE_CONSOLE = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # exists on Windows alone


def import_gguf(source: Path, destination: Path, progress: Progress) -> Path:
    """Make the model folder ``destination`` from the GGUF file ``source``, which stays as it is.

    Replaces a ``destination`` that lacks files; leaves a complete one alone. Takes seconds for a
    small model and memory of about twice the file. Raises ``ModelNotFoundError`` if there is no
    such file, ``ModelUnusableError`` if it cannot be read or the disk cannot hold the result.
    """
    source, destination = source.absolute(), destination.absolute()  # the child runs elsewhere
    if not source.is_file():
        raise ModelNotFoundError(f"There is no GGUF file {source}; check the path.", param="model")

    def on_wait() -> None:
        progress(f"Waiting for another process that imports {destination.name}")

    try:
        with staged_folder(destination, "import", on_wait) as staged:
            if is_complete(destination):
                return destination
            require_free_space(destination.parent, 2 * source.stat().st_size)  # twice the result
            progress(f"Importing {source.name} through OpenVINO GenAI")
            _convert_in_child(source, staged.path)
            staged.publish()
    except OSError as error:
        raise ModelUnusableError(
            f"{source} cannot be imported into {destination} ({error.strerror or error}); "
            "check the disk and the permissions."
        ) from error
    return destination


def require_free_space(folder: Path, num_bytes: int) -> None:
    """Raise ``ModelUnusableError`` if the disk of ``folder`` has less than ``num_bytes`` free."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise ModelUnusableError(
            f"{folder} needs {num_bytes / 1e6:.0f} MB of disk and has {free / 1e6:.0f} MB; "
            "make room, or set PACELINE_HOME to a folder on another disk."
        )


def _convert_in_child(source: Path, folder: Path) -> None:
    """Fill ``folder``; the header, slow to read, is read while the child works."""
    child = subprocess.Popen(
        [sys.executable, "-m", "engine.library.import_gguf", str(source), str(folder)],
        cwd=Path(__file__).parents[2],  # so that the package is found even if not installed
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        creationflags=_HIDE_CONSOLE,
    )
    try:
        header = read_gguf_header(source)
        _, complaint = child.communicate()
    finally:
        child.kill()  # no effect on one that has ended
        child.wait()
    if child.returncode != 0 or not is_complete(folder):
        said = complaint.strip().splitlines() or [f"it ended with code {child.returncode}"]
        raise ModelUnusableError(
            f"OpenVINO GenAI cannot import {source.name} ({said[-1]}); "
            "use a GGUF of a model family that it supports, or export the checkpoint instead.",
            param="model",
        )
    _describe(folder, header)


def _describe(folder: Path, header: Header) -> None:
    """Write the checkpoint's JSON files, which GenAI leaves out."""
    _write_json(folder / "config.json", checkpoint_config(header))
    defaults = dict(model_defaults(folder))  # so far what the tokenizer knows
    stops = stop_token_ids(header)
    if stops:
        defaults["eos_token_id"] = stops if len(stops) > 1 else stops[0]
    _write_json(folder / "generation_config.json", defaults)


def _write_json(path: Path, values: dict[str, object]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _save_graphs(source: Path, folder: Path) -> None:
    """The child's work: save the graphs of ``source`` into ``folder``."""
    import openvino  # here, as only the child should pay for these two
    import openvino_genai

    # GenAI saves beside the file that it reads.
    link = folder / _LINK_NAME
    try:
        os.link(source, link)
    except OSError:  # another disk, or a file system without links
        shutil.copyfile(source, link)
    openvino_genai.LLMPipeline(link, "CPU", enable_save_ov_model=True)
    link.unlink()
    # GenAI does not notice a full disk; reading back does.
    core = openvino.Core()
    core.read_model(folder / MODEL_FILES[0])  # pyright: ignore[reportUnknownMemberType]


def _main(arguments: list[str]) -> int:
    source, folder = map(Path, arguments)
    try:
        _save_graphs(source, folder)
    except (RuntimeError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
