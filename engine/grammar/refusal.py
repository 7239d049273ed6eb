"""What a client is told of a structure that the library refuses: one sentence, and the place.

The library says what is wrong, in words for its own users, and seldom where. The place is found by
asking it about ever smaller parts of the schema, as long as one of them has the same fault.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from llguidance import LLMatcher

from engine.config import GenerationConfig
from engine.errors import InvalidOptionError, UnsupportedOptionError
from engine.grammar.schema import subschemas_of
from engine.grammar.source import lark_of_schema

_PLACE = re.compile(r"^at \d+\(\d+\): ")
_WRAPPING = ("failed to compile JSON schema: ", "failed to compile regex: ")
_LOOK = re.compile(r"lookarounds not supported yet; (Start|End|Word\w*)")
_MAX_SEARCHED = 100_000
"""Characters of the largest schema that is searched: each level of it is read once more."""


def refusal(config: GenerationConfig, error: str) -> InvalidOptionError | UnsupportedOptionError:
    """The refusal of the structure of ``config``; ``error`` is what the library says."""
    option, reason, remedy = config.structure, _reason(error), "correct it"
    assert option is not None
    place, keyword = "", ""
    if option == "json_schema" and config.json_schema is not None:
        place, keyword = _place_of_fault(config.json_schema, reason)
    if "coerce_one_of" in reason:
        return UnsupportedOptionError(
            f"'{option}' has the keyword 'oneOf' at '{place or '/'}', which is not supported: use "
            "'anyOf'.",
            param=option,
        )
    if look := _LOOK.search(reason):
        reason, remedy = _about_look(look[1])
    where = f"at '{place}{keyword}': " if place or keyword else ""
    return InvalidOptionError(
        f"'{option}' cannot be used ({where}{reason}): {remedy}.", param=option
    )


def _about_look(kind: str) -> tuple[str, str]:
    """The fault and the remedy for what looks at the text around it."""
    if kind.startswith("Word"):
        symbol = r"\B" if kind.endswith("Negate") else r"\b"
        return f"the word boundary {symbol} is not supported", f"leave out {symbol}"
    symbol = "^" if kind.startswith("Start") else "$"
    end = "beginning" if symbol == "^" else "end"
    return f"{symbol} is not supported except at the {end}", f"leave out that {symbol}"


def _place_of_fault(text: str, reason: str) -> tuple[str, str]:
    """The innermost schema with this fault as a JSON pointer, and ``/keyword`` where one does it.

    Both are empty where the fault is in the whole, or where looking for it would take long.
    """
    found: Any = json.loads(text)
    place = ""
    if len(text) > _MAX_SEARCHED:
        return "", ""
    while True:
        parts = (each for each in subschemas_of(found) if _has(each[1], reason))
        inner = next(parts, None)
        if inner is None:
            break
        place, found = place + inner[0], inner[1]
    if not isinstance(found, dict):
        return place, ""
    one = cast(dict[str, Any], found)
    alone = (name for name, value in one.items() if _has({name: value}, reason))
    keyword = next(alone, None)
    return place, f"/{keyword}" if keyword is not None else ""


def _has(schema: object, reason: str) -> bool:
    if not isinstance(schema, dict):
        return False
    error = LLMatcher.validate_grammar(lark_of_schema(cast(dict[str, Any], schema)))
    return bool(error) and _reason(error) == reason


def _reason(error: str) -> str:
    """The library's words without the excerpt of the source that they stand around."""
    lines = error.splitlines()
    for line in lines:
        if line.startswith("error: "):  # of the regular expressions' own parser
            return line.removeprefix("error: ")
    reason = _PLACE.sub("", lines[0])
    for wrapping in _WRAPPING:
        reason = reason.removeprefix(wrapping)
    return reason.rstrip(".:")
