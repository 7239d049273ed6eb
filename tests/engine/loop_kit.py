"""Engines on a table-driven target, for the tests of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.admission import Admission
from engine.budget import Budget, StepCost
from engine.config import BackendKind, CachePrecision, Speculation, resolve
from engine.drafters import DrafterInfo
from engine.drafters.base import Drafter
from engine.drafting import DraftStage
from engine.errors import UnknownDrafterError
from engine.events import FinishedEvent, GenerationRequest, StepEvent
from engine.interface import Engine, stream
from engine.library.folder import read_model_folder
from engine.loop import NativeEngine, Parts
from engine.plan import Plan
from engine.tokens import Tokenizer
from engine.values import Origin
from tests.fakes import TableBackend, TableTarget

VOCAB = 64  # the small model's first ids: special tokens, then punctuation, digits and letters
TARGET = TableTarget(VOCAB, seed=3, spread=2.0)
PROMPT = (20, 40, 30)


class Builder:
    """Makes engines on the table, and sees that each gives everything back."""

    def __init__(self, model: Path, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._model = read_model_folder(model)
        self._built: list[tuple[NativeEngine, TableBackend]] = []

    def __call__(
        self,
        *drafters: Drafter,
        backend: TableBackend | None = None,
        context_length: int | None = 512,
        speculation: Speculation = Speculation.STATIC,
        max_rows: int = 16,
    ) -> tuple[NativeEngine, TableBackend]:
        backend = backend or TableBackend(TARGET, num_top=8)

        def make_drafter(name: str) -> Drafter:
            for drafter in drafters:
                if drafter.name == name:
                    return drafter
            raise UnknownDrafterError(f"There is no drafter called '{name}'.")

        def info_of(name: str) -> DrafterInfo:
            trees = make_drafter(name).needs.trees
            return DrafterInfo("", frozenset({"tree_depth", "branching_factor"} if trees else ()))

        plan = Plan(
            backend=BackendKind.PAGED,
            device="CPU",
            drafter="+".join(drafter.name for drafter in drafters) or "none",
            speculation=speculation,
            cache_precision=CachePrecision.F32,
            cache_bytes=0,
            reasons=(),
        )
        parts = Parts(
            model=self._model,
            plan=plan,
            tokenizer=self.tokenizer,
            model_defaults={},
            backend=backend,
            drafting=DraftStage(Budget(_FLAT_COST), make_drafter, trees=backend.capabilities.trees),
            admission=Admission(
                plan, self.tokenizer, backend.cache, VOCAB, context_length, info_of
            ),
            max_rows=max_rows,
        )
        engine = NativeEngine(parts)
        self._built.append((engine, backend))
        return engine, backend

    def close(self) -> None:
        for engine, backend in self._built:
            engine.close()
            assert backend.closed
            assert not backend.open_sequences


_FLAT_COST = StepCost([1, 16], [10.0, 10.1])


@pytest.fixture(scope="session")
def tokenizer(smollm2: Path) -> Tokenizer:
    return Tokenizer.load(smollm2)


@pytest.fixture
def build(tokenizer: Tokenizer, smollm2: Path) -> Iterator[Builder]:
    builder = Builder(smollm2, tokenizer)
    yield builder
    builder.close()


def request(prompt: Sequence[int] = PROMPT, **options: Any) -> GenerationRequest:
    of_request = {
        name: options.pop(name)
        for name in ("speculation", "drafter", "sampled_rule", "request_id")
        if name in options
    }
    config = resolve({"max_new_tokens": 40, **options}, {})
    return GenerationRequest(
        of_request.pop("request_id", "request"), tuple(prompt), config, **of_request
    )


def answer(engine: Engine, wanted: GenerationRequest) -> FinishedEvent:
    """The one finished choice; checks that the events agree with each other."""
    steps: list[StepEvent] = []
    for event in stream(engine, wanted):
        if isinstance(event, FinishedEvent):
            check_agreement(steps, event)
            return event
        assert isinstance(event, StepEvent)
        steps.append(event)
    raise AssertionError("no terminal event")


def check_agreement(steps: list[StepEvent], finished: FinishedEvent) -> None:
    emitted = tuple(token for step in steps for token in step.emitted)
    assert emitted == finished.tokens
    assert tuple(token.token for token in emitted) == finished.token_ids
    assert "".join(step.text for step in steps) + finished.tail == finished.text
    metrics = finished.metrics
    assert metrics.num_generated_tokens == len(emitted)
    assert metrics.num_target_steps == len(steps)
    assert metrics.num_verified_tokens == sum(step.chosen_length for step in steps)
    assert metrics.num_draft_tokens == sum(len(step.draft.tokens) for step in steps)
    accepted = [token for token in emitted if token.origin is Origin.ACCEPTED]
    assert metrics.num_accepted_tokens == len(accepted)
    for step in steps:
        ends = [token.origin for token in step.emitted if token.origin is not Origin.ACCEPTED]
        assert len(ends) <= 1  # one token beside the accepted ones, unless a stop came first
        assert ends or step is steps[-1]


def greedy_walk(length: int, prompt: Sequence[int] = PROMPT) -> tuple[int, ...]:
    tokens = list(prompt)
    for _ in range(length):
        tokens.append(TARGET.likeliest(tokens))
    return tuple(tokens[len(prompt) :])
