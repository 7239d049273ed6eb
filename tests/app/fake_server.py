"""A scripted engine: speaks the HTTP contract, knows no model, runs as a child like the real one.

What an answer does depends on the words of the question (see `Server._chat`), what the start does
on the options. `GET /asked` returns the bodies of all chat requests, for tests to look at.

    python tests/app/fake_server.py --pace-ms 10 --load-s 0.2
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import sys
from dataclasses import dataclass, field
from typing import Any

CODE = '''Here is the code, with `total` renamed to `amount`:

```python
def add_all(items):
    """Return the sum of all prices, taxes included."""
    amount = 0
    for item in items:
        if item.price is None:
            continue
        amount = amount + item.price * (1 + item.tax)
    return amount
```

Nothing else was changed. The function still

1. skips items **without a price**,
2. adds the *tax* of each item,
3. returns the sum.
'''

STORY = (
    "Once upon a time, at the edge of a quiet forest, there lived a fox named Ember who had "
    "seen children ride past on two wheels and wondered what the wind felt like up there.\n\n"
    "One morning she found a small red bicycle leaning on the old oak. She fell to the left, "
    "she fell to the right, and she fell into the brook twice. But each time she climbed on "
    "again, a little wiser than before.\n\n"
    "By evening she rode down the hill with her tail like a flag behind her, and the owls, "
    "who had laughed in the morning, asked whether she would teach them too.\n"
)

_PATTERN = (3, 3, 0, 2, 3, 1, 3, 3, 2, 0, 3, 1)
"""Accepted of three drafted tokens, step by step."""
_DRAFTED = 3
_DRAFTERS = ("suffix", "prompt_lookup", "suffix", "suffix", "prompt_lookup")
"""Who drafted, step by step."""


@dataclass
class Script:
    """How the engine behaves."""

    pace_s: float = 0.01
    load_s: float = 0.0
    fails_to_load: bool = False
    ignores_end_of_input: bool = False
    speculation: str = "adaptive"
    drafter: str = "suffix+prompt_lookup"
    is_genai: bool = False
    """Plays OpenVINO GenAI: answers in one way, and leaves blanks."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    cancelled: int = 0


class Server:
    """HTTP by hand: one request a connection, which is all that the window needs."""

    def __init__(self, script: Script, key: str) -> None:
        self._script = script
        self._key = key
        self._started = 0.0

    async def start(self) -> int:
        """Listen on a free port."""
        self._started = asyncio.get_running_loop().time()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(length.group(1))) if length else b""
            path = head.split()[1]
            if self._key and f"Bearer {self._key}" not in head:
                await self._send(writer, 401, _error("Wrong key.", "unauthorized"))
            elif path == "/paceline/v1/status":
                await self._send(writer, 200, self._status())
            elif path == "/asked":
                await self._send(
                    writer, 200, {"asked": self._script.asked, "cancelled": self._script.cancelled}
                )
            elif path == "/v1/chat/completions":
                await self._chat(writer, json.loads(body))
        except (ConnectionError, asyncio.IncompleteReadError):
            self._script.cancelled += 1
        finally:
            writer.close()

    def _status(self) -> dict[str, Any]:
        age = asyncio.get_running_loop().time() - self._started
        state = "ready" if age >= self._script.load_s else "loading"
        error = None
        if state == "ready" and self._script.fails_to_load:
            state = "failed"
            error = _error("The model folder has no tokenizer.", "model_unusable")["error"]
        ready = state == "ready"
        return {
            "state": state,
            "stage": "" if ready else "Compiling the model for CPU",
            "error": error,
            "version": "0.0",
            "pid": os.getpid(),
            "uptime_s": age,
            "model": {
                "id": "fake",
                "name": "SmolLM2-135M-Instruct",
                "path": "",
                "context_length": 8192,
            }
            if ready
            else None,
            "plan": _plan(self._script) if ready else None,
            "engine": None,
        }

    async def _chat(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        self._script.asked.append(body)
        question = body["messages"][-1]["content"]
        if "refuse" in question:
            said = "The prompt has 9000 tokens; the model's context holds 8192. Begin a new chat."
            await self._send(writer, 400, _error(said, "context_length_exceeded"))
            return
        if "speculation" in body and (self._script.is_genai or self._script.drafter == "none"):
            said = "Backend 'genai' cannot honour 'speculation': leave it unset."
            await self._send(writer, 400, _error(said, "unsupported_option"))
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        )
        answer = CODE if "code" in question else STORY
        if "long" in question:
            answer = "\n".join([CODE, STORY] * 12)
        speculation = body.get("speculation", self._script.speculation) != "off"
        speculation = speculation and self._script.drafter != "none"
        for number, chunk in enumerate(self._chunks(answer, speculation)):
            if number == 4 and "stall" in question:
                await self._hang(writer)
            if number == 4 and "die" in question:
                sys.stderr.write(
                    "Loading shard 1 of 1\nOut of memory: 512 MiB wanted, 10 MiB free\n"
                )
                sys.stderr.flush()
                os._exit(7)
            if number == 4 and "break" in question:
                error = _error("A step failed: the device was lost.", "engine_stopped")
                writer.write(_line(error) + b"data: [DONE]\n\n")
                return
            if number == 4 and "cut" in question:
                return
            writer.write(_line(chunk))
            await writer.drain()
            await asyncio.sleep(self._script.pace_s)
        writer.write(b"data: [DONE]\n\n")

    async def _hang(self, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b": still here\n\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    def _chunks(self, answer: str, speculation: bool) -> Any:
        tokens = re.findall(r"\s*\S{1,6}|\s+$", answer)
        yield _chunk("", None, role=True)
        at, step_ms, t_ms = 0, max(2.0, 1000 * self._script.pace_s), 120.0
        accepted_by_step: list[int] = []
        for accepted, drafter in zip(itertools.cycle(_PATTERN), itertools.cycle(_DRAFTERS)):
            if at >= len(tokens):
                break
            accepted = min(accepted if speculation else 0, len(tokens) - at - 1)
            piece = tokens[at : at + accepted + 1]
            accepted_by_step.append(accepted)
            drafted_by = drafter if speculation else None
            step = _step(t_ms, piece, accepted, drafted_by)
            yield _chunk("".join(piece), _blanked(step) if self._script.is_genai else step)
            at += len(piece)
            t_ms += step_ms
        chunk = _chunk("", None)
        chunk["choices"][0]["finish_reason"] = "stop"
        metrics = _metrics(len(tokens), accepted_by_step, t_ms - step_ms, speculation)
        if self._script.is_genai:
            metrics |= dict.fromkeys(_UNTOLD if speculation else ("overhead_ms",))
        chunk["paceline"] = {
            "metrics": metrics,
            "plan": _plan(self._script),
            "notes": [],
        }
        yield chunk

    async def _send(self, writer: asyncio.StreamWriter, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        head = (
            f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode() + content)
        await writer.drain()


def _error(message: str, code: str) -> dict[str, Any]:
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    }


def _plan(script: Script) -> dict[str, Any]:
    return {
        "backend": "genai" if script.is_genai else "paged",
        "device": "CPU",
        "drafter": script.drafter,
        "is_auto_drafter": script.drafter == Script.drafter,
        "speculation": script.speculation,
        "cache_precision": "f16",
        "reasons": ["Prompt lookup needs no second model."],
    }


def _chunk(text: str, step: dict[str, Any] | None, *, role: bool = False) -> dict[str, Any]:
    delta = {"role": "assistant", "content": text} if role else {"content": text}
    chunk: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
    }
    if step:
        chunk["paceline"] = {"step": step}
    return chunk


def _step(t_ms: float, piece: list[str], accepted: int, drafter: str | None) -> dict[str, Any]:
    verified = _DRAFTED if drafter else 0
    emitted = [
        {
            "token": 1,
            "text": text,
            "origin": "accepted"
            if place < accepted
            else ("plain" if not verified else "bonus" if accepted == verified else "recovered"),
            "depth": place + 1 if place < accepted else 0,
            "logprob": -0.1,
            "prob": 0.9,
            "entropy": 0.4,
        }
        for place, text in enumerate(piece)
    ]
    return {
        "t_ms": t_ms,
        "drafter": drafter,
        "draft": {
            "tokens": [1] * verified,
            "parents": list(range(-1, verified - 1)),
            "survival": [0.7] * verified,
        },
        "verified": list(range(verified)),
        "chosen_length": verified,
        "num_reached": min(accepted + 1, verified),
        "reason": "pays",
        "emitted": emitted,
        "draft_ms": 0.1 if verified else 0.0,
        "verify_ms": 9.0,
        "overhead_ms": 0.6,
    }


_UNTOLD = (
    "num_draft_tokens",
    "num_verified_tokens",
    "num_accepted_tokens",
    "acceptance_rate",
    "acceptance_by_position",
    "draft_ms",
    "overhead_ms",
)
"""Figures of a drafted answer that OpenVINO GenAI leaves blank."""


def _blanked(step: dict[str, Any]) -> dict[str, Any]:
    """What OpenVINO GenAI tells of ``step``."""
    for token in step["emitted"]:
        token |= dict.fromkeys(("logprob", "prob", "entropy"))
        if token["origin"] == "recovered":
            token["origin"] = None
    step |= dict.fromkeys(("verify_ms", "overhead_ms"))
    if step["drafter"]:
        step |= dict.fromkeys(("draft", "verified", "chosen_length", "num_reached", "draft_ms"))
    return step


def _metrics(
    num_tokens: int, accepted: list[int], last_ms: float, speculation: bool
) -> dict[str, Any]:
    num_verified = _DRAFTED * len(accepted) if speculation else 0
    elapsed_s = max(1e-3, (last_ms - 120.0) / 1000)
    shares: list[float] = []
    for position in range(_DRAFTED if speculation else 0):
        reached = [count for count in accepted if count >= position]
        shares.append(sum(count > position for count in reached) / max(1, len(reached)))
    return {
        "ttft_ms": 120.0,
        "tpot_ms": None,
        "throughput_tok_s": (num_tokens - 1) / elapsed_s,
        "prompt_tokens": 20,
        "num_generated_tokens": num_tokens,
        "num_target_steps": len(accepted),
        "num_draft_tokens": num_verified,
        "num_verified_tokens": num_verified,
        "num_accepted_tokens": sum(accepted),
        "acceptance_rate": sum(accepted) / num_verified if speculation else None,
        "tokens_per_step": num_tokens / len(accepted),
        "acceptance_by_position": shares,
        "draft_ms": 0.1 * len(accepted) if speculation else 0.0,
        "verify_ms": 9.0 * len(accepted),
        "overhead_ms": 0.6 * len(accepted),
    }


def _line(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def _until_end_of_input(ignores: bool) -> None:
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        pass
    if ignores:
        await asyncio.sleep(3600)


async def main() -> None:
    """Announce the port, serve until the parent is gone."""
    options = argparse.ArgumentParser()
    options.add_argument("--pace-ms", type=float, default=10.0)
    options.add_argument("--load-s", type=float, default=0.0)
    options.add_argument("--fail-load", action="store_true")
    options.add_argument("--exit-code", type=int)
    options.add_argument("--stubborn", action="store_true")
    options.add_argument("--speculation", default="adaptive")
    options.add_argument("--drafter", default=Script.drafter)
    options.add_argument("--genai", action="store_true")
    options.add_argument("--other-key", action="store_true")
    chosen = options.parse_args()
    if chosen.exit_code is not None:
        sys.stderr.write("There is no model folder at /nowhere. Name one with --model.\n")
        sys.exit(chosen.exit_code)
    script = Script(
        chosen.pace_ms / 1000,
        chosen.load_s,
        chosen.fail_load,
        chosen.stubborn,
        chosen.speculation,
        chosen.drafter,
        chosen.genai,
    )
    if script.is_genai:
        script.speculation = "off" if script.drafter == "none" else "static"
    key = "another" if chosen.other_key else os.environ.get("PACELINE_API_KEY", "")
    port = await Server(script, key).start()
    sys.stdout.write(json.dumps({"port": port, "pid": os.getpid(), "version": "0.0"}) + "\n")
    sys.stdout.flush()
    await _until_end_of_input(script.ignores_end_of_input)


if __name__ == "__main__":
    asyncio.run(main())
