"""A server on a loopback port with a scripted engine behind it, and clients for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import openai
import pytest

from engine.interface import Engine
from engine.server.app import Server
from engine.server.host import EngineHost, Progress
from engine.server.run import Address, LocalServer, listen
from tests.engine.server.fake_engine import EOS, FakeEngine, Script, wait_until

KEY = "a key of tests"


@dataclass
class Served:
    """A running server, its engine, and how to talk to it."""

    engine: FakeEngine
    url: str
    http: httpx.Client
    openai: openai.OpenAI
    host: EngineHost
    server: LocalServer
    thread: threading.Thread

    @property
    def script(self) -> Script:
        return self.engine.script

    def chat(self, **fields: object) -> httpx.Response:
        """A raw chat request; ``fields`` replace what it has, ``...`` leaves a field out."""
        body = {"model": "fake-model", "messages": [{"role": "user", "content": "Hi"}], **fields}
        body = {name: value for name, value in body.items() if value is not ...}
        return self.http.post("/v1/chat/completions", json=body)

    def complete(self, **fields: object) -> httpx.Response:
        """The same for completions."""
        return self.http.post(
            "/v1/completions", json={"model": "fake-model", "prompt": "Once", **fields}
        )

    def stop(self) -> None:
        """End the server and wait for it."""
        self.http.close()
        self.openai.close()
        self.server.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()


Serve = Callable[..., Served]


def start(
    script: Script | None = None,
    *,
    api_key: str | None = KEY,
    load: Callable[[Progress], Engine] | None = None,
    wait: bool = True,
) -> Served:
    """Start a server; ``load`` replaces the loading of its engine."""
    engine = FakeEngine(script)
    host = EngineHost(load or (lambda progress: engine))
    server = LocalServer(host)
    listening = listen(Address("127.0.0.1", 0), None)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    app = Server(host, "1.2.3", lambda: [{"name": "CPU"}], server.stop, api_key).app()
    thread = threading.Thread(target=server.run, args=(app, listening), daemon=True)
    thread.start()
    host.start()
    headers = {"Authorization": f"Bearer {KEY}"}
    served = Served(
        engine=engine,
        url=url,
        http=httpx.Client(base_url=url, headers=headers, timeout=10),
        openai=openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=10),
        host=host,
        server=server,
        thread=thread,
    )
    if wait:
        assert wait_until(lambda: served.http.get("/health").json()["status"] == "ok")
    return served


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers for one test."""
    running: list[Served] = []

    def start_and_keep(*args: object, **kwargs: object) -> Served:
        running.append(start(*args, **kwargs))  # type: ignore[arg-type]
        return running[-1]

    yield start_and_keep
    for served in running:
        served.stop()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Served]:
    """One server for all tests that do no harm to it."""
    served = start()
    yield served
    served.stop()


@pytest.fixture
def served(shared_server: Served) -> Served:
    """The shared server, with a new script and nothing remembered."""
    engine = shared_server.engine
    engine.script = Script()
    engine.model_defaults = {"eos_token_id": EOS}
    engine.requests.clear()
    engine.handles.clear()
    return shared_server
