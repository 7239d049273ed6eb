"""What is said of the devices here, also when their drivers say little."""

from __future__ import annotations

import json
from collections.abc import Mapping

import openvino

from engine.devices import DeviceKind, detect_devices

GPU_ANSWERS: Mapping[str, object] = {
    "FULL_DEVICE_NAME": "A card (dGPU) ",
    "DEVICE_TYPE": "Type.DISCRETE",
    "OPTIMIZATION_CAPABILITIES": ["FP32", "FP16"],
    "GPU_DEVICE_TOTAL_MEM_SIZE": 8 << 30,
}


class FakeCore:
    """A core whose drivers answer from a table and fail where it has no answer."""

    def __init__(self, answers: Mapping[str, Mapping[str, object]]) -> None:
        self._answers = answers

    @property
    def available_devices(self) -> list[str]:
        return list(self._answers)

    def get_property(self, device_name: str, property: str, /) -> object:
        if property not in self._answers[device_name]:
            raise RuntimeError(f"{device_name} has no {property}")
        return self._answers[device_name][property]


class BrokenCore(FakeCore):
    """A core whose plugin registry is damaged."""

    @property
    def available_devices(self) -> list[str]:
        raise OSError("plugins.xml is gone")


def test_the_cpu_of_this_machine_is_described() -> None:
    cpu = next(device for device in detect_devices(openvino.Core()) if device.name == "CPU")
    assert cpu.kind is DeviceKind.CPU
    assert cpu.full_name
    assert "FP32" in cpu.capabilities


def test_a_card_says_its_memory_and_that_it_is_a_card() -> None:
    (gpu,) = detect_devices(FakeCore({"GPU.1": GPU_ANSWERS}))
    assert gpu.kind is DeviceKind.GPU
    assert gpu.full_name == "A card (dGPU)"
    assert gpu.is_discrete is True
    assert gpu.memory_bytes == 8 << 30
    assert gpu.capabilities == ("FP32", "FP16")


def test_a_silent_driver_is_listed_with_what_is_known() -> None:
    (npu,) = detect_devices(FakeCore({"NPU": {}}))
    assert npu.kind is DeviceKind.NPU
    assert (npu.full_name, npu.is_discrete, npu.memory_bytes) == (None, None, None)
    assert npu.capabilities == ()


def test_a_plugin_of_somebody_else_is_listed_too() -> None:
    (device,) = detect_devices(FakeCore({"TPU.0": {}}))
    assert device.kind is DeviceKind.OTHER


def test_a_broken_core_gives_no_devices() -> None:
    assert detect_devices(BrokenCore({})) == ()


def test_goes_over_the_wire_as_json() -> None:
    (gpu,) = detect_devices(FakeCore({"GPU.1": GPU_ANSWERS}))
    sent = json.loads(json.dumps(gpu.to_json()))
    assert (sent["name"], sent["kind"], sent["capabilities"]) == ("GPU.1", "GPU", ["FP32", "FP16"])
