"""What all tests share: the real small model, an unseen screen, the switch for long tests."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest
from hypothesis import settings

from engine.library.embedded import ensure_default_model
from engine.paths import Folders

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

# A person's run looks for new examples; a gate must not fail for one that it has not met before.
settings.register_profile("gate", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="takes long; run with --long")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def shared_folders() -> Folders:
    """Folders that outlive a test run, so that the model is imported once for all runs."""
    home = os.environ.get("PACELINE_TEST_HOME")
    return Folders.below(Path(home) if home else platformdirs.user_cache_path("paceline-tests"))


@pytest.fixture(scope="session")
def smollm2(shared_folders: Folders) -> Path:
    """The model folder of SmolLM2-135M-Instruct, prepared as a fresh machine prepares it."""
    return ensure_default_model(shared_folders, progress=lambda said: print(f"{said} ..."))
