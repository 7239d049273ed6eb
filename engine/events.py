"""What the engine tells about a request while it runs: step events, then one terminal event.

The same objects feed the command line, the server's stream and the benchmark; `to_json` below is
the one place that fixes their names on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.config import GenerationConfig, SampledRule, Speculation
from engine.errors import PacelineError
from engine.metrics import RequestMetrics
from engine.values import EmittedToken, FinishReason


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request: a prompt in tokens and how to answer it.

    ``speculation`` and ``drafter`` None mean the engine's own setting. ``config`` is already
    resolved against the model's defaults and validated.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    config: GenerationConfig
    speculation: Speculation | None = None
    drafter: str | None = None
    sampled_rule: SampledRule = SampledRule.KEYED


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """The candidates of one step as they were proposed, with the survival that the budget gave
    them."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    survival: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One forward pass of the target, for one choice of one request.

    ``text`` is what may be shown now (it lags behind ``emitted`` while a character is half done or
    a stop string might be starting). ``verified`` are the draft nodes that were verified,
    ``chosen_length`` their number, ``num_reached`` the depths at which the target was compared with
    one of them (`Verdict`). ``t_ms`` counts from submission. Prefill steps that emit nothing send
    no event.
    """

    choice: int
    t_ms: float
    text: str
    emitted: tuple[EmittedToken, ...]
    token_texts: tuple[str, ...]
    drafter: str | None
    draft: DraftRecord
    verified: tuple[int, ...]
    num_reached: int
    reason: str
    draft_ms: float
    verify_ms: float
    overhead_ms: float

    @property
    def chosen_length(self) -> int:
        """Draft tokens that were verified."""
        return len(self.verified)

    def to_json(self) -> dict[str, Any]:
        """The step as it stands in ``generate --steps`` and in the stream."""
        return {
            "t_ms": round(self.t_ms, 3),
            "drafter": self.drafter,
            "draft": {
                "tokens": list(self.draft.tokens),
                "parents": list(self.draft.parents),
                "survival": [round(value, 4) for value in self.draft.survival],
            },
            "verified": list(self.verified),
            "chosen_length": self.chosen_length,
            "num_reached": self.num_reached,
            "reason": self.reason,
            "emitted": [
                {
                    "token": token.token,
                    "text": text,
                    "origin": token.origin.value,
                    "depth": token.depth,
                    "logprob": token.score.logprob,
                    "prob": min(1.0, 2.718281828459045**token.score.logprob),
                    "entropy": token.score.entropy,
                }
                for token, text in zip(self.emitted, self.token_texts, strict=True)
            ],
            "draft_ms": round(self.draft_ms, 3),
            "verify_ms": round(self.verify_ms, 3),
            "overhead_ms": round(self.overhead_ms, 3),
        }


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
