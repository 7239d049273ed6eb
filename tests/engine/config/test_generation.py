"""Every rule of a request's settings: one case that passes, one that fails."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from engine.config import GenerationConfig, OptionKind, options
from engine.errors import ContextLengthError, InvalidOptionError, UnsupportedOptionError

BOUNDED = {"max_new_tokens": 10}
"""Without a stop token there must be a limit; the cases below are about other rules."""


@dataclass(frozen=True)
class Rule:
    """``passes`` and ``fails`` differ from the defaults; the error must name ``param``."""

    param: str
    passes: dict[str, Any]
    fails: dict[str, Any]
    error: type[Exception] = InvalidOptionError
    also_named: tuple[str, ...] = ()
    base: dict[str, Any] = field(default_factory=lambda: dict(BOUNDED))


def one(param: str, passes: object, fails: object, **others: Any) -> Rule:
    return Rule(param, {param: passes}, {param: fails}, **others)


TYPES = [
    one("max_new_tokens", 1, "3"),
    one("max_new_tokens", 1, True),
    one("max_new_tokens", 1, 1.9),
    one("max_length", 1, 1.0),
    one("min_new_tokens", 1, None),
    one("ignore_eos", True, 1),
    one("eos_token_id", None, "2"),
    one("stop_token_ids", frozenset({2}), [2]),
    one("stop_token_ids", frozenset({2}), frozenset({True})),
    one("stop_strings", ("a",), "a"),
    one("stop_strings", ("a",), (1,)),
    one("include_stop_str_in_output", True, "yes"),
    one("echo", True, 0),
    one("logprobs", 5, False),
    one("do_sample", True, "true"),
    one("temperature", 2, "hot"),
    one("temperature", 0.5, math.nan),
    one("temperature", 0.5, math.inf),
    one("temperature", 0.5, True),
    one("top_k", None, 1.5),
    one("top_p", 0.5, None),
    one("min_p", 0.5, "0.1"),
    one("repetition_penalty", 1.1, math.nan),
    one("presence_penalty", 1, "1"),
    one("frequency_penalty", -1, [1]),
    one("rng_seed", 7, 7.0),
    one("num_return_sequences", 1, "1"),
    one("num_assistant_tokens", None, "3"),
    one("num_assistant_tokens", 3, True),
    one("assistant_confidence_threshold", 0.4, "0.4"),
    one("max_ngram_size", None, 2.0),
    one("branching_factor", 1, None),
    one("tree_depth", 0, False),
    one("num_beams", 1, "1"),
    one("apply_chat_template", False, None),
    one("json_schema", "{}", "{"),
    one("regex", "a", 3),
    one("choice", ("a",), "a"),
    one("grammar", "start: /a/", ""),
]

BOUNDS = [
    one("max_new_tokens", 1, -1),
    one("max_length", 1, 0),
    one("min_new_tokens", 0, -1),
    one("eos_token_id", None, -1),
    one("stop_token_ids", frozenset({0}), frozenset({-1})),
    one("stop_strings", ("a", "b"), ("a", "")),
    one("logprobs", 20, 21),
    one("temperature", 0, -0.1),
    one("top_k", 0, -1),
    one("top_p", 1, 1.1),
    one("min_p", 0, -0.1),
    one("min_p", 0.99, 1),
    one("repetition_penalty", 0.1, 0),
    one("presence_penalty", -2, -2.1),
    one("presence_penalty", 2, 2.1),
    one("frequency_penalty", -2, -2.1),
    one("frequency_penalty", 2, 2.1),
    one("rng_seed", 2**64 - 1, 2**64),
    one("rng_seed", 0, -1),
    one("num_return_sequences", 1, 0),
    one("num_assistant_tokens", 0, -1),
    one("num_assistant_tokens", 100, 101),
    one("assistant_confidence_threshold", 1, 1.1),
    one("max_ngram_size", 1, 0),
    one("max_ngram_size", 32, 33),
    one("branching_factor", 1, 0),
    one("tree_depth", 0, -1),
    one("num_beams", 1, 2, error=UnsupportedOptionError),
]

SAMPLED = {"do_sample": True}
TREE = {"tree_depth": 3, "branching_factor": 2, "num_assistant_tokens": 10}

CONTRADICTIONS = [
    Rule(
        "stop_token_ids",
        {"eos_token_id": 2, "stop_token_ids": frozenset({2, 3})},
        {"eos_token_id": 2, "stop_token_ids": frozenset({3})},
        also_named=("eos_token_id",),
    ),
    Rule(
        "ignore_eos",
        {"ignore_eos": True, "max_length": 10},
        {"ignore_eos": True, "stop_strings": ("a",)},
        also_named=("max_new_tokens", "max_length"),
        base={},
    ),
    *(
        Rule("max_new_tokens", enough, {}, base={})
        for enough in (
            {"eos_token_id": 2, "stop_token_ids": frozenset({2})},
            {"stop_token_ids": frozenset({2})},
            {"stop_strings": ("a",)},
            {"max_new_tokens": 1},
            {"max_length": 1},
        )
    ),
    Rule(
        "max_new_tokens",
        {"max_new_tokens": 0, "echo": True},
        {"max_new_tokens": 0},
        also_named=("echo",),
    ),
    Rule(
        "min_new_tokens",
        {"min_new_tokens": 10},
        {"min_new_tokens": 11},
        also_named=("max_new_tokens",),
    ),
    Rule(
        "num_return_sequences",
        {"num_return_sequences": 2, **SAMPLED},
        {"num_return_sequences": 2},
        also_named=("do_sample",),
    ),
    Rule("temperature", {"temperature": 0}, {"temperature": 0, **SAMPLED}),
    Rule("top_p", {"top_p": 0}, {"top_p": 0, **SAMPLED}),
    Rule(
        "assistant_confidence_threshold",
        {"assistant_confidence_threshold": 0.4, "num_assistant_tokens": 0},
        {"assistant_confidence_threshold": 0.4, "num_assistant_tokens": 5},
        also_named=("num_assistant_tokens",),
    ),
    Rule(
        "max_ngram_size",
        {"max_ngram_size": 3},
        {"max_ngram_size": 3, "num_assistant_tokens": 0},
        also_named=("num_assistant_tokens",),
    ),
    Rule(
        "branching_factor",
        TREE,
        {"branching_factor": 2, "num_assistant_tokens": 10},
        also_named=("tree_depth",),
    ),
    Rule("tree_depth", TREE, {**TREE, **SAMPLED}, also_named=("do_sample",)),
    Rule(
        "num_assistant_tokens",
        {**TREE, "num_assistant_tokens": 3},
        {**TREE, "num_assistant_tokens": 2},
        also_named=("tree_depth",),
    ),
    Rule("num_assistant_tokens", TREE, {**TREE, "num_assistant_tokens": None}),
    Rule(
        "num_assistant_tokens",
        TREE,
        {**TREE, "num_assistant_tokens": 11},
        also_named=("branching_factor", "tree_depth"),
    ),
]

RULES = TYPES + BOUNDS + CONTRADICTIONS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.param}-{rule.fails}")
def test_accepts_what_the_rule_allows(rule: Rule) -> None:
    GenerationConfig(**(rule.base | rule.passes)).validate()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.param}-{rule.fails}")
def test_refuses_what_the_rule_forbids_and_names_the_field(rule: Rule) -> None:
    with pytest.raises(rule.error) as caught:
        GenerationConfig(**(rule.base | rule.fails)).validate()
    error = caught.value
    assert type(error) is rule.error
    assert (error.code, error.param) == (rule.error.code, rule.param)
    for name in (rule.param, *rule.also_named):
        assert name in error.message
    assert error.message.endswith(".")
    assert "\n" not in error.message


def test_every_field_is_described_and_has_a_case_for_its_type() -> None:
    described = options(GenerationConfig)
    names = {each.name for each in fields(GenerationConfig)}
    assert set(described) == names == {rule.param for rule in TYPES}
    assert all(option.help.endswith(".") for option in described.values())


def test_every_bound_has_a_case_beyond_it() -> None:
    numeric = {OptionKind.INTEGER, OptionKind.NUMBER}
    described = options(GenerationConfig)
    bounded = {name for name, option in described.items() if option.kind in numeric}
    assert bounded <= {rule.param for rule in BOUNDS}


def test_defaults_lie_within_their_own_bounds() -> None:
    GenerationConfig(**BOUNDED).validate()


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (GenerationConfig(), 90),
        (GenerationConfig(max_new_tokens=20), 20),
        (GenerationConfig(max_new_tokens=0, echo=True), 0),
        (GenerationConfig(max_new_tokens=91), 90),
        (GenerationConfig(max_length=30), 20),
        (GenerationConfig(max_length=1000), 90),
        (GenerationConfig(max_length=5, max_new_tokens=20), 20),
    ],
)
def test_max_new_tokens_goes_before_max_length_and_neither_beyond_the_context(
    config: GenerationConfig, limit: int
) -> None:
    assert config.limit_new_tokens(prompt_len=10, context_len=100) == limit


def test_refuses_a_max_length_that_the_prompt_already_fills() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        GenerationConfig(max_length=10).limit_new_tokens(prompt_len=10, context_len=100)
    assert caught.value.param == "max_length"


def test_refuses_a_prompt_that_leaves_no_room_in_the_context_with_both_figures() -> None:
    with pytest.raises(ContextLengthError, match=r"\b100\b.*\b99\b"):
        GenerationConfig(max_new_tokens=1).limit_new_tokens(prompt_len=100, context_len=99)
    with pytest.raises(ContextLengthError):
        GenerationConfig(max_new_tokens=1).limit_new_tokens(prompt_len=100, context_len=100)
