"""The draft stage of a step: drafters propose, the budget decides what is worth verifying.

Between the loop, which knows sequences, and the drafters and the budget, which know tokens and
numbers. A sequence that does not draft costs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from engine.budget import Budget, Candidate, Drafting, Outcome, StepTiming
from engine.drafters import create_drafter
from engine.drafters.base import NO_LIMIT, DraftContext, Drafter, DraftLimit, PrefillChunk
from engine.sequence import Sequence as Answer
from engine.values import DraftTree, FloatArray, IntArray, SeqId, Verdict

MakeDrafter = Callable[[str], Drafter | None]
"""A drafter by its name; raises `UnknownDrafterError`."""

_EMPTY = DraftTree.empty()


@dataclass(frozen=True, slots=True)
class Draft:
    """What one sequence verifies: the ``kept`` nodes (int32, ascending, prefix-closed) of the tree
    that was ``proposed``; ``survival`` float32[n] and ``reason`` are the budget's words on it."""

    proposed: DraftTree
    kept: IntArray
    survival: FloatArray
    reason: str

    @staticmethod
    def none(reason: str) -> Draft:
        """No draft: the step decodes plainly."""
        return Draft(_EMPTY, _EMPTY.tokens, _EMPTY.evidence.reshape(0), reason)

    @property
    def tree(self) -> DraftTree:
        """The tree to verify."""
        if len(self.kept) == len(self.proposed):
            return self.proposed
        return self.proposed.keep(self.kept)

    def dropped(self, reason: str) -> Draft:
        """The same proposal, with nothing of it verified."""
        return Draft(self.proposed, self.kept[:0], self.survival, reason)


@dataclass(frozen=True, slots=True)
class StepShape:
    """The batch before drafts: ``base_rows`` rows in all, ``context_len`` cached tokens behind one
    on average."""

    base_rows: int
    context_len: int


class DraftStage:
    """All drafters in use, and the budget over them. Used from the engine's thread only."""

    def __init__(self, budget: Budget, make: MakeDrafter = create_drafter) -> None:
        self._budget = budget
        self._make = make
        self._drafters: dict[str, Drafter] = {}

    def propose(self, answers: Sequence[Answer], shape: StepShape) -> tuple[list[Draft], float]:
        """A draft for each of ``answers``, and the milliseconds that drafting took."""
        if not any(answer.mode.drafter for answer in answers):
            return [Draft.none("plain: speculation is off") for _ in answers], 0.0
        started = perf_counter()
        trees: dict[SeqId, DraftTree] = {}
        for name in {answer.mode.drafter for answer in answers} - {None}:
            assert name is not None
            mine = [answer for answer in answers if answer.mode.drafter == name]
            trees.update(self._propose_by(name, mine, shape))
        draft_ms = 1000.0 * (perf_counter() - started)
        candidates = [
            Candidate(
                answer.seq,
                answer.mode.drafter or "",
                trees.get(answer.seq, _EMPTY),
                is_fixed=answer.mode.fixed_length is not None,
            )
            for answer in answers
        ]
        choice = self._budget.choose(candidates, shape.base_rows, shape.context_len, draft_ms)
        drafts = [
            Draft(candidate.tree, kept, survival, reason)
            for candidate, kept, survival, reason in zip(
                candidates, choice.kept, choice.survivals, choice.reasons, strict=True
            )
        ]
        return drafts, draft_ms

    def observe(
        self,
        answered: Iterable[tuple[Answer, Draft, Verdict]],
        chunks: Sequence[tuple[Answer, PrefillChunk]],
        timing: StepTiming,
    ) -> None:
        """Let drafters and budget learn what a step read and emitted."""
        outcomes: list[Outcome] = []
        verdicts: dict[str, list[Verdict]] = {}
        for answer, draft, verdict in answered:
            if answer.mode.drafter is not None:
                outcomes.append(Outcome(answer.mode.drafter, draft.proposed, verdict))
                verdicts.setdefault(answer.mode.drafter, []).append(verdict)
        for answer, chunk in chunks:
            if answer.mode.drafter is not None:
                self._drafter(answer.mode.drafter).on_prefill([chunk])
        for name, theirs in verdicts.items():
            self._drafter(name).observe(theirs)
        self._budget.observe(outcomes, timing)

    def release(self, answer: Answer) -> None:
        """Forget a sequence that has ended."""
        self._budget.release(answer.seq)
        if answer.mode.drafter is not None:
            self._drafter(answer.mode.drafter).release(answer.seq)

    def _propose_by(
        self, name: str, answers: Sequence[Answer], shape: StepShape
    ) -> Iterator[tuple[SeqId, DraftTree]]:
        drafter = self._drafter(name)
        fixed = [answer for answer in answers if answer.mode.fixed_length is not None]
        adaptive = [answer for answer in answers if answer.mode.fixed_length is None]
        if fixed:
            yield from _ask(drafter, fixed, None, NO_LIMIT)
        if adaptive:
            limit = self._budget.limit(
                Drafting(
                    drafter=name,
                    model_free=drafter.needs.model_free,
                    num_sequences=len(adaptive),
                    base_rows=shape.base_rows,
                    context_len=shape.context_len,
                )
            )
            if limit.max_tokens:
                yield from _ask(drafter, adaptive, limit.max_tokens, limit.draft)

    def _drafter(self, name: str) -> Drafter:
        if name not in self._drafters:
            drafter = self._make(name)
            assert drafter is not None, "a sequence without drafter has None for its name"
            self._drafters[name] = drafter
        return self._drafters[name]


def _ask(
    drafter: Drafter, answers: Sequence[Answer], max_tokens: int | None, limit: DraftLimit
) -> Iterator[tuple[SeqId, DraftTree]]:
    """Trees by sequence; ``max_tokens`` None stands for each sequence's fixed length."""
    contexts: list[DraftContext] = []
    for answer in answers:
        length = answer.mode.fixed_length if max_tokens is None else max_tokens
        assert length is not None
        # The step emits one token beside the accepted ones.
        length = min(length, answer.num_left - 1)
        if length > 0:
            contexts.append(
                DraftContext(answer.seq, answer.request.config, answer.num_tokens, length)
            )
    trees = drafter.propose(contexts, limit)
    yield from zip((context.seq for context in contexts), trees, strict=True)
