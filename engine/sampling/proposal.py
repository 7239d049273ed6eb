"""The token that a draft model proposes after one row, and how sure it is of it.

A draft may be any token, so that nothing here has to be exact but one thing: where tokens are
drawn, the proposal that is handed out is the very distribution of the draw. That makes it simple:
the K largest scores are all there is, as if the vocabulary had no other tokens. Processors and
filters of the request act on them as they act on the target's, so that the draft looks for what
the target will say under the same penalties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.noise import DrawLanes, Float64Array, IdArray, Lane, NoiseStream
from engine.sampling.distribution import Filters, Ranking
from engine.sampling.state import SamplingState
from engine.values import FloatArray, IntArray, Proposal, Scores

EVIDENCE_COLUMNS = ("margin", "log_odds", "entropy")
"""Of a draft model's distribution at temperature one: the logit of a token over the best other
one, the log-odds of its probability, and the entropy in nats. The token is the likeliest one, and
never the one that was drawn; of a runner-up it is the runner-up, whose margin is below zero."""

MAX_MARGIN = 40.0
"""A larger margin says no more than this one."""
MAX_LOG_ODDS = 16.0
"""About where single precision cannot tell a probability from one."""

_DRAFT_LANES = DrawLanes(Lane.DRAFT, Lane.DRAFT, Lane.DRAFT)
"""The last two are never used: there is no tail."""


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The second-best token of a row, its probability, and its own evidence."""

    token: int
    probability: float
    evidence: FloatArray


@dataclass(frozen=True, slots=True)
class ProposedToken:
    """``token``, and what is known of the distribution that it comes from.

    ``ids`` int[k] and ``probs`` float64[k] are that distribution where the token was drawn, else
    None. ``confidence`` is the largest probability of the draw, or of the model itself where
    nothing was drawn. ``evidence`` has the columns `EVIDENCE_COLUMNS`. Neither knows which token
    was drawn. ``runner_up`` is there only where nothing was drawn.
    """

    token: int
    ids: IdArray | None
    probs: Float64Array | None
    confidence: float
    evidence: FloatArray
    runner_up: RunnerUp | None = None


@dataclass(frozen=True, slots=True)
class DraftSampling:
    """How tokens are proposed for one sequence: its ``state``, and ``noise`` where they are drawn.

    ``vocab_size`` counts the tokens that exist; scores may be padded beyond it.
    """

    state: SamplingState
    noise: NoiseStream | None
    vocab_size: int

    def propose(self, scores: Scores, path: Sequence[int]) -> ProposedToken:
        """What follows the only row of ``scores``, whose context is what ``state`` has committed
        and then ``path``; reads the whole row only if no token of the K largest may come."""
        evidence = _evidence(scores)
        ids, logits = self._ranked(scores, path)
        if self.noise is None:
            confidence = 1.0 / (1.0 + math.exp(-float(evidence[1])))
            second = _runner_up(scores, ids, logits)
            return ProposedToken(int(ids[0]), None, None, confidence, evidence, second)
        config = self.state.config
        log_weights = (logits - logits[0]) * self.state.inverse_temperature
        filters = Filters(len(ids), config.top_k or None, config.min_p, config.top_p)
        law = filters.apply(Ranking(ids, log_weights, len(ids), 0.0), lambda: log_weights)
        assert law is not None
        token = law.draw(self.noise, self.state.position(path), _DRAFT_LANES)
        weights = np.exp(law.log_weights)
        probs = weights / weights.sum()
        return ProposedToken(token, law.ids, probs, float(probs[0]), evidence)

    def _ranked(self, scores: Scores, path: Sequence[int]) -> tuple[IdArray, Float64Array]:
        """Tokens that may come, best first, and their processed logits float64[k]; k > 0."""
        ranked = self._processed(scores.ids[0], scores.logits[0], path)
        if len(ranked[0]):
            return ranked
        row = scores.full(0)
        ids, logits = self._processed(np.arange(len(row)), row, path)
        return ids[: scores.ids.shape[1]], logits[: scores.ids.shape[1]]

    def _processed(
        self, ids: IdArray, logits: FloatArray, path: Sequence[int]
    ) -> tuple[IdArray, Float64Array]:
        exist = ids < self.vocab_size
        ids, processed = ids[exist], logits[exist].astype(np.float64)
        if self.state.processes(path):
            processed = self.state.process(processed, ids, path)
        order = np.lexsort((ids, -processed))
        order = order[: np.count_nonzero(processed > -np.inf)]
        return ids[order], processed[order]


def proposal_of(tokens: Sequence[ProposedToken]) -> Proposal | None:
    """The distributions of drawn tokens as rows of one width; None where nothing was drawn."""
    rows = [(token.ids, token.probs) for token in tokens]
    width = max((len(ids) for ids, _ in rows if ids is not None), default=0)
    if not width:
        return None
    all_ids: IntArray = np.zeros((len(rows), width), np.int32)
    all_probs: FloatArray = np.zeros((len(rows), width), np.float32)
    for row, (ids, probs) in enumerate(rows):
        assert ids is not None
        assert probs is not None
        all_ids[row, : len(ids)] = ids
        all_probs[row, : len(ids)] = probs
    return Proposal(all_ids, all_probs)


def _evidence(scores: Scores) -> FloatArray:
    logits = scores.logits[0]
    margin = float(logits[0] - logits[1]) if len(logits) > 1 else MAX_MARGIN
    logprob = float(logits[0] - scores.log_sum_exp[0])
    return _columns(margin, logprob, scores)


def _runner_up(scores: Scores, ids: IdArray, logits: Float64Array) -> RunnerUp | None:
    if len(ids) < 2:
        return None
    logprob = min(float(logits[1] - scores.log_sum_exp[0]), 0.0)
    evidence = _columns(float(logits[1] - logits[0]), logprob, scores)
    return RunnerUp(int(ids[1]), math.exp(logprob), evidence)


def _columns(margin: float, logprob: float, scores: Scores) -> FloatArray:
    rest = -math.expm1(min(logprob, -1e-9))
    log_odds = max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, logprob - math.log(rest)))
    margin = max(-MAX_MARGIN, min(MAX_MARGIN, margin))
    return np.array((margin, log_odds, scores.entropy[0]), np.float32)
