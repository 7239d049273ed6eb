"""What is verified must not depend on what was drawn: DSpark's counter-example (appendix A).

Two tokens, p = (0.7, 0.3) and q = (0.85, 0.15), and a drafter whose evidence makes token 1 look
sure and token 0 hopeless. `engine.budget.survival` works out what comes of a budget that believes
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from engine.budget import Budget, Candidate, StepCost
from engine.config import GenerationConfig
from engine.drafters.prompt_lookup import NAME as PROMPT_LOOKUP
from engine.noise import Lane
from engine.rejection import RejectionSampling
from engine.sampling import Distribution, SamplingState
from engine.values import DraftTree, FinishReason, Proposal, TokenScore
from engine.verify import verify
from tests.engine.law_kit import ALARM, NO_SCORE, PROMPT
from tests.laws import p_value

NUM_RUNS = 4_000
TWO_TOKENS = {(0,): 0.7, (1,): 0.3}
Q = np.array([0.85, 0.15], np.float32)


class TwoTokens:
    def distribution(self, row: int, path: Sequence[int]) -> Distribution:
        return Distribution(np.arange(2), np.log([0.7, 0.3]), None)

    def score(self, row: int, token: int) -> TokenScore:
        return NO_SCORE


def draft_of(token: int) -> DraftTree:
    """One drawn token, and evidence by which token 1 looks sure and token 0 hopeless."""
    evidence = np.array([[64, 4, 4, 1] if token else [1, 8, 1, 0]], np.float32)
    proposal = Proposal(np.arange(2, dtype=np.int32)[None], Q[None])
    return DraftTree.chain(np.array([token], np.int32), evidence, proposal)


def first_tokens(*, sampled: bool) -> Counter[tuple[int, ...]]:
    """What comes if the budget decides which drawn tokens are verified."""
    budget = Budget(StepCost([1, 2], [10.0, 14.0]))
    trees = {}
    for token in (0, 1):
        draft = draft_of(token)
        candidate = Candidate(0, PROMPT_LOOKUP, draft, sampled=sampled)
        kept = budget.choose([candidate], base_rows=1, context_len=0).kept[0]
        trees[token] = draft.keep(kept)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(NUM_RUNS):
        state = SamplingState(GenerationConfig(do_sample=True, rng_seed=seed), PROMPT, 2)
        level = state.noise.uniform(len(PROMPT), np.zeros(1, np.int64), Lane.DRAFT)[0]
        tree = trees[int(level >= Q[0])]
        rule = RejectionSampling(TwoTokens(), state)
        verdict = verify(0, tree, rule, lambda token: FinishReason.LENGTH)
        counts[(verdict.emitted[0].token,)] += 1
    return counts


def test_the_budget_does_not_look_at_drawn_tokens() -> None:
    assert p_value(first_tokens(sampled=True), TWO_TOKENS) > ALARM


def test_a_budget_that_looks_at_drawn_tokens_is_seen() -> None:
    counts = first_tokens(sampled=False)
    assert p_value(counts, TWO_TOKENS) < ALARM
    assert counts[(1,)] / NUM_RUNS == pytest.approx(0.405, abs=0.03)
