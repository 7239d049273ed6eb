"""From the structure that a request asks for to matchers over the model's tokens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from time import perf_counter

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine.config import GenerationConfig
from engine.errors import UnsupportedOptionError
from engine.grammar.constraint import GrammarConstraint
from engine.grammar.refusal import refusal
from engine.grammar.source import source_of
from engine.noise import IdArray
from engine.tokens import Tokenizer

_logger = logging.getLogger(__name__)

_ONLY_EMPTY = "it allows no answer but the empty one"


@dataclass(frozen=True, slots=True)
class CompiledGrammar:
    """The structure of one request; `begin` starts it for each of its answers."""

    matcher: LLMatcher
    vocab_size: int
    ends: IdArray

    def begin(self) -> GrammarConstraint:
        """The structure at the beginning of an answer."""
        return GrammarConstraint(self.matcher, self.vocab_size, self.ends)


class GrammarCompiler:
    """Compiles for one model. Safe from any thread.

    ``vocab_size`` is the width of the model's scores; what lies beyond the tokenizer's vocabulary
    is never allowed. The trie of the vocabulary is built when the first structure is asked for:
    0.15 s for 49,152 tokens on the reference machine. A structure then takes milliseconds.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._trie: LLTokenizer | None = None
        self._lock = Lock()
        self._limits = LLParserLimits(verbose_errors=False)  # errors shall not quote the answer

    def compile(self, config: GenerationConfig) -> CompiledGrammar | None:
        """The structure that ``config`` asks for; None where it asks for none.

        Raises:
            InvalidOptionError: it is malformed, or no text has it, or only the empty one.
            UnsupportedOptionError: it uses what cannot be honoured, or the model has no end token
                or a tokenizer whose tokens have no bytes of their own.
        """
        source = source_of(config)
        if source is None:
            return None
        ends = sorted(token for token in config.end_token_ids if token < self._vocab_size)
        if not ends:
            raise UnsupportedOptionError(
                f"'{source.option}' needs a token that ends the answer, and this model names none: "
                "set 'eos_token_id' or 'stop_token_ids'.",
                param=source.option,
            )
        matcher = LLMatcher(
            self._vocabulary(source.option), source.lark, log_level=0, limits=self._limits
        )
        if matcher.is_error():
            raise refusal(config, matcher.get_error())
        compiled = CompiledGrammar(matcher, self._vocab_size, np.array(ends))
        beginning = compiled.begin()
        first = beginning.allowed(())
        if beginning.failure is not None:
            raise refusal(config, beginning.failure)
        if first.without_tokens(compiled.ends).is_empty:
            raise refusal(config, _ONLY_EMPTY)
        return compiled

    def _vocabulary(self, option: str) -> LLTokenizer:
        with self._lock:
            if self._trie is None:
                spelling = self._tokenizer.spelling
                if spelling is None:
                    raise UnsupportedOptionError(
                        f"'{option}' is not supported with this model's tokenizer, whose tokens "
                        "have no fixed text: leave it unset.",
                        param=option,
                    )
                started = perf_counter()
                self._trie = _build_trie(spelling, self._tokenizer.special_ids, self._vocab_size)
                seconds = perf_counter() - started
                _logger.info("Built the trie of %d tokens in %.2f s", len(spelling), seconds)
            return self._trie


def _build_trie(
    spelling: Sequence[bytes], special_ids: frozenset[int], vocab_size: int
) -> LLTokenizer:
    padding = (b"",) * (vocab_size - len(spelling))
    tokens = (*spelling, *padding)[:vocab_size]
    return LLTokenizer(TokenizerWrapper(_Vocabulary(tokens, special_ids)))


class _Vocabulary:
    """What the library wants to know of a tokenizer. Without an end token here it adds one."""

    eos_token_id = None
    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], special_ids: frozenset[int]) -> None:
        self.tokens = tokens
        self.special_token_ids = sorted(special_ids)

    def __call__(self, text: bytes) -> list[int]:
        """Would be asked how a forced text is split, which `source` switches off."""
        raise AssertionError("texts are never encoded here")
