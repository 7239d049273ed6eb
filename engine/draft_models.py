"""Drafters that have a model of their own: finding it, checking that it fits, loading it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.backends.base import Backend
from engine.drafters import (
    AUTO,
    NO_DRAFTER,
    DrafterInfo,
    create_drafter,
    drafter_info,
    drafter_names,
    split_drafters,
)
from engine.drafters.base import Drafter
from engine.drafters.fast_draft import FastDraft
from engine.errors import PlanRefusedError, UnknownDrafterError
from engine.library.folder import ModelInfo, read_model_folder
from engine.library.pairing import CandidateKind, candidate_kind, shared_vocabulary


def find_draft_model(drafter: str) -> ModelInfo | None:
    """The draft model whose folder stands among the names in ``drafter``; None without one.

    What is neither a name nor a folder is left to the plan, which refuses it.

    Raises:
        PlanRefusedError: more than one folder, or a kind of head that cannot be used yet.
        ModelUnusableError: something in the folder is missing or damaged.
    """
    known = {AUTO, NO_DRAFTER, *drafter_names()}
    parts = [drafter] if Path(drafter).is_dir() else split_drafters(drafter)
    folders = [Path(part) for part in parts if part not in known and Path(part).is_dir()]
    if not folders:
        return None
    if len(folders) > 1:
        raise PlanRefusedError(
            f"There can be one draft model, and 'drafter' names {len(folders)}: keep one of them.",
            param="drafter",
        )
    info = read_model_folder(folders[0])
    if candidate_kind(info.path) is CandidateKind.EAGLE3:
        raise PlanRefusedError(
            f"{info.name} is an EAGLE3 head, which is not supported yet: choose a draft model of "
            "its own.",
            param="drafter",
        )
    return info


@dataclass(frozen=True, slots=True)
class LoadedDrafters:
    """Drafters for one engine: those that are made by name, and the one with a model."""

    with_model: Drafter | None = None
    close: Callable[[], None] = lambda: None
    """Gives back the draft model."""

    def info(self, name: str) -> DrafterInfo:
        """A `draft_mode.InfoOf`.

        Raises:
            UnknownDrafterError: there is no such drafter, or its model was not loaded.
        """
        info = drafter_info(name)
        if info.has_model and (self.with_model is None or self.with_model.name != name):
            raise UnknownDrafterError(
                f"The engine was started without a model for drafter '{name}': start it with the "
                "model's folder as its drafter.",
                param="drafter",
            )
        return info

    def make(self, name: str) -> Drafter:
        """A `drafting.MakeDrafter`."""
        if self.with_model is not None and name == self.with_model.name:
            return self.with_model
        return create_drafter(name)


def load_fast_draft(
    target: ModelInfo, draft: ModelInfo, load: Callable[[ModelInfo], Backend]
) -> LoadedDrafters:
    """Check the vocabularies, which is quick, and then ``load`` the draft model.

    Raises:
        PlanRefusedError: the vocabularies differ; names the first difference.
        PacelineError: as ``load``.
    """
    vocab_size = shared_vocabulary(target, draft)
    backend = load(draft)
    drafter = FastDraft(backend, vocab_size=vocab_size, context_length=draft.context_length)
    return LoadedDrafters(drafter, backend.close)
