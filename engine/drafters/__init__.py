"""The drafting strategies by name. A new one is a file in this folder and one line in the table.

Nothing is imported before it is asked for. Which drafter ``auto`` stands for is the plan's
decision, not this table's.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import cast

from engine.drafters.base import Drafter
from engine.errors import UnknownDrafterError

NO_DRAFTER = "none"

_FACTORIES: dict[str, str] = {
    "prompt_lookup": "engine.drafters.prompt_lookup:PromptLookup",
    "suffix": "engine.drafters.suffix:SuffixDrafter",
}


def drafter_names() -> tuple[str, ...]:
    """``none``, and every name that ``create_drafter`` knows."""
    return (NO_DRAFTER, *_FACTORIES)


def split_drafters(names: str) -> tuple[str, ...]:
    """The single names in ``names``, which joins them by ``+``; none at all in ``none``.

    Several drafters serve one answer together: at each step the most promising draft is taken.
    """
    return () if names == NO_DRAFTER else tuple(dict.fromkeys(names.split("+")))


def create_drafter(name: str) -> Drafter:
    """The drafter called ``name``, one name alone.

    Raises:
        UnknownDrafterError: as `require_drafter`.
    """
    require_drafter(name)
    module, factory = _FACTORIES[name].split(":")
    return cast("Callable[[], Drafter]", getattr(import_module(module), factory))()


def require_drafter(name: str) -> None:
    """Refuse a name that is in no table.

    Raises:
        UnknownDrafterError: there is no such drafter; names the known ones and the closest.
    """
    if name in _FACTORIES:
        return
    known = ", ".join(("auto", *drafter_names()))
    message = (
        f"There is no drafter called '{name}'; choose one of: {known}, or several joined by '+'."
    )
    closest = get_close_matches(name, drafter_names(), n=1)
    if closest:
        message += f" Did you mean '{closest[0]}'?"
    raise UnknownDrafterError(message, param="drafter")
