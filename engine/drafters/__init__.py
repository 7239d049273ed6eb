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
}


def drafter_names() -> tuple[str, ...]:
    """Every name that ``create_drafter`` knows, ``none`` first."""
    return (NO_DRAFTER, *_FACTORIES)


def create_drafter(name: str) -> Drafter | None:
    """The drafter called ``name``; None for ``none``.

    Raises:
        UnknownDrafterError: there is no such drafter; names the known ones and the closest.
    """
    if name == NO_DRAFTER:
        return None
    if name not in _FACTORIES:
        raise UnknownDrafterError(_unknown(name), param="drafter")
    module, factory = _FACTORIES[name].split(":")
    return cast("Callable[[], Drafter]", getattr(import_module(module), factory))()


def _unknown(name: str) -> str:
    known = ", ".join(drafter_names())
    message = f"There is no drafter called '{name}'; choose one of: {known}."
    closest = get_close_matches(name, drafter_names(), n=1)
    return f"{message} Did you mean '{closest[0]}'?" if closest else message
