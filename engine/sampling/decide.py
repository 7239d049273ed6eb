"""The target's own next token after each row of a slice, and what is reported of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from engine.noise import Float64Array
from engine.sampling.distribution import (
    Distribution,
    Filters,
    Ranking,
    rank,
    rank_row,
    row_weight,
    weight,
)
from engine.sampling.state import SamplingState
from engine.values import Scores, TokenScore

_GROWTH = 8
"""How much longer each next ranking of a whole row is."""


class TokenDecider:
    """Decides the token that follows a row; a `verify.Decide` bound to the scores of one slice.

    A greedy request gets the largest processed logit (of equal ones the lowest id), a sampled one
    the keyed draw. Row ``j`` is row ``j`` of ``scores``, which must be the newest of their
    backend.
    """

    __slots__ = ("_filters", "_scores", "_state")

    def __init__(self, state: SamplingState, scores: Scores) -> None:
        self._state = state
        self._scores = scores
        config = state.config
        self._filters = Filters(
            vocab_size=state.vocab_size,
            top_k=config.top_k or None,
            min_p=config.min_p,
            top_p=config.top_p,
        )

    def __call__(self, row: int, path: Sequence[int]) -> tuple[int, TokenScore]:
        """The token after ``row``, whose context is the committed tokens and then ``path``."""
        state = self._state
        if state.config.do_sample:
            token = self.distribution(row, path).draw(state.noise, state.position(path))
        elif state.processes(path):
            token = int(next(self._rankings(row, path)).ids[0])
        else:
            token = int(self._scores.ids[row, 0])
        return token, self.score(row, token)

    def distribution(self, row: int, path: Sequence[int]) -> Distribution:
        """The distribution that a sampled request draws from after ``row``."""

        def whole() -> Float64Array:
            return self._whole_row(row, path)

        for ranking in self._rankings(row, path):
            distribution = self._filters.apply(ranking, whole)
            if distribution is not None:
                return distribution
        raise AssertionError("a ranking of the whole row settles every filter")

    def score(self, row: int, token: int) -> TokenScore:
        """What the model itself said of ``token``: no processor, temperature one."""
        scores = self._scores
        log_total = float(scores.log_sum_exp[row])
        ids, logits = scores.ids[row], scores.logits[row]
        column = 0 if ids[0] == token else int((ids == token).argmax())
        logit = float(logits[column] if ids[column] == token else scores.full(row)[token])
        top: tuple[tuple[int, float], ...] = ()
        if num_top := self._state.config.logprobs:
            likeliest = zip(ids[:num_top].tolist(), logits[:num_top].tolist(), strict=True)
            top = tuple((other, _logprob(value, log_total)) for other, value in likeliest)
        return TokenScore(_logprob(logit, log_total), float(scores.entropy[row]), top)

    def _rankings(self, row: int, path: Sequence[int]) -> Iterator[Ranking]:
        """Ever longer rankings of one row, the cheap one first and the whole row last."""
        state = self._state
        length = self._scores.ids.shape[1]
        if not state.processes(path):
            top = self._top(row)
            yield top
            assert top.outside is not None
            log_weights = self._whole_row(row, path)
            total = weight(top.log_weights) + top.outside
            length *= _GROWTH
        else:
            lowered = self._lowered_top(row, path) if state.only_lowers else None
            if lowered is not None:
                yield lowered
            log_weights = self._whole_row(row, path)
            total = row_weight(log_weights)
        while length < state.vocab_size:
            yield rank_row(log_weights, length, total)
            length *= _GROWTH
        yield rank_row(log_weights, state.vocab_size, total)

    def _top(self, row: int) -> Ranking:
        """The K largest as they are."""
        scores, state = self._scores, self._state
        logits = scores.logits[row].astype(np.float64)
        best = float(logits[0])
        log_weights = (logits - best) * state.inverse_temperature
        log_total = float(scores.log_sum_exp_t[row]) - best * state.inverse_temperature
        # No token weighs more than the best, which weighs 1: an error cannot overflow.
        total = math.exp(min(log_total, math.log(state.vocab_size)))
        return rank(scores.ids[row], log_weights, total, state.vocab_size)

    def _lowered_top(self, row: int, path: Sequence[int]) -> Ranking | None:
        """The K largest after processors that raise no logit; None if all fell too far."""
        ids = self._scores.ids[row]
        logits = self._scores.logits[row].astype(np.float64)
        # What is not listed was no larger than the last one listed, and has not grown since.
        bound = logits[-1] if len(ids) < self._state.vocab_size else -np.inf
        logits = self._state.process(logits, ids, path)
        num_certain = int(np.count_nonzero(logits > bound))
        if not num_certain:
            return None
        order = np.lexsort((ids, -logits))
        logits = logits[order]
        log_weights = (logits - logits[0]) * self._state.inverse_temperature
        return Ranking(ids[order], log_weights, num_certain, None)

    def _whole_row(self, row: int, path: Sequence[int]) -> Float64Array:
        """Log-weights of the whole row after processors and temperature, float64[V], largest 0."""
        state = self._state
        logits = self._scores.full(row).astype(np.float64)
        ids = state.touched(path)
        logits[ids] = state.process(logits[ids], ids, path)
        if (allowed := state.allowed(path)) is not None:
            logits[~allowed.row(state.vocab_size)] = -np.inf
        logits -= logits.max()
        logits *= state.inverse_temperature
        return logits


def _logprob(logit: float, log_total: float) -> float:
    return min(0.0, logit - log_total)  # rounding must not make it more than certain
