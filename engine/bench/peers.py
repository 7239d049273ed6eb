"""Arms that are other programs, on the same model folder and from the same prompt tokens.

OpenVINO GenAI runs its paged pipeline at our cache precision. It is measured by its own clock and
without a streamer, so that what Python would add per token is not counted against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import openvino_genai as genai

from engine.bench.arms import Arm
from engine.bench.records import Answer
from engine.config import CachePrecision, GenerationConfig
from engine.errors import InvalidOptionError
from engine.reference.pipeline import (
    DrafterKind,
    PeerDrafter,
    PipelineSettings,
    as_inputs,
    open_pipeline,
)
from engine.reference.terms import LOOKUP_NGRAM, STATIC_LENGTH, Terms


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """What a peer has to share with us for a fair comparison."""

    model: Path
    device: str
    cache_precision: CachePrecision
    inference_precision: str | None


class GenaiArm(Arm):
    """OpenVINO GenAI's paged pipeline, plain or with prompt lookup at its default length."""

    def __init__(self, name: str, settings: PeerSettings, drafter: DrafterKind) -> None:
        self._name = name
        self._drafter = drafter
        self._pipeline = open_pipeline(
            PipelineSettings(
                model=settings.model,
                device=settings.device,
                paged=True,
                cache_precision=settings.cache_precision,
                inference_precision=settings.inference_precision,
                drafter=PeerDrafter(drafter),
            )
        )

    @property
    def name(self) -> str:
        """As it stands in the report."""
        return self._name

    def begin(self) -> None:
        """`Arm.begin`: it remembers nothing from one answer to the next."""

    def answer(self, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        """`Arm.answer`."""
        inputs = as_inputs(prompt_ids)
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
        if self._drafter is DrafterKind.PROMPT_LOOKUP:
            terms = Terms(num_tokens, length=STATIC_LENGTH, max_ngram_size=LOOKUP_NGRAM)
        else:
            terms = Terms(num_tokens, length=0)
        return terms.peer_config(GenerationConfig(ignore_eos=True), choice=0)


_PEERS: Mapping[str, Callable[[str, PeerSettings], Arm]] = {
    "genai": lambda name, settings: GenaiArm(name, settings, DrafterKind.NONE),
    "genai-lookup": lambda name, settings: GenaiArm(name, settings, DrafterKind.PROMPT_LOOKUP),
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
