"""How one configuration field is described: its type, its bounds, and a sentence of help.

The description travels in the dataclass field's metadata, so that command line, HTTP schema and
settings page derive from the same place (`options`). Checks of one value on its own live here
(`check`); rules between fields belong to the configuration classes.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar, cast

from engine.errors import InvalidOptionError

T = TypeVar("T")

_METADATA_KEY = "option"


class OptionKind(StrEnum):
    """The type of a field's value."""

    INTEGER = "integer"
    NUMBER = "number"
    SWITCH = "switch"
    TEXTS = "texts"
    """A tuple of strings, none empty."""
    TEXT = "text"
    """One string, not empty."""
    SCHEMA = "schema"
    """A JSON schema as text."""
    TOKEN_IDS = "token_ids"
    """A frozenset of token ids."""


@dataclass(frozen=True, slots=True)
class Option:
    """One field's description. Bounds hold for INTEGER and NUMBER, None means unbounded.

    ``at_least`` and ``at_most`` are inclusive, ``above`` and ``below`` exclusive. ``optional``
    fields may be None, which means "not set".
    """

    kind: OptionKind
    help: str
    optional: bool = False
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def bounds_text(self) -> str:
        """The bounds in words, such as "at least 0 and at most 100"; empty where there are none."""
        bounds = (
            ("at least", self.at_least),
            ("greater than", self.above),
            ("at most", self.at_most),
            ("less than", self.below),
        )
        return " and ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)

    def admits(self, value: float) -> bool:
        """Whether a number lies within the bounds."""
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


def option(default: T, description: Option) -> T:
    """A dataclass field with ``default`` and its description."""
    return field(default=default, metadata={_METADATA_KEY: description})


def options(config: type[Any]) -> dict[str, Option]:
    """Descriptions of a configuration class by field name, in the order of the fields."""
    return {
        each.name: each.metadata[_METADATA_KEY]
        for each in fields(config)
        if _METADATA_KEY in each.metadata
    }


def check(name: str, value: object, description: Option) -> None:
    """Check the type and the bounds of one value.

    Raises:
        InvalidOptionError: naming the field, what it must be, and what it got.
    """
    if value is None and description.optional:
        return
    if not _CHECKS[description.kind](value):
        if description.kind is OptionKind.SCHEMA and isinstance(value, str):
            _require_json(name, value)
        raise must_be(name, _TYPE_WORDS[description.kind], value)
    if isinstance(value, int | float) and not description.admits(value):
        raise must_be(name, description.bounds_text(), value)


def must_be(name: str, wanted: str, value: object) -> InvalidOptionError:
    """The error for a field whose value is not what it must be."""
    return InvalidOptionError(
        f"'{name}' must be {wanted}, but got {_AS_JSON.repr(value)}.", param=name
    )


class _AsJson(reprlib.Repr):
    """Values as they look in a request, cut short where they are long or deep."""

    def repr_str(self, x: str, level: int) -> str:
        cut = x if len(x) <= self.maxstring else x[: self.maxstring] + self.fillvalue
        # Half of a surrogate pair cannot be written out as it is.
        return json.dumps(cut, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()

    def repr_tuple(self, x: tuple[object, ...], level: int) -> str:
        return self.repr_list(list(x), level)

    def repr_frozenset(self, x: frozenset[object], level: int) -> str:
        return self.repr_list(sorted(x, key=repr), level)

    def repr_bool(self, x: bool, level: int) -> str:
        return json.dumps(x)

    def repr_NoneType(self, x: None, level: int) -> str:  # noqa: N802 - named after the type
        return json.dumps(x)


_AS_JSON = _AsJson()


def _require_json(name: str, text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidOptionError(
            f"'{name}' is not JSON ({error.msg} at line {error.lineno}, column {error.colno}): "
            "correct it.",
            param=name,
        ) from None
    except RecursionError:
        pass  # the caller says what is wanted


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(text, str) and text for text in cast(Collection[object], value)
    )


def _is_token_ids(value: object) -> bool:
    return isinstance(value, frozenset) and all(
        isinstance(token, int) and not isinstance(token, bool) and token >= 0
        for token in cast(Collection[object], value)
    )


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _is_schema(value: object) -> bool:
    if not _is_text(value):
        return False
    try:
        schema: object = json.loads(cast(str, value), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return isinstance(schema, dict | bool)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_CHECKS: dict[OptionKind, Callable[[object], bool]] = {
    OptionKind.INTEGER: _is_integer,
    OptionKind.NUMBER: _is_number,
    OptionKind.SWITCH: _is_switch,
    OptionKind.TEXTS: _is_texts,
    OptionKind.TEXT: _is_text,
    OptionKind.SCHEMA: _is_schema,
    OptionKind.TOKEN_IDS: _is_token_ids,
}

_TYPE_WORDS: dict[OptionKind, str] = {
    OptionKind.INTEGER: "an integer",
    OptionKind.NUMBER: "a finite number",
    OptionKind.SWITCH: "true or false",
    OptionKind.TEXTS: "a list of strings, none of them empty",
    OptionKind.TEXT: "a string of valid Unicode that is not empty",
    OptionKind.SCHEMA: "a JSON schema (a JSON object)",
    OptionKind.TOKEN_IDS: "a list of token ids (integers of at least 0)",
}
