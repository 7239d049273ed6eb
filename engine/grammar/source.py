"""The structure that a request asks for, in the library's own language, a dialect of Lark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from llguidance import regex_to_lark
from llguidance.gbnf_to_lark import any_to_lark

from engine.config import GenerationConfig
from engine.errors import InvalidOptionError
from engine.grammar.schema import check_schema

_OPTIONS = '%llguidance {"no_forcing": true}'
"""Let the model choose between tokenizations of a text that is certain to come."""

_ASCII_CLASSES = "dw"
r"""``\d`` and ``\w`` are what they are in JSON schemas: ASCII."""

_JSON_OPTIONS: Mapping[str, object] = {
    # Any run of blanks is JSON, and a small model is happy to fill its context with them.
    "whitespace_pattern": " |\\n {0,16}",
    "coerce_one_of": False,
    "lenient": False,
}


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """``option`` is the field of `GenerationConfig` that ``lark`` was made from."""

    option: str
    lark: str


def source_of(config: GenerationConfig) -> GrammarSource | None:
    """The grammar of the answer; None where it is free.

    Raises:
        InvalidOptionError: a JSON schema or grammar that is none.
        UnsupportedOptionError: a JSON schema with a keyword that would not be obeyed.
    """
    if config.json_schema is not None:
        lark = lark_of_schema(_as_obeyed(config.json_schema))
    elif config.regex is not None:
        lark = f"start: /{regex_to_lark(config.regex, _ASCII_CLASSES)}/"
    elif config.choice:
        lark = f"start: {' | '.join(json.dumps(text) for text in config.choice)}"
    elif config.grammar is not None:
        lark = _as_lark(config.grammar)
    else:
        return None
    assert config.structure is not None
    return GrammarSource(config.structure, f"{lark}\n{_OPTIONS}\n")


def lark_of_schema(schema: Mapping[str, Any]) -> str:
    """A JSON schema in the library's language, as it is read here."""
    return f"start: %json {json.dumps({'x-guidance': _JSON_OPTIONS, **schema})}"


def _as_obeyed(text: str) -> Mapping[str, Any]:
    schema = cast(dict[str, Any] | bool, json.loads(text))
    check_schema(schema)
    return {} if schema is True else cast(dict[str, Any], schema)


def _as_lark(grammar: str) -> str:
    try:
        return any_to_lark(grammar)
    except Exception as error:  # noqa: BLE001 - whatever the converter trips over is in the grammar
        raise InvalidOptionError(
            f"'grammar' cannot be used ({str(error).partition(chr(10))[0]}): correct it.",
            param="grammar",
        ) from error
