"""What the sampling of one sequence remembers, and the processors that need it.

Tokens are counted as OpenVINO GenAI counts them: the repetition penalty looks at prompt and answer
and acts once per token, presence and frequency penalty look at the answer alone. One thing is not
copied: GenAI *adds* the latter two to logits below zero, which rewards the repetition; here they
are always subtracted, as the OpenAI interface defines them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.config import GenerationConfig
from engine.noise import Float64Array, IdArray, NoiseStream
from engine.sampling.constraint import AllowedTokens, Constraint

Int64Array = NDArray[np.int64]


def inverse_temperature(config: GenerationConfig) -> float:
    """What ``Scores.log_sum_exp_t`` has to be computed with; 1 for greedy requests."""
    if not config.do_sample:
        return 1.0
    # In the graph's own precision, so that both sides scale by the same number, and finite.
    single = np.finfo(np.float32)
    return float(np.float32(min(1.0 / config.temperature, float(single.max))))


class SamplingState:
    """Counts, place and noise of one sequence.

    It grows by `commit`, with the tokens that were emitted and no others. What a draft would add is
    never written into it: each question takes the *path*, the drafted tokens between the last
    committed one and the row in question.
    """

    __slots__ = (
        "_counts",
        "_in_prompt",
        "_num_generated",
        "_num_prompt",
        "config",
        "constraint",
        "held_back",
        "inverse_temperature",
        "noise",
        "only_lowers",
        "penalises",
        "vocab_size",
    )

    def __init__(
        self,
        config: GenerationConfig,
        prompt_ids: Sequence[int],
        vocab_size: int,
        choice: int = 0,
        constraint: Constraint | None = None,
    ) -> None:
        self.config = config
        self.constraint = constraint
        self.vocab_size = vocab_size
        self.inverse_temperature = inverse_temperature(config)
        self.noise = NoiseStream(config.rng_seed, choice)
        self.held_back = _end_tokens(config, vocab_size)
        """int64[h]: tokens that cannot come before ``min_new_tokens``."""
        self.penalises = (
            config.repetition_penalty != 1.0
            or config.presence_penalty != 0.0
            or config.frequency_penalty != 0.0
        )
        self.only_lowers = (
            config.repetition_penalty >= 1.0
            and config.presence_penalty >= 0.0
            and config.frequency_penalty >= 0.0
        )
        """Whether no processor can raise a logit."""
        self._num_prompt = len(prompt_ids)
        self._num_generated = 0
        # Tables over the vocabulary, so that the ids of a row are looked up in one go.
        size = vocab_size if self.penalises else 0
        self._in_prompt = np.zeros(size, np.bool_)
        self._counts = np.zeros(size, np.int32)
        if self.penalises:
            # A prompt may hold ids that are never predicted, such as a picture's placeholder.
            self._in_prompt[[token for token in set(prompt_ids) if token < vocab_size]] = True

    @property
    def num_generated(self) -> int:
        """Emitted tokens, the pending one included."""
        return self._num_generated

    def commit(self, tokens: Iterable[int]) -> None:
        """Take note of emitted tokens."""
        tokens = tuple(tokens)
        if self.constraint is not None:
            self.constraint.commit(tokens)
        for token in tokens:
            self._num_generated += 1
            if self.penalises:
                self._counts[token] += 1

    def position(self, path: Sequence[int]) -> int:
        """Position in the sequence, prompt included, of the token that follows ``path``."""
        return self._num_prompt + self._num_generated + len(path)

    def processes(self, path: Sequence[int]) -> bool:
        """Whether a logit after ``path`` may differ from what the model said."""
        return self.penalises or self.constraint is not None or self._holds_back(path)

    def process(self, logits: Float64Array, ids: IdArray, path: Sequence[int]) -> Float64Array:
        """The logits float64[n] of the tokens ``ids`` int[n] after ``path``, before any
        filter."""
        config = self.config
        allowed = self.allowed(path)
        if allowed is not None:
            logits = np.where(allowed.of(ids), logits, -np.inf)
        elif self._holds_back(path):
            logits = np.where(np.isin(ids, self.held_back), -np.inf, logits)
        if not self.penalises:
            return logits
        counts = self._counts[ids]
        for token in path:
            counts += ids == token
        generated = counts > 0
        if config.repetition_penalty != 1.0:
            penalty = config.repetition_penalty
            lowered = np.where(logits >= 0.0, logits / penalty, logits * penalty)
            logits = np.where(generated | self._in_prompt[ids], lowered, logits)
        return logits - config.presence_penalty * generated - config.frequency_penalty * counts

    def touched(self, path: Sequence[int]) -> Int64Array:
        """The tokens, ascending, whose logits `process` may change after ``path``, those apart that
        are not `allowed`."""
        parts = [np.array(path, np.int64)]
        if self._holds_back(path):
            parts.append(self.held_back)
        if self.penalises:
            parts.append(np.flatnonzero(self._in_prompt | (self._counts > 0)))
        return np.unique(np.concatenate(parts))

    def allowed(self, path: Sequence[int]) -> AllowedTokens | None:
        """What the structure lets follow ``path``; None where there is none. An end that it leaves
        no way around goes before ``min_new_tokens``."""
        if self.constraint is None:
            return None
        allowed = self.constraint.allowed(path)
        if self._holds_back(path):
            others = allowed.without_tokens(self.held_back)
            return allowed if others.is_empty else others
        return allowed

    def _holds_back(self, path: Sequence[int]) -> bool:
        return self._num_generated + len(path) < self.config.min_new_tokens


def _end_tokens(config: GenerationConfig, vocab_size: int) -> Int64Array:
    ends = sorted(token for token in config.end_token_ids if token < vocab_size)
    return np.array(ends, np.int64)
