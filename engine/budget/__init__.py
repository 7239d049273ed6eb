"""The budget: how far to draft, and which draft tokens are worth verifying. Never a loss by design.

The loop asks in each step, and reports once; all values are plain numbers and arrays::

    limit = budget.limit(Drafting(drafter.name, model_free, num_sequences, base_rows, context_len))
    trees = drafter.propose(..., limit.draft)        # with context.max_tokens <= limit.max_tokens
    candidate = budget.prefer(candidates_of_one, base_rows, context_len)   # of several drafters
    choice = budget.choose(candidates, base_rows, context_len, draft_ms)
    ...verify tree.keep(choice.kept[i]) of each candidate...
    budget.observe(outcomes, StepTiming(rows, context_len, verify_ms, draft_ms, contains_prefill))

``base_rows`` are the rows that the batch has without any draft token: the pending token of each
sequence that decodes, and prefill rows. ``candidates`` are *all* sequences that decode in this
step, those without a draft too (an empty tree), since each of them emits a token. ``context_len``
is the mean number of cached tokens behind a row. ``observe`` wants the whole tree that was
proposed, not the kept part.

Parts: ``cost`` (what rows cost), ``evidence`` and ``survival`` (what a draft token is likely to
become), ``fate`` (what became of it), ``choose`` (the arithmetic between them), ``drafting``
(whether to draft at all), ``store`` (what stays between runs). None of them knows a model, a
device or a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.budget.choose import Selection, best_rate, select
from engine.budget.cost import PROFILE_ROWS, LongContext, Milliseconds, StepCost, profile
from engine.budget.drafting import DraftingRecord
from engine.budget.evidence import sampled
from engine.budget.store import ProfileKey, ProfileStore
from engine.budget.survival import Survival
from engine.drafters.base import DraftLimit
from engine.values import DraftTree, FloatArray, IntArray, SeqId, Verdict

__all__ = [
    "MAX_DRAFT_TOKENS",
    "Budget",
    "Candidate",
    "Choice",
    "Drafting",
    "Limit",
    "LongContext",
    "Outcome",
    "ProfileKey",
    "ProfileStore",
    "StepCost",
    "StepTiming",
    "load_budget",
    "profile",
]

log = logging.getLogger(__name__)

MAX_DRAFT_TOKENS = 16
"""Most tokens that an adaptive draft may have."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """A drafter that could draft now, for ``num_sequences`` sequences; ``sampled`` as in
    `Candidate`, the rest as in the module."""

    drafter: str
    model_free: bool
    num_sequences: int
    base_rows: int
    context_len: int
    sampled: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """``max_tokens`` 0: do not draft in this step, for the ``reason`` given."""

    max_tokens: int
    draft: DraftLimit
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One decoding sequence and a draft for it; ``drafter`` is None where there is none.
    ``is_fixed``: the user set the length, so all is verified. ``sampled``: the tokens were drawn,
    and rejection verifies them, so that the choice must not look at them (``survival`` says
    why)."""

    seq: SeqId
    drafter: str | None
    tree: DraftTree
    is_fixed: bool = False
    sampled: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Per candidate: the nodes to verify (int32, ascending, prefix-closed), the survival of each
    node of its tree (float32[n]), and a sentence for people."""

    kept: tuple[IntArray, ...]
    survivals: tuple[FloatArray, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one candidate's draft met with; ``tree`` is the whole proposal, ``sampled`` as in
    `Candidate`."""

    drafter: str
    tree: DraftTree
    verdict: Verdict
    sampled: bool = False


@dataclass(frozen=True, slots=True)
class StepTiming:
    """The step as it ran: ``rows`` in all, the drafted ones included; times in milliseconds."""

    rows: int
    context_len: int
    verify_ms: float
    draft_ms: float
    contains_prefill: bool


class Budget:
    """One engine's budget. Used from the engine's thread only."""

    def __init__(self, cost: StepCost, survival: Survival | None = None) -> None:
        self._cost = cost
        self._survival = survival or Survival()
        self._records: dict[str, DraftingRecord] = {}

    def limit(self, drafting: Drafting) -> Limit:
        """How far to draft; asked once per drafter and step.

        A drafter that costs time rests while it has not paid for a while, and drafts no deeper than
        could still pay. A model-free drafter always drafts: that is how one notices that a passage
        is being copied.
        """
        num = max(1, drafting.num_sequences)
        step_ms = self._cost.curve(drafting.base_rows, MAX_DRAFT_TOKENS * num, drafting.context_len)
        depth = max(1, _useful_depth(step_ms, num))
        if drafting.model_free:
            return Limit(depth, DraftLimit(may_continue=lambda _depth, _evidence: True))
        name = _known_as(drafting.drafter, drafting.sampled)
        record = self._record(name)
        if not record.consider(step_ms, num):
            pause = record.steps_to_rest + 1
            reason = f"plain: drafting has not paid lately, next try in {pause} steps"
            return Limit(0, DraftLimit(may_continue=lambda _depth, _evidence: False), reason)
        return Limit(
            depth,
            self._stop_early(name, record, step_ms, num),
        )

    def prefer(
        self, candidates: Sequence[Candidate], base_rows: int, context_len: int
    ) -> Candidate:
        """Of several drafts for one sequence, the one that promises most tokens per millisecond if
        it is verified as far as it pays; of equal ones the first. All were drafted already, so what
        drafting cost does not matter any more."""
        if len(candidates) == 1:
            return candidates[0]
        longest = max(len(candidate.tree) for candidate in candidates)
        step_ms = self._cost.curve(base_rows, longest, context_len)

        def promise(candidate: Candidate) -> float:
            survival = self._estimate(candidate)
            return best_rate(survival, step_ms, all_of_it=candidate.is_fixed)

        return max(candidates, key=promise)

    def choose(
        self,
        candidates: Sequence[Candidate],
        base_rows: int,
        context_len: int,
        draft_ms: float = 0.0,
    ) -> Choice:
        """The draft tokens worth verifying; ``draft_ms`` is what drafting took in this step."""
        survivals = tuple(self._estimate(candidate) for candidate in candidates)
        fixed = [i for i, candidate in enumerate(candidates) if candidate.is_fixed]
        open_survivals = [
            survival[:0] if candidate.is_fixed else survival
            for candidate, survival in zip(candidates, survivals, strict=True)
        ]
        rows = base_rows + sum(len(candidates[i].tree) for i in fixed)
        tokens = len(candidates) + sum(float(survivals[i].sum()) for i in fixed)
        num_nodes = sum(len(survival) for survival in open_survivals)
        step_ms = self._cost.curve(rows, num_nodes, context_len)
        selection = select(open_survivals, step_ms, tokens, draft_ms)
        kept = tuple(
            np.arange(len(candidate.tree), dtype=np.int32) if candidate.is_fixed else nodes
            for candidate, nodes in zip(candidates, selection.kept, strict=True)
        )
        reasons = tuple(
            _reason(candidate, survival, nodes, selection)
            for candidate, survival, nodes in zip(candidates, survivals, kept, strict=True)
        )
        return Choice(kept, survivals, reasons)

    def observe(self, outcomes: Sequence[Outcome], timing: StepTiming) -> None:
        """Learn from a step: what became of each draft, and what the step cost."""
        for outcome in outcomes:
            name = _known_as(outcome.drafter, outcome.sampled)
            self._survival.observe(name, outcome.tree, outcome.verdict)
            if name in self._records:
                self._records[name].observe(outcome.tree, outcome.verdict)
        self._observe_draft_cost(outcomes, timing.draft_ms)
        if not timing.contains_prefill:
            is_plain = all(not outcome.verdict.num_verified for outcome in outcomes)
            self._cost.observe(timing.rows, timing.context_len, timing.verify_ms, is_plain=is_plain)

    def release(self, seq: SeqId) -> None:
        """Forget the sequence; unknown sequences are ignored."""
        self._survival.release(seq)

    def to_json(self) -> dict[str, Any]:
        """What is worth keeping between runs."""
        return {"cost": self._cost.to_json(), "survival": self._survival.to_json()}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Budget:
        """The inverse of ``to_json``.

        Raises:
            KeyError, TypeError, ValueError: the data is not what ``to_json`` writes.
        """
        cost = StepCost.from_json(data["cost"])
        return Budget(cost, Survival.from_json(data["survival"]))

    def _estimate(self, candidate: Candidate) -> FloatArray:
        if candidate.drafter is None:
            return np.empty(0, np.float32)
        name = _known_as(candidate.drafter, candidate.sampled)
        return self._survival.estimate(name, candidate.seq, candidate.tree)

    def _record(self, drafter: str) -> DraftingRecord:
        if drafter not in self._records:
            self._records[drafter] = DraftingRecord(MAX_DRAFT_TOKENS)
        return self._records[drafter]

    def _stop_early(
        self, drafter: str, record: DraftingRecord, step_ms: Milliseconds, num_sequences: int
    ) -> DraftLimit:
        """Go on while one more token per sequence could still earn its drafting and its row."""
        means = record.mean_survivals()
        rows = np.arange(1, len(step_ms))
        cheapest_row = float(np.min((step_ms[1:] - step_ms[0]) / rows))
        price = (record.ms_per_depth + cheapest_row * num_sequences) / float(step_ms[0])

        def may_continue(depth: int, evidence: FloatArray) -> bool:
            if depth >= len(means):
                return False
            before = float(means[depth - 2]) if depth > 1 else 1.0
            here = before * self._survival.conditional(drafter, depth, evidence)
            return here * float(means[depth] / means[depth - 1]) >= price

        return DraftLimit(may_continue)

    def _observe_draft_cost(self, outcomes: Sequence[Outcome], draft_ms: float) -> None:
        """Only when one drafter alone was at work is it known whose time it was."""
        drafted = [outcome for outcome in outcomes if len(outcome.tree)]
        names = {_known_as(outcome.drafter, outcome.sampled) for outcome in drafted}
        if len(names) == 1 and (record := self._records.get(names.pop())) is not None:
            depth = max(int(outcome.tree.depths().max()) for outcome in drafted)
            record.observe_cost(draft_ms, depth)


def load_budget(
    store: ProfileStore | None,
    key: ProfileKey,
    run: Callable[[int], float],
    *,
    max_rows: int = PROFILE_ROWS[-1],
    budget_s: float = 2.0,
    long_context: LongContext | None = None,
) -> Budget:
    """The budget as the store remembers it; else profiled now and saved. Arguments as in
    ``profile``."""
    saved = store.load(key) if store else None
    if saved is not None:
        try:
            return Budget.from_json(saved)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("Ignoring a stored profile of %s: %r", key.model, error)
    budget = Budget(profile(run, budget_s, max_rows=max_rows, long_context=long_context))
    if store:
        store.save(key, budget.to_json())
    return budget


def _known_as(drafter: str, draws: bool) -> str:
    """The name under which the budget learns about a drafter, which draws or does not."""
    return sampled(drafter) if draws else drafter


def _useful_depth(step_ms: Milliseconds, num_sequences: int) -> int:
    """The depth beyond which not even a perfect draft would pay."""
    depths = np.arange(MAX_DRAFT_TOKENS + 1)
    return int(((1.0 + depths) / step_ms[depths * num_sequences]).argmax())


def _reason(
    candidate: Candidate, survival: FloatArray, nodes: IntArray, selection: Selection
) -> str:
    size = len(candidate.tree)
    if not size:
        return "plain: there is no draft"
    if candidate.is_fixed:
        return f"verifying all {size}: the length is fixed"
    if not len(nodes):
        return "plain: the draft would cost more than it saves"
    tokens = 1.0 + float(survival[nodes].sum())
    return (
        f"verifying {len(nodes)} of {size}: {tokens:.1f} tokens expected "
        f"for {selection.cost_ratio:.1f}x the cost"
    )
