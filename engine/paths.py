"""Where Paceline keeps its files.

Each kind of file has a folder of its own, in the places that the platform provides for them
(platformdirs), so that a person can delete the compile cache without losing a conversation.
``PACELINE_HOME`` moves all of them together. Nothing is created here: who writes makes the folder.
The environment is read by ``Folders.from_environment`` and by nothing else; entry points call it
once and pass the result down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import PlatformDirs

HOME_VARIABLE = "PACELINE_HOME"


@dataclass(frozen=True, slots=True)
class Folders:
    """One absolute folder for each kind of file; none of them need exist."""

    models: Path
    """Model folders, one each; the largest by far."""
    compile_cache: Path
    """What OpenVINO compiled for a device; safe to delete."""
    profiles: Path
    """Step costs and survival priors measured on this machine; safe to delete."""
    settings: Path
    conversations: Path
    logs: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Folders:
        """Below ``PACELINE_HOME`` if it is set and not empty, else in the platform's places."""
        home = environ.get(HOME_VARIABLE, "")
        return cls.below(Path(home)) if home else cls.of_platform()

    @classmethod
    def below(cls, home: Path) -> Folders:
        """All folders below one; ``~`` is the user's own."""
        home = home.expanduser().absolute()
        return cls(
            models=home / "models",
            compile_cache=home / "compile-cache",
            profiles=home / "profiles",
            settings=home / "settings",
            conversations=home / "conversations",
            logs=home / "logs",
        )

    @classmethod
    def of_platform(cls) -> Folders:
        """The places that the operating system provides for this user."""
        dirs = PlatformDirs("paceline", appauthor=False)
        return cls(
            models=dirs.user_data_path / "models",
            compile_cache=dirs.user_cache_path / "compile-cache",
            profiles=dirs.user_cache_path / "profiles",
            settings=dirs.user_config_path / "settings",
            conversations=dirs.user_data_path / "conversations",
            logs=dirs.user_log_path,
        )
