"""What ``generate``, ``chat`` and ``serve`` share.

From parsed arguments to the settings of an engine, and from a request to its events.
"""

from __future__ import annotations

import argparse
import queue
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from engine.cli.parser import given_options
from engine.config import (
    BackendKind,
    CachePrecision,
    EngineConfig,
    GenerationConfig,
    SampledRule,
    SchedulerConfig,
    Speculation,
)
from engine.events import Event, FailedEvent, FinishedEvent, GenerationRequest
from engine.paths import Folders

Progress = Callable[[str], None]

_POLL_S = 0.1
"""How long a wait may last before Python looks for Ctrl-C; an endless one hides it on Windows."""


def model_folder(args: argparse.Namespace, folders: Folders, progress: Progress) -> Path:
    """The folder that ``--model`` names, or that of the embedded default, made if need be.

    Raises:
        ModelNotFoundError, ModelUnusableError: it is missing, or something in it is.
    """
    from engine.library.embedded import ensure_default_model
    from engine.library.folder import read_model_folder

    if args.model is None:
        return ensure_default_model(folders, progress)
    return read_model_folder(args.model).path


def engine_config(args: argparse.Namespace, model: Path, folders: Folders) -> EngineConfig:
    """The engine's settings, checked as far as they can be without the model.

    Raises:
        InvalidOptionError, UnsupportedOptionError: as `EngineConfig.validate`.
    """
    scheduler = SchedulerConfig(**given_options(args, SchedulerConfig))  # pyright: ignore[reportArgumentType] - checked by validate
    config = EngineConfig(
        model=model,
        device=args.device,
        draft_device=args.draft_device,
        backend=BackendKind(args.backend),
        drafter=args.drafter,
        speculation=Speculation(args.speculation),
        sampled_rule=SampledRule(args.sampled_rule),
        cache_precision=CachePrecision(args.cache_precision),
        inference_precision=args.inference_precision,
        scheduler=scheduler,
        compile_cache=folders.compile_cache,
        profile_store=folders.profiles,
    )
    config.validate()
    return config


class Handle(Protocol):
    """A request that runs."""

    def cancel(self) -> None: ...


class Submits(Protocol):
    """The part of the engine that answers."""

    def submit(self, request: GenerationRequest, sink: Callable[[Event], None]) -> Handle: ...


class Answering:
    """One request while it is answered: iterate over its events; cancel it and iterate on."""

    def __init__(self, engine: Submits, request: GenerationRequest) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._num_open = request.config.num_return_sequences
        self._handle = engine.submit(request, self._events.put)

    def cancel(self) -> None:
        """Ask for the end; terminal events still come."""
        self._handle.cancel()

    def __iter__(self) -> Iterator[Event]:
        """Events until all choices have ended.

        Raises:
            PacelineError: the request failed.
        """
        while self._num_open:
            try:
                event = self._events.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if isinstance(event, FailedEvent):
                self._num_open = 0
                raise event.error
            self._num_open -= isinstance(event, FinishedEvent)
            yield event


def new_request(
    prompt_ids: tuple[int, ...],
    config: GenerationConfig,
    speculation: Speculation | None = None,
) -> GenerationRequest:
    """A request of the command line."""
    return GenerationRequest(
        request_id=f"cli-{uuid.uuid4().hex}",
        prompt_ids=prompt_ids,
        config=config,
        speculation=speculation,
    )
