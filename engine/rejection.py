"""The acceptance rule for drafts that are drawn: accept with min(1, p/q), else draw what is left.

A drafter that draws its token ``x`` from a distribution ``q`` lets more of it be kept than matching
does. The target keeps ``x`` with probability ``min(1, p(x) / q(x))``, where ``p`` is its own
distribution after all processors and filters, in the context of the path; if it does not, it draws
from ``norm(max(p - q, 0))``. Either way the token has the law ``p``:

    P(y) = q(y) min(1, p(y)/q(y)) + P(rejected) (p(y) - q(y))+ / P(rejected)
         = min(p(y), q(y)) + (p(y) - q(y))+ = p(y)

(Leviathan, Kalman and Matias 2023; Chen et al. 2023.) Siblings are tried in order, each against
what the ones before it have left: the residual takes the place of ``p`` (SpecInfer, Miao et al.
2023). That holds for siblings drawn independently and for siblings drawn without replacement, as
long as each comes with the distribution that it was drawn from, given the ones before it. A
deterministic token is drawn from a distribution that has no other: it is kept with ``p(x)``, and
what is left is ``p`` without ``x``.

Unlike with `verify.SampleThenMatch`, the answer depends on the draft; only its law does not. All
noise is looked up (`engine.noise`), so that an answer repeats with the same seed and the same
drafts. The law is the target's only if the token that is tested was really a draw from ``q``: its
noise must be its own (`Lane.DRAFT`), and whether it is tested at all must not have depended on it
(`engine.budget.survival`).

Pure: no model, no cache, and no state of the sequence is touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.noise import RESIDUAL_LANES, Float64Array, IdArray, Lane, NoiseStream
from engine.sampling import Distribution, SamplingState
from engine.sampling.distribution import Tail
from engine.values import TokenScore
from engine.verify import Candidates, Decision

NEGLIGIBLE = 1e-8
"""A residual with no more of the law than this is rounding: ``q`` comes in single precision, and so
does the weight of the tail. Normalised, it would turn noise into the law; so ``p`` is taken. It
errs on no more than this share of the draws, because a rejection is as likely as the residual is
heavy."""


class Target(Protocol):
    """The target's word on the rows of one sequence; `sampling.TokenDecider` gives it."""

    def distribution(self, row: int, path: Sequence[int]) -> Distribution:
        """The law of the token after ``row``, whose context ends with ``path``."""
        ...

    def score(self, row: int, token: int) -> TokenScore:
        """What is reported of ``token`` after ``row``."""
        ...


@dataclass(frozen=True, slots=True)
class RejectionSampling:
    """`verify.AcceptanceRule` for sampled requests. ``state`` gives place and noise."""

    target: Target
    state: SamplingState

    def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
        """The first candidate that passes its test, or a draw from what they have left."""
        position = self.state.position(path)
        noise = self.state.noise
        law = self.target.distribution(row, path)
        if not candidates.tokens:
            return self._decision(row, None, law.draw(noise, position))
        residual = Residual(law)
        for child, token in enumerate(candidates.tokens):
            ids, probs = _proposal(candidates, child)
            q = float(probs[ids == token].sum())
            assert q > 0.0, "a draft token that its own proposal rules out"
            if noise.level(position, child, Lane.ACCEPT) * q < residual.prob(token):
                return self._decision(row, child, token)
            residual.subtract(ids, probs)
        return self._decision(row, None, residual.draw(noise, position))

    def _decision(self, row: int, child: int | None, token: int) -> Decision:
        return Decision(child, token, self.target.score(row, token))


def _proposal(candidates: Candidates, child: int) -> tuple[IdArray, Float64Array]:
    """Distinct ids int[k] and the probabilities float64[k], none of them 0, that they had."""
    proposal = candidates.proposal
    if proposal is None:
        return np.array([candidates.tokens[child]]), np.ones(1)
    probs = proposal.probs[child].astype(np.float64)
    possible = probs > 0.0
    return proposal.ids[child][possible], probs[possible]


class Residual:
    """The target's law at one place, less what rejected candidates had a right to.

    Weights as in `Distribution`: any scale, a few tokens by name and the rest as one group. The
    scale stays that of the law, and the total shrinks; nothing needs to be normalised but the
    probability that is asked for. Only a proposal that reaches into the group needs the whole
    row: its tokens are taken out of the group and listed.
    """

    def __init__(self, law: Distribution) -> None:
        self._ids = law.ids
        self._weights = np.exp(law.log_weights)
        self._tail = law.tail
        self._outside = 0.0 if law.tail is None else math.exp(law.tail.log_weight)
        self._total = self._sum()

    def prob(self, token: int) -> float:
        """The chance that ``token`` has in a draw from what is left."""
        column = int((self._ids == token).argmax())
        if self._ids[column] != token:
            if self._outside == 0.0:
                return 0.0
            self._list(np.array([token]))
            column = -1
        weight = float(self._weights[column])
        return weight / self._total if weight > 0.0 else 0.0

    def subtract(self, ids: IdArray, probs: Float64Array) -> None:
        """A token drawn from ``probs`` float64[k] of the distinct ``ids`` int[k] was rejected."""
        columns = self._columns(ids)
        possible = columns >= 0
        columns = columns[possible]
        before = self._weights
        self._weights = before.copy()
        self._weights[columns] -= probs[possible] * self._total
        np.maximum(self._weights, 0.0, out=self._weights)
        left = self._sum()
        if left <= NEGLIGIBLE * self._total:
            self._weights = before
        else:
            self._total = left

    def draw(self, noise: NoiseStream, position: int) -> int:
        """A token of what is left, with noise of its own."""
        with np.errstate(divide="ignore"):  # nothing may be left of a token
            log_weights = np.log(self._weights)
        tail = self._tail
        if tail is not None:
            tail = Tail(math.log(self._outside), tail.row) if self._outside > 0.0 else None
        return Distribution(self._ids, log_weights, tail).draw(noise, position, RESIDUAL_LANES)

    def _sum(self) -> float:
        return float(self._weights.sum()) + self._outside

    def _columns(self, ids: IdArray) -> IdArray:
        """Where ``ids`` are listed, int[k]; those of the tail are from now on, and -1 stands for
        those that cannot come."""
        columns = _find(ids, self._ids)
        if self._outside > 0.0 and (columns < 0).any():
            self._list(ids[columns < 0])
            columns = _find(ids, self._ids)
        return columns

    def _list(self, ids: IdArray) -> None:
        """Take tokens out of the tail."""
        assert self._tail is not None
        row = self._tail.row()
        self._ids = np.concatenate((self._ids, ids))
        self._weights = np.concatenate((self._weights, np.exp(row[ids])))
        row[self._ids] = -np.inf
        self._outside = float(np.exp(row).sum())  # a difference could not tell little from nothing
        self._total = self._sum()


def _find(ids: IdArray, listed: IdArray) -> IdArray:
    """The place of each of ``ids`` int[k] in ``listed`` int[n] with n > 0, -1 if it has none."""
    order = listed.argsort()
    columns = order[np.minimum(listed.searchsorted(ids, sorter=order), len(listed) - 1)]
    return np.where(listed[columns] == ids, columns, -1)
