"""The server with the real engine and the small real model behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from engine.config import EngineConfig
from engine.interface import Engine
from engine.load import load_engine
from engine.server.app import Server
from engine.server.host import EngineHost, Ready
from engine.server.run import Address, LocalServer, listen
from tests.engine.server.fake_engine import wait_until

NAME = "SmolLM2-135M-Instruct"
COPY = [{"role": "user", "content": "Say this again: one two three four five six seven eight."}]


@pytest.fixture(scope="module")
def real(smollm2: Path) -> Iterator[tuple[openai.OpenAI, Engine]]:
    host = EngineHost(lambda progress: load_engine(EngineConfig(model=smollm2), progress))
    server = LocalServer(host)
    listening = listen(Address("127.0.0.1", 0), None)
    app = Server(host, "0", lambda: [], server.stop).app()
    thread = threading.Thread(target=server.run, args=(app, listening), daemon=True)
    thread.start()
    host.start()
    assert wait_until(lambda: not host.is_loading, timeout_s=120)
    assert isinstance(host.state, Ready), host.state
    port = listening.getsockname()[1]
    with openai.OpenAI(
        base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=60
    ) as client:
        yield client, host.state.engine
    server.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_stream_and_whole_answer_are_the_same(real: tuple[openai.OpenAI, Engine]):
    client, engine = real
    whole = client.chat.completions.create(model=NAME, messages=COPY, max_tokens=40)
    chunks = list(
        client.chat.completions.create(
            model=NAME,
            messages=COPY,
            max_tokens=40,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert whole.usage is not None
    has_eos = whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == len(engine.tokenizer.encode(text)) + has_eos


def test_text_offsets_and_token_names_fit_the_text(real: tuple[openai.OpenAI, Engine]):
    client, _ = real
    answer = client.completions.create(
        model=NAME, prompt="The Greek alphabet: α, β,", max_tokens=16, logprobs=2
    )
    choice = answer.choices[0]
    assert choice.logprobs is not None
    offsets, names = choice.logprobs.text_offset, choice.logprobs.tokens
    assert offsets is not None
    assert names is not None
    assert len(offsets) == len(names) == 16
    whole_names = [
        (at, name) for at, name in zip(offsets, names, strict=True) if "\ufffd" not in name
    ]
    assert whole_names
    assert all(choice.text.startswith(name, at) for at, name in whole_names)


def test_answers_side_by_side_equal_answers_alone(real: tuple[openai.OpenAI, Engine]):
    client, _ = real
    prompts = [f"Count from {start}: {start}, {start + 1}," for start in (1, 20, 300)]

    def ask(prompt: str) -> str:
        return client.completions.create(model=NAME, prompt=prompt, max_tokens=10).choices[0].text

    alone = {prompt: ask(prompt) for prompt in prompts}
    together: dict[str, str] = {}
    threads = [
        threading.Thread(target=lambda prompt=prompt: together.update({prompt: ask(prompt)}))
        for prompt in prompts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == alone


def test_a_client_that_leaves_gives_the_cache_back(real: tuple[openai.OpenAI, Engine]):
    client, engine = real
    stream = client.completions.create(
        model=NAME, prompt="Once upon a time", max_tokens=4000, stream=True
    )
    next(iter(stream))
    assert engine.status().num_running == 1
    stream.close()
    assert wait_until(lambda: engine.status().num_running == 0, timeout_s=5)
    assert engine.status().cache_free_tokens == engine.status().cache_total_tokens


def test_garbage_at_a_high_temperature_is_valid_json(real: tuple[openai.OpenAI, Engine]):
    client, _ = real
    url = str(client.base_url) + "completions"
    body = {"model": NAME, "prompt": "x", "temperature": 2, "max_tokens": 20, "ignore_eos": True}
    answer, again = (httpx.post(url, json=body | {"seed": 5}, timeout=60) for _ in range(2))
    answer.content.decode("utf-8")
    assert answer.json()["choices"] == again.json()["choices"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"prompt": "x " * 9000}, 400),
        ({"prompt": ""}, 400),
        ({"num_assistant_tokens": 101}, 400),
        ({"num_assistant_tokens": "3"}, 400),
        ({"speculation": "off", "num_assistant_tokens": 5}, 400),
        ({"drafter": "magic"}, 400),
        ({"sampled_rule": "greedy"}, 400),
        ({"num_assistant_tokens": 4, "tree_depth": 2, "branching_factor": 2}, 400),
    ],
)
def test_a_refusal_leaves_the_engine_usable(
    real: tuple[openai.OpenAI, Engine], fields: dict[str, object], status: int
):
    client, _ = real
    url = str(client.base_url) + "completions"
    body = {"model": NAME, "prompt": "x", "max_tokens": 2}
    refused = httpx.post(url, json=body | fields, timeout=60)
    assert refused.status_code == status, refused.text
    assert refused.json()["error"]["message"]
    assert httpx.post(url, json=body, timeout=60).status_code == 200
