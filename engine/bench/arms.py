"""What an arm is, and the arms of our own: one engine, asked in different ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from time import perf_counter, process_time
from typing import Protocol, TypeVar

from engine.bench.records import Answer, StepTotals
from engine.config import GenerationConfig, Speculation
from engine.events import Event, FailedEvent, FinishedEvent, GenerationRequest, StepEvent
from engine.interface import Engine, stream
from engine.values import Origin

T = TypeVar("T")

_numbers = count()


class Arm(Protocol):
    """Answers greedily, past any end token, one task at a time."""

    @property
    def name(self) -> str:
        """Unique among the arms of a benchmark."""
        ...

    def begin(self) -> None:
        """A task is next: forget all answers before it."""
        ...

    def answer(self, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        """``num_tokens`` tokens, at least two.

        Raises:
            PacelineError: the prompt cannot be answered.
        """
        ...


class EngineArm(Arm):
    """Our engine with speculation off, adaptive, or of a fixed length."""

    def __init__(
        self, engine: Engine, name: str, speculation: Speculation, length: int | None = None
    ) -> None:
        self._engine = engine
        self._name = name
        self._speculation = speculation
        self._length = length

    @property
    def name(self) -> str:
        """As it stands in the report."""
        return self._name

    def begin(self) -> None:
        """`Arm.begin`."""
        self._engine.forget()

    def answer(self, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        """`Arm.answer`."""
        config = GenerationConfig(
            max_new_tokens=num_tokens, ignore_eos=True, num_assistant_tokens=self._length
        )
        cpu, started = process_time(), perf_counter()
        steps, finished = _collect(
            stream(self._engine, _request(prompt_ids, config, self._speculation))
        )
        metrics = finished.metrics
        return Answer(
            token_ids=finished.token_ids,
            ttft_ms=metrics.ttft_ms,
            decode_ms=metrics.last_token_ms - metrics.ttft_ms,
            total_ms=1000.0 * (perf_counter() - started),
            cpu_ms=1000.0 * (process_time() - cpu),
            steps=_totals(steps[1:]),
        )


def top_two_gaps(engine: Engine, prompt_ids: Sequence[int], num_tokens: int) -> tuple[float, ...]:
    """For each token of the plain greedy answer, how far the second most likely lay behind, in
    logits. Where two programs disagree, a tiny gap says that rounding decided."""
    config = GenerationConfig(max_new_tokens=num_tokens, ignore_eos=True, logprobs=2)
    _, finished = _collect(stream(engine, _request(prompt_ids, config, Speculation.OFF)))
    tops = [_told(token.score).top for token in finished.tokens]
    return tuple(best - second for (_, best), (_, second) in tops)


def _request(
    prompt_ids: Sequence[int], config: GenerationConfig, speculation: Speculation
) -> GenerationRequest:
    return GenerationRequest(
        request_id=f"bench-{next(_numbers)}",
        prompt_ids=tuple(prompt_ids),
        config=config,
        speculation=speculation,
    )


def _collect(events: Iterable[Event]) -> tuple[list[StepEvent], FinishedEvent]:
    """The steps of the only choice, and its end."""
    steps: list[StepEvent] = []
    for event in events:
        match event:
            case StepEvent():
                steps.append(event)
            case FinishedEvent():
                return steps, event
            case FailedEvent(error):
                raise error
    raise AssertionError("every request ends in a terminal event")


def _totals(steps: Sequence[StepEvent]) -> StepTotals:
    return StepTotals(
        num_steps=len(steps),
        num_verified=sum(_told(step.chosen_length) for step in steps),
        num_accepted=sum(
            token.origin is Origin.ACCEPTED for step in steps for token in step.emitted
        ),
        draft_ms=sum(_told(step.draft_ms) for step in steps),
        forward_ms=sum(_told(step.verify_ms) for step in steps),
        overhead_ms=sum(_told(step.overhead_ms) for step in steps),
    )


def _told(value: T | None) -> T:
    assert value is not None, "our own backends leave no blanks"
    return value
