"""Who may talk to the server, and where it may listen."""

from __future__ import annotations

import httpx
import openai
import pytest

from engine.errors import InvalidOptionError
from engine.server.access import is_loopback
from engine.server.run import Address, listen
from tests.engine.server.conftest import Serve, Served


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "ключ".encode()}]
)
@pytest.mark.parametrize("path", ["/v1/models", "/paceline/v1/status", "/nothing"])
def test_without_the_key_nothing_is_told(served: Served, headers: dict[str, str], path: str):
    response = httpx.get(served.url + path, headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "unauthorized"


def test_the_openai_client_sees_an_authentication_error(served: Served):
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        client.models.list()
    client.close()


def test_health_needs_no_key(served: Served):
    assert httpx.get(served.url + "/health").json() == {"status": "ok"}


def test_without_a_key_programs_of_this_machine_may_use_it(serve: Serve):
    served = serve(api_key=None)
    assert httpx.get(served.url + "/v1/models").status_code == 200
    assert httpx.get(served.url + "/v1/models", headers={"Host": "localhost:1"}).is_success


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.com"},
        {"Origin": "null"},
        {"Host": "rebound.example.com"},
        {"Host": "127.0.0.1.example.com"},
    ],
)
def test_without_a_key_web_pages_may_not(serve: Serve, headers: dict[str, str]):
    served = serve(api_key=None)
    response = httpx.post(served.url + "/paceline/v1/shutdown", headers=headers)
    assert response.status_code == 403
    assert served.thread.is_alive()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_loopback(host: str):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com", ""])
def test_not_loopback(host: str):
    assert not is_loopback(host)


def test_other_machines_are_refused_without_a_key():
    with pytest.raises(InvalidOptionError, match="--api-key"):
        listen(Address("0.0.0.0", 0), None)


def test_other_machines_are_served_with_a_key():
    listen(Address("0.0.0.0", 0), "key").close()


def test_a_port_in_use_is_named():
    with listen(Address("127.0.0.1", 0), None) as first:
        port = first.getsockname()[1]
        with pytest.raises(InvalidOptionError, match=f"Port {port}.*--port"):
            listen(Address("127.0.0.1", port), None)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_does_not_exist(port: int):
    with pytest.raises(InvalidOptionError, match=str(port)):
        listen(Address("127.0.0.1", port), None)
