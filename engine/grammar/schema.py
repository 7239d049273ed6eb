"""Which JSON schemas are obeyed to the letter; all others are refused, naming the keyword.

The library ignores what it takes for an annotation, a misspelt keyword among them, and it cannot
count the distinct names of an object whose names are open. Both would give answers that the
schema forbids, so both are refused here. What it knows it cannot do it refuses itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from engine.errors import InvalidOptionError, UnsupportedOptionError

_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_SCHEMAS = frozenset(
    {"items", "prefixItems", "additionalItems", "additionalProperties", "anyOf", "oneOf", "allOf"}
)
"""Keywords whose value is a schema, or a list of them."""

_ASSERTIONS = frozenset(
    {
        *("$ref", "const", "enum", "type"),
        *("minItems", "maxItems"),
        *("required", "minProperties", "maxProperties"),
        *("minLength", "maxLength", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
_ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "id", "$anchor", "$comment", "title", "description", "default"),
        *("examples", "example", "deprecated", "readOnly", "writeOnly"),
        *("contentEncoding", "contentMediaType"),
    }
)
_KNOWN = _SCHEMAS_BY_NAME | _SCHEMAS | _ASSERTIONS | _ANNOTATIONS
_LIBRARY_OPTIONS = "x-guidance"


def check_schema(schema: Mapping[str, Any] | bool) -> None:
    """Refuse a schema that would not be obeyed.

    Raises:
        InvalidOptionError: it allows nothing.
        UnsupportedOptionError: naming the keyword and where it stands.
    """
    if schema is False:
        raise InvalidOptionError(
            "'json_schema' is false, which allows no answer: correct it.", param="json_schema"
        )
    for place, one in _subschemas(schema):
        for keyword in one:
            is_extension = keyword.startswith("x-") and keyword != _LIBRARY_OPTIONS
            if keyword not in _KNOWN and not is_extension:
                raise _unsupported(f"the keyword '{keyword}'", place)
        _check_least_names(one, place)


def _check_least_names(one: Mapping[str, Any], place: str) -> None:
    names, least = one.get("required"), one.get("minProperties")
    required = cast(list[Any], names) if isinstance(names, list) else []
    num_required = len({name for name in required if isinstance(name, str)})
    # One name beside the required ones differs from them all; two might be the same.
    if isinstance(least, int | float) and least > num_required + 1:
        raise _unsupported(f"'minProperties' {least} with {num_required} required names", place)


def _subschemas(schema: Mapping[str, Any] | bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object in the place of a schema, and its place as a JSON pointer."""
    waiting: list[tuple[str, Any]] = [("", schema)]
    while waiting:
        place, found = waiting.pop()
        waiting += [(place + below, part) for below, part in subschemas_of(found)]
        if isinstance(found, dict):  # not true, false, or what the library will complain about
            yield place, cast(dict[str, Any], found)


def subschemas_of(schema: object) -> Iterator[tuple[str, Any]]:
    """What stands in the place of a schema directly below one, and where as a JSON pointer."""
    if not isinstance(schema, dict):
        return
    one = cast(dict[str, Any], schema)
    for keyword, value in one.items():
        if keyword in _SCHEMAS and isinstance(value, list):
            entries = cast(list[Any], value)
            yield from ((f"/{keyword}/{index}", part) for index, part in enumerate(entries))
        elif keyword in _SCHEMAS:
            yield f"/{keyword}", value
        elif keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            named = cast(dict[str, Any], value)
            yield from ((f"/{keyword}/{name}", part) for name, part in named.items())


def _unsupported(what: str, place: str) -> UnsupportedOptionError:
    return UnsupportedOptionError(
        f"'json_schema' has {what} at '{place or '/'}', which is not supported: remove it.",
        param="json_schema",
    )
