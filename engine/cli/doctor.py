"""``paceline doctor``: what is installed, where files lie, and what this machine can do.

It finds out and reports; it changes nothing and downloads nothing. A part that is missing is a
finding, not an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import cast

from engine.cli.terminal import say
from engine.errors import PacelineError
from engine.library.embedded import default_model_path
from engine.library.folder import read_model_folder
from engine.paths import Folders
from engine.version import paceline_version

_PACKAGES = (
    "openvino",
    "openvino-tokenizers",
    "openvino-genai",
    "numpy",
    "transformers",
    "jinja2",
    "starlette",
    "uvicorn",
    "pydantic",
    "PySide6-Essentials",
    "pyqtgraph",
    "qasync",
)

Json = dict[str, object]


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the report; always succeeds."""
    report = examine(Folders.from_environment(environ))
    if args.json:
        say(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        for title, findings in report.items():
            say(f"{title}:")
            for line in _lines(findings):
                say(f"  {line}")
    return 0


def examine(folders: Folders) -> Json:
    """The report, by subject. The machine's memory stands with its CPU, under ``devices``."""
    return {
        "versions": _versions(),
        "machine": _machine(),
        "devices": _devices(),
        "folders": {name: str(path) for name, path in asdict(folders).items()},
        "default_model": _default_model(folders),
        "window": _window(),
    }


def _versions() -> Json:
    found: Json = {"paceline": paceline_version(), "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _machine() -> Json:
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "threads": os.cpu_count(),
        "executable": sys.executable,
    }


def _devices() -> list[Json] | Json:
    try:
        openvino = import_module("openvino")
    except ImportError as error:
        return {"error": str(error)}
    from engine.devices import detect_devices

    return [device.to_json() for device in detect_devices(openvino.Core())]


def _default_model(folders: Folders) -> Json:
    path = default_model_path(folders)
    report: Json = {"path": str(path), "state": "ready", "problem": None}
    if not path.exists():
        return report | {"state": "not prepared", "problem": "it is made at the first start"}
    try:
        read_model_folder(path)
    except PacelineError as error:
        return report | {"state": "broken", "problem": error.message}
    return report


def _window() -> Json:
    try:
        import_module("PySide6.QtWidgets")
    except ImportError as error:
        return {"qt": False, "problem": str(error)}
    return {"qt": True, "problem": None}


def _lines(findings: object) -> list[str]:
    """A report's part as lines of text."""
    if isinstance(findings, dict):
        entries = cast(Mapping[str, object], findings)
        return [f"{key}: {_words(value)}" for key, value in entries.items()]
    if isinstance(findings, list):
        return ["; ".join(_lines(each)) for each in cast(list[object], findings)] or ["none"]
    return [str(findings)]


def _words(value: object) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, cast(list[object], value))) if isinstance(value, list) else str(value)
