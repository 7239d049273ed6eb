"""The window counts a step as the engine counts it: the same steps, the same figures."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from app.figures import Tally
from app.wire import parse_chunk
from engine.config import GenerationConfig
from engine.events import DraftRecord, Event, GenerationRequest, StepEvent
from engine.sequence import Choice, DraftMode, Sequence, StepRecord
from engine.tokens import TextDelta
from engine.values import DraftTree, TokenScore
from engine.verify import SampleThenMatch, verify
from tests.fakes import tree_of


class Letters:
    """A text stream that knows one letter."""

    def push(self, token: int) -> TextDelta:
        return TextDelta("x", "x", stopped=False)

    def finish(self) -> str:
        return ""


def answered(steps: list[tuple[DraftTree, list[int]]], told: list[Event]) -> Sequence:
    """A sequence of the engine after drafts were verified on the target's own tokens."""
    request = GenerationRequest("r", (1,), GenerationConfig())
    choice: Any = Choice(0, DraftMode(("suffix",)), 100, 64, stream=Letters())
    sequence = Sequence(0, request, told.append, choice)
    for tree, target in steps:

        def decide(row: int, path: Any, target: list[int] = target) -> tuple[int, TokenScore]:
            return target[len(path)], TokenScore(-0.1, 0.2)

        verdict = verify(0, tree, SampleThenMatch(decide), sequence.on_token)
        tokens = tuple(tree.tokens.tolist())
        draft = DraftRecord(tokens, tuple(tree.parents.tolist()), (0.5,) * len(tree))
        nodes = tuple(range(len(tree)))
        drafter = "suffix" if nodes else None
        sequence.record(verdict, StepRecord(drafter, draft, nodes, "pays", 0.5, 8.0, 1.0))
    return sequence


def test_counts_the_steps_as_the_engine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(0.0, 0.01)
    monkeypatch.setattr("engine.sequence.perf_counter", lambda: next(clock))
    told: list[Event] = []
    branched = tree_of([2, 3, 4, 5, 6, 7], [-1, -1, 0, 0, 1, 1])
    metrics = answered(
        [
            (DraftTree.empty(), [1]),
            (branched, [2, 5, 9]),  # two accepted and a bonus: no third position was compared
            (branched, [3, 8]),
            (tree_of([2, 3, 4], [-1, 0, 1]), [2, 3, 9]),
            (tree_of([2, 3], [-1, 0]), [9]),
        ],
        told,
    ).metrics
    tally = Tally()
    for event in told:
        assert isinstance(event, StepEvent)
        choice = {"delta": {"content": event.text}, "finish_reason": None}
        delta = parse_chunk({"choices": [choice], "paceline": {"step": event.to_json()}})
        assert delta is not None
        assert delta.step is not None
        tally.add(delta.step)
    figures = tally.figures()
    assert metrics.acceptance_by_position == [3 / 4, 2 / 3, 0.0]
    assert figures.by_position == tuple(metrics.acceptance_by_position)
    assert figures.acceptance == metrics.acceptance_rate
    assert figures.tokens_per_step == metrics.tokens_per_step
    assert figures.rate_tok_s == pytest.approx(metrics.throughput_tok_s)
    assert figures.first_token_s == pytest.approx(metrics.ttft_ms / 1000)
    assert (figures.num_tokens, figures.num_steps) == (
        metrics.num_generated_tokens,
        metrics.num_target_steps,
    )
    assert (figures.num_drafted, figures.num_verified, figures.num_accepted) == (
        metrics.num_draft_tokens,
        metrics.num_verified_tokens,
        metrics.num_accepted_tokens,
    )
    assert (figures.draft_ms, figures.verify_ms, figures.overhead_ms) == (
        metrics.draft_ms,
        metrics.verify_ms,
        metrics.overhead_ms,
    )
