"""Put an engine together: read the folder, plan, compile, measure. The only file that knows every
part."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import openvino as ov

from engine.admission import Admission
from engine.backends.base import Backend
from engine.backends.paged import PagedBackend
from engine.backends.settings import BackendSettings
from engine.backends.stateful import StatefulBackend
from engine.budget import Budget, ProfileKey, ProfileStore, load_budget
from engine.config import BackendKind, EngineConfig
from engine.devices import detect_devices
from engine.draft_models import LoadedDrafters, find_draft_model, load_fast_draft
from engine.drafting import DraftStage
from engine.errors import ModelUnusableError, PacelineError
from engine.interface import Engine
from engine.library.folder import MODEL_FILES, ModelInfo, model_defaults, read_model_folder
from engine.loop import NativeEngine, Parts
from engine.plan import Plan, make_plan
from engine.probe import StepProbe
from engine.tokens import Tokenizer

_logger = logging.getLogger(__name__)

Progress = Callable[[str], None]
"""Told in sentences what is being done now."""

_DRAFT_BLOCK = 32
"""Rows of a block of the draft model's cache, on the CPU; elsewhere it holds fewer."""

_WARM_UP_ROWS = (1, 2, 4)
"""The first pass with a number of rows makes the runtime prepare for it; no answer should wait."""


def load_engine(config: EngineConfig, progress: Progress = _logger.info) -> Engine:
    """Load the model and start its engine.

    Raises:
        PacelineError: the folder, the model in it, or a wish of ``config`` is at fault.
    """
    model = read_model_folder(config.model)
    core = ov.Core()
    draft = None if config.backend.is_genai else find_draft_model(config.drafter)
    plan = make_plan(model, detect_devices(core), config, draft)
    if plan.backend.is_genai:
        return _load_reference(model, plan, config, progress)
    try:
        return _Native(core, plan, config, progress).load(model, draft)
    except ModelUnusableError as refusal:
        if config.backend is not BackendKind.AUTO or refusal.param != "model":
            raise
        return _load_instead(core, model, config, refusal, progress)


def _load_instead(
    core: ov.Core,
    model: ModelInfo,
    config: EngineConfig,
    refusal: ModelUnusableError,
    progress: Progress,
) -> Engine:
    """OpenVINO GenAI, for a model that our own backends refuse; if it does not want it either, the
    ``refusal`` stands."""
    config = replace(config, backend=BackendKind.GENAI)
    try:
        plan = make_plan(model, detect_devices(core), config)
        reason = f"Our own backends refuse this model: {refusal.message}"
        plan = replace(plan, reasons=(reason, *plan.reasons))
        return _load_reference(model, plan, config, progress)
    except PacelineError as error:
        _logger.debug("OpenVINO GenAI refuses the model, too", exc_info=error)
        raise refusal from None


def _load_reference(
    model: ModelInfo, plan: Plan, config: EngineConfig, progress: Progress
) -> Engine:
    from engine.reference import open_engine  # imports openvino_genai, which others do not need

    progress(f"Loading {model.name} into OpenVINO GenAI for {plan.device}")
    engine = open_engine(model, plan, config)
    progress("Ready")
    return engine


@dataclass(frozen=True, slots=True)
class _Native:
    """Puts our own engine together."""

    core: ov.Core
    plan: Plan
    config: EngineConfig
    progress: Progress

    def load(self, model: ModelInfo, draft: ModelInfo | None) -> Engine:
        config = self.config
        with ThreadPoolExecutor(thread_name_prefix="paceline-load") as pool:
            tokenizer_to_be = pool.submit(Tokenizer.load, model.path)
            backend = self._load_backend(model, self.plan.device, config.scheduler.num_kv_blocks)
            tokenizer = tokenizer_to_be.result()  # before the measurement, which wants both cores
        drafters = self._load_drafters(model, draft, backend)
        plan = replace(self.plan, reasons=(*self.plan.reasons, *backend.capabilities.notes))
        store = ProfileStore(config.profile_store) if config.profile_store else None
        key = _profile_key(model, plan, config)
        budget = _measure_budget(backend, key, store, self.progress)

        def close() -> None:
            drafters.close()
            if store is not None:
                store.save(key, budget.to_json())

        self.progress("Ready")
        return NativeEngine(
            Parts(
                model=model,
                plan=plan,
                tokenizer=tokenizer,
                model_defaults=model_defaults(model.path),
                backend=backend,
                drafting=DraftStage(budget, drafters.make, trees=backend.capabilities.trees),
                admission=Admission(
                    plan=plan,
                    tokenizer=tokenizer,
                    cache=backend.cache,
                    vocab_size=backend.vocab_size,
                    context_length=model.context_length,
                    info_of=drafters.info,
                ),
                max_rows=config.scheduler.max_num_batched_tokens,
                on_close=close,
            )
        )

    def _load_drafters(
        self, target: ModelInfo, draft: ModelInfo | None, backend: Backend
    ) -> LoadedDrafters:
        if draft is None:
            return LoadedDrafters()
        num_blocks = -(-backend.cache.total_tokens // _DRAFT_BLOCK)  # as many rows as the target
        device = self.plan.draft_device or self.plan.device
        return load_fast_draft(
            target, draft, lambda info: self._load_backend(info, device, num_blocks, draft=True)
        )

    def _load_backend(
        self, model: ModelInfo, device: str, num_blocks: int | None, *, draft: bool = False
    ) -> Backend:
        self.progress(f"Compiling {model.name} for {device}")
        config, plan = self.config, self.plan
        settings = BackendSettings(
            device=device,
            cache_precision=plan.cache_precision,
            cache_bytes=plan.cache_bytes,
            max_sequences=config.scheduler.max_num_seqs,
            inference_precision=config.inference_precision,
            # The CPU plugin caches the graph, not its own work on it: loading took 4.7 s with the
            # cache and 3.9 s without (SmolLM2-135M, two cores).
            compile_cache=None if device == "CPU" else config.compile_cache,
            num_blocks=num_blocks,
        )
        is_stateful = plan.backend is BackendKind.STATEFUL and not draft
        make = StatefulBackend if is_stateful else PagedBackend
        try:
            graph = self.core.read_model(  # pyright: ignore[reportUnknownMemberType]
                model.path / MODEL_FILES[0]
            )
            return make(self.core, graph, settings)
        except (RuntimeError, MemoryError) as error:
            _logger.debug("OpenVINO's own words", exc_info=error)
            refusal = _in_a_sentence(error, model, device, plan)
            if draft:
                refusal.param = "drafter"
            raise refusal from error


def _in_a_sentence(
    error: Exception, model: ModelInfo, device: str, plan: Plan
) -> ModelUnusableError:
    if isinstance(error, MemoryError) or "bad_alloc" in str(error):
        return ModelUnusableError(
            f"There is not enough memory for {model.name} and a cache of "
            f"{plan.cache_bytes / (1 << 30):.1f} GiB: close other programs, choose a smaller "
            "cache (cache_size_gib) or a smaller model.",
            param="cache_size_gib",
        )
    return ModelUnusableError(
        f"OpenVINO cannot load {model.name} on {device}; its files may be damaged: download or "
        "export the model again.",
        param="model",
    )


def _measure_budget(
    backend: Backend, key: ProfileKey, store: ProfileStore | None, progress: Progress
) -> Budget:
    probe = StepProbe(backend)
    try:
        progress("Warming up, and measuring what a step costs where it is not known yet")
        for num_rows in _WARM_UP_ROWS:
            probe.run(min(num_rows, probe.max_rows))
        return load_budget(store, key, probe.run, max_rows=probe.max_rows)
    finally:
        probe.close()


def _profile_key(model: ModelInfo, plan: Plan, config: EngineConfig) -> ProfileKey:
    return ProfileKey(
        model=model.name,
        weights=_weights_id(model),
        backend=plan.backend.value,
        device=plan.device,
        driver=ov.get_version(),
        threads=os.cpu_count() or 1,
        cache_precision=plan.cache_precision.value,
        inference_precision=config.inference_precision,
    )


def _weights_id(model: ModelInfo) -> str:
    """Changes when the graph or the size of its weights does."""
    graph = (model.path / MODEL_FILES[0]).read_bytes()
    return f"{hashlib.sha256(graph).hexdigest()[:16]}-{model.weight_bytes}"
