"""The structure of an answer on the wire: every client's way to ask for it is the same option."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.errors import InvalidOptionError
from engine.events import GenerationRequest, Sink
from engine.interface import RequestHandle
from tests.engine.server.conftest import Served

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"enum": ["x"]}}}


def as_openai(schema: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}


@pytest.mark.parametrize(
    ("fields", "option", "value"),
    [
        ({"response_format": as_openai(SCHEMA)}, "json_schema", SCHEMA),
        ({"response_format": {"type": "json_object"}}, "json_schema", {"type": "object"}),
        ({"json_schema": SCHEMA}, "json_schema", SCHEMA),
        ({"json_schema": json.dumps(SCHEMA)}, "json_schema", SCHEMA),
        ({"guided_json": SCHEMA}, "json_schema", SCHEMA),
        ({"structured_outputs": {"json": SCHEMA}}, "json_schema", SCHEMA),
        ({"structured_outputs": {"json_object": True}}, "json_schema", {"type": "object"}),
        ({"structured_output_config": {"json_schema": SCHEMA}}, "json_schema", SCHEMA),
        ({"guided_regex": "a+"}, "regex", "a+"),
        ({"structured_outputs": {"regex": "a+"}}, "regex", "a+"),
        ({"guided_choice": ["a", "b"]}, "choice", ("a", "b")),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "choice", ("a", "b")),
        ({"guided_grammar": "start: /a/"}, "grammar", "start: /a/"),
    ],
)
def test_asks_the_engine_for_it(served: Served, fields: dict[str, Any], option: str, value: object):
    assert served.chat(**fields).status_code == 200
    config = served.engine.requests[-1].config
    assert config.structure == option
    asked: object = getattr(config, option)
    if option == "json_schema":
        asked = json.loads(str(asked))
        assert list(asked) == list(value)  # the order of properties is the order of the answer
    assert asked == value


def test_no_structure_is_no_option(served: Served):
    assert served.chat(response_format={"type": "text"}).status_code == 200
    assert served.engine.requests[-1].config.structure is None


def test_the_engines_refusal_speaks_of_the_clients_field(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    def refuse(request: GenerationRequest, sink: Sink) -> RequestHandle:
        raise InvalidOptionError("'json_schema' cannot be used (why): x.", param="json_schema")

    monkeypatch.setattr(served.engine, "submit", refuse)
    error = served.chat(response_format=as_openai({"type": "objekt"})).json()["error"]
    assert error["param"] == "response_format"
    assert error["message"] == "'response_format' cannot be used (why): x."


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"guided_choice": []}, "guided_choice", "must be a list with at least one string"),
        ({"structured_outputs": {}}, "structured_outputs", "must have one of 'json'"),
        (
            {"structured_outputs": {"choice": []}},
            "structured_outputs.choice",
            "must be a list with at least one string",
        ),
        (
            {"structured_outputs": {"choice": ["a"], "regex": "a"}},
            "structured_outputs.regex",
            "'structured_outputs.regex' and 'structured_outputs.choice' exclude each other",
        ),
        (
            {"structured_outputs": {"json": SCHEMA, "json_object": True}},
            "structured_outputs.json_object",
            "'structured_outputs.json' say different things",
        ),
        *(
            (
                {"response_format": as_openai(schema)},
                "response_format.json_schema.schema",
                "response_format.json_schema.schema must be an object.",
            )
            for schema in ("hello", [1], 3, None)
        ),
    ],
    ids=str,
)
def test_what_asks_for_no_structure_or_for_two_is_refused(
    served: Served, fields: dict[str, Any], param: str, words: str
):
    response = served.chat(**fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == param
    assert words in error["message"]


def test_a_switch_that_is_off_asks_for_nothing(served: Served):
    assert served.chat(structured_outputs={"json_object": False}).status_code == 200
    assert served.engine.requests[-1].config.structure is None
