"""Streams side by side, and clients that leave."""

from __future__ import annotations

import json
import threading

import httpx
import pytest

from engine.events import GenerationRequest
from tests.engine.server.conftest import Serve, Served
from tests.engine.server.fake_engine import Script, wait_until


def _ask(served: Served, content: str, *, stream: bool) -> str:
    answer = served.openai.chat.completions.create(
        model="fake-model", messages=[{"role": "user", "content": content}], stream=stream
    )
    if not stream:
        return answer.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in answer)


def test_answers_to_many_at_once_are_not_mixed(serve: Serve):
    served = serve(Script(reply=lambda prompt: prompt * 5, step_len=4, pace_s=0.002))
    answers: dict[str, str] = {}

    def ask(index: int) -> None:
        content = f"question {index} é"
        answers[content] = _ask(served, content, stream=index % 2 == 0)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(answers) == 8
    for content, answer in answers.items():
        assert answer == f"<user>{content}</user><assistant>" * 5


def _slow(serve: Serve) -> Served:
    return serve(Script(reply=lambda prompt: "long " * 200, step_len=1, pace_s=0.02))


def test_a_client_that_leaves_a_stream_cancels_it(serve: Serve):
    served = _slow(serve)
    body = {"model": "fake-model", "prompt": "x", "stream": True}
    with served.http.stream("POST", "/v1/completions", json=body) as response:
        next(response.iter_lines())
    assert wait_until(lambda: served.engine.handles[-1].cancelled.is_set())
    assert wait_until(lambda: served.engine.num_running == 0)


def test_a_client_that_leaves_before_the_first_token_cancels_it(serve: Serve):
    served = serve(Script(pace_s=30))
    body = {"model": "fake-model", "messages": [{"role": "user", "content": "x"}], "stream": True}
    with served.http.stream("POST", "/v1/chat/completions", json=body):
        assert wait_until(lambda: served.engine.num_running == 1)
    assert wait_until(lambda: served.engine.handles[-1].cancelled.is_set())


def test_a_client_that_does_not_wait_for_a_whole_answer_cancels_it(serve: Serve):
    served = _slow(serve)
    with pytest.raises(httpx.ReadTimeout):
        served.http.post(
            "/v1/completions", json={"model": "fake-model", "prompt": "x"}, timeout=0.2
        )
    assert wait_until(lambda: served.engine.handles[-1].cancelled.is_set())


def test_an_answer_that_ended_is_not_cancelled(served: Served):
    served.chat()
    _ask(served, "x", stream=True)
    assert not any(handle.cancelled.is_set() for handle in served.engine.handles)


def test_leaving_one_stream_leaves_the_others_alone(serve: Serve):
    served = serve(Script(reply=lambda prompt: prompt, step_len=2, pace_s=0.01))
    body = {"model": "fake-model", "prompt": "to be left " * 5, "stream": True}
    kept: list[str] = []
    reader = threading.Thread(target=lambda: kept.append(_ask(served, "stays", stream=True)))
    with served.http.stream("POST", "/v1/completions", json=body) as response:
        reader.start()
        next(response.iter_lines())
    reader.join(10)
    assert kept == ["<user>stays</user><assistant>"]


def test_a_server_that_stops_ends_open_streams_with_an_error(serve: Serve):
    served = _slow(serve)
    body = {"model": "fake-model", "prompt": "x", "stream": True}
    with served.http.stream("POST", "/v1/completions", json=body) as response:
        lines = response.iter_lines()
        next(lines)
        served.server.stop()
        rest = [line.removeprefix("data: ") for line in lines if line]
    assert rest[-1] == "[DONE]"
    assert json.loads(rest[-2])["error"]["code"] == "engine_stopped"
    served.thread.join(5)
    assert not served.thread.is_alive()


def test_a_request_cancelled_by_the_engine_is_an_error_for_who_waits(serve: Serve):
    served = _slow(serve)
    submit = served.engine.submit

    def submit_and_cancel(request: GenerationRequest, sink):
        handle = submit(request, sink)
        handle.cancel()
        return handle

    served.engine.submit = submit_and_cancel
    assert served.complete().json()["error"]["code"] == "engine_stopped"
