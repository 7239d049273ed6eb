"""Where each value of a request's settings comes from, and what is refused on the way."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import UNSUPPORTED, GenerationConfig, resolve
from engine.errors import InvalidOptionError, InvalidRequestError, UnsupportedOptionError

EOS = {"eos_token_id": 2}


def test_request_goes_before_the_models_file_and_that_before_the_built_in_default() -> None:
    config = resolve({"top_p": 0.5}, {**EOS, "top_p": 0.9, "min_p": 0.1})
    assert (config.top_p, config.min_p, config.repetition_penalty) == (0.5, 0.1, 1.0)


def test_null_means_not_set() -> None:
    assert resolve({"top_p": None}, {**EOS, "top_p": 0.9, "min_p": None}).top_p == 0.9


def test_refuses_an_unknown_key_of_the_request_but_not_of_the_file() -> None:
    resolve({}, {**EOS, "transformers_version": "4.40"})
    with pytest.raises(InvalidRequestError, match="'max_tokenz'") as caught:
        resolve({"max_tokenz": 1}, EOS)
    assert caught.value.param == "max_tokenz"


def test_the_eos_token_becomes_a_stop_token() -> None:
    assert resolve({}, EOS).stop_token_ids == {2}
    assert resolve({"stop_token_ids": [5]}, EOS).stop_token_ids == {2, 5}


def test_several_eos_tokens_in_the_file_all_stop() -> None:
    config = resolve({}, {"eos_token_id": [7, 8], "stop_token_ids": [9]})
    assert config.eos_token_id == 7
    assert config.stop_token_ids == {7, 8, 9}


def test_an_empty_list_of_eos_tokens_names_none() -> None:
    assert resolve({"max_new_tokens": 1}, {"eos_token_id": []}).eos_token_id is None


@pytest.mark.parametrize(
    ("request_values", "file_values", "samples"),
    [
        ({"temperature": 0.8}, {}, True),
        ({"temperature": 0}, {"do_sample": True, "temperature": 0.6}, False),
        ({"temperature": 0.8, "do_sample": False}, {}, False),
        ({}, {"temperature": 0.6}, False),
        ({}, {"temperature": 0.6, "do_sample": True}, True),
        ({"do_sample": False}, {"do_sample": True}, False),
    ],
)
def test_a_request_that_sets_the_temperature_means_it(
    request_values: dict[str, Any], file_values: dict[str, Any], samples: bool
) -> None:
    assert resolve(request_values, EOS | file_values).do_sample is samples


def test_lists_and_integers_become_what_the_fields_hold() -> None:
    config = resolve({"stop_strings": ["a", "b"], "temperature": 1, "max_ngram_size": 0}, EOS)
    assert config.stop_strings == ("a", "b")
    assert isinstance(config.temperature, float)
    assert config.max_ngram_size is None


@pytest.mark.parametrize(
    "values",
    [
        {"num_assistant_tokens": "3"},
        {"temperature": "hot"},
        {"temperature": [1]},
        {"stop_token_ids": [[1]]},
        {"stop_token_ids": "2"},
        {"stop_token_ids": 2},
        {"stop_strings": [""]},
        {"stop_strings": 5},
        {"eos_token_id": [2]},
        {"eos_token_id": "2"},
        {"num_return_sequences": 0},
        {"max_new_tokens": {}},
    ],
    ids=str,
)
def test_refuses_wrong_values_of_a_request_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        resolve(values, EOS)
    assert caught.value.param == next(iter(values))


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_refuses_what_nothing_here_can_honour_by_name(name: str) -> None:
    for off in UNSUPPORTED[name].off:
        resolve({name: off}, EOS)
    for source in ({name: "on"}, {}), ({}, {name: "on"}):
        with pytest.raises(UnsupportedOptionError, match=f"'{name}'") as caught:
            resolve(source[0], EOS | source[1])
        assert caught.value.param == name


def test_a_request_can_switch_off_what_the_file_asks_for() -> None:
    assert isinstance(resolve({"num_beams": 1}, {**EOS, "num_beams": 4}), GenerationConfig)
    assert isinstance(
        resolve({"no_repeat_ngram_size": 0}, {**EOS, "no_repeat_ngram_size": 3}), GenerationConfig
    )
