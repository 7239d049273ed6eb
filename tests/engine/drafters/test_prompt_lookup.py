"""Prompt lookup against a reference that scans, and the cases that other programs got wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import GenerationConfig
from engine.drafters.base import NO_LIMIT, DraftContext, PrefillChunk
from engine.drafters.prompt_lookup import (
    EVIDENCE_COLUMNS,
    MAX_MATCH_LEN,
    MAX_OCCURRENCES,
    NgramIndex,
    PromptLookup,
)
from engine.values import DraftTree, EmittedToken, Origin, TokenScore, Verdict

SEQ = 7
tokens_of_a_small_vocabulary = st.lists(st.integers(0, 3), max_size=40)


def naive_occurrences(tokens: list[int], max_ngram_size: int) -> tuple[int, list[int]]:
    """Size of the longest suffix seen before, and the positions behind it, latest first."""
    for size in range(min(max_ngram_size, len(tokens) - 1), 0, -1):
        followers = [
            end
            for end in range(len(tokens) - 1, size - 1, -1)
            if tokens[end - size : end] == tokens[-size:]
        ]
        if followers:
            return size, followers
    return 0, []


def naive_draft(tokens: list[int], max_ngram_size: int, max_tokens: int) -> list[int]:
    _, followers = naive_occurrences(tokens, max_ngram_size)
    if not followers:
        return []
    text = list(tokens)
    for offset in range(max_tokens):
        text.append(text[followers[0] + offset])
    return text[len(tokens) :]


def propose(
    prompt: list[int],
    generated: list[int] | None = None,
    *,
    max_tokens: int = 5,
    config: GenerationConfig | None = None,
) -> DraftTree:
    drafter = PromptLookup()
    drafter.on_prefill([PrefillChunk(SEQ, np.array(prompt, np.int32), None, is_last=True)])
    if generated:
        drafter.observe([verdict(generated)])
    num_tokens = len(prompt) + len(generated or [])
    context = DraftContext(SEQ, config or GenerationConfig(), num_tokens, max_tokens)
    (tree,) = drafter.propose([context], NO_LIMIT)
    return tree


def verdict(tokens: list[int]) -> Verdict:
    score = TokenScore(logprob=0.0, entropy=0.0)
    emitted = tuple(EmittedToken(token, Origin.PLAIN, 0, score) for token in tokens)
    return Verdict(SEQ, np.arange(len(tokens), dtype=np.int32), emitted, num_verified=0)


def column(tree: DraftTree, name: str) -> list[float]:
    return tree.evidence[:, EVIDENCE_COLUMNS.index(name)].tolist()


@given(
    prompt=tokens_of_a_small_vocabulary,
    generated=tokens_of_a_small_vocabulary,
    max_ngram_size=st.integers(1, 6),
    max_tokens=st.integers(0, 12),
)
def test_proposes_what_a_scan_of_the_text_would(
    prompt: list[int], generated: list[int], max_ngram_size: int, max_tokens: int
) -> None:
    config = replace(GenerationConfig(), max_ngram_size=max_ngram_size)

    tree = propose(prompt, generated, max_tokens=max_tokens, config=config)

    assert tree.tokens.tolist() == naive_draft(prompt + generated, max_ngram_size, max_tokens)
    assert tree.is_chain


@given(tokens=tokens_of_a_small_vocabulary, max_ngram_size=st.integers(1, 6))
def test_evidence_of_the_first_token_is_what_a_scan_finds(
    tokens: list[int], max_ngram_size: int
) -> None:
    config = replace(GenerationConfig(), max_ngram_size=max_ngram_size)
    tree = propose(tokens, config=config)
    size, followers = naive_occurrences(tokens, max_ngram_size)
    followers = followers[:MAX_OCCURRENCES]
    if not followers:
        assert len(tree) == 0
        return

    source = followers[0]
    match_len = size
    while match_len < source and tokens[source - match_len - 1] == tokens[-match_len - 1]:
        match_len += 1

    assert column(tree, "match_len")[0] == min(match_len, MAX_MATCH_LEN)
    assert column(tree, "num_occurrences")[0] == len(followers)
    agreeing = [follower for follower in followers if tokens[follower] == tokens[source]]
    assert column(tree, "num_agreeing")[0] == len(agreeing)


@given(
    kept=tokens_of_a_small_vocabulary,
    forgotten=tokens_of_a_small_vocabulary,
    after=tokens_of_a_small_vocabulary,
    max_ngram_size=st.integers(1, 4),
)
def test_forgetting_tokens_leaves_the_index_as_if_they_had_never_been(
    kept: list[int], forgotten: list[int], after: list[int], max_ngram_size: int
) -> None:
    index, fresh = NgramIndex(), NgramIndex()
    index.extend(kept + forgotten)
    index.truncate(len(kept))
    index.extend(after)
    fresh.extend(kept + after)

    assert index.tokens == fresh.tokens
    assert index.match(max_ngram_size) == fresh.match(max_ngram_size)


def test_the_drafter_forgets_tokens_from_a_position_on() -> None:
    drafter = PromptLookup()
    drafter.on_prefill([PrefillChunk(SEQ, np.array([1, 2, 3, 1], np.int32), None, is_last=True)])
    drafter.observe([verdict([9, 1])])
    drafter.restore(SEQ, 4)

    (tree,) = drafter.propose([DraftContext(SEQ, GenerationConfig(), 4, 2)], NO_LIMIT)

    assert tree.tokens.tolist() == [2, 3]


def test_a_prompt_in_chunks_is_one_text() -> None:
    drafter = PromptLookup()
    for chunk in ([1, 2], [3, 1, 2]):
        drafter.on_prefill([PrefillChunk(SEQ, np.array(chunk, np.int32), None, is_last=False)])

    (tree,) = drafter.propose([DraftContext(SEQ, GenerationConfig(), 5, 1)], NO_LIMIT)

    assert tree.tokens.tolist() == [3]


def test_prefers_the_most_recent_of_equally_long_matches() -> None:
    assert propose([1, 2, 8, 1, 2, 9, 1, 2], max_tokens=1).tokens.tolist() == [9]


def test_prefers_a_longer_match_to_a_more_recent_one() -> None:
    assert propose([5, 1, 2, 8, 6, 2, 9, 5, 1, 2], max_tokens=1).tokens.tolist() == [8]


def test_one_word_many_times_is_continued_up_to_the_limit_and_no_further() -> None:
    tree = propose([4] * 48, max_tokens=6)

    assert tree.tokens.tolist() == [4] * 6


def test_a_period_goes_on_through_its_own_copy() -> None:
    assert propose([9, 1, 2, 1, 2], max_tokens=5).tokens.tolist() == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 7, 100])
def test_never_proposes_more_than_it_may(max_tokens: int) -> None:
    assert len(propose([1, 2, 3, 1, 2, 3], max_tokens=max_tokens)) == max_tokens


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param([1], [], id="a single token has nothing before it"),
        pytest.param([1, 1], [1, 1], id="shorter than the n-gram"),
        pytest.param([1, 2, 3], [], id="the n-gram is the prompt itself"),
        pytest.param([3, 1, 2, 3], [1, 2], id="match at the very start"),
        pytest.param([1, 2, 2], [2, 2], id="match that ends at the last token but one"),
        pytest.param([7, 8, 7, 8, 7, 8], [7, 8], id="repeated match"),
    ],
)
def test_edges_of_the_text(prompt: list[int], expected: list[int]) -> None:
    assert propose(prompt, max_tokens=2).tokens.tolist() == expected


def test_evidence_grows_along_the_draft() -> None:
    tree = propose([1, 2, 3, 4, 5, 9, 1, 2], max_tokens=3)

    assert column(tree, "match_len") == [2.0, 3.0, 4.0]


def test_evidence_counts_the_occurrences_that_agree_so_far() -> None:
    # "1 2" was followed by "3 5", "3 4" and, most recently, "3 4" again.
    config = replace(GenerationConfig(), max_ngram_size=2)
    tree = propose([1, 2, 3, 5, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2], max_tokens=3, config=config)

    assert tree.tokens.tolist() == [3, 4, 1]
    assert column(tree, "num_occurrences") == [3.0, 3.0, 2.0]
    assert column(tree, "num_agreeing") == [3.0, 2.0, 2.0]


def test_evidence_tells_prompt_from_answer() -> None:
    assert column(propose([1, 2, 3, 8], [1, 2], max_tokens=3), "in_generated") == [0.0, 0.0, 1.0]


def test_stops_behind_a_token_that_ends_the_answer() -> None:
    config = replace(GenerationConfig(), stop_token_ids=frozenset({3}))

    assert propose([1, 2, 3, 4, 1], max_tokens=4, config=config).tokens.tolist() == [2, 3]


def test_goes_on_behind_it_where_the_request_ignores_it() -> None:
    config = replace(GenerationConfig(), stop_token_ids=frozenset({3}), ignore_eos=True)

    assert propose([1, 2, 3, 4, 1], max_tokens=4, config=config).tokens.tolist() == [2, 3, 4, 1]


def test_sequences_do_not_mix_and_a_released_one_may_be_released_again() -> None:
    drafter = PromptLookup()
    drafter.on_prefill(
        [
            PrefillChunk(1, np.array([1, 2, 1], np.int32), None, is_last=True),
            PrefillChunk(2, np.array([1, 3, 1], np.int32), None, is_last=True),
        ]
    )
    config = GenerationConfig()
    contexts = [DraftContext(2, config, 3, 1), DraftContext(1, config, 3, 1)]

    trees = drafter.propose(contexts, NO_LIMIT)
    drafter.release(1)
    drafter.release(1)

    assert [tree.tokens.tolist() for tree in trees] == [[3], [2]]


def test_a_missed_token_is_noticed() -> None:
    drafter = PromptLookup()
    drafter.on_prefill([PrefillChunk(SEQ, np.array([1, 2], np.int32), None, is_last=True)])

    with pytest.raises(AssertionError, match="missed"):
        drafter.propose([DraftContext(SEQ, GenerationConfig(), 3, 1)], NO_LIMIT)
