"""The routes: OpenAI's, and Paceline's own for the window under ``/paceline/v1/``.

A Starlette application around one `EngineHost`. It holds no state of its own and listens nowhere;
`engine.server.run` does that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import InvalidRequestError, PacelineError
from engine.interface import Engine
from engine.library.folder import ModelInfo
from engine.prompts import TextPrompt, encode_prompt
from engine.server.access import AccessGuard
from engine.server.answers import Answer, ChatShape, Shape, TextShape
from engine.server.body import read_json_body
from engine.server.delivery import EventStream, send_whole
from engine.server.errors import (
    error_body,
    json_response,
    on_http_exception,
    on_paceline_error,
    on_unexpected_error,
)
from engine.server.feed import EventFeed
from engine.server.host import EngineHost, Failed, Loading, Ready
from engine.server.jobs import (
    Job,
    chat_job,
    completion_job,
    in_words_of_client,
    require_model,
)
from engine.server.messages import conversation
from engine.server.schema import CHAT_REQUEST, COMPLETION_REQUEST, TokenizeFields, parse

DeviceList = Callable[[], list[dict[str, object]]]


@dataclass(frozen=True, slots=True)
class Server:
    """What the routes need from outside.

    ``api_key`` None leaves the server open to this machine. ``devices`` lists what is here.
    ``stop`` ends the process soon; it must not block.
    """

    host: EngineHost
    version: str
    devices: DeviceList
    stop: Callable[[], None]
    api_key: str | None = None

    def app(self) -> Starlette:
        """The ASGI application."""
        app = Starlette(
            routes=[
                Route("/health", self.health),
                Route("/v1/models", self.models),
                Route("/v1/models/{id:path}", self.model),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/completions", self.complete, methods=["POST"]),
                Route("/paceline/v1/status", self.status),
                Route("/paceline/v1/devices", self.list_devices),
                Route("/paceline/v1/tokenize", self.tokenize, methods=["POST"]),
                Route("/paceline/v1/shutdown", self.shutdown, methods=["POST"]),
            ],
            middleware=[Middleware(AccessGuard, api_key=self.api_key)],
            exception_handlers={
                PacelineError: on_paceline_error,
                HTTPException: on_http_exception,
                Exception: on_unexpected_error,
            },
        )
        app.router.redirect_slashes = False
        return app

    async def health(self, request: Request) -> Response:
        """Whether the model answers; always 200."""
        names: dict[type, str] = {Loading: "loading", Ready: "ok", Failed: "failed"}
        return json_response({"status": names[type(self.host.state)]})

    async def models(self, request: Request) -> Response:
        """The one model that is loaded."""
        return json_response({"object": "list", "data": [self._model(self.host.engine())]})

    async def model(self, request: Request) -> Response:
        """The loaded model, if it is the one that was asked for."""
        engine = self.host.engine()
        require_model(request.path_params["id"], engine)
        return json_response(self._model(engine))

    async def chat(self, request: Request) -> Response:
        """The next message of a conversation."""

        def prepare(body: bytes, engine: Engine) -> Job:
            return chat_job(parse(CHAT_REQUEST, body), engine)

        return await self._answer(request, prepare, ChatShape())

    async def complete(self, request: Request) -> Response:
        """How a text goes on."""

        def prepare(body: bytes, engine: Engine) -> Job:
            return completion_job(parse(COMPLETION_REQUEST, body), engine)

        return await self._answer(request, prepare, TextShape())

    async def status(self, request: Request) -> Response:
        """How loading goes, what was planned and what the engine is doing."""
        return json_response(status_json(self.host, self.version))

    async def list_devices(self, request: Request) -> Response:
        """The devices of this machine."""
        return json_response(await run_in_threadpool(self.devices))

    async def tokenize(self, request: Request) -> Response:
        """How many tokens a text or a conversation is."""
        body = await read_json_body(request)
        count = await run_in_threadpool(_count_tokens, body, self.host.engine())
        return json_response({"num_tokens": count})

    async def shutdown(self, request: Request) -> Response:
        """End the engine process."""
        self.stop()
        return json_response({"status": "stopping"}, 202)

    def _model(self, engine: Engine) -> dict[str, object]:
        return {
            "id": engine.model.name,
            "object": "model",
            "created": int(engine.model.path.stat().st_mtime) if engine.model.path.exists() else 0,
            "owned_by": "paceline",
        }

    async def _answer(
        self, request: Request, prepare: Callable[[bytes, Engine], Job], shape: Shape
    ) -> Response:
        body = await read_json_body(request)
        engine = self.host.engine()
        job = await run_in_threadpool(prepare, body, engine)  # long prompts take their time
        try:
            feed = await EventFeed.submit(engine, job.request)
        except InvalidRequestError as error:
            raise in_words_of_client(error, job.said) from None
        answer = Answer.to(job.request, job.presentation, shape, engine)
        if job.presentation.stream:
            return EventStream(feed, answer)
        return await send_whole(request, feed, answer)


def status_json(host: EngineHost, version: str) -> dict[str, object]:
    """The body of ``/paceline/v1/status``; its keys are the same in every state."""
    body: dict[str, object] = {
        "state": "loading",
        "stage": "",
        "error": None,
        "version": version,
        "pid": os.getpid(),
        "uptime_s": round(host.uptime_s, 3),
        "model": None,
        "plan": None,
        "engine": None,
    }
    match host.state:
        case Loading(stage):
            return body | {"stage": stage}
        case Failed(error):
            return body | {
                "state": "failed",
                "stage": "The model could not be loaded",
                "error": error_body(error)["error"],
            }
        case Ready(engine):
            return body | {
                "state": "ready",
                "stage": "Ready",
                "model": model_json(engine.model),
                "plan": engine.plan.to_json(),
                "engine": engine.status().to_json(),
            }


def model_json(model: ModelInfo) -> dict[str, object]:
    """What the window shows of a model."""
    return {
        "id": model.name,
        "name": model.name,
        "path": str(model.path),
        "architecture": model.architecture,
        "context_length": model.context_length,
        "num_layers": model.num_layers,
        "vocab_size": model.vocab_size,
        "weight_bytes": model.weight_bytes,
        "has_chat_template": model.has_chat_template,
    }


def _count_tokens(body: bytes, engine: Engine) -> int:
    fields = parse(TokenizeFields, body)
    if (fields.text is None) == (fields.messages is None):
        raise InvalidRequestError("Give either 'text' or 'messages'.")
    if fields.messages is not None:
        prompt = conversation(fields.messages)
        return len(encode_prompt(engine.tokenizer, prompt, apply_chat_template=True))
    if not fields.text:
        return 0
    return len(encode_prompt(engine.tokenizer, TextPrompt(fields.text), apply_chat_template=False))
