"""Put an engine together: read the folder, plan, compile, measure. The only file that knows every
part."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np
import openvino as ov

from engine.admission import Admission
from engine.backends.base import Backend, Batch, Slice
from engine.backends.paged import PagedBackend
from engine.backends.settings import BackendSettings
from engine.budget import Budget, ProfileKey, ProfileStore, load_budget
from engine.config import EngineConfig
from engine.devices import detect_devices
from engine.drafting import DraftStage
from engine.errors import ModelUnusableError
from engine.interface import Engine
from engine.library.folder import MODEL_FILES, ModelInfo, model_defaults, read_model_folder
from engine.loop import NativeEngine, Parts
from engine.plan import Plan, make_plan
from engine.tokens import Tokenizer
from engine.values import SliceKind

_logger = logging.getLogger(__name__)

Progress = Callable[[str], None]
"""Told in sentences what is being done now."""

_PROFILE_CONTEXT = 64
"""Cached tokens behind the rows whose cost is measured: a short chat."""

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
    with ThreadPoolExecutor(thread_name_prefix="paceline-load") as pool:
        tokenizer_to_be = pool.submit(Tokenizer.load, model.path)
        progress(f"Compiling {model.name} for {plan.device}")
        backend = _load_backend(core, model, plan, config)
        tokenizer = tokenizer_to_be.result()  # before the measurement, which wants both cores
        store = ProfileStore(config.profile_store) if config.profile_store else None
        key = _profile_key(model, plan)
        budget = _measure_budget(backend, key, store, progress)
        parts = Parts(
            model=model,
            plan=plan,
            tokenizer=tokenizer,
            model_defaults=model_defaults(model.path),
            backend=backend,
            drafting=DraftStage(budget),
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


def _load_backend(
    core: ov.Core, model: ModelInfo, plan: Plan, config: EngineConfig
) -> PagedBackend:
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
    try:
        graph = core.read_model(  # pyright: ignore[reportUnknownMemberType]
            model.path / MODEL_FILES[0]
        )
        return PagedBackend(core, graph, settings)
    except RuntimeError as error:
        _logger.debug("OpenVINO's own words", exc_info=error)
        raise ModelUnusableError(
            f"OpenVINO cannot load {model.name} on {plan.device}; its files may be damaged: "
            "download or export the model again.",
            param="model",
        ) from error


def _measure_budget(
    backend: Backend, key: ProfileKey, store: ProfileStore | None, progress: Progress
) -> Budget:
    probe = _StepProbe(backend)
    try:
        progress("Warming up")
        for num_rows in _WARM_UP_ROWS:
            probe.run(num_rows)
        progress("Measuring what a step costs on this machine")
        return load_budget(store, key, probe.run)
    finally:
        probe.close()


def _keep(budget: Budget, key: ProfileKey, store: ProfileStore | None) -> None:
    if store is not None:
        store.save(key, budget.to_json())


def _profile_key(model: ModelInfo, plan: Plan) -> ProfileKey:
    return ProfileKey(
        model=model.name,
        weights=_weights_id(model),
        device=plan.device,
        driver=ov.get_version(),
        threads=os.cpu_count() or 1,
        cache_precision=plan.cache_precision.value,
    )


def _weights_id(model: ModelInfo) -> str:
    """Changes when the graph or the size of its weights does."""
    graph = (model.path / MODEL_FILES[0]).read_bytes()
    return f"{hashlib.sha256(graph).hexdigest()[:16]}-{model.weight_bytes}"


class _StepProbe:
    """Runs passes of any number of rows behind a short context of made-up tokens."""

    _SEQ = -1  # sequences of requests count from 0

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tokens = np.arange(1000, dtype=np.int32) % backend.vocab_size
        self._is_ready = False

    def run(self, num_rows: int) -> float:
        """Milliseconds of one pass with ``num_rows`` rows."""
        if not self._is_ready:
            self._is_ready = True
            self._forward(SliceKind.PREFILL, 0, _PROFILE_CONTEXT)
        started = perf_counter()
        self._forward(SliceKind.VERIFY, _PROFILE_CONTEXT, num_rows)
        return 1000.0 * (perf_counter() - started)

    def close(self) -> None:
        """Give back the cache rows."""
        self._backend.release(self._SEQ)

    def _forward(self, kind: SliceKind, past_len: int, num_rows: int) -> None:
        self._backend.cache.reserve(self._SEQ, past_len + num_rows)
        rows = np.arange(num_rows, dtype=np.int32)
        part = Slice(
            seq=self._SEQ,
            kind=kind,
            past_len=past_len,
            tokens=self._tokens[rows],
            positions=(past_len + rows.astype(np.int64))[None],
            scored=rows,
        )
        self._backend.forward(Batch((part,)))
