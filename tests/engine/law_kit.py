"""What the tests of the laws of verification share: a small target, requests, and drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.backends.base import Batch
from engine.config import GenerationConfig
from engine.sampling import Distribution, SamplingState, TokenDecider
from engine.values import DraftTree, TokenScore
from tests.fakes import TableBackend, TableTarget, prefill_slice, tree_of, verify_slice

ALARM = 1e-6
"""The probability with which a correct rule would have failed when the seeds were chosen."""
VOCAB_SIZE = 6
NUM_TOP = 4  # below the vocabulary, so that there is a tail
LENGTH = 3
NUM_RUNS = 34_000  # of three tokens: more than 100 000 draws
NUM_MUTANT_RUNS = 4_000
PROMPT = (1, 4, 2)
NO_SCORE = TokenScore(0.0, 0.0)

NUM_DRAFTS = 4


def chain(target: TableTarget, tokens: Sequence[int], which: int) -> DraftTree:
    """Three tokens, each the likeliest or the second likeliest: often right and often wrong."""
    drafted: list[int] = []
    for depth in range(3):
        drafted.append(ranked(target, [*tokens, *drafted])[which >> depth & 1])
    return tree_of(drafted)


def tree(target: TableTarget, tokens: Sequence[int], which: int) -> DraftTree:
    """The same chain, and at its first two nodes two more children each, the unlikeliest first."""
    drafted = chain(target, tokens, which).tokens.tolist()
    sides: list[int] = []
    for depth in range(2):
        others = ranked(target, [*tokens, *drafted[:depth]])[::-1]
        sides += [token for token in others if token != drafted[depth]][which % 2 :][:2]
    return tree_of([*drafted, *sides], [-1, 0, 1, -1, -1, 0, 0])


def ranked(target: TableTarget, tokens: Sequence[int]) -> list[int]:
    return (-target.logits(tokens)).argsort().tolist()


SHAPES = {"chain": chain, "tree": tree}
MakeDraft = Callable[[TableTarget, Sequence[int], int], DraftTree]

CONFIGS = {
    "temperature": GenerationConfig(do_sample=True, temperature=0.8),
    "hot": GenerationConfig(do_sample=True, temperature=1.7),
    "top_p": GenerationConfig(do_sample=True, top_p=0.85),
    "top_k": GenerationConfig(do_sample=True, top_k=3, temperature=1.3),
    "top_k_beyond_ranking": GenerationConfig(do_sample=True, top_k=5, temperature=1.5),
    "min_p": GenerationConfig(do_sample=True, min_p=0.1),
    "penalties": GenerationConfig(
        do_sample=True, repetition_penalty=1.7, presence_penalty=0.6, frequency_penalty=0.9
    ),
    "everything": GenerationConfig(
        do_sample=True,
        temperature=1.4,
        top_k=5,
        top_p=0.9,
        min_p=0.02,
        repetition_penalty=1.4,
        frequency_penalty=0.8,
        min_new_tokens=2,
        stop_token_ids=frozenset({3}),
    ),
}

Distribute = Callable[[int, Sequence[int]], Distribution]
"""``TokenDecider.distribution``: the law after a row whose context ends with a path."""


def decider_after(
    target: TableTarget,
    config: GenerationConfig,
    answer: Sequence[int],
    draft: DraftTree,
    seed: int = 0,
) -> TokenDecider:
    """The real decider over the scores of a real pass that verifies ``draft`` after ``answer``."""
    state = SamplingState(replace(config, rng_seed=seed), PROMPT, VOCAB_SIZE)
    state.commit(answer)
    *past, pending = (*PROMPT, *answer)
    backend = TableBackend(target, num_top=NUM_TOP)
    backend.cache.reserve(0, len(past))
    backend.forward(Batch((prefill_slice(0, past),)))
    backend.cache.reserve(0, len(past) + 1 + len(draft))
    part = verify_slice(0, len(past), pending, draft, state.inverse_temperature)
    return TokenDecider(state, backend.forward(Batch((part,))).scores[0])


def with_remembered_tail(distribution: Distribution) -> Distribution:
    if distribution.tail is None:
        return distribution
    row = distribution.tail.row()
    return replace(distribution, tail=replace(distribution.tail, row=row.copy))
