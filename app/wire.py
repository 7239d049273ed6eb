"""What travels between the window and the engine, as frozen values.

Only the fields that the window shows are read; what an engine does not report stays None and is
left blank, never invented. Parsing is forgiving about missing fields and strict about nothing else:
an answer that is not JSON at all is the client's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

Json = Mapping[str, object]

_NO_DRAFTER = "none"
_GENAI = ("genai", "genai-stateful")
"""Backends that are OpenVINO GenAI's: told of no wishes, and telling less of their steps."""


class EngineState(StrEnum):
    """How far the engine is with its model, in the engine's own words."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class Speculation(StrEnum):
    """How the engine drafts."""

    ADAPTIVE = "adaptive"
    STATIC = "static"
    OFF = "off"


class Origin(StrEnum):
    """Where a token came from: not drafted, drafted and kept, the model's own where it disagreed
    with the draft, its extra one after a draft that was right to the end."""

    PLAIN = "plain"
    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    BONUS = "bonus"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that went wrong, as one sentence for people and a stable code."""

    message: str
    code: str


class EngineError(Exception):
    """The engine refused a request, failed in the middle, or cannot be reached."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What the engine chose to run the model with, and why.

    ``drafter`` may be several, joined by ``+``. ``speculation`` is how answers are made unless
    their request says otherwise.
    """

    backend: str
    device: str
    drafter: str
    cache_precision: str
    reasons: tuple[str, ...] = ()
    speculation: Speculation | None = None
    is_auto_drafter: bool = False

    @property
    def fixed_speculation(self) -> bool | None:
        """Whether every answer is drafted, or none; None where a request may wish.

        Nothing drafts without a drafter, and OpenVINO GenAI drafts at every step once it has one:
        the engine refuses a wish for anything else.
        """
        if self.drafter == _NO_DRAFTER:
            return False
        return True if self.backend in _GENAI else None

    @property
    def speculates(self) -> bool | None:
        """Whether answers are drafted by default; None where the engine does not say."""
        if self.fixed_speculation is not None:
            return self.fixed_speculation
        return None if self.speculation is None else self.speculation is not Speculation.OFF


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The loaded model. ``context_length`` in tokens."""

    id: str
    name: str
    context_length: int | None = None


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The answer of ``GET /paceline/v1/status``."""

    state: EngineState
    stage: str
    fault: Fault | None = None
    model: ModelReport | None = None
    plan: PlanReport | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token. ``depth`` is its place in the draft, 0 where it was not drafted or that is
    not told."""

    text: str
    origin: Origin | None
    depth: int


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass of the target. ``t_ms`` counts from the engine's receipt of the request.

    ``num_reached`` are the depths at which a drafted token was compared with the target's own.
    None: not told.
    """

    t_ms: float
    drafter: str | None
    tokens: tuple[Token, ...]
    num_drafted: int | None
    num_verified: int | None
    num_reached: int | None
    draft_ms: float | None
    verify_ms: float | None
    overhead_ms: float | None

    @property
    def num_accepted(self) -> int | None:
        """Emitted tokens that had been drafted; None where one of them may have been."""
        if any(token.origin is None for token in self.tokens):
            return None
        return sum(token.origin is Origin.ACCEPTED for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The engine's own figures for a finished answer. None: not told."""

    num_generated_tokens: int
    ttft_ms: float | None
    throughput_tok_s: float | None
    tokens_per_step: float | None
    acceptance_rate: float | None
    acceptance_by_position: tuple[float, ...] | None = None
    num_draft_tokens: int | None = None
    num_verified_tokens: int | None = None
    num_accepted_tokens: int | None = None
    draft_ms: float | None = None
    verify_ms: float | None = None
    overhead_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer: text to append, and the step it came from where it is known."""

    text: str
    step: Step | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is whole. ``finish_reason`` is ``stop`` or ``length``."""

    text: str
    step: Step | None
    finish_reason: str
    metrics: Metrics | None
    plan: PlanReport | None
    notes: tuple[str, ...] = ()


DEFAULT_MAX_TOKENS = 1024
"""About two pages."""


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How an answer is to be made. None leaves a value to the engine and its model.

    ``max_tokens`` is bounded, for a small model may repeat itself until its context is full.
    """

    speculation: bool | None = None
    max_tokens: int | None = DEFAULT_MAX_TOKENS
    temperature: float | None = None

    @property
    def may_draft(self) -> bool:
        """Speculation is on, or it is not known yet that it is off."""
        return self.speculation is not False


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question with what was said before. ``messages`` are (role, text) pairs, oldest first."""

    messages: tuple[tuple[str, str], ...]
    settings: AnswerSettings

    def to_json(self, model: str, plan: PlanReport | None) -> dict[str, object]:
        """The body of ``POST /v1/chat/completions`` for an engine that runs ``model`` by ``plan``.

        The plan's own way is not asked for: "adaptive" would overrule an engine that was started
        with a fixed length. Nor is another way than one that is fixed, which would be refused.
        """
        body: dict[str, object | None] = {
            "model": model,
            "messages": [{"role": role, "content": text} for role, text in self.messages],
            "stream": True,
            "stream_options": {"include_steps": True},
            "speculation": _asked_speculation(self.settings.speculation, plan),
            "max_tokens": self.settings.max_tokens,
            "temperature": self.settings.temperature,
        }
        return {name: value for name, value in body.items() if value is not None}


def _asked_speculation(wanted: bool | None, plan: PlanReport | None) -> str | None:
    if wanted is None:
        return None
    if plan and (plan.fixed_speculation is not None or plan.speculates == wanted):
        return None
    return (Speculation.ADAPTIVE if wanted else Speculation.OFF).value


_STATES = {state.value: state for state in EngineState}
_SPECULATIONS = {speculation.value: speculation for speculation in Speculation}
_ORIGINS = {origin.value: origin for origin in Origin}


def _object(value: object) -> Json:
    return cast(Json, value) if isinstance(value, Mapping) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _length(value: object) -> int | None:
    return None if value is None else len(_items(value))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _count(value: object) -> int:
    return _whole(value) or 0


def parse_fault(value: object) -> Fault | None:
    """An OpenAI error object, or None where there is none."""
    fault = _object(value)
    if not fault:
        return None
    message = _text(fault.get("message")) or "The engine gave no reason."
    return Fault(message, _text(fault.get("code")) or _text(fault.get("type")))


def parse_status(body: Json) -> StatusReport:
    """The status report; an unknown state counts as loading."""
    state = _text(body.get("state"))
    model = _object(body.get("model"))
    name = _text(model.get("name")) or _text(model.get("id"))
    length = _count(model.get("context_length")) or None
    return StatusReport(
        state=_STATES.get(state, EngineState.LOADING),
        stage=_text(body.get("stage")),
        fault=parse_fault(body.get("error")),
        model=ModelReport(_text(model.get("id")) or name, name, length) if name else None,
        plan=_plan(body.get("plan")),
    )


def _plan(value: object) -> PlanReport | None:
    plan = _object(value)
    if not plan:
        return None
    return PlanReport(
        backend=_text(plan.get("backend")),
        device=_text(plan.get("device")),
        drafter=_text(plan.get("drafter")),
        cache_precision=_text(plan.get("cache_precision")),
        reasons=tuple(_text(reason) for reason in _items(plan.get("reasons"))),
        speculation=_SPECULATIONS.get(_text(plan.get("speculation"))),
        is_auto_drafter=plan.get("is_auto_drafter") is True,
    )


def _token(value: object) -> Token:
    token = _object(value)
    origin = _text(token.get("origin"))
    return Token(
        text=_text(token.get("text")),
        origin=_ORIGINS.get(origin),
        depth=_count(token.get("depth")),
    )


def _step(value: object) -> Step | None:
    step = _object(value)
    if not step:
        return None
    return Step(
        t_ms=_number(step.get("t_ms")) or 0.0,
        drafter=_text(step.get("drafter")) or None,
        tokens=tuple(_token(token) for token in _items(step.get("emitted"))),
        num_drafted=_length(_object(step.get("draft")).get("tokens")),
        num_verified=_length(step.get("verified")),
        num_reached=_whole(step.get("num_reached")),
        draft_ms=_number(step.get("draft_ms")),
        verify_ms=_number(step.get("verify_ms")),
        overhead_ms=_number(step.get("overhead_ms")),
    )


def _metrics(value: object) -> Metrics | None:
    metrics = _object(value)
    if not metrics:
        return None
    return Metrics(
        num_generated_tokens=_count(metrics.get("num_generated_tokens")),
        ttft_ms=_number(metrics.get("ttft_ms")),
        throughput_tok_s=_number(metrics.get("throughput_tok_s")),
        tokens_per_step=_number(metrics.get("tokens_per_step")),
        acceptance_rate=_number(metrics.get("acceptance_rate")),
        acceptance_by_position=_shares(metrics.get("acceptance_by_position")),
        num_draft_tokens=_whole(metrics.get("num_draft_tokens")),
        num_verified_tokens=_whole(metrics.get("num_verified_tokens")),
        num_accepted_tokens=_whole(metrics.get("num_accepted_tokens")),
        draft_ms=_number(metrics.get("draft_ms")),
        verify_ms=_number(metrics.get("verify_ms")),
        overhead_ms=_number(metrics.get("overhead_ms")),
    )


def _shares(value: object) -> tuple[float, ...] | None:
    return None if value is None else tuple(_number(share) or 0.0 for share in _items(value))


def parse_chunk(chunk: Json) -> Delta | Ended | None:
    """One streamed chunk; None for one without a choice, such as the usage chunk."""
    choices = _items(chunk.get("choices"))
    if not choices:
        return None
    choice = _object(choices[0])
    text = _text(_object(choice.get("delta")).get("content"))
    extra = _object(chunk.get("paceline"))
    step = _step(extra.get("step"))
    reason = _text(choice.get("finish_reason"))
    if not reason:
        return Delta(text, step)
    notes = tuple(_text(note) for note in _items(extra.get("notes")))
    return Ended(
        text, step, reason, _metrics(extra.get("metrics")), _plan(extra.get("plan")), notes
    )
