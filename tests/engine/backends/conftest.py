"""Both backends on the real small model, with an f32 cache and f32 inference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openvino as ov
import pytest

from engine.backends.paged import PagedBackend
from engine.backends.settings import BackendSettings
from engine.backends.stateful import StatefulBackend
from engine.config import CachePrecision

TAPS = (2, 15, 29)


def settings(max_sequences: int) -> BackendSettings:
    return BackendSettings(
        device="CPU",
        cache_precision=CachePrecision.F32,
        cache_bytes=64 << 20,
        max_sequences=max_sequences,
        inference_precision="f32",
        taps=TAPS,
    )


@pytest.fixture(scope="package")
def paged(smollm2: Path) -> Iterator[PagedBackend]:
    core = ov.Core()
    model = core.read_model(smollm2 / "openvino_model.xml")
    backend = PagedBackend(core, model, settings(max_sequences=8))
    yield backend
    backend.close()


@pytest.fixture(scope="package")
def stateful(smollm2: Path) -> Iterator[StatefulBackend]:
    core = ov.Core()
    model = core.read_model(smollm2 / "openvino_model.xml")
    backend = StatefulBackend(core, model, settings(max_sequences=1))
    yield backend
    backend.close()
