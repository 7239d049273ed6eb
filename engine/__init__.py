"""Paceline's engine: from a request to streamed tokens, with drafts verified by the target model.

The public surface. Everything heavy is imported on first use, so that asking for a version or an
error costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.config import EngineConfig, GenerationConfig, Speculation
    from engine.errors import PacelineError
    from engine.events import FailedEvent, FinishedEvent, GenerationRequest, StepEvent
    from engine.interface import Engine, stream
    from engine.load import load_engine

_HOMES = {
    "Engine": "engine.interface",
    "EngineConfig": "engine.config",
    "FailedEvent": "engine.events",
    "FinishedEvent": "engine.events",
    "GenerationConfig": "engine.config",
    "GenerationRequest": "engine.events",
    "PacelineError": "engine.errors",
    "Speculation": "engine.config",
    "StepEvent": "engine.events",
    "load_engine": "engine.load",
    "stream": "engine.interface",
}

__all__ = [
    "Engine",
    "EngineConfig",
    "FailedEvent",
    "FinishedEvent",
    "GenerationConfig",
    "GenerationRequest",
    "PacelineError",
    "Speculation",
    "StepEvent",
    "load_engine",
    "stream",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'engine' has no attribute '{name}'")
