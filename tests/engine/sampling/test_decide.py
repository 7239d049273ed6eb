"""The law after a row, against one worked out over the whole row, for rankings of every length."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import GenerationConfig
from engine.sampling import Distribution, SamplingState, TokenDecider, inverse_temperature
from engine.values import FloatArray, Scores
from tests.fakes import scores_of
from tests.laws import next_token_law, p_value, processed

VOCAB_SIZE = 12
EPSILON = 3e-5  # the log-sum-exp of the scores is in single precision

tokens = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=4)
penalties = {
    "repetition_penalty": st.sampled_from([1.0, 1.0, 1.3, 0.8]),
    "presence_penalty": st.sampled_from([0.0, 0.0, 1.0, -1.0]),
    "frequency_penalty": st.sampled_from([0.0, 0.0, 0.5, -0.5]),
    "min_new_tokens": st.sampled_from([0, 0, 3]),
    "stop_token_ids": st.sampled_from([frozenset(), frozenset({0}), frozenset({2, 5, 7})]),
}
sampled = st.builds(
    GenerationConfig,
    do_sample=st.just(True),
    temperature=st.sampled_from([1.0, 0.3, 0.8, 1.5]),
    top_k=st.sampled_from([None, None, 0, 1, 3, 7, 12, 50]),
    top_p=st.sampled_from([1.0, 1.0, 0.5, 0.9, 0.99]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 0.3]),
    **penalties,
)
greedy = st.builds(GenerationConfig, **penalties)


def no_full_row(row: int) -> FloatArray:
    raise AssertionError("the whole row was asked for")


def row_scores(logits: FloatArray, num_top: int, config: GenerationConfig) -> Scores:
    return scores_of(logits[None], num_top, inverse_temperature(config))


def decider(
    config: GenerationConfig,
    scores: Scores,
    prompt: list[int] | None = None,
    answer: list[int] | None = None,
) -> TokenDecider:
    state = SamplingState(config, prompt or [], VOCAB_SIZE)
    state.commit(answer or [])
    return TokenDecider(state, scores)


def probabilities(distribution: Distribution) -> np.ndarray:
    """float64[V]: the law that `Distribution.draw` draws from, by its definition."""
    weights = np.zeros(VOCAB_SIZE)
    weights[distribution.ids] = np.exp(distribution.log_weights)
    if distribution.tail is not None:
        row = np.exp(distribution.tail.row())
        row[distribution.ids] = 0.0
        weights += row / row.sum() * np.exp(distribution.tail.log_weight)
    return weights / weights.sum()


@settings(deadline=None, max_examples=250)
@given(sampled, st.integers(0, 10_000), st.integers(1, VOCAB_SIZE), tokens, tokens, tokens)
def test_the_distribution_is_the_law_of_the_whole_row(
    config: GenerationConfig,
    seed: int,
    num_top: int,
    prompt: list[int],
    answer: list[int],
    path: list[int],
) -> None:
    logits = np.random.default_rng(seed).normal(0.0, 2.0, VOCAB_SIZE).astype(np.float32)
    law = next_token_law(logits.tolist(), config, prompt, answer + path)
    decide = decider(config, row_scores(logits, num_top, config), prompt, answer)
    got = probabilities(decide.distribution(0, path))
    assert got == pytest.approx(law, abs=EPSILON)
    # What is filtered out cannot come. What is left can, but for a tail that is lighter than the
    # single precision of its log-sum-exp can tell.
    assert all(mine == 0.0 for mine, exact in zip(got, law, strict=True) if exact == 0.0)
    assert all(mine > 0.0 for mine, exact in zip(got, law, strict=True) if exact > EPSILON)


@settings(deadline=None, max_examples=250)
@given(
    greedy,
    st.lists(st.integers(-3, 3), min_size=VOCAB_SIZE, max_size=VOCAB_SIZE),
    st.integers(1, VOCAB_SIZE),
    tokens,
    tokens,
    tokens,
)
def test_greedy_takes_the_largest_and_of_equal_ones_the_lowest_id(
    config: GenerationConfig,
    integers: list[int],
    num_top: int,
    prompt: list[int],
    answer: list[int],
    path: list[int],
) -> None:
    logits = np.array(integers, np.float32)
    values = processed(integers, config, prompt, answer + path)
    decide = decider(config, row_scores(logits, num_top, config), prompt, answer)
    assert decide(0, path)[0] == values.index(max(values))


@pytest.mark.parametrize("num_top", [2, 4, 5, VOCAB_SIZE])
def test_of_equal_tokens_the_lower_ids_survive_top_k(num_top: int) -> None:
    logits = np.array([0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0], np.float32)
    config = GenerationConfig(do_sample=True, top_k=3)
    law = probabilities(decider(config, row_scores(logits, num_top, config)).distribution(0, []))
    assert np.flatnonzero(law).tolist() == [1, 2, 4]


LOGITS = np.linspace(6.0, 0.0, VOCAB_SIZE).astype(np.float32)


@pytest.mark.parametrize(
    "config",
    [
        GenerationConfig(),
        GenerationConfig(repetition_penalty=1.05, presence_penalty=0.1),
        GenerationConfig(min_new_tokens=5, stop_token_ids=frozenset({0})),
        GenerationConfig(do_sample=True, top_k=4),
        GenerationConfig(do_sample=True, top_k=3, repetition_penalty=1.05),
        GenerationConfig(do_sample=True, top_p=0.5),
        GenerationConfig(do_sample=True, min_p=0.3, presence_penalty=0.1),
        GenerationConfig(do_sample=True, temperature=0.01),
    ],
    ids=str,
)
def test_what_the_ranking_settles_never_asks_for_the_whole_row(config: GenerationConfig) -> None:
    scores = replace(row_scores(LOGITS, 5, config), full=no_full_row)
    decide = decider(config, scores, prompt=[1], answer=[2])
    for length in range(3):
        decide(0, [1, 0][:length])


@pytest.mark.parametrize("temperature", [1e-320, 1e-30, 1e-6, 0.01])
def test_a_low_temperature_is_greedy_however_wrong_the_log_sum_exp_is(temperature: float) -> None:
    config = GenerationConfig(do_sample=True, temperature=temperature)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = row_scores(LOGITS, 5, config)
    for log_sum_exp_t in (-np.inf, scores.log_sum_exp_t[0] * 1.01, np.inf):
        wrong = replace(scores, log_sum_exp_t=np.array([log_sum_exp_t], np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            law = probabilities(decider(config, wrong).distribution(0, []))
        assert law[0] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("error", [-1e-5, 0.0, 1e-5])
def test_rounding_of_the_log_sum_exp_does_not_make_a_tail(error: float) -> None:
    """In single precision the total can look smaller or larger than what is listed."""
    logits = np.array([30.0] + 4 * [-30.0] + 7 * [-60.0], np.float32)
    config = GenerationConfig(do_sample=True)
    scores = row_scores(logits, 5, config)
    shifted = replace(scores, log_sum_exp_t=scores.log_sum_exp_t + np.float32(error))
    law = probabilities(decider(config, shifted).distribution(0, []))
    # The tail cannot weigh more than seven times the last token listed, whatever the total says.
    assert law[5:].sum() < 7.01 * np.exp(-60.0)
    assert law[0] == pytest.approx(1.0)


def test_the_draw_depends_on_seed_choice_and_position_and_on_nothing_else() -> None:
    config = GenerationConfig(do_sample=True, temperature=2.0)
    scores = row_scores(LOGITS, 4, config)

    def draws(seed: int, choice: int, prompt_len: int) -> list[int]:
        state = SamplingState(replace(config, rng_seed=seed), [0] * prompt_len, VOCAB_SIZE, choice)
        decide = TokenDecider(state, scores)
        return [decide(0, [0] * length)[0] for length in range(60)]

    same = draws(1, 0, 5)
    assert draws(1, 0, 5) == same
    assert draws(1, 0, 6)[:-1] == same[1:]  # the same positions, reached over another path
    assert draws(2, 0, 5) != same
    assert draws(1, 1, 5) != same
    state = SamplingState(replace(config, rng_seed=1), [0] * 5, VOCAB_SIZE)
    state.commit([0] * 10)
    assert [TokenDecider(state, scores)(0, [0] * length)[0] for length in range(50)] == same[10:]


@pytest.mark.parametrize("num_top", [1, 3, VOCAB_SIZE])
def test_draws_follow_the_law_inside_the_tail_too(num_top: int) -> None:
    config = GenerationConfig(do_sample=True, temperature=3.0)
    scores = row_scores(LOGITS, num_top, config)
    decide = decider(config, scores)
    distribution, noise = decide.distribution(0, []), SamplingState(config, [], 1).noise
    counts = Counter((distribution.draw(noise, position),) for position in range(20_000))
    law = next_token_law(LOGITS.tolist(), config, [], [])
    assert p_value(counts, {(token,): p for token, p in enumerate(law)}) > 1e-6


def test_draws_from_a_tail_of_many_blocks_follow_the_law() -> None:
    size = 1000
    logits = np.random.default_rng(3).normal(0.0, 2.0, size).astype(np.float32)
    config = GenerationConfig(do_sample=True)
    scores = scores_of(logits[None], 8)
    state = SamplingState(config, [], size)
    distribution = TokenDecider(state, scores).distribution(0, [])
    assert distribution.tail is not None
    row = distribution.tail.row()
    kept = replace(distribution, tail=replace(distribution.tail, row=row.copy))
    counts = Counter((kept.draw(state.noise, position),) for position in range(30_000))
    law = np.exp(logits.astype(np.float64))
    law /= law.sum()
    assert p_value(counts, {(token,): float(p) for token, p in enumerate(law)}) > 1e-6


@pytest.mark.parametrize("num_top", [3, VOCAB_SIZE])
def test_reports_what_the_model_said_before_any_processor(num_top: int) -> None:
    config = GenerationConfig(
        do_sample=True, top_k=1, presence_penalty=2.0, frequency_penalty=2.0, logprobs=2
    )
    log_probs = LOGITS - np.log(np.exp(LOGITS).sum())
    decide = decider(config, row_scores(LOGITS, num_top, config), answer=[0, 1, 2, 3])
    token, score = decide(0, [])
    assert token == 4  # beyond a ranking of three
    assert score.logprob == pytest.approx(log_probs[4], abs=1e-5)
    assert score.entropy == pytest.approx(-(np.exp(log_probs) * log_probs).sum(), abs=1e-5)
    assert [other for other, _ in score.top] == [0, 1]
    assert [p for _, p in score.top] == pytest.approx(log_probs[:2].tolist(), abs=1e-5)


def test_reports_no_logprob_above_zero() -> None:
    logits = np.full(VOCAB_SIZE, -50.0, np.float32)
    logits[3] = 50.0
    config = GenerationConfig()
    scores = row_scores(logits, 4, config)
    rounded = replace(scores, log_sum_exp=scores.log_sum_exp - np.float32(1e-3))
    assert decider(config, rounded)(0, [])[1].logprob == 0.0
    assert decider(config, rounded)(0, [])[1].top == ()
