"""Workloads: named sets of short prompts of one kind, from ``resources/workloads``.

They were written for this project, and are meant to differ in how well a draft can foresee the
answer: a copy almost entirely, prose hardly at all. The lossless tests use them as well.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field

from engine.errors import InvalidOptionError

_SUFFIX = ".toml"


@dataclass(frozen=True, slots=True)
class WorkloadPrompt:
    """What a user would ask; the chat template is not applied yet. ``earlier`` was asked before it,
    in another conversation: what an engine keeps of it may help."""

    name: str
    text: str
    earlier: str | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts of one kind; ``description`` says in a sentence what is typical of it.

    ``max_tokens``: an answer stops being typical after so many tokens; None: it stays so.
    """

    name: str
    description: str
    prompts: tuple[WorkloadPrompt, ...]
    max_tokens: int | None = None


class _PromptFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern="^[a-z0-9_]+$")
    text: str = Field(min_length=1)
    earlier: str | None = Field(default=None, min_length=1)


class _WorkloadFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    description: str
    max_tokens: int | None = Field(default=None, ge=2)
    prompt: list[_PromptFile] = Field(min_length=1)


def workload_names() -> tuple[str, ...]:
    """The workloads there are, in alphabetical order."""
    entries = files("resources").joinpath("workloads").iterdir()
    return tuple(
        sorted(
            entry.name.removesuffix(_SUFFIX) for entry in entries if entry.name.endswith(_SUFFIX)
        )
    )


def load_workload(name: str) -> Workload:
    """The workload of that name.

    Raises:
        InvalidOptionError: there is none.
    """
    known = workload_names()
    if name not in known:
        raise InvalidOptionError(
            f"There is no workload '{name}'; choose from: {', '.join(known)}.", param="workload"
        )
    source = files("resources").joinpath("workloads", name + _SUFFIX).read_text(encoding="utf-8")
    content = _WorkloadFile.model_validate(tomllib.loads(source))
    return Workload(
        name=name,
        description=content.description,
        prompts=tuple(
            WorkloadPrompt(
                prompt.name, prompt.text.strip(), prompt.earlier and prompt.earlier.strip()
            )
            for prompt in content.prompt
        ),
        max_tokens=content.max_tokens,
    )


def all_workloads() -> tuple[Workload, ...]:
    """Every workload, in the order of `workload_names`."""
    return tuple(load_workload(name) for name in workload_names())
