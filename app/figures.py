"""The figures of an answer, counted from its steps or taken from the engine, and put into words.

`Tally` counts while an answer streams, so that a stopped answer has figures too. The definitions
are the engine's: acceptance = accepted / verified draft tokens, acceptance by position = of the
steps that compared a draft at that depth the share that accepted it there, tokens per step =
emitted / forward passes that emitted, rate = tokens after the first / time after the first.

None is a blank: the engine does not tell. A blank in one step leaves the total blank.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import overload

from app.wire import Ended, Step

SEPARATOR = " · "
_STOP_REASONS = {"length": "cut at the length limit"}


@dataclass(frozen=True, slots=True)
class DrafterFigures:
    """What one drafter did for an answer, counted over the steps that verified its drafts."""

    drafter: str
    num_steps: int = 0
    num_verified: int = 0
    num_accepted: int = 0

    @property
    def acceptance(self) -> float:
        """Accepted / verified."""
        return self.num_accepted / self.num_verified if self.num_verified else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of one answer; None where nothing can be said."""

    num_tokens: int = 0
    rate_tok_s: float | None = None
    first_token_s: float | None = None
    tokens_per_step: float | None = None
    acceptance: float | None = None
    by_position: tuple[float, ...] | None = ()
    """Share accepted of the verifications that reached the position; index 0 is the first."""
    by_drafter: tuple[DrafterFigures, ...] = ()
    """In the order of their first draft."""
    num_steps: int = 0
    num_drafted: int | None = 0
    num_verified: int | None = 0
    num_accepted: int | None = 0
    draft_ms: float | None = 0.0
    verify_ms: float | None = 0.0
    overhead_ms: float | None = 0.0


@dataclass(slots=True)
class Tally:
    """Counts the steps of one answer as they come."""

    num_tokens: int = 0
    num_steps: int = 0
    num_drafted: int | None = 0
    num_verified: int | None = 0
    num_accepted: int | None = 0
    draft_ms: float | None = 0.0
    verify_ms: float | None = 0.0
    overhead_ms: float | None = 0.0
    _first_ms: float | None = None
    _last_ms: float = 0.0
    _positions_told: bool = True
    _reached: list[int] = field(default_factory=list[int])
    _accepted: list[int] = field(default_factory=list[int])
    _by_drafter: dict[str, DrafterFigures] = field(default_factory=dict[str, DrafterFigures])

    def add(self, step: Step) -> None:
        """Count one step; a step that emits nothing counts its times alone."""
        self.draft_ms = plus(self.draft_ms, step.draft_ms)
        self.verify_ms = plus(self.verify_ms, step.verify_ms)
        self.overhead_ms = plus(self.overhead_ms, step.overhead_ms)
        if not step.tokens:
            return
        if self._first_ms is None:
            self._first_ms = step.t_ms
        self._last_ms = step.t_ms
        self.num_tokens += len(step.tokens)
        self.num_steps += 1
        accepted = step.num_accepted
        self.num_drafted = plus(self.num_drafted, step.num_drafted)
        self.num_verified = plus(self.num_verified, step.num_verified)
        self.num_accepted = plus(self.num_accepted, accepted)
        self._count_positions(step.num_reached, accepted)
        if step.drafter and step.num_verified and accepted is not None:
            self._count_drafter(step.drafter, step.num_verified, accepted)

    def _count_positions(self, num_reached: int | None, num_accepted: int | None) -> None:
        if num_reached is None or num_accepted is None:
            self._positions_told = False
            return
        while len(self._reached) < num_reached:
            self._reached.append(0)
            self._accepted.append(0)
        for position in range(num_reached):
            self._reached[position] += 1
            self._accepted[position] += position < num_accepted

    def _count_drafter(self, drafter: str, num_verified: int, num_accepted: int) -> None:
        before = self._by_drafter.get(drafter, DrafterFigures(drafter))
        self._by_drafter[drafter] = replace(
            before,
            num_steps=before.num_steps + 1,
            num_verified=before.num_verified + num_verified,
            num_accepted=before.num_accepted + num_accepted,
        )

    def figures(self) -> Figures:
        """Where the answer stands now."""
        first_ms = self._first_ms
        elapsed_ms = 0.0 if first_ms is None else self._last_ms - first_ms
        later = self.num_tokens - 1
        positions = zip(self._accepted, self._reached, strict=True)
        return Figures(
            num_tokens=self.num_tokens,
            rate_tok_s=1000 * later / elapsed_ms if elapsed_ms > 0 else None,
            first_token_s=None if first_ms is None else first_ms / 1000,
            tokens_per_step=self.num_tokens / self.num_steps if self.num_steps else None,
            acceptance=share(self.num_accepted, self.num_verified),
            by_position=tuple(hits / seen for hits, seen in positions)
            if self._positions_told
            else None,
            by_drafter=tuple(self._by_drafter.values()),
            num_steps=self.num_steps,
            num_drafted=self.num_drafted,
            num_verified=self.num_verified,
            num_accepted=self.num_accepted,
            draft_ms=self.draft_ms,
            verify_ms=self.verify_ms,
            overhead_ms=self.overhead_ms,
        )

    def settled(self, ended: Ended) -> Figures:
        """The figures of a whole answer: the engine's own where it reports them, which may be more
        than it told of its steps."""
        counted = self.figures()
        metrics = ended.metrics
        if metrics is None:
            return counted
        return replace(
            counted,
            num_tokens=metrics.num_generated_tokens,
            rate_tok_s=metrics.throughput_tok_s,
            first_token_s=None if metrics.ttft_ms is None else metrics.ttft_ms / 1000,
            tokens_per_step=metrics.tokens_per_step,
            acceptance=metrics.acceptance_rate,
            by_position=metrics.acceptance_by_position,
            num_drafted=metrics.num_draft_tokens,
            num_verified=metrics.num_verified_tokens,
            num_accepted=metrics.num_accepted_tokens,
            draft_ms=metrics.draft_ms,
            verify_ms=metrics.verify_ms,
            overhead_ms=metrics.overhead_ms,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer, for a comparison."""

    text: str
    figures: Figures


@overload
def plus(total: int | None, more: int | None) -> int | None: ...
@overload
def plus(total: float | None, more: float | None) -> float | None: ...
def plus(total: float | None, more: float | None) -> float | None:
    """What one step does not tell is not known of the answer either."""
    return None if total is None or more is None else total + more


def share(part: int | None, whole: int | None) -> float | None:
    """``part / whole``; None where one of them is not known or there is no whole."""
    return part / whole if whole and part is not None else None


def count(number: int, noun: str) -> str:
    """``1 token``, ``2 tokens``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def number_text(number: int | None) -> str:
    """``1,200``; a dash where it is unknown."""
    return "–" if number is None else f"{number:,}"


def rate_text(rate_tok_s: float | None) -> str:
    """``96 tok/s``, or ``4.2 tok/s`` below ten; a dash where it is unknown."""
    if rate_tok_s is None:
        return "–"
    return f"{rate_tok_s:.1f} tok/s" if rate_tok_s < 9.95 else f"{rate_tok_s:.0f} tok/s"


def share_text(share: float | None) -> str:
    """``71%``; a dash where it is unknown."""
    return "–" if share is None else f"{100 * share:.0f}%"


def steps_text(tokens_per_step: float | None) -> str:
    """``2.3``; a dash where it is unknown."""
    return "–" if tokens_per_step is None else f"{tokens_per_step:.1f}"


def seconds_text(seconds: float | None) -> str:
    """``0.11 s`` below ten seconds, else ``12 s``; a dash where it is unknown."""
    if seconds is None:
        return "–"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.0f} s"


def answer_line(figures: Figures, *, speculation: bool, finish_reason: str = "stop") -> str:
    """``41 tokens · 96 tok/s · first 0.11 s · 2.3 tokens/step · 71% accepted``."""
    parts = [count(figures.num_tokens, "token")]
    if figures.rate_tok_s is not None:
        parts.append(rate_text(figures.rate_tok_s))
    if figures.first_token_s is not None:
        parts.append(f"first {seconds_text(figures.first_token_s)}")
    if not speculation:
        parts.append("speculation off")
    elif figures.tokens_per_step is not None:
        parts.append(f"{steps_text(figures.tokens_per_step)} tokens/step")
    if figures.acceptance is not None:
        parts.append(f"{share_text(figures.acceptance)} accepted")
    if finish_reason in _STOP_REASONS:
        parts.append(_STOP_REASONS[finish_reason])
    return SEPARATOR.join(parts)


def comparison_text(with_drafts: Answer, without: Answer) -> str:
    """``1.43× with speculation · the two answers are identical``, or where they part."""
    parts: list[str] = []
    fast, slow = with_drafts.figures.rate_tok_s, without.figures.rate_tok_s
    if fast and slow:
        parts.append(f"{fast / slow:.2f}× with speculation")
    if with_drafts.text == without.text:
        parts.append("the two answers are identical")
    else:
        pairs = zip(with_drafts.text, without.text, strict=False)
        same = next(
            (place for place, (left, right) in enumerate(pairs) if left != right),
            min(len(with_drafts.text), len(without.text)),
        )
        parts.append(f"the answers part after {count(same, 'character')}")
    return SEPARATOR.join(parts)
