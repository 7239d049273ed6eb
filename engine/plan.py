"""From wishes to decisions: model + devices + configuration give a `Plan` with its reasons. Pure.

*Auto never fails and says why it chose; an explicit choice is refused, never quietly replaced.* A
plan is made once, before anything is loaded, and never changed; what it says is what the window
shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.config import BackendKind, CachePrecision, EngineConfig, SampledRule, Speculation
from engine.devices import DeviceInfo
from engine.drafters import AUTO, NO_DRAFTER, drafter_info, drafter_names, split_drafters
from engine.errors import PlanRefusedError
from engine.library.folder import ModelInfo

DEFAULT_CACHE_BYTES = 1 << 30
FAST_DRAFT = "fast_draft"


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
    draft_model: Path | None = None
    """The folder of the draft model, for drafters that have one."""
    draft_device: str | None = None
    is_auto_drafter: bool = False
    """Whether the drafter was chosen for the user, not by the user."""
    sampled_rule: SampledRule | None = SampledRule.KEYED
    """None: OpenVINO GenAI's own, which is none of ours."""

    def to_json(self) -> dict[str, object]:
        """The plan as it stands in ``generate --json``, in the status and in the stream."""
        return {
            "backend": self.backend.value,
            "device": self.device,
            "drafter": self.drafter,
            "draft_model": self.draft_model.name if self.draft_model else None,
            "draft_device": self.draft_device,
            "is_auto_drafter": self.is_auto_drafter,
            "speculation": self.speculation.value,
            "sampled_rule": None if self.sampled_rule is None else self.sampled_rule.value,
            "cache_precision": self.cache_precision.value,
            "cache_bytes": self.cache_bytes,
            "reasons": list(self.reasons),
        }


def make_plan(
    model: ModelInfo,
    devices: Sequence[DeviceInfo],
    config: EngineConfig,
    draft: ModelInfo | None = None,
) -> Plan:
    """Decide everything that has to be known before the model is loaded; ``draft`` is the draft
    model whose folder ``config.drafter`` names, if it names one.

    Raises:
        PlanRefusedError: a device, backend or option that was asked for cannot be had.
        UnknownDrafterError: there is no drafter of that name.
        InvalidOptionError, UnsupportedOptionError: as `EngineConfig.validate`.
    """
    config.validate()
    if config.backend.is_genai:
        return _make_genai_plan(model, devices, config)
    reasons: list[str] = []
    plan = Plan(
        backend=_choose_backend(config.backend, reasons),
        device=_choose_device(config.device, devices, reasons),
        drafter=_choose_drafter(config, draft, reasons),
        draft_model=draft.path if draft else None,
        draft_device=_choose_draft_device(config, draft, devices),
        speculation=config.speculation,
        cache_precision=config.cache_precision,
        cache_bytes=_choose_cache_bytes(config, reasons),
        reasons=(),
        is_auto_drafter=config.drafter == AUTO,
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
        return BackendKind.PAGED
    if wanted is BackendKind.STATEFUL:
        reasons.append("Stateful: one answer at a time, and drafts are chains.")
    return wanted


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


def _choose_draft_device(
    config: EngineConfig, draft: ModelInfo | None, devices: Sequence[DeviceInfo]
) -> str | None:
    if draft is not None:
        return _choose_device(config.draft_device or config.device, devices, [])
    if config.draft_device is not None:
        raise PlanRefusedError(
            "'draft_device' has nothing to place, as the drafter has no model of its own: leave it "
            "out.",
            param="draft_device",
        )
    return None


def _choose_drafter(config: EngineConfig, draft: ModelInfo | None, reasons: list[str]) -> str:
    if config.speculation is Speculation.OFF and config.drafter != NO_DRAFTER:
        reasons.append("Speculation is off until a request turns it on.")
    if config.drafter == AUTO:
        reasons.append(
            "Suffix and prompt lookup together: they need no second model, and each step takes the "
            "draft that promises more."
        )
        return "suffix+prompt_lookup"
    if draft is not None:
        reasons.append(f"Fast Draft: {draft.name} drafts, wherever that pays.")
    parts = split_drafters(config.drafter)
    if draft is not None and Path(config.drafter).is_dir():
        parts = (config.drafter,)  # a path may have the sign of joining in it
    names = tuple(_drafter_name(part, draft) for part in parts)
    return "+".join(names) or NO_DRAFTER


def _drafter_name(part: str, draft: ModelInfo | None) -> str:
    if draft is not None and Path(part).absolute() == draft.path:
        return FAST_DRAFT
    if drafter_info(part).has_model:
        raise PlanRefusedError(
            f"Drafter '{part}' comes with a model: give the folder of one instead of the name.",
            param="drafter",
        )
    return part


def _choose_cache_bytes(config: EngineConfig, reasons: list[str]) -> int:
    scheduler = config.scheduler
    if scheduler.cache_size_gib is not None:
        return int(scheduler.cache_size_gib * (1 << 30))
    if scheduler.num_kv_blocks is None:
        reasons.append(f"Cache: {DEFAULT_CACHE_BYTES >> 30} GiB, touched only as far as it fills.")
    return DEFAULT_CACHE_BYTES


def _make_genai_plan(model: ModelInfo, devices: Sequence[DeviceInfo], config: EngineConfig) -> Plan:
    """The plan for OpenVINO GenAI, which decides less and tells less."""
    paged = config.backend is BackendKind.GENAI
    reasons = [f"OpenVINO GenAI, {'paged' if paged else 'stateful'}: one answer at a time."]
    if config.sampled_rule is SampledRule.REJECTION:
        raise _not_in_genai("sampled_rule", "draws by a rule of its own")
    device = _choose_device(config.device, devices, reasons)
    drafter = _choose_genai_drafter(config, reasons)
    if config.draft_device is not None:
        if drafter in drafter_names():
            raise _not_in_genai("draft_device", "places a draft model only, and there is none")
        _choose_device(config.draft_device, devices, [])
    plan = Plan(
        backend=config.backend,
        device=device,
        drafter=drafter,
        speculation=Speculation.OFF if drafter == NO_DRAFTER else Speculation.STATIC,
        cache_precision=config.cache_precision,
        cache_bytes=_choose_genai_cache(config, reasons),
        reasons=(),
        is_auto_drafter=config.drafter == AUTO,
        sampled_rule=None,
    )
    reasons.append("Log probabilities and the times of a step are blank: it does not tell them.")
    if drafter != NO_DRAFTER:
        totals = "" if drafter in drafter_names() else ", apart from totals without the last step,"
        reasons.append(f"What was drafted and verified is blank{totals} for the same reason.")
    if model.context_length is None:
        limit = "only the cache limits an answer" if paged else "only a stop ends an answer"
        reasons.append(f"The model folder does not name its context length; {limit}.")
    return replace(plan, reasons=tuple(reasons))


def _choose_genai_drafter(config: EngineConfig, reasons: list[str]) -> str:
    """``none``, ``prompt_lookup``, or what must be the folder of a draft model."""
    if config.drafter in (AUTO, NO_DRAFTER):
        if config.drafter == AUTO:
            reasons.append(
                "No drafter: OpenVINO GenAI drafts at every step, whether it pays or not."
            )
        return NO_DRAFTER
    if config.backend is BackendKind.GENAI_STATEFUL:
        raise _not_in_genai("drafter", "drafts in its paged pipeline only (backend genai)")
    names = split_drafters(config.drafter)
    if config.drafter != "prompt_lookup" and all(name in drafter_names() for name in names):
        raise _not_in_genai("drafter", "has prompt_lookup and draft models only")
    if config.speculation is Speculation.OFF:
        raise _not_in_genai("speculation", "drafts at every step once it has a drafter")
    reasons.append("Static: OpenVINO GenAI drafts the same number of tokens at every step.")
    return config.drafter


def _choose_genai_cache(config: EngineConfig, reasons: list[str]) -> int:
    """Bytes; 0 where the cache grows with its text."""
    scheduler = config.scheduler
    size = scheduler.cache_size_gib
    if config.backend is BackendKind.GENAI_STATEFUL:
        if size is not None or scheduler.num_kv_blocks is not None:
            name = "num_kv_blocks" if size is None else "cache_size_gib"
            raise _not_in_genai(name, "bounds the cache of its paged pipeline only")
        return 0
    if size is not None and size != int(size):
        raise _not_in_genai("cache_size_gib", "counts its cache in whole GiB")
    return _choose_cache_bytes(config, reasons)


def _not_in_genai(name: str, reason: str) -> PlanRefusedError:
    return PlanRefusedError(
        f"'{name}' cannot be had with this backend: OpenVINO GenAI {reason}. Leave it out, or "
        "choose another backend.",
        param=name,
    )
