"""From a request and a model's defaults to one checked GenerationConfig.

Each field comes from the request, else from the model's ``generation_config.json``, else from the
built-in default. None (JSON null) in either source means "not set". Here too are the fields of
OpenVINO GenAI that nothing in this engine can honour: they are known by name, pass with their
default, and are refused with any other value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from engine.config.generation import GenerationConfig
from engine.config.options import OptionKind, must_be, options
from engine.errors import InvalidOptionError, InvalidRequestError, UnsupportedOptionError


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why a field of OpenVINO GenAI is refused, and the values that mean "off"."""

    reason: str
    off: tuple[object, ...] = ()


_BEAMS = "beam search is not supported"

UNSUPPORTED: Mapping[str, Unsupported] = {
    "num_beam_groups": Unsupported(_BEAMS, (1,)),
    "diversity_penalty": Unsupported(_BEAMS, (0,)),
    "length_penalty": Unsupported(_BEAMS, (1,)),
    "stop_criteria": Unsupported(_BEAMS, ("HEURISTIC",)),
    # GenAI's default is SIZE_MAX, that of Hugging Face 0; both mean off.
    "no_repeat_ngram_size": Unsupported(
        "forbidding repeated n-grams is not supported", (0, 2**64 - 1)
    ),
    "parsers": Unsupported("parsers of the answer are not supported", ([],)),
    "adapters": Unsupported("adapters are not supported"),
    "pruning_ratio": Unsupported("pruning of picture tokens is not supported", (0,)),
    "relevance_weight": Unsupported("pruning of picture tokens is not supported", (0.5,)),
    "return_omni_outputs": Unsupported("speech output is not supported", (False,)),
}

_OPTIONS = options(GenerationConfig)

_STRUCTURE_CONFIG = "structured_output_config"
_IN_STRUCTURE_CONFIG = ("json_schema", "regex", "choice", "grammar")

REQUEST_KEYS = (*_OPTIONS, *UNSUPPORTED, _STRUCTURE_CONFIG)
"""Every key that `resolve` knows in a request."""


def resolve(
    request: Mapping[str, object], model_defaults: Mapping[str, object]
) -> GenerationConfig:
    """Build and validate the configuration of one request.

    ``model_defaults`` is the model's ``generation_config.json`` with, beneath it, the tokenizer's
    ``eos_token_id``; a list of them there adds to ``stop_token_ids``, the first being
    ``eos_token_id``. Lists become tuples and sets. A request that sets ``temperature`` without
    ``do_sample`` means it: above 0 it samples, at 0 it is greedy. Keys of the file that are no
    field here are ignored.

    Raises:
        InvalidRequestError: an unknown key in the request.
        InvalidOptionError, UnsupportedOptionError: as `GenerationConfig.validate`.
    """
    asked = _unfold_structure({k: value for k, value in request.items() if value is not None})
    defaults = _defaults_from_file(model_defaults)
    for name in asked:
        if name not in _OPTIONS and name not in UNSUPPORTED:
            raise InvalidRequestError(
                f"'{name}' is not a known option: remove it or correct its name.", param=name
            )
    merged = defaults | asked
    for name in UNSUPPORTED.keys() & merged.keys():
        _refuse_unless_off(name, merged.pop(name))
    if "temperature" in asked and "do_sample" not in asked:
        merged["do_sample"] = asked["temperature"] != 0
    values = {name: _convert(name, value) for name, value in merged.items()}
    if "choice" in asked and not values["choice"]:
        raise must_be("choice", "a list with at least one string", values["choice"])
    config = _add_eos_to_stops(values)
    config.validate()
    return config


def _unfold_structure(asked: dict[str, object]) -> dict[str, object]:
    """GenAI's object around the structure, put into the fields that it stands for."""
    if _STRUCTURE_CONFIG not in asked:
        return asked
    folded = asked[_STRUCTURE_CONFIG]
    if not isinstance(folded, Mapping):
        raise must_be(_STRUCTURE_CONFIG, "an object", folded)
    inner = cast(Mapping[str, object], folded)
    unfolded = {name: value for name, value in asked.items() if name != _STRUCTURE_CONFIG}
    for name, value in inner.items():
        if value is None:
            continue
        if name not in _IN_STRUCTURE_CONFIG:
            raise UnsupportedOptionError(
                f"'{_STRUCTURE_CONFIG}' has '{name}', which is not supported: use one of "
                f"{', '.join(_IN_STRUCTURE_CONFIG)}.",
                param=_STRUCTURE_CONFIG,
            )
        if name in unfolded:
            raise InvalidOptionError(
                f"'{name}' is given twice: leave it out of '{_STRUCTURE_CONFIG}'.", param=name
            )
        unfolded[name] = value
    return unfolded


def _defaults_from_file(model_defaults: Mapping[str, object]) -> dict[str, object]:
    known = _OPTIONS.keys() | UNSUPPORTED.keys()
    defaults = {
        name: value for name, value in model_defaults.items() if name in known and value is not None
    }
    eos = defaults.get("eos_token_id")
    if isinstance(eos, list):
        ids = cast(list[object], eos)
        stops = defaults.get("stop_token_ids")
        defaults["stop_token_ids"] = [*ids, *(cast(list[object], stops) if stops else [])]
        if ids:
            defaults["eos_token_id"] = ids[0]
        else:
            del defaults["eos_token_id"]
    return defaults


def _refuse_unless_off(name: str, value: object) -> None:
    unsupported = UNSUPPORTED[name]
    if value not in unsupported.off:
        remedy = f"set it to {unsupported.off[0]!r}" if unsupported.off else "leave it unset"
        raise UnsupportedOptionError(
            f"'{name}' cannot be honoured ({unsupported.reason}): {remedy}.", param=name
        )


def _convert(name: str, value: object) -> object:
    """The value as the field holds it; what does not fit is left for `validate` to refuse."""
    kind = _OPTIONS[name].kind
    if name == "max_ngram_size" and value == 0 and not isinstance(value, bool):
        return None  # GenAI's way to say "not set"
    if kind is OptionKind.NUMBER and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is OptionKind.TEXTS:
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list | set | frozenset):
            return tuple(cast(list[object], value))
    if kind is OptionKind.SCHEMA and isinstance(value, dict | bool):
        try:
            return json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return cast(object, value)
    if kind is OptionKind.TOKEN_IDS and isinstance(value, list | set | tuple):
        items = cast(list[object], value)
        if not all(isinstance(item, int) for item in items):  # unhashable ones included
            raise must_be(name, "a list of token ids (integers of at least 0)", items)
        return frozenset(items)
    return value


def _add_eos_to_stops(values: dict[str, object]) -> GenerationConfig:
    eos, stops = values.get("eos_token_id"), values.get("stop_token_ids", frozenset[int]())
    if isinstance(eos, int) and isinstance(stops, frozenset):
        values["stop_token_ids"] = cast(frozenset[object], stops) | {eos}
    return GenerationConfig(**cast(dict[str, Any], values))
