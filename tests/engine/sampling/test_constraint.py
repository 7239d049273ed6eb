"""What a structure forbids has no probability; everything else keeps its law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import GenerationConfig
from engine.sampling import AllowedTokens, SamplingState, TokenDecider, inverse_temperature
from engine.values import FloatArray
from tests.engine.sampling.test_decide import (
    EPSILON,
    VOCAB_SIZE,
    greedy,
    no_full_row,
    probabilities,
    row_scores,
    sampled,
    tokens,
)
from tests.laws import next_token_law, processed

LOGITS = np.linspace(6.0, 0.0, VOCAB_SIZE).astype(np.float32)
some_tokens = st.frozensets(st.integers(0, VOCAB_SIZE - 1), min_size=1)


def token_set(ids: Sequence[int]) -> AllowedTokens:
    return AllowedTokens(np.zeros(8, np.uint8)).with_tokens(np.array(ids, np.int64))


class Only:
    """The same tokens everywhere."""

    failure = None

    def __init__(self, *ids: int) -> None:
        self._ids = ids

    def allowed(self, path: Sequence[int]) -> AllowedTokens:
        return token_set(self._ids)

    def admits(self, path: Sequence[int], token: int) -> bool:
        return token in self._ids

    def commit(self, tokens: Sequence[int]) -> None: ...


def masked(logits: FloatArray, allowed: frozenset[int], config: GenerationConfig, at: int):
    """The logits that are left, and the configuration without the minimum that gave way."""
    left = [value if token in allowed else -np.inf for token, value in enumerate(logits.tolist())]
    if at < config.min_new_tokens and allowed <= config.stop_token_ids:
        config = replace(config, min_new_tokens=0)
    return left, config


def decider(config: GenerationConfig, logits: FloatArray, num_top: int, state: SamplingState):
    return TokenDecider(state, row_scores(logits, num_top, config))


@settings(deadline=None, max_examples=250)
@given(sampled, st.integers(0, 10_000), st.integers(1, VOCAB_SIZE), tokens, tokens, some_tokens)
def test_the_distribution_is_the_law_of_what_is_allowed(
    config: GenerationConfig,
    seed: int,
    num_top: int,
    answer: list[int],
    path: list[int],
    allowed: frozenset[int],
) -> None:
    logits = np.random.default_rng(seed).normal(0.0, 2.0, VOCAB_SIZE).astype(np.float32)
    left, without_minimum = masked(logits, allowed, config, len(answer + path))
    law = next_token_law(left, without_minimum, [], answer + path)
    state = SamplingState(config, [], VOCAB_SIZE, constraint=Only(*allowed))
    state.commit(answer)
    distribution = decider(config, logits, num_top, state).distribution(0, path)
    got = probabilities(distribution)
    assert got == pytest.approx(law, abs=EPSILON)
    assert set(np.flatnonzero(got)) <= allowed
    assert distribution.draw(state.noise, state.position(path)) in allowed


@settings(deadline=None, max_examples=250)
@given(
    greedy,
    st.lists(st.integers(-3, 3), min_size=VOCAB_SIZE, max_size=VOCAB_SIZE),
    st.integers(1, VOCAB_SIZE),
    tokens,
    tokens,
    some_tokens,
)
def test_greedy_takes_the_largest_that_is_allowed(
    config: GenerationConfig,
    integers: list[int],
    num_top: int,
    answer: list[int],
    path: list[int],
    allowed: frozenset[int],
) -> None:
    logits = np.array(integers, np.float32)
    left, without_minimum = masked(logits, allowed, config, len(answer + path))
    values = processed(left, without_minimum, [], answer + path)
    state = SamplingState(config, [], VOCAB_SIZE, constraint=Only(*allowed))
    state.commit(answer)
    assert decider(config, logits, num_top, state)(0, path)[0] == values.index(max(values))


def test_the_ranking_is_enough_while_it_lists_an_allowed_token() -> None:
    config = GenerationConfig()
    state = SamplingState(config, [], VOCAB_SIZE, constraint=Only(3, 9))
    scores = replace(row_scores(LOGITS, 5, config), full=no_full_row)
    assert TokenDecider(state, scores)(0, [])[0] == 3


def test_without_an_allowed_token_in_the_ranking_the_whole_row_is_looked_at() -> None:
    config = GenerationConfig()
    state = SamplingState(config, [], VOCAB_SIZE, constraint=Only(9, 11))
    assert decider(config, LOGITS, 5, state)(0, [])[0] == 9


def test_reported_probabilities_are_the_models_own() -> None:
    config = GenerationConfig(logprobs=2)
    state = SamplingState(config, [], VOCAB_SIZE, constraint=Only(9))
    token, score = decider(config, LOGITS, 5, state)(0, [])
    log_probs = LOGITS - np.log(np.exp(LOGITS.astype(np.float64)).sum())
    assert token == 9
    assert score.logprob == pytest.approx(log_probs[9], abs=1e-5)
    assert [other for other, _ in score.top] == [0, 1]
    assert inverse_temperature(config) == 1.0


@given(some_tokens, some_tokens)
def test_token_sets(first: frozenset[int], second: frozenset[int]) -> None:
    everything = np.arange(VOCAB_SIZE)
    one, other = token_set(sorted(first)), np.array(sorted(second))
    assert set(np.flatnonzero(one.of(everything))) == first
    assert set(np.flatnonzero(one.with_tokens(other).of(everything))) == first | second
    assert set(np.flatnonzero(one.without_tokens(other).of(everything))) == first - second
    assert one.without_tokens(other).is_empty == (first <= second)
    assert set(np.flatnonzero(one.of(everything))) == first  # untouched
