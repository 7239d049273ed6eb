"""Made-up answers and runs, for tests that need no model."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.records import Answer, Run, StepTotals


def answer(
    tokens: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    tpot_ms: float = 10.0,
    busy: float = 2.0,
    steps: StepTotals | None = None,
) -> Answer:
    """An answer whose first token took as long as two others; ``busy`` cores worked on it."""
    decode_ms = tpot_ms * (len(tokens) - 1)
    total_ms = decode_ms + 2.0 * tpot_ms
    return Answer(tuple(tokens), 2.0 * tpot_ms, decode_ms, total_ms, total_ms * busy, steps)


def run(arm: str, prompt: str, number: int, given: Answer, workload: str = "prose") -> Run:
    """What ``arm`` answered to ``prompt`` in round ``number``."""
    return Run(arm, workload, prompt, number, given)
