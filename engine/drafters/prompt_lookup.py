"""Prompt lookup: propose what followed the last few tokens when they stood in the text before.

The longest suffix of the text (at most ``max_ngram_size`` tokens) that occurred earlier is looked
up in an incremental index over prompt and answer, and the tokens behind its most recent
occurrence are the draft, a chain. The copy may run past the end of the text into its own tokens,
so that a period goes on. Weak matches (one token) are proposed too: whether they are worth
verifying is the budget's question, which the evidence columns answer.

It is not suffix decoding: nothing is remembered between requests and there are no branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.config import GenerationConfig
from engine.drafters.base import DraftContext, DraftLimit, Needs, PrefillChunk, evidence_table
from engine.values import DraftTree, FloatArray, SeqId, Verdict

NAME = "prompt_lookup"

EVIDENCE_COLUMNS = ("match_len", "num_occurrences", "num_agreeing", "in_generated")
"""What is known about each draft token, by column of ``DraftTree.evidence``.

``match_len``: how many tokens before it agree with those before its source, earlier draft tokens
included, at most ``MAX_MATCH_LEN``; it may exceed ``max_ngram_size``, which only bounds the
search. ``num_occurrences``: of the last ``MAX_OCCURRENCES`` occurrences of the n-gram, how many
agree with the draft up to this token; ``num_agreeing``: how many of those go on with this token
(at least 1: the source). ``in_generated``: 1.0 if the source lies in the answer, else 0.0.
"""

DEFAULT_MAX_NGRAM_SIZE = 3
MAX_MATCH_LEN = 32
MAX_OCCURRENCES = 4


@dataclass(frozen=True, slots=True)
class Match:
    """Where the end of the text was found earlier.

    ``followers`` are the positions behind the most recent occurrences, latest first; the draft is
    copied from ``followers[0]``. ``length`` is how many tokens agree before it.
    """

    followers: tuple[int, ...]
    length: int


@dataclass(slots=True)
class _Level:
    """The index of one n-gram size.

    ``latest`` maps an n-gram to the position behind its most recent occurrence; ``earlier[p]`` is
    the occurrence before the one that ends at ``p``, so that forgetting tokens restores the map
    exactly.
    """

    latest: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    earlier: list[int | None] = field(default_factory=list[int | None])


class NgramIndex:
    """One text and where each of its n-grams (n = 1, 2, ...) ended before.

    An occurrence counts once a token follows it, so the end of the text never matches itself.
    Appending costs O(number of sizes); nothing is ever scanned again.
    """

    def __init__(self, max_ngram_size: int = DEFAULT_MAX_NGRAM_SIZE) -> None:
        self.tokens: list[int] = []
        self._levels: list[_Level] = []
        self._grow(max_ngram_size)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens to the text."""
        for token in tokens:
            position = len(self.tokens)
            self.tokens.append(token)
            for size, level in enumerate(self._levels, start=1):
                self._link(level, size, position)

    def truncate(self, length: int) -> None:
        """Forget the tokens from position ``length`` on; the index is as it was before them."""
        while len(self.tokens) > length:
            position = len(self.tokens) - 1
            for size, level in enumerate(self._levels, start=1):
                self._unlink(level, size, position)
            self.tokens.pop()

    def match(self, max_ngram_size: int) -> Match | None:
        """The most recent occurrences of the longest suffix, of at most ``max_ngram_size``
        tokens."""
        self._grow(max_ngram_size)
        for size in range(min(max_ngram_size, len(self.tokens)), 0, -1):
            level = self._levels[size - 1]
            follower = level.latest.get(tuple(self.tokens[-size:]))
            if follower is None:
                continue
            length = self._agreement(follower, size)
            followers: list[int] = []
            while follower is not None and len(followers) < MAX_OCCURRENCES:
                followers.append(follower)
                follower = level.earlier[follower]
            return Match(tuple(followers), length)
        return None

    def _grow(self, max_ngram_size: int) -> None:
        for size in range(len(self._levels) + 1, max_ngram_size + 1):
            level = _Level()
            for position in range(len(self.tokens)):
                self._link(level, size, position)
            self._levels.append(level)

    def _link(self, level: _Level, size: int, position: int) -> None:
        if position < size:
            level.earlier.append(None)
            return
        ngram = tuple(self.tokens[position - size : position])
        level.earlier.append(level.latest.get(ngram))
        level.latest[ngram] = position

    def _unlink(self, level: _Level, size: int, position: int) -> None:
        earlier = level.earlier.pop()
        if position < size:
            return
        ngram = tuple(self.tokens[position - size : position])
        if earlier is None:
            del level.latest[ngram]
        else:
            level.latest[ngram] = earlier

    def _agreement(self, follower: int, known: int) -> int:
        """How many tokens before ``follower`` equal those at the end; ``known`` of them are known
        to."""
        tokens, end = self.tokens, len(self.tokens)
        length = known
        limit = min(MAX_MATCH_LEN, follower)
        while length < limit and tokens[follower - 1 - length] == tokens[end - 1 - length]:
            length += 1
        return min(length, MAX_MATCH_LEN)


@dataclass(slots=True)
class _Text:
    """One sequence: its indexed tokens, of which the first ``num_prompt`` are the prompt's."""

    index: NgramIndex = field(default_factory=NgramIndex)
    num_prompt: int = 0


class PromptLookup:
    """The drafter: one index per sequence."""

    def __init__(self) -> None:
        self._texts: dict[SeqId, _Text] = {}

    @property
    def name(self) -> str:
        return NAME

    @property
    def needs(self) -> Needs:
        return Needs(model_free=True)

    def on_prefill(self, chunks: Sequence[PrefillChunk]) -> None:
        """Index prompt tokens; a sequence is new when its first chunk arrives."""
        for chunk in chunks:
            text = self._texts.setdefault(chunk.seq, _Text())
            text.index.extend(chunk.tokens.tolist())
            text.num_prompt = len(text.index.tokens)

    def propose(self, contexts: Sequence[DraftContext], limit: DraftLimit) -> list[DraftTree]:
        """One chain of at most ``context.max_tokens`` for each context, empty without a match.

        ``limit`` is not asked: a copied token costs nothing, so there is nothing to stop early.
        """
        return [self._propose(context) for context in contexts]

    def observe(
        self, verdicts: Sequence[Verdict], features: Sequence[FloatArray] | None = None
    ) -> None:
        """Append what was emitted, drafted or not."""
        for verdict in verdicts:
            index = self._texts[verdict.seq].index
            index.extend(emitted.token for emitted in verdict.emitted)

    def restore(self, seq: SeqId, length: int) -> None:
        """Forget the tokens of ``seq`` from position ``length`` on."""
        text = self._texts[seq]
        text.index.truncate(length)
        text.num_prompt = min(text.num_prompt, length)

    def release(self, seq: SeqId) -> None:
        """Forget the sequence; unknown sequences are ignored."""
        self._texts.pop(seq, None)

    def _propose(self, context: DraftContext) -> DraftTree:
        text = self._texts[context.seq]
        assert len(text.index.tokens) == context.num_tokens, "the drafter missed tokens"
        match = text.index.match(context.config.max_ngram_size or DEFAULT_MAX_NGRAM_SIZE)
        if match is None or context.max_tokens < 1:
            return DraftTree.empty()
        return _copy(text, match, context.max_tokens, _ends(context.config))


def _ends(config: GenerationConfig) -> frozenset[int]:
    """Tokens that end the answer: a draft that went on behind one would be verified for nothing."""
    return frozenset() if config.ignore_eos else config.stop_token_ids


def _copy(text: _Text, match: Match, max_tokens: int, ends: frozenset[int]) -> DraftTree:
    """The chain behind ``match``, with its evidence; it may run into its own tokens.

    Example: text ``x a b a b``, match ``a b`` with follower 3: the draft is ``a b``, and then,
    copied from itself, ``a b a b ...``.
    """
    tokens, length = text.index.tokens, len(text.index.tokens)
    draft: list[int] = []

    def token_at(position: int) -> int:
        return tokens[position] if position < length else draft[position - length]

    source = match.followers[0]
    alive = match.followers
    rows: list[tuple[int, int, int, bool]] = []
    for offset in range(max_tokens):
        token = token_at(source + offset)
        agreeing = tuple(follower for follower in alive if token_at(follower + offset) == token)
        match_len = min(match.length + offset, MAX_MATCH_LEN)
        rows.append((match_len, len(alive), len(agreeing), source + offset >= text.num_prompt))
        draft.append(token)
        alive = agreeing
        if token in ends:
            break
    evidence = evidence_table(rows, len(EVIDENCE_COLUMNS))
    return DraftTree.chain(np.array(draft, np.int32), evidence)
