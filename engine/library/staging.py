"""Make a folder so that nobody ever sees it half made.

A folder is filled under a hidden name beside its destination and then renamed, which is atomic
within one file system. One process at a time works on a destination; its lock is the operating
system's and dies with the process, so whatever half-made folder the holder finds is left over from
a process that was killed, and is removed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout


@dataclass(frozen=True, slots=True)
class StagedFolder:
    """An empty folder to fill, and the way to its destination."""

    path: Path
    destination: Path

    def publish(self) -> None:
        """Move the folder to its destination, in place of what may be there."""
        if self.destination.exists():  # a folder cannot be replaced: the old one steps aside
            self.destination.rename(self.path.with_name(f"{self.path.name}.old"))
        self.path.rename(self.destination)


@contextmanager
def staged_folder(
    destination: Path, purpose: str, on_wait: Callable[[], None]
) -> Generator[StagedFolder]:
    """Hold the lock of ``destination`` and ``purpose``, with a folder to fill on the same disk.

    ``purpose`` ("import", "download") tells apart the steps that one destination needs; they do not
    exclude each other. ``on_wait`` is called once if another process holds the lock; the caller
    should then look again whether there is anything left to do. What was not published is removed.
    Raises ``OSError``.
    """
    parent = destination.parent
    parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{destination.name}.{purpose}"
    with _exclusive(FileLock(parent / f"{prefix}.lock"), on_wait):
        for left_over in parent.glob(f"{prefix}-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=parent))
        try:
            path = work / destination.name  # below: mkdtemp's own folder is closed to others
            path.mkdir()
            yield StagedFolder(path, destination)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _exclusive(lock: FileLock, on_wait: Callable[[], None]) -> Generator[None]:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
