"""Tokens off a draft model's row: drawn from what is told, and under the request's own terms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from engine.config import GenerationConfig
from engine.noise import Lane, NoiseStream
from engine.sampling import SamplingState
from engine.sampling.proposal import (
    MAX_LOG_ODDS,
    MAX_MARGIN,
    DraftSampling,
    ProposedToken,
    proposal_of,
)
from tests.engine.law_kit import ALARM, CONFIGS
from tests.fakes import scores_of
from tests.laws import next_token_law, p_value

LOGITS = np.array([0.3, 2.0, -1.0, 1.2, 0.1, 1.9], np.float32)
PROMPT, ANSWER = (1, 4, 2), (5, 1)


def propose(
    config: GenerationConfig, seed: int = 0, num_top: int = 6, path: tuple[int, ...] = ()
) -> ProposedToken:
    config = replace(config, rng_seed=seed)
    state = SamplingState(config, PROMPT, 6)
    state.commit(ANSWER)
    noise = NoiseStream(seed) if config.do_sample else None
    return DraftSampling(state, noise, 6).propose(scores_of(LOGITS[None], num_top), path)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_draft_has_the_law_that_the_request_makes_of_the_row(name: str) -> None:
    law = next_token_law(LOGITS.tolist(), CONFIGS[name], PROMPT, ANSWER)
    proposed = propose(CONFIGS[name])
    assert proposed.ids is not None
    assert proposed.probs is not None
    told = dict(zip(proposed.ids.tolist(), proposed.probs.tolist(), strict=True))
    assert told == pytest.approx({token: p for token, p in enumerate(law) if p > 0.0})


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("num_top", [3, 6])
def test_tokens_are_drawn_from_the_law_that_is_told(name: str, num_top: int) -> None:
    drawn = [propose(CONFIGS[name], seed, num_top) for seed in range(2000)]
    proposal = proposal_of(drawn)
    assert proposal is not None
    assert (proposal.ids == proposal.ids[0]).all()
    assert (proposal.probs == proposal.probs[0]).all()
    row = zip(proposal.ids[0].tolist(), proposal.probs[0].tolist(), strict=True)
    counts = Counter((token.token,) for token in drawn)
    assert p_value(counts, {(token,): p for token, p in row}) > ALARM


def test_noise_comes_from_the_drafters_lane_at_the_tokens_own_place() -> None:
    config = GenerationConfig(do_sample=True)
    for seed in range(50):
        for path in ((), (3,), (3, 0)):
            proposed = propose(config, seed, path=path)
            position = len(PROMPT) + len(ANSWER) + len(path)
            gumbel = NoiseStream(seed).gumbel(position, np.arange(6), Lane.DRAFT)
            assert proposed.token == int((LOGITS + gumbel).argmax())


def test_a_greedy_draft_takes_the_largest_processed_score_and_tells_no_law() -> None:
    assert propose(GenerationConfig()).token == 1
    assert propose(GenerationConfig(repetition_penalty=5.0)).token == 3
    assert propose(GenerationConfig(presence_penalty=9.0)).token == 3
    assert propose(GenerationConfig(presence_penalty=9.0), path=(3,)).token == 0
    assert proposal_of([propose(GenerationConfig())]) is None


def test_an_end_token_waits_for_the_minimum_length() -> None:
    config = GenerationConfig(stop_token_ids=frozenset({1, 5}), min_new_tokens=4)
    assert propose(config).token == 3
    assert propose(config, num_top=2).token == 3  # neither of the ranked ones may come
    assert propose(config, path=(0, 0)).token == 1


def test_rows_of_a_proposal_have_one_width() -> None:
    wide, narrow = propose(CONFIGS["temperature"]), propose(CONFIGS["top_k"])
    proposal = proposal_of([wide, narrow])
    assert proposal is not None
    assert proposal.ids.shape == proposal.probs.shape == (2, 6)
    assert np.count_nonzero(proposal.probs[1]) == 3


@pytest.mark.parametrize(
    ("logits", "evidence"),
    [
        ([0.0, 0.0], [0.0, 0.0, np.log(2.0)]),
        ([np.log(3.0), 0.0], [np.log(3.0), np.log(3.0), 0.5623]),
        ([90.0, 0.0], [MAX_MARGIN, MAX_LOG_ODDS, 0.0]),
    ],
)
def test_evidence_is_margin_log_odds_and_entropy(
    logits: list[float], evidence: list[float]
) -> None:
    state = SamplingState(GenerationConfig(), PROMPT, 2)
    scores = scores_of(np.array([logits], np.float32), 2)
    proposed = DraftSampling(state, None, 2).propose(scores, ())
    assert proposed.evidence.tolist() == pytest.approx(evidence, abs=1e-4)
