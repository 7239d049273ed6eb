"""From wishes to decisions: model + devices + configuration give a `Plan` with its reasons. Pure.

*Auto never fails and says why it chose; an explicit choice is refused, never quietly replaced.* A
plan is made once, before anything is loaded, and never changed; what it says is what the window
shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.config import BackendKind, CachePrecision, EngineConfig, SampledRule, Speculation
from engine.devices import DeviceInfo
from engine.drafters import NO_DRAFTER, require_drafter, split_drafters
from engine.errors import PlanRefusedError
from engine.library.folder import ModelInfo

AUTO = "auto"
DEFAULT_CACHE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Plan:
    """What will run where, and why. ``reasons`` are sentences for people."""

    backend: BackendKind
    device: str
    drafter: str
    speculation: Speculation
    cache_precision: CachePrecision
    cache_bytes: int
    reasons: tuple[str, ...]
    sampled_rule: SampledRule = SampledRule.KEYED

    def to_json(self) -> dict[str, object]:
        """The plan as it stands in ``generate --json``, in the status and in the stream."""
        return {
            "backend": self.backend.value,
            "device": self.device,
            "drafter": self.drafter,
            "speculation": self.speculation.value,
            "sampled_rule": self.sampled_rule.value,
            "cache_precision": self.cache_precision.value,
            "cache_bytes": self.cache_bytes,
            "reasons": list(self.reasons),
        }


def make_plan(model: ModelInfo, devices: Sequence[DeviceInfo], config: EngineConfig) -> Plan:
    """Decide everything that has to be known before the model is loaded.

    Raises:
        PlanRefusedError: a device, backend or option that was asked for cannot be had.
        UnknownDrafterError: there is no drafter of that name.
        InvalidOptionError, UnsupportedOptionError: as `EngineConfig.validate`.
    """
    config.validate()
    reasons: list[str] = []
    plan = Plan(
        backend=_choose_backend(config.backend, reasons),
        device=_choose_device(config.device, devices, reasons),
        drafter=_choose_drafter(config, reasons),
        speculation=config.speculation,
        cache_precision=config.cache_precision,
        cache_bytes=_choose_cache_bytes(config, reasons),
        reasons=(),
        sampled_rule=config.sampled_rule,
    )
    if config.cache_precision is CachePrecision.U8 and plan.drafter != NO_DRAFTER:
        reasons.append(
            "A u8 cache shares one scale among the keys of a block, so that rejected drafts can "
            "disturb an answer slightly; f16 keeps it identical."
        )
    if model.context_length is None:
        reasons.append(
            "The model folder does not name its context length; only the cache limits an answer."
        )
    return replace(plan, reasons=tuple(reasons))


def _choose_backend(wanted: BackendKind, reasons: list[str]) -> BackendKind:
    if wanted is BackendKind.AUTO:
        reasons.append("Paged: several answers share each step, and rejected drafts cost nothing.")
    elif wanted is not BackendKind.PAGED:
        raise PlanRefusedError(
            f"Backend '{wanted.value}' is not available in this version: use auto or paged.",
            param="backend",
        )
    return BackendKind.PAGED


def _choose_device(wanted: str, devices: Sequence[DeviceInfo], reasons: list[str]) -> str:
    present = ", ".join(device.name for device in devices) or "none"
    if wanted.upper() == "AUTO":
        others = [device.name for device in devices if device.name != "CPU"]
        reasons.append(
            f"CPU: {', '.join(others)} is here too, but not supported yet."
            if others
            else "CPU: the only device that OpenVINO sees here."
        )
    elif wanted.upper() not in {device.name.upper() for device in devices}:
        raise PlanRefusedError(
            f"Device '{wanted}' is not here; devices that OpenVINO sees: {present}.", param="device"
        )
    elif wanted.upper() != "CPU":
        raise PlanRefusedError(
            f"Device '{wanted}' is not supported yet: use AUTO or CPU.", param="device"
        )
    return "CPU"


def _choose_drafter(config: EngineConfig, reasons: list[str]) -> str:
    if config.draft_device is not None:
        raise PlanRefusedError(
            "'draft_device' has nothing to place, as no drafter here has a model of its own: "
            "leave it out.",
            param="draft_device",
        )
    if config.speculation is Speculation.OFF and config.drafter == AUTO:
        reasons.append("No drafter: speculation is off.")
        return NO_DRAFTER
    if config.drafter == AUTO:
        reasons.append("Prompt lookup: it needs no second model, and costs next to nothing.")
        return "prompt_lookup"
    for name in split_drafters(config.drafter):
        require_drafter(name)
    return config.drafter


def _choose_cache_bytes(config: EngineConfig, reasons: list[str]) -> int:
    scheduler = config.scheduler
    if scheduler.cache_size_gib is not None:
        return int(scheduler.cache_size_gib * (1 << 30))
    if scheduler.num_kv_blocks is None:
        reasons.append(f"Cache: {DEFAULT_CACHE_BYTES >> 30} GiB, touched only as far as it fills.")
    return DEFAULT_CACHE_BYTES
