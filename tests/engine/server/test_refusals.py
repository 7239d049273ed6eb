"""Requests that are wrong: an OpenAI error object each time, and a server that goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest

from engine.errors import CacheTooSmallError
from engine.server.body import MAX_BODY_BYTES
from tests.engine.server.conftest import Serve, Served

HI = [{"role": "user", "content": "Hi"}]
JSON = {"content-type": "application/json"}


def refusal(served: Served, response, status: int) -> dict[str, str | None]:
    """The error object of a refused request, after which the server must still answer."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = json.loads(response.content.decode("utf-8"))
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "invalid_request_error"
    assert "\n" not in body["error"]["message"]
    assert served.chat().status_code == 200
    return body["error"]


@pytest.mark.parametrize(
    "body",
    [b"", b"  ", b"{", b"[]", b"null", b"3", b'"text"', b"\xff\xfe", b"{'a': 1}", b"NaN"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_body_that_is_no_json_object(served: Served, body: bytes, path: str):
    refusal(served, served.http.post(path, content=body, headers=JSON), 400)


def test_a_lone_surrogate(served: Served):
    body = b'{"model":"fake-model","messages":[{"role":"user","content":"\\ud83d"}]}'
    response = served.http.post("/v1/chat/completions", content=body, headers=JSON)
    assert "text that is not valid Unicode" in str(refusal(served, response, 400)["message"])


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("name", ["temperature", "top_p"])
def test_what_json_has_no_number_for(served: Served, name: str, number: str):
    body = json.dumps({"model": "fake-model", "messages": HI, name: float(number)})
    response = served.http.post("/v1/chat/completions", content=body, headers=JSON)
    assert refusal(served, response, 400)["message"] == f"{name} must be a number."


def test_a_byte_order_mark_does_no_harm(served: Served):
    body = b"\xef\xbb\xbf" + json.dumps({"model": "fake-model", "messages": HI}).encode()
    assert served.http.post("/v1/chat/completions", content=body, headers=JSON).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_content_type(served: Served, kind: str):
    headers = {"content-type": kind} if kind else {}
    response = served.http.post("/v1/chat/completions", content=b"{}", headers=headers)
    assert refusal(served, response, 415)["code"] == "unsupported_media_type"


def test_a_charset_beside_the_content_type_is_fine(served: Served):
    body = json.dumps({"model": "fake-model", "messages": HI})
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert served.http.post("/v1/chat/completions", content=body, headers=headers).is_success


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ...}, "model"),
        ({"model": None}, "model"),
        ({"model": 3}, "model"),
        ({"messages": ...}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "3"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_new_tokens": -1}, "max_new_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
        ({"max_tokens": 5, "max_new_tokens": 6}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"n": 0}, "n"),
        ({"n": "2"}, "n"),
        ({"stop": ""}, "stop"),
        ({"stop": 3}, "stop"),
        ({"stop": ["a", 3]}, "stop"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
        ({"presence_penalty": 2.5}, "presence_penalty"),
        ({"num_assistant_tokens": -1}, "num_assistant_tokens"),
        ({"num_assistant_tokens": 101}, "num_assistant_tokens"),
        ({"num_assistant_tokens": "3"}, "num_assistant_tokens"),
        ({"num_assistant_tokens": 1.9}, "num_assistant_tokens"),
        ({"num_assistant_tokens": True}, "num_assistant_tokens"),
        ({"num_assistant_tokens": 10**9}, "num_assistant_tokens"),
        ({"num_beams": 4}, "num_beams"),
        ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size"),
        ({"apply_chat_template": False}, "apply_chat_template"),
        ({"speculation": "maybe"}, "speculation"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "text", "json_schema": {"name": "x"}}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            "response_format.json_schema.name",
        ),
        ({"response_format": {"type": "json_object"}, "regex": "a"}, "response_format"),
        ({"response_format": {"type": "json_object"}, "json_schema": {}}, "response_format"),
        ({"structured_outputs": {"regex": "a", "greedy": True}}, "structured_outputs.greedy"),
        ({"structured_output_config": {"tags": []}}, "structured_output_config"),
        ({"guided_json": [1]}, "guided_json"),
        ({"regex": 3}, "regex"),
        ({"choice": [3]}, "choice"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"best_of": 2}, "best_of"),
        ({"echoes": True}, "echoes"),
    ],
)
def test_a_field_at_fault_is_named(served: Served, fields: dict[str, object], param: str):
    error = refusal(served, served.chat(**fields), 400)
    assert error["param"] == param
    assert param.split(".")[-1].split("[")[0] in str(error["message"])


def test_a_misspelt_field_gets_a_hint(served: Served):
    error = refusal(served, served.chat(max_token=3), 400)
    assert "did you mean max_tokens?" in str(error["message"])


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_parts_that_are_not_text_are_refused_by_name(served: Served, kind: str):
    part = {"type": kind, kind: {"url": "file:///etc/passwd"}}
    response = served.chat(messages=[{"role": "user", "content": [part]}])
    error = refusal(served, response, 400)
    assert error["code"] == "unsupported_option"
    assert kind in str(error["message"])


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tool_choice": "none"},
        {"response_format": {"type": "text"}},
        {"logit_bias": {}},
        {"store": False},
        {"metadata": {"a": "b"}},
        {"max_tokens": 2**31},
        {"max_tokens": 5, "max_completion_tokens": 5},
        {"num_assistant_tokens": 100},
        {"num_assistant_tokens": 0},
        {"temperature": 2},
    ],
)
def test_fields_that_ask_for_nothing_special_are_accepted(
    served: Served, fields: dict[str, object]
):
    assert served.chat(**fields).status_code == 200


def test_another_model_is_not_found(served: Served):
    error = refusal(served, served.chat(model="gpt-4o"), 404)
    assert error["code"] == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        served.openai.chat.completions.create(model="gpt-4o", messages=HI)


def test_an_unknown_drafter_is_not_found(served: Served):
    assert refusal(served, served.chat(drafter="magic"), 400)["code"] == "drafter_not_found"


def test_a_prompt_over_the_context(served: Served):
    response = served.chat(messages=[{"role": "user", "content": "x" * 3000}])
    assert refusal(served, response, 400)["code"] == "context_length_exceeded"


def test_what_the_engine_refuses_is_told_as_the_engine_says_it(served: Served):
    served.script.refuse = CacheTooSmallError("It needs 9 and has 8.", param="max_tokens")
    response = served.chat()
    served.script.refuse = None
    error = refusal(served, response, 400)
    assert (error["code"], error["message"]) == ("cache_too_small", "It needs 9 and has 8.")


def test_streams_are_refused_with_the_same_object(served: Served):
    refusal(served, served.chat(stream=True, max_tokens=0), 400)


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/chat", "/v1/embeddings", "/x/%ED%A0%BD"])
def test_an_address_with_nothing_there(served: Served, path: str):
    assert refusal(served, served.http.get(path), 404)["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("DELETE", "/v1/models"), ("POST", "/health")],
)
def test_a_wrong_method(served: Served, method: str, path: str):
    response = served.http.request(method, path)
    assert refusal(served, response, 405)["code"] == "method_not_allowed"
    assert response.headers["allow"]


def test_a_fault_of_our_own_is_an_error_object_too(serve: Serve):
    served = serve()
    served.engine.plan = None  # type: ignore[assignment]
    response = served.chat()
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "NoneType" not in response.text


def _text(size: int) -> bytes:
    head = b'{"model":"fake-model","messages":[{"role":"user","content":"'
    tail = b'"}]}'
    return head + b"x" * (size - len(head) - len(tail)) + tail


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 2 * MAX_BODY_BYTES])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_told_the_figures(served: Served, size: int, chunked: bool):
    def chunks() -> Iterator[bytes]:
        body = _text(size)
        for start in range(0, size, 1 << 16):
            yield body[start : start + (1 << 16)]

    content = chunks() if chunked else _text(size)
    response = served.http.post("/v1/chat/completions", content=content, headers=JSON)
    message = str(refusal(served, response, 413)["message"])
    assert f"{size:,}" in message
    assert f"{MAX_BODY_BYTES:,}" in message


def test_a_body_at_the_limit_is_read(served: Served):
    response = served.http.post("/v1/chat/completions", content=_text(MAX_BODY_BYTES), headers=JSON)
    assert refusal(served, response, 400)["code"] == "context_length_exceeded"


def test_a_megabyte_of_emoji_is_handled(served: Served):
    response = served.chat(messages=[{"role": "user", "content": "\U0001f600" * 250_000}])
    assert refusal(served, response, 400)["code"] == "context_length_exceeded"
