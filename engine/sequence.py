"""One choice of one request, from submission to its last token: its tokens, text, counters and
stops.

Mutable, and touched by the engine's thread alone. It knows when it ends; it does not know the
cache, the model or the drafter.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from engine.draft_mode import DraftMode
from engine.errors import StructureFailedError
from engine.events import DraftRecord, FinishedEvent, GenerationRequest, Sink, StepEvent
from engine.metrics import RequestMetrics, StepFigures
from engine.sampling import Constraint, SamplingState
from engine.tokens import TextStream
from engine.values import EmittedToken, FinishReason, SeqId, Verdict


@dataclass(frozen=True, slots=True)
class Choice:
    """What one choice needs beside its request. ``echo`` is the prompt's text where it was asked
    for, ``max_new_tokens`` is already cut to what the context holds, ``constraint`` is the
    structure that the answer must have, if any."""

    index: int
    mode: DraftMode
    max_new_tokens: int
    vocab_size: int
    stream: TextStream
    echo: str = ""
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did for one sequence, beside its verdict. Times in milliseconds."""

    drafter: str | None
    draft: DraftRecord
    verified: tuple[int, ...]
    reason: str
    draft_ms: float
    verify_ms: float
    overhead_ms: float


class Sequence:
    """One running choice; ``num_computed`` is ``L`` of the state convention once the prompt is
    read."""

    def __init__(self, seq: SeqId, request: GenerationRequest, sink: Sink, choice: Choice) -> None:
        config = request.config
        self.seq = seq
        self.request = request
        self.sink = sink
        self.mode = choice.mode
        self.prompt = request.prompt_ids
        self.num_computed = 0
        self.sampling = SamplingState(
            config, self.prompt, choice.vocab_size, choice.index, choice.constraint
        )
        self.metrics = RequestMetrics(prompt_tokens=len(self.prompt))
        self._choice = choice
        self._stop_ids = frozenset[int]() if config.ignore_eos else config.stop_token_ids
        self._tokens: list[EmittedToken] = []
        self._token_texts: list[str] = []
        self._pieces = [choice.echo]
        self._num_told = 0  # pieces that a step event has carried
        self._started = perf_counter()

    @property
    def prompt_len(self) -> int:
        """Tokens of the prompt."""
        return len(self.prompt)

    @property
    def num_tokens(self) -> int:
        """Tokens of prompt and answer, the pending token included."""
        return self.prompt_len + len(self._tokens)

    @property
    def num_left(self) -> int:
        """Tokens that may still be emitted."""
        return self._choice.max_new_tokens - len(self._tokens)

    @property
    def failure(self) -> StructureFailedError | None:
        """Why the answer cannot be given, where that showed on the way only."""
        constraint = self.sampling.constraint
        if constraint is None or constraint.failure is None:
            return None
        return StructureFailedError(
            f"The answer cannot be completed in the structure that was asked for "
            f"({constraint.failure}): ask for a simpler one.",
            param=self.request.config.structure,
        )

    @property
    def pending_token(self) -> int:
        """The token that has no cache row yet."""
        return self._tokens[-1].token if self._tokens else self.prompt[-1]

    def on_token(self, token: int) -> FinishReason | None:
        """Take in one token's text and say whether the sequence ends with it; `verify.OnToken`."""
        self.metrics.num_generated_tokens += 1
        if token in self._stop_ids:  # has no place in the text, whatever it would read as
            self._token_texts.append("")
            return FinishReason.STOP
        delta = self._choice.stream.push(token)
        self._pieces.append(delta.text)
        self._token_texts.append(delta.token_text)
        if delta.stopped:
            return FinishReason.STOP
        if self.metrics.num_generated_tokens >= self._choice.max_new_tokens:
            return FinishReason.LENGTH
        return None

    def record(self, verdict: Verdict, step: StepRecord) -> None:
        """Take over the tokens of a step, whose text `on_token` has seen, and tell of them."""
        first = len(self._tokens)
        self._tokens.extend(verdict.emitted)
        self.sampling.commit(token.token for token in verdict.emitted)
        now_ms = self._count(verdict, step)
        text = "".join(self._pieces[self._num_told :])
        self._num_told = len(self._pieces)
        self.sink(
            StepEvent(
                choice=self._choice.index,
                t_ms=now_ms,
                text=text,
                emitted=verdict.emitted,
                token_texts=tuple(self._token_texts[first:]),
                drafter=step.drafter,
                draft=step.draft,
                verified=step.verified,
                num_reached=verdict.num_reached,
                reason=step.reason,
                draft_ms=step.draft_ms,
                verify_ms=step.verify_ms,
                overhead_ms=step.overhead_ms,
            )
        )

    def finish(self, reason: FinishReason, note: str | None = None) -> None:
        """Tell that the sequence has ended; ``note`` is a sentence for people."""
        tail = self._choice.stream.finish()
        self.sink(
            FinishedEvent(
                choice=self._choice.index,
                finish_reason=reason,
                text="".join(self._pieces) + tail,
                tail="".join(self._pieces[self._num_told :]) + tail,
                token_ids=tuple(token.token for token in self._tokens),
                tokens=tuple(self._tokens),
                token_texts=tuple(self._token_texts),
                metrics=self.metrics,
                notes=() if note is None else (note,),
            )
        )

    def _count(self, verdict: Verdict, step: StepRecord) -> float:
        """Add one step to the metrics; returns milliseconds since submission."""
        now_ms = 1000.0 * (perf_counter() - self._started)
        figures = StepFigures(
            num_drafted=len(step.draft.tokens),
            num_verified=verdict.num_verified,
            num_accepted=verdict.num_accepted,
            draft_ms=step.draft_ms,
            verify_ms=step.verify_ms,
            overhead_ms=step.overhead_ms,
        )
        self.metrics.add(figures, now_ms)
        self.metrics.record_positions(verdict.num_reached, verdict.num_accepted)
        return now_ms
