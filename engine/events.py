"""What the engine tells about a request while it runs: step events, then one terminal event.

The same objects feed the command line, the server's stream and the benchmark; `to_json` below is
the one place that fixes their names on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp
from typing import Any

from engine.config import GenerationConfig, SampledRule, Speculation
from engine.errors import PacelineError
from engine.metrics import RequestMetrics
from engine.values import EmittedToken, FinishReason


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request: a prompt in tokens and how to answer it.

    ``speculation``, ``drafter`` and ``sampled_rule`` None mean the engine's own setting. ``config``
    is already resolved against the model's defaults and validated.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    config: GenerationConfig
    speculation: Speculation | None = None
    drafter: str | None = None
    sampled_rule: SampledRule | None = None


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """The candidates of one step as they were proposed, with the survival that the budget gave
    them."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    survival: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """The candidates as they stand in a step."""
        return {
            "tokens": list(self.tokens),
            "parents": list(self.parents),
            "survival": [round(value, 4) for value in self.survival],
        }


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One forward pass of the target, for one choice of one request.

    ``text`` is what may be shown now (it lags behind ``emitted`` while a character is half done or
    a stop string might be starting). ``verified`` are the draft nodes that were verified,
    ``chosen_length`` their number, ``num_reached`` the depths at which the target was compared with
    one of them (`Verdict`). ``t_ms`` counts from submission. Prefill steps that emit nothing send
    no event. None is a blank, null on the wire: whoever ran the step did not tell.
    """

    choice: int
    t_ms: float
    text: str
    emitted: tuple[EmittedToken, ...]
    token_texts: tuple[str, ...]
    drafter: str | None
    draft: DraftRecord | None
    verified: tuple[int, ...] | None
    num_reached: int | None
    reason: str
    draft_ms: float | None
    verify_ms: float | None
    overhead_ms: float | None

    @property
    def chosen_length(self) -> int | None:
        """Draft tokens that were verified."""
        return None if self.verified is None else len(self.verified)

    def to_json(self) -> dict[str, Any]:
        """The step as it stands in ``generate --steps`` and in the stream."""
        return {
            "t_ms": round(self.t_ms, 3),
            "drafter": self.drafter,
            "draft": None if self.draft is None else self.draft.to_json(),
            "verified": None if self.verified is None else list(self.verified),
            "chosen_length": self.chosen_length,
            "num_reached": self.num_reached,
            "reason": self.reason,
            "emitted": [
                _token_json(token, text)
                for token, text in zip(self.emitted, self.token_texts, strict=True)
            ],
            "draft_ms": _rounded(self.draft_ms),
            "verify_ms": _rounded(self.verify_ms),
            "overhead_ms": _rounded(self.overhead_ms),
        }


def _token_json(token: EmittedToken, text: str) -> dict[str, Any]:
    score = token.score
    return {
        "token": token.token,
        "text": text,
        "origin": None if token.origin is None else token.origin.value,
        "depth": token.depth,
        "logprob": None if score is None else score.logprob,
        "prob": None if score is None else min(1.0, exp(score.logprob)),
        "entropy": None if score is None else score.entropy,
    }


def _rounded(time_ms: float | None) -> float | None:
    return None if time_ms is None else round(time_ms, 3)


@dataclass(frozen=True, slots=True)
class FinishedEvent:
    """One choice has ended. ``text`` is whole, ``tail`` the part that no step event carried."""

    choice: int
    finish_reason: FinishReason
    text: str
    tail: str
    token_ids: tuple[int, ...]
    tokens: tuple[EmittedToken, ...]
    token_texts: tuple[str, ...]
    metrics: RequestMetrics
    notes: tuple[str, ...] = field(default=())
    """Sentences for people, such as why a draft was not used."""


@dataclass(frozen=True, slots=True)
class FailedEvent:
    """The whole request has ended with an error; terminal for all its choices."""

    error: PacelineError


Event = StepEvent | FinishedEvent | FailedEvent

Sink = Callable[[Event], None]
"""Told of each event on the engine's thread; must return at once."""
