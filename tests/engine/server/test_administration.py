"""Health, models, and what the window asks for."""

from __future__ import annotations

import os
import threading

import httpx
import openai
import pytest

from engine.errors import ModelUnusableError
from tests.engine.server.conftest import Serve, Served
from tests.engine.server.fake_engine import FakeEngine, wait_until


def test_models_are_listed_as_openai_lists_them(served: Served):
    [model] = served.openai.models.list().data
    assert (model.id, model.object, model.owned_by) == ("fake-model", "model", "paceline")
    assert served.openai.models.retrieve("fake-model").id == "fake-model"
    with pytest.raises(openai.NotFoundError):
        served.openai.models.retrieve("other")


def test_status_of_a_ready_server(served: Served):
    status = served.http.get("/paceline/v1/status").json()
    assert (status["state"], status["error"]) == ("ready", None)
    assert (status["version"], status["pid"]) == ("1.2.3", os.getpid())
    assert status["uptime_s"] >= 0
    assert status["model"]["id"] == "fake-model"
    assert status["model"]["context_length"] == 2000
    assert status["plan"]["reasons"] == ["A script needs no device."]
    assert status["engine"] == {
        "num_running": 0,
        "num_waiting": 0,
        "cache_total_tokens": 512,
        "cache_free_tokens": 512,
    }


def test_devices(served: Served):
    assert served.http.get("/paceline/v1/devices").json() == [{"name": "CPU"}]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({"text": "Hi"}, 2),
        ({"text": ""}, 0),
        ({"text": "é"}, 2),
        ({"messages": [{"role": "user", "content": "Hi"}]}, 26),
    ],
)
def test_tokens_are_counted(served: Served, body: dict[str, object], count: int):
    assert served.http.post("/paceline/v1/tokenize", json=body).json() == {"num_tokens": count}


@pytest.mark.parametrize("body", [{}, {"text": "a", "messages": []}, {"text": 3}, {"words": "a"}])
def test_a_wrong_question_for_tokens_is_refused(served: Served, body: dict[str, object]):
    assert served.http.post("/paceline/v1/tokenize", json=body).status_code == 400


def test_a_loading_server_answers_and_says_what_it_does(serve: Serve):
    go_on = threading.Event()

    def load(progress):
        progress("Compiling the model for CPU")
        go_on.wait(10)
        return FakeEngine()

    served = serve(load=load, wait=False)
    assert wait_until(
        lambda: (
            served.http.get("/paceline/v1/status").json()["stage"] == "Compiling the model for CPU"
        )
    )
    assert served.http.get("/health").json() == {"status": "loading"}
    response = served.chat()
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "model_loading"
    assert served.http.get("/v1/models").status_code == 503
    go_on.set()
    assert wait_until(lambda: served.chat().status_code == 200)


def test_a_model_that_cannot_be_loaded_is_told_and_the_server_lives(serve: Serve):
    def load(progress):
        raise ModelUnusableError("The folder has no tokenizer; export it again.", param="model")

    served = serve(load=load, wait=False)
    assert wait_until(lambda: served.http.get("/health").json()["status"] == "failed")
    status = served.http.get("/paceline/v1/status").json()
    assert status["state"] == "failed"
    assert status["error"]["code"] == "model_unusable"
    assert status["error"]["message"] == "The folder has no tokenizer; export it again."
    response = served.chat()
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "model_failed"
    assert "no tokenizer" in response.json()["error"]["message"]


def test_a_crash_while_loading_is_a_failure_too(serve: Serve):
    def load(progress):
        raise ValueError("out of luck")

    served = serve(load=load, wait=False)
    assert wait_until(lambda: served.http.get("/health").json()["status"] == "failed")


def test_shutdown_answers_and_ends_the_server(serve: Serve):
    served = serve()
    assert served.http.post("/paceline/v1/shutdown").status_code == 202
    served.thread.join(5)
    assert not served.thread.is_alive()
    assert served.engine.closed.is_set()
    with pytest.raises(httpx.ConnectError):
        httpx.get(served.url + "/health")
