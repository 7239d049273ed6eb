"""How the engine is to be built: model, devices, backend, drafter, cache and scheduler.

These are wishes. What becomes of them, with reasons, is the plan's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from engine.config.options import Option, OptionKind, check, option, options
from engine.errors import InvalidOptionError, UnsupportedOptionError


class Speculation(StrEnum):
    """Whether drafts are used, and who decides how long they are."""

    ADAPTIVE = "adaptive"
    """The budget decides at every step."""
    STATIC = "static"
    """Always ``num_assistant_tokens``."""
    OFF = "off"


class SampledRule(StrEnum):
    """How drafts are verified when tokens are drawn at random."""

    KEYED = "keyed"
    """The target draws by itself, with noise that position and seed fix, and the draft is right or
    wrong about it: a seeded answer is the same whatever was drafted."""
    REJECTION = "rejection"
    """A draft token is kept with min(1, p/q), and replaced by a draw from what is left: more is
    kept of drafts that are drawn themselves. The answer follows the same law, but depends on what
    was drafted, so that a seed repeats it only where draft lengths are fixed."""


class CachePrecision(StrEnum):
    """Element type of the key/value cache."""

    F16 = "f16"
    F32 = "f32"
    U8 = "u8"


class BackendKind(StrEnum):
    """What runs the model."""

    AUTO = "auto"
    PAGED = "paged"
    STATEFUL = "stateful"
    GENAI = "genai"
    """OpenVINO GenAI's paged pipeline."""
    GENAI_STATEFUL = "genai-stateful"
    """OpenVINO GenAI's stateful pipeline."""

    @property
    def is_genai(self) -> bool:
        """Another program's, whose answers are told by `engine.reference`."""
        return self in (BackendKind.GENAI, BackendKind.GENAI_STATEFUL)

    @property
    def tells_scores(self) -> bool:
        """Whether answers come with log probabilities."""
        return not self.is_genai


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """How requests share the model. Room for the cache is given in blocks or in GiB, or by neither:
    then the engine decides."""

    max_num_batched_tokens: int = option(
        256, Option(OptionKind.INTEGER, "Most tokens of one forward pass.", at_least=1)
    )
    max_num_seqs: int = option(
        256, Option(OptionKind.INTEGER, "Most sequences that run at once.", at_least=1)
    )
    num_kv_blocks: int | None = option(
        None,
        Option(OptionKind.INTEGER, "Blocks of the key/value cache.", optional=True, at_least=1),
    )
    cache_size_gib: float | None = option(
        None,
        Option(OptionKind.NUMBER, "Size of the key/value cache in GiB.", optional=True, above=0),
    )
    enable_prefix_caching: bool = option(
        False, Option(OptionKind.SWITCH, "Keep the cache of past prompts for new requests.")
    )

    def validate(self) -> None:
        """Check every field on its own, then the fields against each other.

        Raises:
            InvalidOptionError: a value has the wrong type, is out of bounds or contradicts another.
            UnsupportedOptionError: prefix caching.
        """
        for name, description in options(SchedulerConfig).items():
            check(name, getattr(self, name), description)
        if self.num_kv_blocks is not None and self.cache_size_gib is not None:
            raise InvalidOptionError(
                "'cache_size_gib' and 'num_kv_blocks' exclude each other: set one of them.",
                param="cache_size_gib",
            )
        if self.enable_prefix_caching:
            raise UnsupportedOptionError(
                "'enable_prefix_caching' is not supported yet: leave it unset.",
                param="enable_prefix_caching",
            )


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The wishes of whoever starts the engine.

    ``drafter`` is "auto", "none", the name of a strategy or the folder of a draft model.
    ``draft_device`` None means the target's device. ``inference_precision`` None leaves it to the
    device. ``compile_cache`` and ``profile_store`` are where compiled models and step costs are
    kept between runs; None means nowhere.
    """

    model: Path
    device: str = "AUTO"
    draft_device: str | None = None
    backend: BackendKind = BackendKind.AUTO
    drafter: str = "auto"
    speculation: Speculation = Speculation.ADAPTIVE
    sampled_rule: SampledRule = SampledRule.KEYED
    cache_precision: CachePrecision = CachePrecision.F16
    inference_precision: Literal["f32"] | None = None
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    compile_cache: Path | None = None
    profile_store: Path | None = None

    def validate(self) -> None:
        """Check what can be known without looking at model and devices.

        Raises:
            InvalidOptionError, UnsupportedOptionError: see `SchedulerConfig.validate`.
        """
        if not self.drafter:
            raise InvalidOptionError(
                "'drafter' must not be empty: use auto, none or the name of a drafter.",
                param="drafter",
            )
        self.scheduler.validate()
