"""All settings: of one request (`GenerationConfig`), of the scheduler, and of the engine.

Fields, defaults, bounds and help are declared once, in the dataclasses; see `options`.
"""

from engine.config.engine import (
    BackendKind,
    CachePrecision,
    EngineConfig,
    SampledRule,
    SchedulerConfig,
    Speculation,
)
from engine.config.generation import MAX_ASSISTANT_TOKENS, MAX_LOGPROBS, GenerationConfig
from engine.config.options import Option, OptionKind, options
from engine.config.resolve import REQUEST_KEYS, UNSUPPORTED, Unsupported, resolve

__all__ = [
    "MAX_ASSISTANT_TOKENS",
    "MAX_LOGPROBS",
    "REQUEST_KEYS",
    "UNSUPPORTED",
    "BackendKind",
    "CachePrecision",
    "EngineConfig",
    "GenerationConfig",
    "Option",
    "OptionKind",
    "SampledRule",
    "SchedulerConfig",
    "Speculation",
    "Unsupported",
    "options",
    "resolve",
]
