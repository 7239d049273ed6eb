"""The completions endpoint, asked by the real `openai` client."""

from __future__ import annotations

import pytest

from tests.engine.server.conftest import Served


def test_a_whole_answer_is_a_text_completion(served: Served):
    answer = served.openai.completions.create(model="fake-model", prompt="Once")
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("Hello, world", "stop")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 4


def test_the_prompt_goes_to_the_model_as_it_is(served: Served):
    served.complete(prompt="Once")
    assert served.engine.requests[-1].prompt_ids == tuple(b"Once")
    served.complete(prompt=["Once"])
    assert served.engine.requests[-1].prompt_ids == tuple(b"Once")


def test_the_template_can_be_asked_for(served: Served):
    served.complete(prompt="Once", apply_chat_template=True)
    assert served.engine.requests[-1].prompt_ids == tuple(b"<user>Once</user><assistant>")


@pytest.mark.parametrize("prompt", [[72, 105], [[72, 105]]])
def test_a_prompt_may_be_token_ids(served: Served, prompt: list[object]):
    served.openai.completions.create(model="fake-model", prompt=prompt)
    assert served.engine.requests[-1].prompt_ids == (72, 105)


def test_a_stream_joins_to_the_same_text(served: Served):
    chunks = list(served.openai.completions.create(model="fake-model", prompt="x", stream=True))
    assert {chunk.object for chunk in chunks} == {"text_completion"}
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Hello, world"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_logprobs_are_parallel_lists_with_offsets(served: Served):
    answer = served.openai.completions.create(
        model="fake-model", prompt="x", max_tokens=3, logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens == ["H", "e", "l"]
    assert logprobs.token_logprobs == [-0.5, -0.5, -0.5]
    assert logprobs.top_logprobs is not None
    assert logprobs.top_logprobs[0] == {"H": -0.5, "A": -1.0, "B": -2.0}
    assert logprobs.text_offset == [0, 1, 2]


def test_offsets_go_on_from_chunk_to_chunk(served: Served):
    chunks = served.openai.completions.create(
        model="fake-model", prompt="x", logprobs=0, stream=True
    )
    offsets = [
        offset
        for chunk in chunks
        if chunk.choices[0].logprobs
        for offset in chunk.choices[0].logprobs.text_offset or []
    ]
    assert offsets == list(range(len("Hello, world") + 1))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "the end"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 0}, "best_of"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [257]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1.5]}, "prompt"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": 1, "echo": True}, "echo"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    served: Served, fields: dict[str, object], param: str
):
    response = served.complete(**fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert served.complete().status_code == 200


def test_echo_and_template_belong_to_the_engine(served: Served):
    served.complete(echo=True)
    assert served.engine.requests[-1].config.echo
    assert not served.engine.requests[-1].config.apply_chat_template
