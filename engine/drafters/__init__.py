"""The drafting strategies by name. A new one is a file in this folder and one line in the table.

Nothing is imported before it is asked for. Which drafter ``auto`` stands for is the plan's
decision, not this table's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import cast

from engine.drafters.base import Drafter
from engine.errors import UnknownDrafterError

AUTO = "auto"
NO_DRAFTER = "none"


@dataclass(frozen=True, slots=True)
class DrafterInfo:
    """What is known of a strategy without building it.

    ``factory`` is where it is made (``module:name``); ``options`` are the fields of
    `GenerationConfig` that it honours and that mean nothing to others. ``has_model``: it comes with
    the folder of a model, and not by its name alone.
    """

    factory: str
    options: frozenset[str] = frozenset()
    has_model: bool = False


_DRAFTERS: dict[str, DrafterInfo] = {
    "prompt_lookup": DrafterInfo(
        "engine.drafters.prompt_lookup:PromptLookup", frozenset({"max_ngram_size"})
    ),
    "suffix": DrafterInfo("engine.drafters.suffix:SuffixDrafter"),
    "fast_draft": DrafterInfo(
        "engine.drafters.fast_draft:FastDraft",
        frozenset({"assistant_confidence_threshold"}),
        has_model=True,
    ),
}


def drafter_names() -> tuple[str, ...]:
    """``none``, and every name that ``create_drafter`` needs no model for."""
    return (NO_DRAFTER, *(name for name, info in _DRAFTERS.items() if not info.has_model))


def split_drafters(names: str) -> tuple[str, ...]:
    """The single names in ``names``, which joins them by ``+``; none at all in ``none``.

    Several drafters serve one answer together: at each step the most promising draft is taken.
    """
    return () if names == NO_DRAFTER else tuple({name.strip(): None for name in names.split("+")})


def create_drafter(name: str) -> Drafter:
    """The drafter called ``name``, one name alone.

    Raises:
        UnknownDrafterError: as `drafter_info`.
    """
    module, factory = drafter_info(name).factory.split(":")
    return cast("Callable[[], Drafter]", getattr(import_module(module), factory))()


def owners_of(option: str) -> list[str]:
    """The drafters that honour a field of `GenerationConfig` which means nothing to others."""
    return [name for name, info in _DRAFTERS.items() if option in info.options]


def drafter_info(name: str) -> DrafterInfo:
    """What is known of the drafter called ``name``, one name alone.

    Raises:
        UnknownDrafterError: there is no such drafter; names the known ones and the closest.
    """
    if name in _DRAFTERS:
        return _DRAFTERS[name]
    known = ", ".join((AUTO, *drafter_names()))
    message = (
        f"There is no drafter called '{name}'; choose one of: {known}, the folder of a draft "
        "model, or several joined by '+'."
    )
    closest = get_close_matches(name, drafter_names(), n=1)
    if closest:
        message += f" Did you mean '{closest[0]}'?"
    raise UnknownDrafterError(message, param="drafter")
