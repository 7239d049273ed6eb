"""The options that give an answer its structure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.config import GenerationConfig, resolve
from engine.errors import InvalidOptionError, UnsupportedOptionError

SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}
EOS = {"eos_token_id": 0}
TOO_DEEP = "[" * 100_000


@pytest.mark.parametrize("given", [SCHEMA, json.dumps(SCHEMA)])
def test_a_schema_comes_as_an_object_or_as_text(given: object) -> None:
    for values in ({"json_schema": given}, {"structured_output_config": {"json_schema": given}}):
        config = resolve(values, EOS)
        assert config.json_schema is not None
        assert list(json.loads(config.json_schema)["properties"]) == ["b", "a"]
        assert config.structure == "json_schema"


@pytest.mark.parametrize(
    "values",
    [
        {"json_schema": "{"},
        {"json_schema": "[]"},
        {"json_schema": '{"minimum": NaN}'},
        {"json_schema": {"minimum": float("inf")}},
        {"json_schema": f'{{"a": {TOO_DEEP}'},
        {"json_schema": 3},
        {"json_schema": ""},
        {"regex": ""},
        {"regex": "\ud800"},
        {"regex": ["a"]},
        {"choice": []},
        {"choice": ["a", ""]},
        {"choice": ["a", 3]},
        {"grammar": {"a": 1}},
        {"structured_output_config": "json"},
    ],
    ids=str,
)
def test_refuses_what_is_no_structure_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        resolve(values, EOS)
    assert caught.value.param == next(iter(values))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"choice": []}, "must be a list with at least one string, but got []."),
        ({"choice": ["", None]}, 'but got ["", null].'),
        ({"choice": [True, {"é": "\ud800"}]}, 'but got [true, {"é": "\\ud800"}].'),
        ({"stop_token_ids": [1, -2]}, "but got [-2, 0, 1]."),
        ({"json_schema": "{bad"}, "at line 1, column 2)"),
        ({"json_schema": '{\n"a": 1,, }'}, "line 2, column 8"),
    ],
    ids=str,
)
def test_says_what_it_got_as_json_and_where_json_breaks(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        resolve(values, EOS)
    assert words in caught.value.message
    caught.value.message.encode()


def test_a_file_of_defaults_may_name_no_choices() -> None:
    assert resolve({}, EOS | {"choice": []}).structure is None


@pytest.mark.parametrize("other", ["regex", "choice", "grammar"])
def test_structures_exclude_each_other(other: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"'json_schema' and '{other}' exclude"):
        resolve({"json_schema": SCHEMA, other: "a"}, EOS)


def test_a_structure_given_twice_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="twice"):
        resolve({"regex": "a", "structured_output_config": {"regex": "a"}}, EOS)


def test_refuses_what_genai_has_beyond_it_by_name() -> None:
    with pytest.raises(UnsupportedOptionError, match="'structural_tags_config'"):
        resolve({"structured_output_config": {"structural_tags_config": {}}}, EOS)


def test_a_structure_decides_its_end_itself() -> None:
    with pytest.raises(InvalidOptionError, match="'regex' excludes 'ignore_eos'"):
        resolve({"regex": "a", "ignore_eos": True, "max_new_tokens": 9}, EOS)


def test_end_tokens_are_eos_and_stops() -> None:
    config = GenerationConfig(eos_token_id=3, stop_token_ids=frozenset({5}))
    assert config.end_token_ids == {3, 5}
    assert GenerationConfig().end_token_ids == frozenset()
