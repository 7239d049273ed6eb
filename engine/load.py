"""Put an engine together: read the folder, plan, compile, measure. The only file that knows every
part."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import openvino as ov

from engine.admission import Admission
from engine.backends.base import Backend
from engine.backends.paged import PagedBackend
from engine.backends.settings import BackendSettings
from engine.backends.stateful import StatefulBackend
from engine.budget import Budget, ProfileKey, ProfileStore, load_budget
from engine.config import BackendKind, EngineConfig
from engine.devices import detect_devices
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

_WARM_UP_ROWS = (1, 2, 4)
"""The first pass with a number of rows makes the runtime prepare for it; no answer should wait."""


def load_engine(config: EngineConfig, progress: Progress = _logger.info) -> Engine:
    """Load the model and start its engine.

    Raises:
        PacelineError: the folder, the model in it, or a wish of ``config`` is at fault.
    """
    model = read_model_folder(config.model)
    core = ov.Core()
    plan = make_plan(model, detect_devices(core), config)
    if plan.backend.is_genai:
        return _load_reference(model, plan, config, progress)
    try:
        return _load_native(core, model, plan, config, progress)
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


def _load_native(
    core: ov.Core, model: ModelInfo, plan: Plan, config: EngineConfig, progress: Progress
) -> Engine:
    with ThreadPoolExecutor(thread_name_prefix="paceline-load") as pool:
        tokenizer_to_be = pool.submit(Tokenizer.load, model.path)
        progress(f"Compiling {model.name} for {plan.device}")
        backend = _load_backend(core, model, plan, config)
        plan = replace(plan, reasons=(*plan.reasons, *backend.capabilities.notes))
        tokenizer = tokenizer_to_be.result()  # before the measurement, which wants both cores
        store = ProfileStore(config.profile_store) if config.profile_store else None
        key = _profile_key(model, plan, config)
        budget = _measure_budget(backend, key, store, progress)
        parts = Parts(
            model=model,
            plan=plan,
            tokenizer=tokenizer,
            model_defaults=model_defaults(model.path),
            backend=backend,
            drafting=DraftStage(budget, trees=backend.capabilities.trees),
            admission=Admission(
                plan=plan,
                tokenizer=tokenizer,
                cache=backend.cache,
                vocab_size=backend.vocab_size,
                context_length=model.context_length,
            ),
            max_rows=config.scheduler.max_num_batched_tokens,
            on_close=lambda: _keep(budget, key, store),
        )
    progress("Ready")
    return NativeEngine(parts)


def _load_backend(core: ov.Core, model: ModelInfo, plan: Plan, config: EngineConfig) -> Backend:
    settings = BackendSettings(
        device=plan.device,
        cache_precision=plan.cache_precision,
        cache_bytes=plan.cache_bytes,
        max_sequences=config.scheduler.max_num_seqs,
        inference_precision=config.inference_precision,
        # The CPU plugin caches the graph, not its own work on it: loading took 4.7 s with the
        # cache and 3.9 s without (SmolLM2-135M, two cores).
        compile_cache=None if plan.device == "CPU" else config.compile_cache,
        num_blocks=config.scheduler.num_kv_blocks,
    )
    make = StatefulBackend if plan.backend is BackendKind.STATEFUL else PagedBackend
    try:
        graph = core.read_model(  # pyright: ignore[reportUnknownMemberType]
            model.path / MODEL_FILES[0]
        )
        return make(core, graph, settings)
    except (RuntimeError, MemoryError) as error:
        _logger.debug("OpenVINO's own words", exc_info=error)
        if isinstance(error, MemoryError) or "bad_alloc" in str(error):
            raise ModelUnusableError(
                f"There is not enough memory for {model.name} and a cache of "
                f"{plan.cache_bytes / (1 << 30):.1f} GiB: close other programs, choose a smaller "
                "cache (cache_size_gib) or a smaller model.",
                param="cache_size_gib",
            ) from error
        raise ModelUnusableError(
            f"OpenVINO cannot load {model.name} on {plan.device}; its files may be damaged: "
            "download or export the model again.",
            param="model",
        ) from error


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


def _keep(budget: Budget, key: ProfileKey, store: ProfileStore | None) -> None:
    if store is not None:
        store.save(key, budget.to_json())


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
