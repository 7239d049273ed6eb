"""Open OpenVINO GenAI for a plan."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.config import BackendKind, EngineConfig
from engine.drafters import NO_DRAFTER
from engine.errors import ModelNotFoundError, ModelUnusableError, UnknownDrafterError
from engine.library.folder import ModelInfo, model_defaults, read_model_folder
from engine.plan import Plan
from engine.reference.engine import GenAIEngine, Parts
from engine.reference.pipeline import DrafterKind, PeerDrafter, PipelineSettings, TextPipeline
from engine.tokens import Tokenizer

_logger = logging.getLogger(__name__)


def open_engine(model: ModelInfo, plan: Plan, config: EngineConfig) -> GenAIEngine:
    """Compile ``model`` for ``plan`` and start the engine.

    Raises:
        ModelUnusableError: the model, or the draft model, cannot be used.
        UnknownDrafterError: there is no such draft model.
    """
    drafter = _drafter(plan, config)
    settings = PipelineSettings(
        model=model.path,
        device=plan.device,
        paged=plan.backend is BackendKind.GENAI,
        cache_precision=plan.cache_precision,
        inference_precision=config.inference_precision,
        cache_gib=max(1, plan.cache_bytes >> 30),
        num_blocks=config.scheduler.num_kv_blocks,
        max_batched_tokens=config.scheduler.max_num_batched_tokens,
        drafter=drafter,
    )
    try:
        pipeline = TextPipeline(settings)
    except RuntimeError as error:
        _logger.debug("OpenVINO GenAI's own words", exc_info=error)
        pair = "" if drafter.folder is None else f" with the draft model {drafter.folder.name}"
        raise ModelUnusableError(
            f"OpenVINO GenAI cannot load {model.name}{pair} on {plan.device}: use another model, "
            "or export this one again.",
            param="model",
        ) from error
    return GenAIEngine(
        Parts(
            model=model,
            plan=plan,
            tokenizer=Tokenizer.load(model.path),
            model_defaults=model_defaults(model.path),
            pipeline=pipeline,
            drafter=drafter.kind,
        )
    )


def _drafter(plan: Plan, config: EngineConfig) -> PeerDrafter:
    if plan.drafter == NO_DRAFTER:
        return PeerDrafter()
    if plan.drafter == "prompt_lookup":
        return PeerDrafter(DrafterKind.PROMPT_LOOKUP)
    try:
        folder = read_model_folder(Path(plan.drafter)).path
    except ModelNotFoundError as error:
        raise UnknownDrafterError(
            f"There is no drafter and no folder of a draft model called '{plan.drafter}'; use "
            "none, prompt_lookup, or a folder with a draft model.",
            param="drafter",
        ) from error
    return PeerDrafter(DrafterKind.MODEL, folder, config.draft_device or plan.device)
