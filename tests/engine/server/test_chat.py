"""The chat endpoint, asked by the real `openai` client."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import openai
import pytest

from engine.server.schema import CHAT_REQUEST
from tests.engine.server.conftest import KEY, Serve, Served
from tests.engine.server.fake_engine import Script

HI = [{"role": "user", "content": "Hi"}]


def test_a_whole_answer_is_a_chat_completion(served: Served):
    answer = served.openai.chat.completions.create(model="fake-model", messages=HI)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "fake-model"
    [choice] = answer.choices
    assert (choice.index, choice.finish_reason) == (0, "stop")
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello, world")
    prompt = "<user>Hi</user><assistant>"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(prompt)
    assert answer.usage.completion_tokens == len("Hello, world") + 1
    assert answer.usage.total_tokens == len(prompt) + len("Hello, world") + 1


def test_a_stream_joins_to_the_same_text(served: Served):
    chunks = list(
        served.openai.chat.completions.create(model="fake-model", messages=HI, stream=True)
    )
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello, world"
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks)


async def _ask_async(url: str) -> tuple[str, str]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        answer = await client.chat.completions.create(model="fake-model", messages=HI)
        stream = await client.chat.completions.create(model="fake-model", messages=HI, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    return answer.choices[0].message.content or "", "".join(pieces)


def test_the_async_client_is_served_too(served: Served):
    assert asyncio.run(_ask_async(served.url)) == ("Hello, world", "Hello, world")


@pytest.mark.parametrize("options", [{}, {"include_usage": False}, {"include_usage": None}])
def test_a_stream_has_no_usage_unless_it_was_asked_for(served: Served, options: dict[str, object]):
    chunks = _raw_chunks(served, stream_options=options)
    assert not any("usage" in chunk for chunk in chunks)
    assert all(chunk["choices"] for chunk in chunks)


def test_usage_comes_once_at_the_end_with_no_choice(served: Served):
    chunks = _raw_chunks(served, stream_options={"include_usage": True})
    assert [chunk["usage"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len("Hello, world") + 1


def test_steps_ride_along_only_when_asked_for(served: Served):
    assert not any("paceline" in chunk for chunk in _raw_chunks(served))
    chunks = _raw_chunks(served, stream_options={"include_steps": True})
    steps = [chunk["paceline"]["step"] for chunk in chunks if "step" in chunk.get("paceline", {})]
    assert sum(len(step["emitted"]) for step in steps) == len("Hello, world") + 1
    last = chunks[-1]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["paceline"]["metrics"]["num_target_steps"] == len(steps)
    assert last["paceline"]["plan"]["drafter"] == "prompt_lookup"
    assert last["paceline"]["notes"] == ["A note."]


def test_a_step_without_text_still_gives_a_chunk_when_steps_are_asked_for(served: Served):
    served.script.reply = lambda prompt: "\U0001f600"
    served.script.step_len = 1
    chunks = _raw_chunks(served, stream_options={"include_steps": True})
    assert sum("step" in chunk.get("paceline", {}) for chunk in chunks) == 5  # 4 bytes and EOS
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == "\U0001f600"


def test_max_tokens_ends_with_length(served: Served):
    answer = served.openai.chat.completions.create(
        model="fake-model", messages=HI, max_completion_tokens=3
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content == "Hel"


def test_logprobs_have_token_bytes_and_the_most_likely_ones(served: Served):
    answer = served.openai.chat.completions.create(
        model="fake-model", messages=HI, max_tokens=2, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    first = logprobs.content[0]
    assert (first.token, first.logprob, first.bytes) == ("H", -0.5, [72])
    assert [(top.token, top.logprob) for top in first.top_logprobs] == [
        ("A", -1.0),
        ("B", -2.0),
        ("C", -3.0),
    ]
    assert len(logprobs.content) == 2


def test_logprobs_of_half_a_character_have_their_bytes(served: Served):
    served.script.reply = lambda prompt: "é"
    answer = served.openai.chat.completions.create(model="fake-model", messages=HI, logprobs=True)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert [entry.bytes for entry in logprobs.content or []][:2] == [[0xC3], [0xA9]]


def test_streamed_logprobs_cover_every_token(served: Served):
    chunks = _raw_chunks(served, logprobs=True)
    entries = [
        entry["token"]
        for chunk in chunks
        for entry in (chunk["choices"][0]["logprobs"] or {}).get("content", [])
    ]
    assert "".join(entries) == "Hello, world<eos>"


def test_an_infinite_logprob_stays_valid_json(serve: Serve):
    served = serve()
    make = served.engine._token

    def impossible(token, request):
        emitted = make(token, request)
        return replace(emitted, score=replace(emitted.score, logprob=float("-inf")))

    served.engine._token = impossible
    answer = served.chat(logprobs=True)
    assert answer.json()["choices"][0]["logprobs"]["content"][0]["logprob"] == -9999.0
    chunks = _raw_chunks(served, logprobs=True, stream_options={"include_steps": True})
    steps = [chunk["paceline"]["step"] for chunk in chunks if "step" in chunk.get("paceline", {})]
    assert steps[0]["emitted"][0]["logprob"] is None


def test_several_choices_come_with_their_indices(served: Served):
    fields = {"n": 3, "temperature": 0.7}
    answer = served.chat(**fields).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 3 * (len("Hello, world") + 1)
    chunks = _raw_chunks(served, **fields)
    for index in range(3):
        mine = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert "".join(c["delta"].get("content", "") for c in mine) == "Hello, world"
        assert mine[-1]["finish_reason"] == "stop"


def test_several_greedy_choices_are_refused_in_the_clients_words(served: Served):
    error = served.chat(n=2).json()["error"]
    assert error["param"] == "n"
    assert "'n'" in error["message"]


def test_openai_names_reach_the_engine_as_its_own_options(served: Served):
    served.chat(
        max_tokens=7,
        stop=["END", "\n\n"],
        seed=5,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        user="somebody",
    )
    config = served.engine.requests[-1].config
    assert (config.max_new_tokens, config.rng_seed) == (7, 5)
    assert config.stop_strings == ("END", "\n\n")
    assert (config.do_sample, config.temperature, config.top_p) == (True, 0.5, 0.9)
    assert (config.presence_penalty, config.frequency_penalty) == (0.1, 0.2)


def test_generation_options_are_accepted_by_their_own_names(served: Served):
    answer = served.chat(
        max_new_tokens=9,
        min_new_tokens=2,
        repetition_penalty=1.1,
        stop_token_ids=[5, 6],
        num_assistant_tokens=4,
        speculation="static",
        drafter="prompt_lookup",
        sampled_rule="rejection",
    )
    assert answer.status_code == 200
    request = served.engine.requests[-1]
    assert request.config.max_new_tokens == 9
    assert request.config.stop_token_ids >= {5, 6}
    assert request.config.num_assistant_tokens == 4
    assert (request.speculation, request.drafter) == ("static", "prompt_lookup")
    assert request.sampled_rule == "rejection"


def test_null_means_default_everywhere(served: Served):
    nulls = {name: None for name in CHAT_REQUEST.model_fields if name not in ("model", "messages")}
    assert served.chat(**nulls).status_code == 200
    plain = served.engine.requests[-1].config
    served.chat()
    assert served.engine.requests[-1].config == plain


def test_temperature_zero_is_greedy_even_if_the_model_prefers_to_sample(served: Served):
    served.engine.model_defaults |= {"do_sample": True, "temperature": 0.6}
    served.chat()
    assert served.engine.requests[-1].config.do_sample
    served.chat(temperature=0)
    assert not served.engine.requests[-1].config.do_sample


def test_text_parts_are_joined_and_developer_means_system(served: Served):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    served.chat(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": parts},
        ]
    )
    prompt = served.engine.tokenizer.decode(list(served.engine.requests[-1].prompt_ids))
    assert prompt == "<system>Be brief.</system><user>a\nb</user><assistant>"


def test_an_answer_can_be_sent_back_as_the_client_got_it(served: Served):
    first = served.openai.chat.completions.create(model="fake-model", messages=HI)
    again = served.openai.chat.completions.create(
        model="fake-model", messages=[*HI, first.choices[0].message, *HI]
    )
    assert again.choices[0].message.content == "Hello, world"


@pytest.mark.parametrize(
    "text",
    [
        "naïve café",
        "日本語",
        "\U0001f469\u200d\U0001f467",
        "e\u0301",
        "\u202eright to left",
        "\u0000",
        "\ufeffx",
    ],
)
def test_any_unicode_comes_back_as_it_went_in(served: Served, text: str):
    served.script.reply = lambda prompt: text
    response = served.chat(messages=[{"role": "user", "content": text}])
    json.loads(response.content.decode("utf-8"))
    assert response.json()["choices"][0]["message"]["content"] == text
    prompt = served.engine.tokenizer.decode(list(served.engine.requests[-1].prompt_ids))
    assert text in prompt
    chunks = _raw_chunks(served, messages=[{"role": "user", "content": text}])
    joined = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert joined == text


def test_a_failure_in_mid_stream_is_an_error_line_and_then_done(serve: Serve):
    served = serve(Script(fail_after_steps=2))
    lines = _raw_lines(served)
    assert lines[-1] == "[DONE]"
    assert json.loads(lines[-2])["error"]["code"] == "engine_stopped"
    with pytest.raises(openai.APIError, match="A step failed"):
        list(served.openai.chat.completions.create(model="fake-model", messages=HI, stream=True))


def test_a_failure_of_a_whole_answer_is_an_http_error(serve: Serve):
    served = serve(Script(fail_after_steps=2))
    response = served.chat()
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "server_error"


def _raw_lines(served: Served, **fields: object) -> list[str]:
    body = {"model": "fake-model", "messages": HI, "stream": True, **fields}
    with served.http.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        return [line.removeprefix("data: ") for line in response.iter_lines() if line]


def _raw_chunks(served: Served, **fields: object) -> list[dict]:
    *chunks, done = _raw_lines(served, **fields)
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]
