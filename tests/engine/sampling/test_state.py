"""Counts, penalties and minimum length, with drafted tokens on the path and without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import GenerationConfig
from engine.sampling import SamplingState, inverse_temperature
from tests.laws import processed

VOCAB_SIZE = 8
IDS = np.arange(VOCAB_SIZE)
LOGITS = np.array([2.0, -1.0, 0.0, 3.5, -4.0, 1.0, 0.5, -0.5])

tokens = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=6)
configs = st.builds(
    GenerationConfig,
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    presence_penalty=st.sampled_from([0.0, 1.0, -0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.8, -1.5]),
    min_new_tokens=st.integers(0, 6),
    eos_token_id=st.sampled_from([None, 3]),
    stop_token_ids=st.sampled_from([frozenset(), frozenset({0, 3})]),
)


def state_after(config: GenerationConfig, prompt: list[int], answer: list[int]) -> SamplingState:
    state = SamplingState(config, prompt, VOCAB_SIZE)
    state.commit(answer)
    return state


@settings(deadline=None)
@given(configs, tokens, tokens, tokens)
def test_a_path_counts_as_if_it_had_been_committed(
    config: GenerationConfig, prompt: list[int], answer: list[int], path: list[int]
) -> None:
    drafted = state_after(config, prompt, answer)
    committed = state_after(config, prompt, answer + path)
    values = drafted.process(LOGITS, IDS, path)
    assert np.array_equal(values, committed.process(LOGITS, IDS, []))
    assert values == pytest.approx(processed(LOGITS.tolist(), config, prompt, answer + path))
    assert drafted.position(path) == committed.position([]) == len(prompt + answer + path)
    assert drafted.processes(path) == committed.processes([])


@settings(deadline=None)
@given(configs, tokens, tokens, tokens)
def test_asking_about_a_path_changes_nothing(
    config: GenerationConfig, prompt: list[int], answer: list[int], path: list[int]
) -> None:
    state = state_after(config, prompt, answer)
    before = state.process(LOGITS, IDS, [])
    logits = LOGITS.copy()
    state.process(logits, IDS, path)
    state.touched(path)
    assert np.array_equal(logits, LOGITS)
    assert np.array_equal(state.process(LOGITS, IDS, []), before)
    assert state.num_generated == len(answer)


@settings(deadline=None)
@given(configs, tokens, tokens, tokens)
def test_only_touched_tokens_change_and_only_downwards_if_it_says_so(
    config: GenerationConfig, prompt: list[int], answer: list[int], path: list[int]
) -> None:
    state = state_after(config, prompt, answer)
    values = state.process(LOGITS, IDS, path)
    touched = state.touched(path).tolist()
    assert set(np.flatnonzero(values != LOGITS)) <= set(touched)
    assert touched == sorted(set(touched))
    assert not state.only_lowers or (values <= LOGITS).all()
    assert state.processes(path) or np.array_equal(values, LOGITS)


def test_repetition_looks_at_the_prompt_and_the_others_at_the_answer_alone() -> None:
    repetition = state_after(GenerationConfig(repetition_penalty=2.0), [0, 1], [3, 3])
    assert repetition.process(LOGITS, IDS, [])[[0, 1, 3, 5]].tolist() == [1.0, -2.0, 1.75, 1.0]
    presence = state_after(GenerationConfig(presence_penalty=1.0), [0, 1], [3, 3])
    assert presence.process(LOGITS, IDS, [])[[0, 1, 3, 5]].tolist() == [2.0, -1.0, 2.5, 1.0]
    frequency = state_after(GenerationConfig(frequency_penalty=1.0), [0, 1], [3, 3])
    assert frequency.process(LOGITS, IDS, [])[[0, 1, 3, 5]].tolist() == [2.0, -1.0, 1.5, 1.0]


def test_a_penalty_lowers_a_negative_logit_too() -> None:
    state = state_after(GenerationConfig(presence_penalty=0.5, frequency_penalty=0.25), [], [4])
    assert state.process(LOGITS, IDS, [])[4] == -4.75


def test_the_order_of_the_ids_does_not_matter() -> None:
    state = state_after(GenerationConfig(repetition_penalty=1.5, frequency_penalty=1.0), [2], [5])
    some = np.array([5, 0, 3], np.int32)
    assert np.array_equal(
        state.process(LOGITS[some], some, [3]), state.process(LOGITS, IDS, [3])[some]
    )


def test_stop_tokens_are_held_back_until_enough_tokens_are_there() -> None:
    config = GenerationConfig(
        min_new_tokens=3, eos_token_id=3, stop_token_ids=frozenset({0, 3}), ignore_eos=True
    )
    state = state_after(config, [1, 2], [5])
    for path in ([], [6]):
        assert np.flatnonzero(np.isneginf(state.process(LOGITS, IDS, path))).tolist() == [0, 3]
        assert state.processes(path)
    assert not state.processes([6, 6])
    assert np.array_equal(state.process(LOGITS, IDS, [6, 6]), LOGITS)


def test_ids_beyond_the_vocabulary_do_no_harm() -> None:
    config = GenerationConfig(
        repetition_penalty=1.5, min_new_tokens=1, stop_token_ids=frozenset({VOCAB_SIZE + 1, 2})
    )
    state = SamplingState(config, [VOCAB_SIZE + 5, 1], VOCAB_SIZE)
    assert state.position([]) == 2
    assert state.touched([]).tolist() == [1, 2]


@pytest.mark.parametrize("temperature", [1e-320, 1e-30, 0.7, 1.0, 100.0])
def test_the_inverse_temperature_is_a_finite_single_precision_number(temperature: float) -> None:
    scale = inverse_temperature(GenerationConfig(do_sample=True, temperature=temperature))
    assert np.isfinite(np.float32(scale))
    assert float(np.float32(scale)) == scale
    assert temperature < 1e-38 or scale == pytest.approx(1.0 / temperature, rel=1e-6)
    assert inverse_temperature(GenerationConfig(temperature=temperature)) == 1.0
