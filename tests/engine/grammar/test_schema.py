"""Which schemas are taken; nothing in one is silently left out."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import UnsupportedOptionError
from engine.grammar.schema import check_schema


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object", "properties": {"not": {"type": "string"}, "if": True}},
        {"$defs": {"uniqueItems": {"type": "integer"}}, "$ref": "#/$defs/uniqueItems"},
        {"enum": [{"not": 1}], "const": {"if": 2}, "default": {"not": 3}, "examples": [{"not": 4}]},
        {"title": "t", "description": "d", "x-order": 3, "deprecated": True, "readOnly": False},
        {"type": "object", "minProperties": 1},
        {"type": "object", "required": ["a", "b"], "minProperties": 3},
        {"items": [{"type": "string"}], "additionalItems": False},
    ],
    ids=str,
)
def test_takes_what_is_obeyed_and_what_asks_for_nothing(schema: Any) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "keyword", "place"),
    [
        ({"not": {}}, "not", "/"),
        ({"type": "string", "maxLenght": 3}, "maxLenght", "/"),
        ({"properties": {"a": {"uniqueItems": True}}}, "uniqueItems", "/properties/a"),
        ({"$defs": {"x": {"if": {}}}}, "if", "/$defs/x"),
        ({"items": {"contains": {}}}, "contains", "/items"),
        ({"prefixItems": [{}, {"nullable": True}]}, "nullable", "/prefixItems/1"),
        ({"anyOf": [{"allOf": [{"propertyNames": {}}]}]}, "propertyNames", "/anyOf/0/allOf/0"),
        ({"additionalProperties": {"dependentRequired": {}}}, "dependentRequired", "/additional"),
        ({"x-guidance": {"lenient": True}}, "x-guidance", "/"),
        ({"type": "object", "minProperties": 2}, "minProperties", "/"),
        ({"required": ["a", "a"], "minProperties": 3}, "minProperties", "/"),
    ],
    ids=str,
)
def test_refuses_by_name_and_place_what_would_not_be_obeyed(
    schema: dict[str, Any], keyword: str, place: str
) -> None:
    with pytest.raises(UnsupportedOptionError) as caught:
        check_schema(schema)
    assert f"'{keyword}'" in caught.value.message
    assert f"at '{place}" in caught.value.message
    assert caught.value.param == "json_schema"
