"""OpenVINO GenAI's `LLMPipeline`: how it is opened, asked and listened to. Knows no requests.

Three habits of GenAI 2026.4.1 shape what stands above it. Its streamer hands over one list of
tokens for each step that kept any, from a thread of its own when the pipeline is paged; an
exception there would end the process. A streamer is allowed for one answer at a time only. And it
goes on for a step or two after it was told to stop, so that its final figures may count more than
the answer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Protocol, SupportsInt, cast

import numpy as np
import openvino as ov
import openvino_genai as genai

from engine.config import CachePrecision

Listen = Callable[[tuple[int, ...]], bool]
"""Takes the tokens of one step and says whether to go on. Must not raise."""


class DrafterKind(Enum):
    """What drafts inside the pipeline; fixed when it is opened."""

    NONE = auto()
    PROMPT_LOOKUP = auto()
    MODEL = auto()


@dataclass(frozen=True, slots=True)
class PeerDrafter:
    """A drafter of GenAI's. ``folder`` and ``device`` are those of a draft model."""

    kind: DrafterKind = DrafterKind.NONE
    folder: Path | None = None
    device: str = "CPU"


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """How a pipeline is opened. ``cache_gib`` and ``num_blocks`` (the latter goes first) belong to
    the paged one; the stateful one's cache grows with its text."""

    model: Path
    device: str
    paged: bool
    cache_precision: CachePrecision
    inference_precision: str | None = None
    cache_gib: int = 1
    num_blocks: int | None = None
    max_batched_tokens: int = 256
    drafter: PeerDrafter = PeerDrafter()


@dataclass(frozen=True, slots=True)
class DraftTotals:
    """What became of the drafts of an answer; all that is drafted is verified.

    GenAI 2026.4.1 counts a verification when the next step begins: that of the last is missing.
    """

    num_draft_tokens: int
    num_accepted_tokens: int
    draft_ms: float


@dataclass(frozen=True, slots=True)
class Report:
    """What a pipeline says of an answer once it has ended. Times in milliseconds; None: blank.

    ``step_times_ms`` has the end of each step that kept tokens, on the pipeline's own clock.
    """

    ttft_ms: float
    """From the call to the first token."""
    step_times_ms: tuple[float, ...]
    inference_ms: float | None
    """In the target."""
    drafts: DraftTotals | None = None


class Mean(Protocol):
    """A mean over the answers of a call; there is one."""

    mean: float


class _RawMetrics(Protocol):
    m_new_token_times: Sequence[float]
    """Milliseconds."""


class PerfMetrics(Protocol):
    """GenAI's figures of a call."""

    raw_metrics: _RawMetrics

    def get_ttft(self) -> Mean: ...
    def get_inference_duration(self) -> Mean: ...


class PerModelMetrics(Protocol):
    """GenAI's figures of a target and its draft model."""

    main_model_metrics: PerfMetrics
    draft_model_metrics: PerfMetrics

    def get_num_draft_tokens(self) -> int: ...
    def get_num_accepted_tokens(self) -> int: ...


class Result(Protocol):
    """GenAI's answer to a call."""

    tokens: Sequence[Sequence[int]]
    perf_metrics: PerfMetrics
    extended_perf_metrics: PerModelMetrics | None
    """Only with a draft model."""


class RawPipeline(Protocol):
    """What the package's own stubs leave untyped."""

    def generate(
        self,
        inputs: genai.TokenizedInputs,
        generation_config: genai.GenerationConfig,
        streamer: genai.StreamerBase | None = None,
    ) -> Result: ...


class Pipeline(Protocol):
    """Answers one prompt at a time; the seam for tests without a model."""

    def run(
        self, prompt_ids: Sequence[int], config: genai.GenerationConfig, listen: Listen
    ) -> Report:
        """Generate until the end or until ``listen`` says stop.

        Raises:
            RuntimeError: in GenAI's words. The pipeline can be used again.
        """
        ...


class TextPipeline:
    """`Pipeline` on the real thing."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._raw = open_pipeline(settings)
        self._drafter = settings.drafter.kind

    def run(
        self, prompt_ids: Sequence[int], config: genai.GenerationConfig, listen: Listen
    ) -> Report:
        """`Pipeline.run`."""
        result = self._raw.generate(as_inputs(prompt_ids), config, _Streamer(listen))
        return _report(result, self._drafter)


def open_pipeline(settings: PipelineSettings) -> RawPipeline:
    """Compile the model, and the draft model if there is one.

    Raises:
        RuntimeError: in GenAI's words.
    """
    shared: dict[str, Any] = {"KV_CACHE_PRECISION": settings.cache_precision.value}
    if settings.inference_precision is not None:
        shared["INFERENCE_PRECISION_HINT"] = settings.inference_precision
    properties: dict[str, Any] = {**shared, "ATTENTION_BACKEND": "PA" if settings.paged else "SDPA"}
    if settings.paged:
        properties["scheduler_config"] = _scheduler(settings)
    drafter = settings.drafter
    if drafter.kind is DrafterKind.PROMPT_LOOKUP:
        properties["prompt_lookup"] = True
    elif drafter.folder is not None:
        make_draft = cast(
            "Callable[..., object]",
            genai.draft_model,  # pyright: ignore[reportUnknownMemberType]
        )
        properties["draft_model"] = make_draft(str(drafter.folder), drafter.device, **shared)
    make = cast("Callable[..., RawPipeline]", genai.LLMPipeline)
    return make(str(settings.model), settings.device, **properties)


def as_inputs(prompt_ids: Sequence[int]) -> genai.TokenizedInputs:
    """The prompt as a batch of one."""
    ids = np.array([prompt_ids], np.int64)
    return genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))


def _scheduler(settings: PipelineSettings) -> genai.SchedulerConfig:
    scheduler = genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = settings.max_batched_tokens
    if settings.num_blocks is not None:
        scheduler.num_kv_blocks = settings.num_blocks
    else:
        scheduler.cache_size = settings.cache_gib
    return scheduler


def _report(result: Result, drafter: DrafterKind) -> Report:
    perf = result.perf_metrics
    inference: Mean | None = perf.get_inference_duration()
    drafts: DraftTotals | None = None
    models = result.extended_perf_metrics
    if models is not None:
        inference = models.main_model_metrics.get_inference_duration()
        drafts = DraftTotals(
            num_draft_tokens=models.get_num_draft_tokens(),
            num_accepted_tokens=models.get_num_accepted_tokens(),
            draft_ms=models.draft_model_metrics.get_inference_duration().mean,
        )
    elif drafter is DrafterKind.PROMPT_LOOKUP:  # is told as 0, by 2026.4.1
        inference = None
    return Report(
        ttft_ms=perf.get_ttft().mean,
        step_times_ms=tuple(perf.raw_metrics.m_new_token_times),
        inference_ms=None if inference is None else inference.mean,
        drafts=drafts,
    )


class _Streamer(genai.StreamerBase):
    def __init__(self, listen: Listen) -> None:
        super().__init__()
        self._listen = listen

    def write(self, token: SupportsInt | Sequence[SupportsInt]) -> genai.StreamingStatus:
        many = token if isinstance(token, Sequence) else (token,)
        goes_on = self._listen(tuple(map(int, many)))
        return genai.StreamingStatus.RUNNING if goes_on else genai.StreamingStatus.CANCEL

    def end(self) -> None: ...
