"""Which devices OpenVINO sees here, and what each can do.

Only what a driver says of itself; nothing is measured and no model is touched. A driver may refuse
to answer or fail in ways of its own, so every question may go unanswered and none of them raises.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Protocol, cast

_log = logging.getLogger(__name__)


class DeviceKind(StrEnum):
    """The plugin that drives a device."""

    CPU = "CPU"
    GPU = "GPU"
    NPU = "NPU"
    OTHER = "OTHER"


_KINDS = {kind.value: kind for kind in DeviceKind}

_MEMORY_PROPERTIES = {
    DeviceKind.GPU: "GPU_DEVICE_TOTAL_MEM_SIZE",
    DeviceKind.NPU: "NPU_DEVICE_TOTAL_MEM_SIZE",
}


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device. None: its driver does not say."""

    name: str
    """How OpenVINO calls it, such as ``CPU`` or ``GPU.1``."""
    kind: DeviceKind
    full_name: str | None
    """The product's name, for people."""
    is_discrete: bool | None
    """True for a card with memory of its own."""
    memory_bytes: int | None
    """Memory that the device can use in all; the machine's own for the CPU."""
    capabilities: tuple[str, ...]
    """OpenVINO's words for what the device computes in, such as ``FP16``, ``INT8``, ``BF16``."""

    def to_json(self) -> dict[str, object]:
        """As it goes over HTTP."""
        return {**asdict(self), "capabilities": list(self.capabilities)}


class DeviceQueries(Protocol):
    """The part of ``openvino.Core`` that is used here."""

    @property
    def available_devices(self) -> list[str]: ...

    def get_property(self, device_name: str, property: str, /) -> object: ...


def detect_devices(core: DeviceQueries) -> tuple[DeviceInfo, ...]:
    """Every device that ``core`` sees, in its order; empty if it cannot tell. Never raises."""
    try:
        names = list(core.available_devices)
    except Exception as error:  # noqa: BLE001 - a broken driver raises whatever it likes
        _log.warning("OpenVINO cannot list its devices: %s", error)
        return ()
    return tuple(_describe(core, name) for name in names)


def _describe(core: DeviceQueries, name: str) -> DeviceInfo:
    family = name.partition(".")[0]
    kind = _KINDS.get(family, DeviceKind.OTHER)
    full_name = _ask(core, name, "FULL_DEVICE_NAME")
    device_type = _ask(core, name, "DEVICE_TYPE")
    capabilities = _ask(core, name, "OPTIMIZATION_CAPABILITIES")
    several = isinstance(capabilities, list | tuple)
    words = cast("Iterable[object]", capabilities) if several else ()
    return DeviceInfo(
        name=name,
        kind=kind,
        full_name=str(full_name).strip() if full_name else None,
        is_discrete=None if device_type is None else "discrete" in str(device_type).lower(),
        memory_bytes=_memory_bytes(core, name, kind),
        capabilities=tuple(str(word) for word in words),
    )


def _memory_bytes(core: DeviceQueries, name: str, kind: DeviceKind) -> int | None:
    if kind is DeviceKind.CPU:
        return _machine_memory_bytes()
    if kind not in _MEMORY_PROPERTIES:
        return None
    value = _ask(core, name, _MEMORY_PROPERTIES[kind])
    return value if isinstance(value, int) and value > 0 else None


def _machine_memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


def _ask(core: DeviceQueries, name: str, question: str) -> object:
    """The device's answer, None if it has none."""
    try:
        return core.get_property(name, question)
    except Exception as error:  # noqa: BLE001 - a broken driver raises whatever it likes
        _log.debug("%s does not answer %s: %s", name, question, error)
        return None
