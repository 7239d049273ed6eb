"""Where a benchmark ran: what a reader has to know to compare its figures with others."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version

import openvino as ov

from engine.devices import detect_devices
from engine.interface import Engine
from engine.version import paceline_version


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware, software and model behind a set of figures."""

    device: str
    device_name: str
    cores: int
    system: str
    python: str
    openvino: str
    openvino_genai: str
    paceline: str
    model: str
    weight_bytes: int
    cache_precision: str
    inference_precision: str | None
    """None: what the device prefers."""


def describe_machine(engine: Engine, inference_precision: str | None) -> Machine:
    """The machine that ``engine`` runs on."""
    plan = engine.plan
    names = {device.name: device.full_name for device in detect_devices(ov.Core())}
    return Machine(
        device=plan.device,
        device_name=names.get(plan.device) or platform.processor() or "unknown",
        cores=os.cpu_count() or 1,
        system=platform.platform(),
        python=platform.python_version(),
        openvino=ov.get_version(),
        openvino_genai=version("openvino-genai"),
        paceline=paceline_version(),
        model=engine.model.name,
        weight_bytes=engine.model.weight_bytes,
        cache_precision=plan.cache_precision.value,
        inference_precision=inference_precision,
    )
