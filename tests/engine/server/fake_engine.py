"""An engine that answers by script: no model, the real events, from a thread of its own.

Its tokenizer has one token for each byte of UTF-8, so that characters outside ASCII come in parts,
as they do with real vocabularies.
"""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import BackendKind, CachePrecision, Speculation
from engine.errors import (
    ContextLengthError,
    EngineStoppedError,
    PacelineError,
    UnknownDrafterError,
)
from engine.events import (
    DraftRecord,
    Event,
    FailedEvent,
    FinishedEvent,
    GenerationRequest,
    Sink,
    StepEvent,
)
from engine.interface import EngineStatus, RequestHandle
from engine.library.folder import ModelInfo
from engine.metrics import RequestMetrics
from engine.plan import Plan
from engine.tokens import SpecialTokens
from engine.values import EmittedToken, FinishReason, Origin, TokenScore

EOS = 256
CONTEXT_LENGTH = 2000
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</{{ m['role'] }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


class ByteTokenizer:
    """Token ids 0 to 255 are bytes, 256 is the end of a sequence."""

    vocab_size = 257
    eos_token_id = EOS
    bos_token_id = None
    chat_template = TEMPLATE
    special = SpecialTokens(frozenset({EOS}), {"eos_token": EOS}, {"eos_token": "<eos>"})

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str:
        return bytes(token for token in ids if token < EOS).decode("utf-8", "replace")

    def token_text(self, token: int) -> str:
        return self.token_bytes(token).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        return b"<eos>" if token == EOS else bytes([token])


@dataclass
class Script:
    """How the engine answers. ``step_len`` tokens a step, ``pace_s`` seconds before each step."""

    reply: Callable[[str], str] = lambda prompt: "Hello, world"
    step_len: int = 3
    pace_s: float = 0.0
    fail_after_steps: int | None = None
    refuse: PacelineError | None = None


@dataclass
class FakeHandle:
    request_id: str
    cancelled: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        self.cancelled.set()


class FakeEngine:
    """An `engine.interface.Engine`; ``requests`` and ``handles`` keep what it was asked."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.model = fake_model()
        self.plan = Plan(
            backend=BackendKind.PAGED,
            device="CPU",
            drafter="prompt_lookup",
            speculation=Speculation.ADAPTIVE,
            cache_precision=CachePrecision.F16,
            cache_bytes=1 << 20,
            reasons=("A script needs no device.",),
        )
        self.tokenizer = ByteTokenizer()
        self.model_defaults: dict[str, object] = {"eos_token_id": EOS}
        self.requests: list[GenerationRequest] = []
        self.handles: list[FakeHandle] = []
        self.num_running = 0
        self.closed = threading.Event()

    def submit(self, request: GenerationRequest, sink: Sink) -> RequestHandle:
        if self.script.refuse is not None:
            raise self.script.refuse
        if request.drafter not in (None, "auto", "none", "prompt_lookup"):
            raise UnknownDrafterError("There is no such drafter.", param="drafter")
        if len(request.prompt_ids) >= CONTEXT_LENGTH:
            raise ContextLengthError("The prompt is too long.", param="prompt")
        handle = FakeHandle(request.request_id)
        self.requests.append(request)
        self.handles.append(handle)
        self.num_running += 1
        threading.Thread(target=self._answer, args=(request, sink, handle), daemon=True).start()
        return RequestHandle(request.request_id, handle.cancel)

    def status(self) -> EngineStatus:
        return EngineStatus(self.num_running, 0, 512, 512)

    def forget(self) -> None:
        pass

    def close(self) -> None:
        self.closed.set()

    def _answer(
        self, request: GenerationRequest, sink: Callable[[Event], None], handle: FakeHandle
    ) -> None:
        try:
            for choice in range(request.config.num_return_sequences):
                if not self._choice(request, sink, handle, choice):
                    return
        finally:
            self.num_running -= 1

    def _choice(
        self,
        request: GenerationRequest,
        sink: Callable[[Event], None],
        handle: FakeHandle,
        choice: int,
    ) -> bool:
        """Emit one choice; False when the whole request has failed."""
        prompt = self.tokenizer.decode(list(request.prompt_ids))
        ids = [*self.script.reply(prompt).encode(), EOS]
        limit = request.config.max_new_tokens
        reason = FinishReason.STOP if limit is None or limit >= len(ids) else FinishReason.LENGTH
        ids = ids[:limit]
        metrics = RequestMetrics(prompt_tokens=len(request.prompt_ids), ttft_ms=5.0)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        emitted: list[EmittedToken] = []
        texts: list[str] = []
        for index, start in enumerate(range(0, len(ids), self.script.step_len)):
            if self.script.fail_after_steps == index:
                sink(FailedEvent(EngineStoppedError("A step failed; ask again.")))
                return False
            if handle.cancelled.wait(self.script.pace_s) or self.closed.is_set():
                break
            step = [
                self._token(token, request) for token in ids[start : start + self.script.step_len]
            ]
            shown = [
                decoder.decode(bytes(() if each.token == EOS else (each.token,))) for each in step
            ]
            emitted += step
            texts += shown
            metrics.num_generated_tokens += len(step)
            metrics.num_target_steps += 1
            metrics.last_token_ms += 10.0
            sink(self._step(choice, shown, step))
        if self.closed.is_set():
            sink(FailedEvent(EngineStoppedError("The engine was closed.")))
            return False
        if handle.cancelled.is_set():
            reason = FinishReason.CANCELLED
        tail = decoder.decode(b"", final=True)
        text, ids = "".join(texts) + tail, tuple(token.token for token in emitted)
        sink(
            FinishedEvent(
                *(choice, reason, text, tail, ids, tuple(emitted), tuple(texts), metrics),
                notes=("A note.",),
            )
        )
        return True

    def _token(self, token: int, request: GenerationRequest) -> EmittedToken:
        top = tuple((65 + rank, -1.0 - rank) for rank in range(request.config.logprobs))
        return EmittedToken(token, Origin.PLAIN, 0, TokenScore(-0.5, 1.0, top))

    def _step(self, choice: int, texts: list[str], emitted: list[EmittedToken]) -> StepEvent:
        return StepEvent(
            choice=choice,
            t_ms=1.0,
            text="".join(texts),
            emitted=tuple(emitted),
            token_texts=tuple(texts),
            drafter="prompt_lookup",
            draft=DraftRecord((), (), ()),
            verified=(),
            num_reached=0,
            reason="nothing to draft",
            draft_ms=0.1,
            verify_ms=9.0,
            overhead_ms=0.2,
        )


def fake_model(name: str = "fake-model") -> ModelInfo:
    """A model that exists in name only."""
    return ModelInfo(
        name=name,
        path=Path("/nowhere") / name,
        architecture="FakeForCausalLM",
        context_length=CONTEXT_LENGTH,
        vocab_size=257,
        hidden_size=8,
        num_layers=1,
        num_attention_heads=1,
        num_kv_heads=1,
        head_dim=8,
        weight_bytes=0,
        bos_token_id=None,
        stop_token_ids=frozenset({EOS}),
        has_chat_template=True,
    )


def wait_until(condition: Callable[[], bool], timeout_s: float = 3.0) -> bool:
    """Whether ``condition`` came true in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
