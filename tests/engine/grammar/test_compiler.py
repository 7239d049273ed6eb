"""What is refused, in which words, and structures on tokenizers of all kinds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from engine.config import GenerationConfig, resolve
from engine.errors import InvalidOptionError, PacelineError, UnsupportedOptionError
from engine.grammar import GrammarCompiler, GrammarConstraint
from engine.tokens import TextStream, Tokenizer
from tests.engine.grammar.tiny import VOCAB_SIZE, TinyTokenizer, allowed, compiled, constraint, ids
from tests.engine.tokens.conftest import (  # noqa: F401 - fixtures
    any_folder,
    byte_level,
    cleaned_up,
    sentencepiece,
)

END = {"eos_token_id": 0}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"json_schema": {"type": "objekt"}}, InvalidOptionError, "Invalid type: objekt"),
        ({"json_schema": False}, InvalidOptionError, "allows no answer"),
        ({"json_schema": {"enum": []}}, InvalidOptionError, "Unsatisfiable"),
        ({"json_schema": {"$ref": "#/$defs/x"}}, InvalidOptionError, "'/\\$defs/x' does not exist"),
        ({"json_schema": {"$ref": "http://x.org/y"}}, InvalidOptionError, "x.org"),
        ({"json_schema": {"pattern": "(?=a)b"}}, InvalidOptionError, "look-around"),
        ({"json_schema": {"format": "color"}}, InvalidOptionError, "Unknown format: color"),
        (
            {"json_schema": {"type": "integer", "minimum": 3, "maximum": 2}},
            InvalidOptionError,
            "minimum",
        ),
        (
            {"json_schema": {"oneOf": [{"type": "integer"}, {"type": "number"}]}},
            UnsupportedOptionError,
            "the keyword 'oneOf' at '/', which is not supported: use 'anyOf'",
        ),
        (
            {"json_schema": {"items": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}},
            UnsupportedOptionError,
            "'oneOf' at '/items'",
        ),
        (
            {
                "json_schema": {
                    "$defs": {"a": {"prefixItems": [{}, {"pattern": "("}]}},
                    "$ref": "#/$defs/a",
                }
            },
            InvalidOptionError,
            "at '/\\$defs/a/prefixItems/1/pattern': unclosed group",
        ),
        (
            {"json_schema": {"patternProperties": {"(": {}}}},
            InvalidOptionError,
            "patternProperties",
        ),
        (
            {"json_schema": {"properties": {"a": {"pattern": "a\\b"}}}},
            InvalidOptionError,
            "at '/properties/a/pattern': .* leave out \\\\b",
        ),
        ({"json_schema": {"properties": {"a": 3}}}, InvalidOptionError, "at '/properties'"),
        ({"regex": "("}, InvalidOptionError, "unclosed group"),
        ({"regex": "a\\b"}, InvalidOptionError, "leave out \\\\b"),
        ({"regex": "a\\B"}, InvalidOptionError, "leave out \\\\B"),
        ({"regex": "a^b"}, InvalidOptionError, "except at the beginning"),
        ({"regex": "a$b"}, InvalidOptionError, "except at the end"),
        ({"regex": "(?=a)b"}, InvalidOptionError, "look-around"),
        ({"regex": "é{2"}, InvalidOptionError, "unclosed"),
        ({"grammar": "start: foo"}, InvalidOptionError, "unknown name"),
        ({"grammar": "root ::= ("}, InvalidOptionError, "'grammar'"),
        ({"grammar": "root ::= "}, InvalidOptionError, "no answer but the empty one"),
        ({"grammar": 'start: ""'}, InvalidOptionError, "no answer but the empty one"),
        ({"regex": "z"}, InvalidOptionError, "no token of this model"),
    ],
    ids=str,
)
def test_refuses_in_one_sentence_with_the_librarys_reason(
    options: dict[str, Any], error: type[PacelineError], words: str
) -> None:
    config = resolve(options, END)
    with pytest.raises(error, match=words) as caught:
        GrammarCompiler(TinyTokenizer(), VOCAB_SIZE).compile(config)  # pyright: ignore[reportArgumentType] - all it needs
    assert caught.value.param == next(iter(options))
    assert "\n" not in caught.value.message


def test_a_refusal_leaves_the_compiler_usable() -> None:
    compiler = GrammarCompiler(TinyTokenizer(), VOCAB_SIZE)  # pyright: ignore[reportArgumentType] - all it needs
    for _ in range(2):
        with pytest.raises(InvalidOptionError):
            compiler.compile(resolve({"regex": "("}, END))
        assert compiler.compile(resolve({"regex": "ab"}, END)) is not None


def test_a_model_without_an_end_token_is_refused() -> None:
    config = GenerationConfig(regex="a")
    with pytest.raises(UnsupportedOptionError, match="this model names none"):
        GrammarCompiler(TinyTokenizer(), VOCAB_SIZE).compile(config)  # pyright: ignore[reportArgumentType] - all it needs


def test_a_tokenizer_whose_tokens_have_no_text_of_their_own_is_refused() -> None:
    config = resolve({"regex": "a"}, END)
    with pytest.raises(UnsupportedOptionError, match="this model's tokenizer"):
        GrammarCompiler(TinyTokenizer(None), VOCAB_SIZE).compile(config)  # pyright: ignore[reportArgumentType] - all it needs


def test_nothing_asked_is_nothing_done() -> None:
    compiler = GrammarCompiler(TinyTokenizer(None), VOCAB_SIZE)  # pyright: ignore[reportArgumentType] - all it needs
    assert compiler.compile(GenerationConfig()) is None


def test_answers_of_one_request_do_not_share_their_place() -> None:
    grammar = compiled(choice=("ab", "ba"))
    first, second = grammar.begin(), grammar.begin()
    first.commit(ids("a"))
    assert allowed(first) == set(ids("b"))
    assert allowed(second) == set(ids("a", "b", "ab", "ba"))


@pytest.mark.parametrize("grammar", ['start: "a" ("b" | "c")*', 'root ::= "a" ("b" | "c")*'])
def test_grammars_come_in_two_notations(grammar: str) -> None:
    begun = constraint(grammar=grammar)
    assert allowed(begun) == set(ids("a", "ab", "ac", "abc"))
    assert allowed(begun, ids("a")) == {0, *ids("b", "c", "bb", "bc", "cb", "cc")}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"the": {"enum": ["fox, isn't", "é 汉"]}, "n": {"type": "integer", "maximum": 9}},
    "required": ["the", "n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("seed", range(3))
def test_a_random_walk_on_any_tokenizer_gives_what_the_schema_allows(
    any_folder: Path,  # noqa: F811
    seed: int,
) -> None:
    """The text that is shown, to the byte: no decoder may tidy it up."""
    tokenizer = Tokenizer.load(any_folder)
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size + 3)
    eos = tokenizer.eos_token_id
    assert eos is not None
    grammar = compiler.compile(resolve({"json_schema": SCHEMA}, {"eos_token_id": eos}))
    assert grammar is not None
    begun, stream, text = grammar.begin(), TextStream(tokenizer.verbatim(), (), False), ""
    random = np.random.default_rng(seed)
    for _ in range(400):
        found = np.flatnonzero(begun.allowed(()).of(np.arange(tokenizer.vocab_size + 3)))
        token = int(random.choice(found))
        begun.commit([token])
        if token == eos:
            break
        text += stream.push(token).text
    text += stream.finish()
    jsonschema.validate(json.loads(text), SCHEMA)


def test_the_order_of_properties_is_the_schemas(smollm2: Path) -> None:
    tokenizer = Tokenizer.load(smollm2)
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size)
    properties = {"b": {"type": "integer"}, "a": {"type": "integer"}}
    config = resolve({"json_schema": {"properties": properties, "type": "object"}}, END)
    grammar = compiler.compile(config)
    assert grammar is not None
    begun = grammar.begin()
    right, wrong = '{"b": 1, "a": 2}', '{"a": 1, "b": 2}'
    assert is_admitted(begun, tokenizer.encode(right))
    assert not is_admitted(begun, tokenizer.encode(wrong))


def is_admitted(begun: GrammarConstraint, tokens: list[int]) -> bool:
    return all(begun.admits(tokens[:at], token) for at, token in enumerate(tokens))


def test_the_trie_of_the_vocabulary_is_built_once(smollm2: Path) -> None:
    tokenizer = Tokenizer.load(smollm2)
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size)
    took: list[float] = []
    for _ in range(2):
        started = time.perf_counter()
        compiler.compile(resolve({"regex": "a+"}, END))
        took.append(time.perf_counter() - started)
    assert took[1] < took[0] / 3
