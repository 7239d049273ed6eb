"""Counters of one request, and each ratio defined once.

*Acceptance rate* = accepted / verified draft tokens. *Acceptance by position* ``[j]`` = of the
verifications that reached position ``j`` (all before it accepted), the share that accepted it; on a
tree, ``j`` is depth, and a depth counts as accepted if any node there was. *Tokens per step* =
emitted / target forward passes. Tokens drafted but never verified are counted apart.

None is a blank: whoever ran the step did not tell. A blank in one step leaves the total blank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import overload


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What one step adds to the metrics. None: not told."""

    num_drafted: int | None
    num_verified: int | None
    num_accepted: int | None
    draft_ms: float | None
    verify_ms: float | None
    overhead_ms: float | None


@dataclass(slots=True)
class RequestMetrics:
    """Counts and times of one choice; times in milliseconds of wall clock. None: not told."""

    prompt_tokens: int = 0
    num_generated_tokens: int = 0
    num_target_steps: int = 0
    """Forward passes that emitted at least one token, the last prefill chunk included."""
    num_draft_tokens: int | None = 0
    num_verified_tokens: int | None = 0
    num_accepted_tokens: int | None = 0
    ttft_ms: float = 0.0
    """From submission to the first token."""
    last_token_ms: float = 0.0
    """From submission to the last token."""
    draft_ms: float | None = 0.0
    verify_ms: float | None = 0.0
    overhead_ms: float | None = 0.0
    positions_told: bool = True
    """False: nobody said which verification reached which position."""
    reached: list[int] = field(default_factory=list[int])
    accepted: list[int] = field(default_factory=list[int])

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / verified; None when nothing was verified, or it was not told."""
        if not self.num_verified_tokens or self.num_accepted_tokens is None:
            return None
        return self.num_accepted_tokens / self.num_verified_tokens

    @property
    def tokens_per_step(self) -> float | None:
        """Emitted / target forward passes; None before the first."""
        if not self.num_target_steps:
            return None
        return self.num_generated_tokens / self.num_target_steps

    @property
    def acceptance_by_position(self) -> list[float] | None:
        """Index 0 is the first drafted position; ends with the deepest that was reached."""
        if not self.positions_told:
            return None
        return [hit / seen for hit, seen in zip(self.accepted, self.reached, strict=True) if seen]

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first; None below two tokens."""
        if self.num_generated_tokens < 2:
            return None
        return (self.last_token_ms - self.ttft_ms) / (self.num_generated_tokens - 1)

    @property
    def throughput_tok_s(self) -> float | None:
        """Tokens per second after the first; None below two tokens."""
        tpot = self.tpot_ms
        return None if not tpot else 1000.0 / tpot

    def add(self, step: StepFigures, now_ms: float) -> None:
        """Count one step that emitted tokens, ``now_ms`` after submission."""
        if self.num_target_steps == 0:
            self.ttft_ms = now_ms
        self.last_token_ms = now_ms
        self.num_target_steps += 1
        self.num_draft_tokens = _plus(self.num_draft_tokens, step.num_drafted)
        self.num_verified_tokens = _plus(self.num_verified_tokens, step.num_verified)
        self.num_accepted_tokens = _plus(self.num_accepted_tokens, step.num_accepted)
        self.draft_ms = _plus(self.draft_ms, step.draft_ms)
        self.verify_ms = _plus(self.verify_ms, step.verify_ms)
        self.overhead_ms = _plus(self.overhead_ms, step.overhead_ms)

    def record_positions(self, num_reached: int, num_accepted: int) -> None:
        """Count one verification that compared drafts at ``num_reached`` depths (`Verdict`)."""
        assert num_accepted <= num_reached <= num_accepted + 1
        while len(self.reached) < num_reached:
            self.reached.append(0)
            self.accepted.append(0)
        for position in range(num_reached):
            self.reached[position] += 1
            self.accepted[position] += position < num_accepted

    def to_json(self) -> dict[str, object]:
        """The metrics as they stand in ``generate --json`` and at the end of a stream."""
        return {
            "ttft_ms": self.ttft_ms,
            "tpot_ms": self.tpot_ms,
            "throughput_tok_s": self.throughput_tok_s,
            "prompt_tokens": self.prompt_tokens,
            "num_generated_tokens": self.num_generated_tokens,
            "num_target_steps": self.num_target_steps,
            "num_draft_tokens": self.num_draft_tokens,
            "num_verified_tokens": self.num_verified_tokens,
            "num_accepted_tokens": self.num_accepted_tokens,
            "acceptance_rate": self.acceptance_rate,
            "tokens_per_step": self.tokens_per_step,
            "acceptance_by_position": self.acceptance_by_position,
            "draft_ms": self.draft_ms,
            "verify_ms": self.verify_ms,
            "overhead_ms": self.overhead_ms,
        }


@overload
def _plus(total: int | None, more: int | None) -> int | None: ...
@overload
def _plus(total: float | None, more: float | None) -> float | None: ...
def _plus(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None else total + more
