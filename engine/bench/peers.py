"""Arms that are other programs, on the same model folder and from the same prompt tokens.

OpenVINO GenAI runs its paged pipeline at our cache precision. It is measured by its own clock and
without a streamer, so that what Python would add per token is not counted against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Protocol, cast

import numpy as np
import openvino as ov
import openvino_genai as genai

from engine.bench.arms import Arm
from engine.bench.records import Answer
from engine.config import CachePrecision
from engine.errors import InvalidOptionError

_CACHE_GIB = 1
_LOOKUP_LENGTH = 5
"""GenAI's default number of candidates."""
_LOOKUP_NGRAM = 3
"""GenAI's default n-gram size."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """What a peer has to share with us for a fair comparison."""

    model: Path
    device: str
    cache_precision: CachePrecision
    inference_precision: str | None


class _Mean(Protocol):
    mean: float


class _RawMetrics(Protocol):
    m_new_token_times: Sequence[float]
    """Milliseconds."""


class _PerfMetrics(Protocol):
    raw_metrics: _RawMetrics

    def get_ttft(self) -> _Mean: ...


class _Result(Protocol):
    tokens: Sequence[Sequence[int]]
    perf_metrics: _PerfMetrics


class _Pipeline(Protocol):
    """What the package's own stubs leave untyped."""

    def generate(
        self, inputs: genai.TokenizedInputs, generation_config: genai.GenerationConfig
    ) -> _Result: ...


class GenaiArm(Arm):
    """OpenVINO GenAI's paged pipeline, plain or with prompt lookup at its default length."""

    def __init__(self, name: str, settings: PeerSettings, *, prompt_lookup: bool) -> None:
        self._name = name
        self._prompt_lookup = prompt_lookup
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = _CACHE_GIB
        properties: dict[str, Any] = {
            "scheduler_config": scheduler,
            "ATTENTION_BACKEND": "PA",
            "KV_CACHE_PRECISION": settings.cache_precision.value,
        }
        if settings.inference_precision is not None:
            properties["INFERENCE_PRECISION_HINT"] = settings.inference_precision
        if prompt_lookup:
            properties["prompt_lookup"] = True
        pipeline = genai.LLMPipeline(str(settings.model), settings.device, **properties)
        self._pipeline = cast("_Pipeline", pipeline)

    @property
    def name(self) -> str:
        """As it stands in the report."""
        return self._name

    def answer(self, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        """`Arm.answer`."""
        ids = np.array([prompt_ids], np.int64)
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        cpu, started = process_time(), perf_counter()
        result = self._pipeline.generate(inputs, self._config(num_tokens))
        total_ms = 1000.0 * (perf_counter() - started)
        cpu_ms = 1000.0 * (process_time() - cpu)
        times_ms = result.perf_metrics.raw_metrics.m_new_token_times
        return Answer(
            token_ids=tuple(int(token) for token in result.tokens[0]),
            ttft_ms=result.perf_metrics.get_ttft().mean,
            decode_ms=times_ms[-1] - times_ms[0],
            total_ms=total_ms,
            cpu_ms=cpu_ms,
        )

    def _config(self, num_tokens: int) -> genai.GenerationConfig:
        config = genai.GenerationConfig()
        config.max_new_tokens = num_tokens
        config.ignore_eos = True
        config.do_sample = False
        config.apply_chat_template = False
        if self._prompt_lookup:
            config.num_assistant_tokens = _LOOKUP_LENGTH
            config.max_ngram_size = _LOOKUP_NGRAM
        return config


_PEERS: Mapping[str, Callable[[str, PeerSettings], Arm]] = {
    "genai": lambda name, settings: GenaiArm(name, settings, prompt_lookup=False),
    "genai-lookup": lambda name, settings: GenaiArm(name, settings, prompt_lookup=True),
}


def require_peer(name: str) -> None:
    """Check a name before anything is loaded.

    Raises:
        InvalidOptionError: there is no such peer.
    """
    if name not in _PEERS:
        raise InvalidOptionError(
            f"There is no peer '{name}'; choose from: {', '.join(_PEERS)}.", param="peer"
        )


def load_peer(name: str, settings: PeerSettings) -> Arm:
    """Load the peer of that name; it keeps its own copy of the model.

    Raises:
        InvalidOptionError: as `require_peer`.
    """
    require_peer(name)
    return _PEERS[name](name, settings)
