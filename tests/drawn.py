"""Drafts that are drawn: proposals over a table target, trees drawn from them, a drafter."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.drafters.base import DraftContext, DraftLimit, Needs
from engine.noise import Float64Array, Lane, NoiseStream
from engine.values import ROOT, DraftTree, FloatArray, IntArray, Proposal
from tests.fakes import ScriptedDrafter, TableTarget

Shape = Callable[[Sequence[int], int], Sequence[int]]
"""``shape(tokens, max_tokens)``: the parents of the nodes to draw after ``tokens``."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What one node is drawn from: a row of the proposal, and the same for `bisect`."""

    ids: IntArray
    probs: FloatArray
    tokens: list[int]
    chances: list[float]
    sums: list[float]


class Proposals:
    """The law of a draft model that has learnt something of ``target``: near it, and not it.

    ``without_replacement``: siblings are drawn from what the ones before them left, else from the
    same law. The least likely token is never proposed, and one column is padding.
    """

    def __init__(
        self, target: TableTarget, *, without_replacement: bool = False, likeness: float = 0.6
    ) -> None:
        self._target = target
        self._other = TableTarget(target.vocab_size, seed=99)
        self._without_replacement = without_replacement
        self._likeness = likeness
        self._known: dict[tuple[int, ...], _Row] = {}

    def draw(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        noise: NoiseStream,
        lane: Lane = Lane.DRAFT,
    ) -> DraftTree:
        """Nodes that follow each other as ``parents`` say, behind ``tokens``. The noise of node
        ``i`` is entry ``i`` at the position of the first drafted token."""
        drawn: list[int] = []
        rows: list[_Row] = []
        paths: list[tuple[int, ...]] = []
        chances: list[float] = []
        for node, parent in enumerate(parents):
            path = () if parent == ROOT else paths[parent]
            before = [drawn[other] for other in range(node) if parents[other] == parent]
            row = self._row([*tokens, *path][-2:], before)
            level = noise.level(len(tokens), node, lane)
            place = min(bisect(row.sums, level), len(row.sums) - 1)
            drawn.append(row.tokens[place])
            chances.append(row.chances[place])
            rows.append(row)
            paths.append((*path, drawn[-1]))
        proposal = Proposal(np.array([row.ids for row in rows]), np.array([r.probs for r in rows]))
        # What the drafter thinks of the very token that it drew: what nobody may look at.
        evidence = np.array(chances, np.float32)[:, None]
        return DraftTree(np.array(drawn, np.int32), np.array(parents, np.int32), evidence, proposal)

    def _row(self, context: Sequence[int], before: Sequence[int]) -> _Row:
        ruled_out = sorted(before) if self._without_replacement else []
        key = (*context, -1, *ruled_out)
        if key not in self._known:
            probs = self._probs(context)
            probs[ruled_out] = 0.0
            ids = (-probs).argsort()[: len(probs) - 1 - len(ruled_out)].astype(np.int32)
            chances = probs[ids] / probs[ids].sum()
            padding = (0, len(probs) - len(ids))  # all rows as wide as the vocabulary
            self._known[key] = _Row(
                np.pad(ids, padding),
                np.pad(chances, padding).astype(np.float32),
                ids.tolist(),
                chances.tolist(),
                chances.cumsum().tolist(),
            )
        return self._known[key]

    def _probs(self, context: Sequence[int]) -> Float64Array:
        mixed = self._likeness * self._target.logits(context).astype(np.float64)
        mixed += (1.0 - self._likeness) * self._other.logits(context)
        probs = np.exp(mixed - mixed.max())
        return probs / probs.sum()


class DrawnDrafter(ScriptedDrafter):
    """Draws trees of a ``shape`` from ``proposals`` where it may, and drafts nothing elsewhere."""

    def __init__(self, proposals: Proposals, shape: Shape, *, name: str = "drawn") -> None:
        super().__init__(lambda tokens, limit: DraftTree.empty(), name=name)
        self._proposals = proposals
        self._shape = shape

    @property
    def needs(self) -> Needs:
        return Needs(trees=True, samples=True, model_free=True)

    def propose(self, contexts: Sequence[DraftContext], limit: DraftLimit) -> list[DraftTree]:
        trees = super().propose(contexts, limit)
        for place, context in enumerate(contexts):
            if context.noise is not None:
                tokens = self.tokens[context.seq]
                parents = self._shape(tokens, context.max_tokens)
                trees[place] = self._proposals.draw(tokens, parents, context.noise)
        return trees
