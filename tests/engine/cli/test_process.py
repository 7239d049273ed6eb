"""The command line as a process of its own: exit codes, streams, pipes, the window's child."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[3]
KEY = "token of the parent"


def paceline(*arguments: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "engine.cli", *arguments],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--prompt", "x", "--model", "/no/such/модель"),
        ("generate", "--prompt", ""),
        ("generate", "--prompt", "x", "--num-assistant-tokens", "3x"),
        ("serve", "--model", "/no/such/model", "--port", "0"),
        ("serve", "--host", "0.0.0.0", "--port", "0"),
        ("serve", "--port", "99999"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(arguments: tuple[str, ...], tmp_path: Path):
    done = paceline(*arguments, PACELINE_HOME=str(tmp_path), PACELINE_API_KEY="")
    assert done.returncode == 2
    assert done.stdout == b""
    [line] = done.stderr.decode("utf-8").splitlines()
    assert line.startswith("paceline: ")


def test_output_is_utf8_whatever_the_console(tmp_path: Path):
    done = paceline(
        *("generate", "--prompt", "x", "--model", "/no/such/модель"), PYTHONIOENCODING="cp1252"
    )
    assert "модель" in done.stderr.decode("utf-8")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE to imitate")
def test_a_closed_pipe_is_quiet():
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "engine.cli", "doctor", "--json"],
        cwd=ROOT,
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(write_end)
    assert done.returncode == 141
    assert done.stderr == b""


def test_doctor_reports_in_json(tmp_path: Path):
    done = paceline("doctor", "--json", PACELINE_HOME=str(tmp_path))
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert report["versions"]["openvino"]
    assert report["default_model"]["state"] == "not prepared"
    assert Path(report["folders"]["models"]).is_relative_to(tmp_path)
    assert report["machine"]["threads"] >= 1
    assert any(device["name"] == "CPU" for device in report["devices"])
    assert isinstance(report["window"]["qt"], bool)


def test_the_real_model_answers_in_json(smollm2: Path):
    done = paceline(
        *("generate", "--model", str(smollm2), "--prompt", "Name a colour.", "--json"),
        *("--max-new-tokens", "6", "--steps"),
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert len(answer["token_ids"]) <= 6
    assert answer["text"]
    assert answer["plan"]["backend"] == "paged"
    emitted = [token["token"] for step in answer["steps"] for token in step["emitted"]]
    assert emitted == answer["token_ids"]


class Child:
    """A server started as the window starts it, with a model that cannot be loaded."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.cli", "serve", "--port", "0", "--child", *arguments],
            cwd=ROOT,
            env=os.environ | {"PACELINE_API_KEY": KEY},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self.hello = json.loads(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.hello['port']}"

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {KEY}"})

    def wait(self, timeout_s: float) -> int:
        return self.process.wait(timeout_s)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def child():
    process = Child("--model", "/no/such/model")
    yield process
    process.end()


def test_a_child_says_where_it_listens_and_stays_up_to_tell_why_it_failed(child: Child):
    assert child.hello.keys() == {"port", "pid", "version"}
    assert child.hello["pid"] == child.process.pid
    deadline = time.monotonic() + 10
    while child.get("/health").json()["status"] == "loading" and time.monotonic() < deadline:
        time.sleep(0.05)
    status = child.get("/paceline/v1/status").json()
    assert (status["state"], status["error"]["code"]) == ("failed", "model_not_found")
    assert httpx.get(child.url + "/paceline/v1/status").status_code == 401


def test_a_child_ends_when_its_parent_does(child: Child):
    assert child.process.stdin is not None
    started = time.monotonic()
    child.process.stdin.close()
    assert child.wait(5) == 0
    assert time.monotonic() - started < 2  # 1 s, and some for a busy machine


def test_a_child_ends_when_it_is_asked_to(child: Child):
    response = httpx.post(
        child.url + "/paceline/v1/shutdown", headers={"Authorization": f"Bearer {KEY}"}
    )
    assert response.status_code == 202
    assert child.wait(5) == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_ctrl_c_ends_a_server_with_130_and_no_trace(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.cli", "serve", "--port", "0", "--child"]
        + ["--model", "/no/such/model"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever started the tests in the background had this signal ignored for all below.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"Traceback" not in errors
