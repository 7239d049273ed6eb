"""What the benchmark writes down: one answer of one arm, measured. Values only.

*Arm*: a way to answer, such as plain decoding, or a peer. *Task*: a prompt, already in tokens. All
arms answer every task once in each *round*.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """One prompt of a workload in the model's tokens, and how many to answer with; every arm gets
    the same. ``earlier_ids``: a prompt that is answered just before, and not measured."""

    workload: str
    prompt: str
    prompt_ids: tuple[int, ...]
    num_tokens: int
    earlier_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Sums over the steps of one answer that came after its first token."""

    num_steps: int
    num_verified: int
    num_accepted: int
    draft_ms: float
    forward_ms: float
    """In the backend: feeding the graph, running it, fetching the scores."""
    overhead_ms: float
    """In our own stages other than drafting, as each step reported it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. Times are wall clock in milliseconds, but for ``cpu_ms``, the processor time of
    the whole process (all threads) over the same span as ``total_ms``."""

    token_ids: tuple[int, ...]
    ttft_ms: float
    """From the start to the first token."""
    decode_ms: float
    """From the first token to the last."""
    total_ms: float
    cpu_ms: float
    steps: StepTotals | None = None
    """None: the arm does not say."""

    @property
    def tpot_ms(self) -> float:
        """Time per output token after the first; an answer has at least two tokens."""
        return self.decode_ms / (len(self.token_ids) - 1)

    @property
    def own_share(self) -> float | None:
        """Share of the decode time that was not spent in the backend: drafting, choosing,
        verifying, events, and whatever lies between the steps."""
        return None if self.steps is None else 1.0 - self.steps.forward_ms / self.decode_ms


@dataclass(frozen=True, slots=True)
class Run:
    """Which arm gave which answer to what, and in which round (counted from 0)."""

    arm: str
    workload: str
    prompt: str
    round: int
    answer: Answer
