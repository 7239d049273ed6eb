"""Rejection by hand, against dense arithmetic, and in the engine's loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import GenerationConfig, SampledRule, Speculation
from engine.events import FinishedEvent, StepEvent
from engine.interface import stream
from engine.noise import Float64Array, NoiseStream
from engine.rejection import RejectionSampling, Residual
from engine.sampling import Distribution, SamplingState, TokenDecider
from engine.sampling.distribution import Tail
from engine.values import FinishReason, Origin, Proposal, TokenScore
from engine.verify import Candidates
from tests.drawn import DrawnDrafter, Proposals
from tests.engine.loop_kit import PROMPT, TARGET, Builder, answer, request
from tests.fakes import ScriptedDrafter, noisy_copy, scores_of

VOCAB_SIZE = 12
SAMPLED = GenerationConfig(do_sample=True, rng_seed=3)


def law_of(probs: Float64Array, num_listed: int) -> tuple[Distribution, list[int]]:
    """``probs`` float64[V] as a distribution of that many tokens by name, and a list that grows
    whenever the whole row is asked for."""
    order = (-probs).argsort()
    listed = order[:num_listed]
    scale = np.log(probs[listed[0]])
    asked: list[int] = []

    def row() -> Float64Array:
        asked.append(1)
        with np.errstate(divide="ignore"):
            return np.log(probs) - scale

    outside = probs[order[num_listed:]].sum()
    tail = Tail(float(np.log(outside) - scale), row) if outside > 0.0 else None
    return Distribution(listed, np.log(probs[listed]) - scale, tail), asked


def softmax(logits: Sequence[float]) -> Float64Array:
    weights = np.exp(np.array(logits) - max(logits))
    return weights / weights.sum()


laws = st.lists(st.floats(-6, 0), min_size=VOCAB_SIZE, max_size=VOCAB_SIZE).map(softmax)


@settings(deadline=None, max_examples=200)
@given(
    laws,
    st.integers(1, VOCAB_SIZE),
    st.lists(st.tuples(laws, st.integers(1, VOCAB_SIZE)), min_size=1, max_size=3),
)
def test_what_is_left_is_what_dense_arithmetic_leaves(
    p: Float64Array, num_listed: int, rejected: list[tuple[Float64Array, int]]
) -> None:
    law, _ = law_of(p, num_listed)
    residual = Residual(law)
    for q, num_proposed in rejected:
        ids = (-q).argsort()[:num_proposed]
        probs = q[ids] / q[ids].sum()
        dense = np.zeros(VOCAB_SIZE)
        dense[ids] = probs
        left = np.maximum(p - dense, 0.0)
        if left.sum() < 1e-6:  # close to where rounding decides
            return
        p = left / left.sum()
        residual.subtract(ids, probs)
        assert [residual.prob(token) for token in range(VOCAB_SIZE)] == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize(("token", "is_asked"), [(0, False), (3, False), (4, True), (11, True)])
def test_the_whole_row_is_asked_for_only_where_a_proposal_reaches_beyond_the_ranking(
    token: int, is_asked: bool
) -> None:
    p = softmax([-0.5 * token for token in range(VOCAB_SIZE)])
    law, asked = law_of(p, 4)
    residual = Residual(law)
    assert residual.prob(token) == pytest.approx(p[token])
    residual.subtract(np.array([token]), np.ones(1))
    assert residual.prob(token) == 0.0
    assert bool(asked) is is_asked


def test_a_rejected_deterministic_token_cannot_come_again() -> None:
    p = softmax([0.0, -0.1, -0.2, -8.0, -8.0, -8.0])
    law, _ = law_of(p, 3)
    for token in range(6):
        residual = Residual(law)
        residual.subtract(np.array([token]), np.ones(1))
        drawn = Counter(residual.draw(NoiseStream(seed), 0) for seed in range(3000))
        assert token not in drawn
        expected = {other: p[other] / (1.0 - p[token]) for other in range(3) if other != token}
        for other, chance in expected.items():
            assert drawn[other] / 3000 == pytest.approx(chance, abs=0.05)


def test_where_rounding_alone_is_left_the_law_is_taken() -> None:
    """p and q are the same but for single precision: what is left of p is noise."""
    p = softmax([0.0, -1.0, -2.0, -3.0])
    law, _ = law_of(p, 4)
    residual = Residual(law)
    residual.subtract(np.arange(4), p + np.array([0.0, 1e-9, -1e-9, 0.0]))
    assert [residual.prob(token) for token in range(4)] == pytest.approx(p)


def test_a_certain_token_that_was_rejected_by_rounding_still_comes() -> None:
    law = Distribution(np.array([5]), np.zeros(1), None)
    residual = Residual(law)
    residual.subtract(np.array([5]), np.ones(1))
    assert residual.draw(NoiseStream(0), 0) == 5


class FixedTarget:
    """The same law everywhere; the score names row and token."""

    def __init__(self, law: Distribution) -> None:
        self._law = law

    def distribution(self, row: int, path: Sequence[int]) -> Distribution:
        return self._law

    def score(self, row: int, token: int) -> TokenScore:
        return TokenScore(-float(row), float(token))


def test_a_token_as_likely_as_it_was_drafted_is_always_kept() -> None:
    p = softmax([0.0, -1.0, -2.0])
    law, _ = law_of(p, 3)
    same = Proposal(np.arange(3, dtype=np.int32)[None], p[None].astype(np.float32) * 0.999)
    for seed in range(200):
        state = SamplingState(GenerationConfig(do_sample=True, rng_seed=seed), [1], 3)
        rule = RejectionSampling(FixedTarget(law), state)
        decision = rule.at(2, [], Candidates((seed % 3,), same))
        assert (decision.child, decision.token) == (0, seed % 3)
        assert decision.score == TokenScore(-2.0, float(seed % 3))


def test_a_draft_token_that_its_own_proposal_rules_out_is_a_fault_of_the_drafter() -> None:
    law, _ = law_of(softmax([0.0, -1.0, -2.0]), 3)
    rule = RejectionSampling(FixedTarget(law), SamplingState(SAMPLED, [1], 3))
    proposal = Proposal(np.array([[0, 1]], np.int32), np.array([[1.0, 0.0]], np.float32))
    with pytest.raises(AssertionError, match="rules out"):
        rule.at(0, [], Candidates((1,), proposal))


def test_without_candidates_the_draw_is_the_keyed_one() -> None:
    logits = np.random.default_rng(1).normal(0.0, 2.0, (1, VOCAB_SIZE)).astype(np.float32)
    for seed in range(50):
        state = SamplingState(GenerationConfig(do_sample=True, rng_seed=seed), [1, 2], VOCAB_SIZE)
        decider = TokenDecider(state, scores_of(logits, 4))
        decision = RejectionSampling(decider, state).at(0, [], Candidates(()))
        assert (decision.token, decision.score) == decider(0, [])
        assert decision.child is None


# In the loop.


def drawn_drafter(*, tree: bool = False) -> DrawnDrafter:
    shape = [-1, -1, 0, 0, 1, 2] if tree else [-1, 0, 1, 2, 3, 4]
    proposals = Proposals(TARGET, likeness=0.9, without_replacement=True)
    return DrawnDrafter(proposals, lambda tokens, limit: shape[:limit])


def by_rejection(**options: object) -> dict[str, object]:
    options = {"do_sample": True, "temperature": 0.8, "rng_seed": 4, **options}
    return {"sampled_rule": SampledRule.REJECTION, **options}


@pytest.mark.parametrize("tree", [False, True], ids=["chain", "tree"])
def test_every_kind_of_token_tells_what_the_model_itself_said_of_it(
    build: Builder, tree: bool
) -> None:
    engine, _ = build(drawn_drafter(tree=tree))
    seen: Counter[Origin | None] = Counter()
    for seed in range(16):
        wanted = by_rejection(rng_seed=seed, num_assistant_tokens=6, logprobs=2)
        finished = answer(engine, request(**wanted, repetition_penalty=1.2))
        tokens = list(PROMPT)
        for token in finished.tokens:
            logits = TARGET.logits(tokens).astype(np.float64)
            logprobs = logits - np.log(np.exp(logits).sum())
            assert token.score is not None
            assert token.score.logprob == pytest.approx(logprobs[token.token], abs=1e-5)
            assert token.score.entropy == pytest.approx(
                -(np.exp(logprobs) * logprobs).sum(), abs=1e-5
            )
            assert [other for other, _ in token.score.top] == (-logits).argsort()[:2].tolist()
            tokens.append(token.token)
            seen[token.origin] += 1
    assert seen[Origin.ACCEPTED] >= 50
    assert seen[Origin.RECOVERED] >= 50
    assert seen[Origin.BONUS] >= 5


def test_an_answer_repeats_and_depends_on_the_draft(build: Builder) -> None:
    engine, _ = build(drawn_drafter())
    wanted = request(**by_rejection(num_assistant_tokens=6))
    first = answer(engine, wanted)
    assert answer(engine, wanted).token_ids == first.token_ids
    plain = request(**by_rejection(num_assistant_tokens=0))
    assert answer(engine, plain).token_ids != first.token_ids


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "sampled_rule": SampledRule.KEYED}])
def test_neither_greedy_nor_keyed_answers_let_a_drafter_draw(
    build: Builder, options: dict[str, object]
) -> None:
    engine, _ = build(drawn_drafter())
    wanted = {"num_assistant_tokens": 6, "sampled_rule": SampledRule.REJECTION, **options}
    assert answer(engine, request(**wanted)).metrics.num_draft_tokens == 0


def test_greedy_answers_are_the_same_under_either_rule(build: Builder) -> None:
    engine, _ = build(ScriptedDrafter(noisy_copy(TARGET, accuracy=0.7)))
    keyed, rejection = (
        answer(engine, request(num_assistant_tokens=5, sampled_rule=rule)).token_ids
        for rule in SampledRule
    )
    assert keyed == rejection


@pytest.mark.parametrize("stop_at", [2, 5, 6, 7, 10, 15, 20])
def test_a_stop_in_a_block_ends_text_tokens_and_scores_at_one_place(
    build: Builder, stop_at: int
) -> None:
    """The same draft, the same noise: up to the stop, the answer is the one that has none."""
    engine, _ = build(drawn_drafter())
    options = by_rejection(num_assistant_tokens=6, logprobs=1)
    whole = answer(engine, request(**options))
    stop = "".join(whole.token_texts[stop_at : stop_at + 2])  # perhaps of two blocks
    cut = answer(engine, request(**options, stop_strings=[stop]))
    assert cut.finish_reason is FinishReason.STOP
    assert cut.text == whole.text[: whole.text.index(stop)]
    num_tokens = len(cut.token_ids)
    assert cut.token_ids == whole.token_ids[:num_tokens]
    assert cut.text + stop == "".join(whole.token_texts[:num_tokens])
    assert cut.tokens == whole.tokens[:num_tokens]
    assert cut.metrics.num_generated_tokens == num_tokens


@pytest.mark.parametrize("min_new_tokens", [0, 20])
def test_min_new_tokens_counts_tokens_and_not_steps(build: Builder, min_new_tokens: int) -> None:
    ends = list(range(17, 60, 2))
    engine, _ = build(drawn_drafter())
    lengths = [
        len(
            answer(
                engine,
                request(
                    **by_rejection(rng_seed=seed, num_assistant_tokens=6),
                    min_new_tokens=min_new_tokens,
                    stop_token_ids=ends,
                ),
            ).token_ids
        )
        for seed in range(20)
    ]
    # The token after the minimum may be an end, and in so many answers it sometimes is.
    assert min(lengths) == min_new_tokens + 1


def test_choices_draw_apart_and_each_repeats(build: Builder) -> None:
    engine, _ = build(drawn_drafter())

    def answers(num: int) -> dict[int, tuple[int, ...]]:
        wanted = request(**by_rejection(), num_return_sequences=num)
        events = stream(engine, wanted)
        return {e.choice: e.token_ids for e in events if isinstance(e, FinishedEvent)}

    four = answers(4)
    assert len(set(four.values())) == 4
    assert answers(4) == four
    assert answers(1)[0] == four[0]


def test_a_fresh_budget_thinks_the_same_of_all_drawn_drafts(build: Builder) -> None:
    """Whatever the drafter says of the tokens that it drew."""
    survivals: set[tuple[float, ...]] = set()
    drafts: set[tuple[int, ...]] = set()
    for seed in range(4):
        engine, _ = build(drawn_drafter(), speculation=Speculation.ADAPTIVE)
        steps = stream(engine, request(**by_rejection(rng_seed=seed, max_new_tokens=8)))
        _, step, *_ = [event for event in steps if isinstance(event, StepEvent)]
        assert step.draft is not None
        drafts.add(step.draft.tokens)
        survivals.add(step.draft.survival)
    assert len(drafts) == 4
    assert len(survivals) == 1
