"""Keeps what the budget learnt between runs: one JSON file for each combination that matters.

A file that cannot be read is ignored with a line in the log: everything in it can be measured
again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

log = logging.getLogger(__name__)

_VERSION = 3
"""Raise it when a change of ours (a graph rewrite, say) changes what a row costs."""


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """Everything that a cost curve depends on; ``weights`` tells models apart whose passes may cost
    something else."""

    model: str
    weights: str
    backend: str
    device: str
    driver: str
    threads: int
    cache_precision: str
    inference_precision: str | None


class ProfileStore:
    """A folder with one file per key; the folder is made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: ProfileKey) -> dict[str, Any] | None:
        """What was saved under the key; None if nothing was, or nothing that can be read."""
        path = self._path(key)
        try:
            data: object = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("Ignoring the profile %s: %s", path.name, error)
            return None
        if not isinstance(data, dict):
            log.warning("Ignoring the profile %s: it is not an object", path.name)
            return None
        fields = cast("dict[str, Any]", data)
        if fields.get("version") != _VERSION or fields.get("key") != asdict(key):
            log.warning("Ignoring the profile %s: it was written for something else", path.name)
            return None
        payload = fields.get("profile")
        return cast("dict[str, Any]", payload) if isinstance(payload, dict) else None

    def save(self, key: ProfileKey, profile: dict[str, Any]) -> None:
        """Write the profile in one piece: a reader sees the old file or the new one, never half.

        A folder that cannot be written to is logged, no more: the next run measures again.
        """
        text = json.dumps({"version": _VERSION, "key": asdict(key), "profile": profile}, indent=1)
        path = self._path(key)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".part")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            log.warning("Could not save the profile %s: %s", path.name, error)

    def _path(self, key: ProfileKey) -> Path:
        digest = hashlib.sha256(json.dumps(asdict(key), sort_keys=True).encode()).hexdigest()
        return self._folder / f"{digest[:24]}.json"
