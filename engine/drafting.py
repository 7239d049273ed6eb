"""The draft stage of a step: drafters propose, the budget decides what is worth verifying.

Between the loop, which knows sequences, and the drafters and the budget, which know tokens and
numbers. A sequence that does not draft costs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from engine.budget import Budget, Candidate, Drafting, Outcome, StepTiming
from engine.drafters import create_drafter
from engine.drafters.base import NO_LIMIT, DraftContext, Drafter, DraftLimit, PrefillChunk
from engine.sequence import Sequence as Answer
from engine.values import ROOT, DraftTree, FloatArray, IntArray, SeqId, Verdict

MakeDrafter = Callable[[str], Drafter]
"""A drafter by its name; raises `UnknownDrafterError`."""

_EMPTY = DraftTree.empty()


@dataclass(frozen=True, slots=True)
class Draft:
    """What one sequence verifies: the ``kept`` nodes (int32, ascending, prefix-closed) of the tree
    that ``drafter`` has ``proposed``; ``survival`` float32[n] and ``reason`` are the budget's words
    on it. ``others`` are drafts that promised less, by drafter."""

    drafter: str | None
    proposed: DraftTree
    kept: IntArray
    survival: FloatArray
    reason: str
    others: tuple[tuple[str, DraftTree], ...] = ()

    @staticmethod
    def none(reason: str) -> Draft:
        """No draft: the step decodes plainly."""
        return Draft(None, _EMPTY, _EMPTY.tokens, _EMPTY.evidence.reshape(0), reason)

    @property
    def tree(self) -> DraftTree:
        """The tree to verify."""
        if len(self.kept) == len(self.proposed):
            return self.proposed
        return self.proposed.keep(self.kept)

    def dropped(self, reason: str) -> Draft:
        """The same proposal, with nothing of it verified."""
        return replace(self, kept=self.kept[:0], reason=reason)


@dataclass(frozen=True, slots=True)
class StepShape:
    """The batch before drafts: ``base_rows`` rows in all, ``context_len`` cached tokens behind one
    on average."""

    base_rows: int
    context_len: int


class DraftStage:
    """All drafters in use, and the budget over them. Used from the engine's thread only."""

    def __init__(
        self, budget: Budget, make: MakeDrafter = create_drafter, *, trees: bool = False
    ) -> None:
        """``trees``: whether the target's backend can verify drafts that branch."""
        self._budget = budget
        self._trees = trees
        self._make = make
        self._drafters: dict[str, Drafter] = {}

    def propose(self, answers: Sequence[Answer], shape: StepShape) -> tuple[list[Draft], float]:
        """A draft for each of ``answers``, and the milliseconds that drafting took."""
        names = {name: None for answer in answers for name in answer.mode.drafters}
        if not names:
            return [Draft.none(answer.mode.reason) for answer in answers], 0.0
        started = perf_counter()
        offers: dict[SeqId, list[Candidate]] = {answer.seq: [] for answer in answers}
        resting: list[str] = []
        for name in names:
            mine = [answer for answer in answers if name in answer.mode.drafters]
            for answer, tree in self._propose_by(name, mine, shape, resting):
                tree = _within_structure(answer, tree)
                if len(tree):
                    offers[answer.seq].append(_candidate(answer, name, tree))
        draft_ms = 1000.0 * (perf_counter() - started)
        candidates = [
            self._budget.prefer(offers[answer.seq], shape.base_rows, shape.context_len)
            if offers[answer.seq]
            else Candidate(answer.seq, None, _EMPTY)
            for answer in answers
        ]
        choice = self._budget.choose(candidates, shape.base_rows, shape.context_len, draft_ms)
        drafts: list[Draft] = []
        for index, (answer, taken) in enumerate(zip(answers, candidates, strict=True)):
            others = [(each.drafter, each.tree) for each in offers[answer.seq] if each is not taken]
            drafts.append(
                Draft(
                    drafter=taken.drafter,
                    proposed=taken.tree,
                    kept=choice.kept[index],
                    survival=choice.survivals[index],
                    reason=choice.reasons[index] if taken.drafter else _why_plain(answer, resting),
                    others=tuple((name, tree) for name, tree in others if name is not None),
                )
            )
        return drafts, draft_ms

    def observe(
        self,
        answered: Iterable[tuple[Answer, Draft, Verdict]],
        chunks: Sequence[tuple[Answer, PrefillChunk]],
        timing: StepTiming,
    ) -> None:
        """Let drafters and budget learn what a step read and emitted. A draft that was not taken
        teaches as well: what was emitted says whether it was right."""
        outcomes: list[Outcome] = []
        verdicts: dict[str, list[Verdict]] = {}
        for answer, draft, verdict in answered:
            drafts = draft.others
            if draft.drafter is not None:
                drafts = ((draft.drafter, draft.proposed), *drafts)
            outcomes += [
                Outcome(name, tree, verdict, sampled=_is_sampled(answer, tree))
                for name, tree in drafts
            ]
            for name in answer.mode.drafters:
                verdicts.setdefault(name, []).append(verdict)
        for answer, chunk in chunks:
            for name in answer.mode.drafters:
                self._drafter(name).on_prefill([chunk])
        for name, theirs in verdicts.items():
            self._drafter(name).observe(theirs)
        self._budget.observe(outcomes, timing)

    def forget(self) -> None:
        """Forget what earlier answers taught the drafters; for when no sequence is open."""
        self._drafters.clear()

    def release(self, answer: Answer) -> None:
        """Forget a sequence that has ended."""
        self._budget.release(answer.seq)
        for name in answer.mode.drafters:
            if name in self._drafters:
                self._drafters[name].release(answer.seq)

    def _propose_by(
        self, name: str, answers: Sequence[Answer], shape: StepShape, resting: list[str]
    ) -> Iterator[tuple[Answer, DraftTree]]:
        drafter = self._drafter(name)
        fixed = [answer for answer in answers if answer.mode.fixed_length is not None]
        adaptive = [answer for answer in answers if answer.mode.fixed_length is None]
        if fixed:
            yield from self._ask(drafter, fixed, None, NO_LIMIT)
        for sampled in (False, True):
            mine = [answer for answer in adaptive if _samples(drafter, answer) is sampled]
            if not mine:
                continue
            limit = self._budget.limit(
                Drafting(
                    drafter=name,
                    model_free=drafter.needs.model_free,
                    num_sequences=len(mine),
                    base_rows=shape.base_rows,
                    context_len=shape.context_len,
                    sampled=sampled,
                )
            )
            if limit.max_tokens:
                yield from self._ask(drafter, mine, limit.max_tokens, limit.draft)
            else:
                resting.append(limit.reason)

    def _ask(
        self, drafter: Drafter, answers: Sequence[Answer], max_tokens: int | None, limit: DraftLimit
    ) -> Iterator[tuple[Answer, DraftTree]]:
        """Trees by answer; ``max_tokens`` None stands for each answer's fixed length."""
        asked: list[Answer] = []
        contexts: list[DraftContext] = []
        for answer in answers:
            length = answer.mode.fixed_length if max_tokens is None else max_tokens
            assert length is not None
            # The step emits one token beside the accepted ones.
            length = min(length, answer.num_left - 1)
            if length > 0:
                asked.append(answer)
                contexts.append(
                    DraftContext(
                        answer.seq,
                        answer.request.config,
                        answer.num_tokens,
                        length,
                        trees=self._trees,
                        noise=answer.sampling.noise if _samples(drafter, answer) else None,
                    )
                )
        trees = drafter.propose(contexts, limit)
        yield from zip(asked, trees, strict=True)

    def _drafter(self, name: str) -> Drafter:
        if name not in self._drafters:
            self._drafters[name] = self._make(name)
        return self._drafters[name]


def _candidate(answer: Answer, drafter: str, tree: DraftTree) -> Candidate:
    is_fixed = answer.mode.fixed_length is not None
    return Candidate(
        answer.seq, drafter, tree, is_fixed=is_fixed, sampled=_is_sampled(answer, tree)
    )


def _why_plain(answer: Answer, resting: Sequence[str]) -> str:
    """Why ``answer`` has no draft in this step."""
    if answer.mode.reason:
        return answer.mode.reason
    if answer.num_left <= 1:
        return "plain: only one token is left"
    return resting[0] if resting else "plain: there is no draft"


def _is_sampled(answer: Answer, tree: DraftTree) -> bool:
    return answer.mode.by_rejection and tree.proposal is not None


def _samples(drafter: Drafter, answer: Answer) -> bool:
    """Whether ``drafter`` draws its tokens for ``answer``: matching has no use for a proposal."""
    return answer.mode.by_rejection and drafter.needs.samples


def _within_structure(answer: Answer, tree: DraftTree) -> DraftTree:
    """``tree`` without the nodes that the structure of ``answer`` forbids.

    They would be rejected anyway, so it saves rows and changes no answer. A token that was drawn
    from a proposal stays and is rejected: the residual takes account of it.
    """
    constraint = answer.sampling.constraint
    if constraint is None or _is_sampled(answer, tree):
        return tree
    paths: dict[int, tuple[int, ...]] = {ROOT: ()}
    nodes = zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True)
    for node, (token, parent) in enumerate(nodes):
        path = paths.get(parent)
        if path is not None and constraint.admits(path, token):
            paths[node] = (*path, token)
    del paths[ROOT]
    return tree if len(paths) == len(tree) else tree.keep(np.array([*paths], np.int32))
