"""The walk over a draft tree: what is emitted, which rows stay, and where it stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.base import Batch
from engine.config import GenerationConfig
from engine.sampling import SamplingState, TokenDecider
from engine.values import DraftTree, FinishReason, Proposal, TokenScore, Verdict
from engine.verify import Candidates, Decision, SampleThenMatch, verify
from tests.fakes import (
    Script,
    TableBackend,
    TableTarget,
    in_turn,
    noisy_copy,
    prefill_slice,
    tree_of,
    verify_slice,
)

A, B, C, D, E, X, Y = range(1, 8)
STOP = 7
NO_SCORE = TokenScore(0.0, 0.0)

# t ─┬─ A ─┬─ B
#    └─ C  └─ D ─── E
TREE = tree_of([A, C, B, D, E], [-1, -1, 0, 0, 3])


def go_on(token: int) -> FinishReason | None:
    return None


class Target:
    """Says its tokens one after the other, whatever the row; remembers what it was asked."""

    def __init__(self, *tokens: int) -> None:
        self._tokens = tokens
        self.asked: list[tuple[int, tuple[int, ...]]] = []

    def __call__(self, row: int, path: Sequence[int]) -> tuple[int, TokenScore]:
        self.asked.append((row, tuple(path)))
        return self._tokens[len(path)], TokenScore(-float(row), 0.0)


def verdict_on(tree: DraftTree, *target: int, stop_at: int | None = None) -> Verdict:
    def on_token(token: int) -> FinishReason | None:
        return FinishReason.STOP if token == stop_at else None

    return verify(3, tree, SampleThenMatch(Target(*target)), on_token)


def emitted(verdict: Verdict) -> list[tuple[int, str, int]]:
    return [(token.token, token.origin.value, token.depth) for token in verdict.emitted]


def test_emits_one_plain_token_without_a_draft() -> None:
    verdict = verdict_on(DraftTree.empty(), X)
    assert emitted(verdict) == [(X, "plain", 0)]
    assert verdict.kept_rows.tolist() == [0]
    assert (verdict.num_verified, verdict.num_reached, verdict.num_accepted) == (0, 0, 0)


def test_emits_a_bonus_after_a_chain_that_is_right_to_its_end() -> None:
    verdict = verdict_on(tree_of([A, B]), A, B, X)
    assert emitted(verdict) == [(A, "accepted", 1), (B, "accepted", 2), (X, "bonus", 0)]
    assert verdict.kept_rows.tolist() == [0, 1, 2]
    assert (verdict.num_verified, verdict.num_reached, verdict.num_accepted) == (2, 2, 2)


def test_rejects_the_rest_after_the_first_mismatch() -> None:
    verdict = verdict_on(tree_of([A, B, C, D]), A, X, C, D)
    assert emitted(verdict) == [(A, "accepted", 1), (X, "recovered", 0)]
    assert verdict.kept_rows.tolist() == [0, 1]
    assert (verdict.num_verified, verdict.num_reached, verdict.num_accepted) == (4, 2, 1)


def test_follows_the_branch_that_the_target_takes() -> None:
    verdict = verdict_on(TREE, A, D, X)
    assert emitted(verdict) == [(A, "accepted", 1), (D, "accepted", 2), (X, "recovered", 0)]
    assert verdict.kept_rows.tolist() == [0, 1, 4]
    assert verdict.num_reached == 3


def test_a_branch_that_ends_in_a_leaf_reaches_no_deeper() -> None:
    verdict = verdict_on(TREE, C, X)
    assert emitted(verdict) == [(C, "accepted", 1), (X, "bonus", 0)]
    assert verdict.kept_rows.tolist() == [0, 2]
    assert verdict.num_reached == 1


def test_recovers_at_once_where_no_branch_is_right() -> None:
    verdict = verdict_on(TREE, B, D)
    assert emitted(verdict) == [(B, "recovered", 0)]
    assert verdict.kept_rows.tolist() == [0]
    assert (verdict.num_reached, verdict.num_accepted) == (1, 0)


def test_takes_the_first_of_two_children_with_the_same_token() -> None:
    verdict = verdict_on(tree_of([A, A, B], [-1, -1, 1]), A, X)
    assert verdict.kept_rows.tolist() == [0, 1]
    assert emitted(verdict)[-1] == (X, "bonus", 0)


def test_asks_each_row_on_the_path_once_and_in_its_own_context() -> None:
    target = Target(A, D, E, X)
    verdict = verify(0, TREE, SampleThenMatch(target), go_on)
    assert target.asked == [(0, ()), (1, (A,)), (4, (A, D)), (5, (A, D, E))]
    assert [token.score.logprob for token in verdict.emitted] == [0.0, -1.0, -4.0, -5.0]


@pytest.mark.parametrize(
    ("stop", "expected", "kept_rows", "num_reached"),
    [
        (A, [(A, "accepted", 1)], [0], 1),
        (B, [(A, "accepted", 1), (B, "accepted", 2)], [0, 1], 2),
        (C, [(A, "accepted", 1), (B, "accepted", 2), (C, "accepted", 3)], [0, 1, 2], 3),
    ],
    ids=["first", "middle", "last"],
)
def test_nothing_leaks_after_an_accepted_stop_and_no_bonus_follows(
    stop: int, expected: list[tuple[int, str, int]], kept_rows: list[int], num_reached: int
) -> None:
    verdict = verdict_on(tree_of([A, B, C]), A, B, C, X, stop_at=stop)
    assert emitted(verdict) == expected
    assert verdict.kept_rows.tolist() == kept_rows
    assert verdict.num_reached == num_reached
    assert verdict.finish is FinishReason.STOP


def test_a_stop_may_be_the_recovered_token_or_the_bonus() -> None:
    assert verdict_on(tree_of([A]), X, stop_at=X).finish is FinishReason.STOP
    assert verdict_on(tree_of([A]), A, X, stop_at=X).finish is FinishReason.STOP
    assert verdict_on(tree_of([A]), A, X).finish is None


def test_a_stop_in_the_draft_is_nothing_until_the_target_says_it() -> None:
    verdict = verdict_on(tree_of([A, B]), A, X, stop_at=B)
    assert emitted(verdict) == [(A, "accepted", 1), (X, "recovered", 0)]
    assert verdict.finish is None


def test_a_rule_sees_the_children_with_the_proposals_they_were_drawn_from() -> None:
    seen: list[Candidates] = []

    class Rule:
        def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
            seen.append(candidates)
            child = 1 if len(candidates.tokens) > 1 else None
            token = candidates.tokens[1] if child else X
            return Decision(child, token, NO_SCORE)

    proposal = Proposal(
        np.arange(10, dtype=np.int32).reshape(5, 2), np.full((5, 2), 0.5, np.float32)
    )
    tree = tree_of([A, C, B, D, E], [-1, -1, 1, 1, 3])
    verdict = verify(0, replace(tree, proposal=proposal), Rule(), go_on)
    assert [candidates.tokens for candidates in seen] == [(A, C), (B, D), (E,)]
    rows = [c.proposal.ids.tolist() for c in seen if c.proposal is not None]
    assert rows == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9]]]
    assert emitted(verdict) == [(C, "accepted", 1), (D, "accepted", 2), (X, "recovered", 0)]


# The law: whatever is drafted and whatever is left of it, the answer is the target's own.

VOCAB_SIZE = 9
MAX_NEW_TOKENS = 24
MAX_DRAFT = 7


class Answer:
    """A minimal loop around `verify`, over a backend that checks every rule of its protocol."""

    def __init__(self, target: TableTarget, config: GenerationConfig, num_top: int) -> None:
        self._backend = TableBackend(target, num_top=num_top)
        self._config = config
        self.tokens: list[int] = []
        self.verdicts: list[Verdict] = []

    def run(self, prompt: list[int], script: Script) -> list[int]:
        """The whole answer; each step after the first verifies what ``script`` proposes."""
        state = SamplingState(self._config, prompt, VOCAB_SIZE)
        self._backend.cache.reserve(0, len(prompt))
        first = replace(prefill_slice(0, prompt), inverse_temperature=state.inverse_temperature)
        part, tree = first, DraftTree.empty()
        while True:
            scores = self._backend.forward(Batch((part,))).scores[0]
            rule = SampleThenMatch(TokenDecider(state, scores))
            verdict = verify(0, tree, rule, self._on_token)
            self.verdicts.append(verdict)
            state.commit(token.token for token in verdict.emitted)
            if part is not first:
                self._backend.commit({0: verdict.kept_rows})
                assert self._backend.committed(0) == [*prompt, *self.tokens][:-1]
            if verdict.finish is not None:
                return self.tokens
            tree = script([*prompt, *self.tokens], MAX_DRAFT)
            past_len = len(self._backend.committed(0))
            self._backend.cache.reserve(0, past_len + 1 + len(tree))
            part = verify_slice(0, past_len, self.tokens[-1], tree, state.inverse_temperature)

    def _on_token(self, token: int) -> FinishReason | None:
        self.tokens.append(token)
        if token in self._config.stop_token_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.tokens) == MAX_NEW_TOKENS else None


configs = st.builds(
    GenerationConfig,
    do_sample=st.booleans(),
    temperature=st.sampled_from([0.5, 1.0, 1.6]),
    top_k=st.sampled_from([None, None, 3]),
    top_p=st.sampled_from([1.0, 1.0, 0.8]),
    min_p=st.sampled_from([0.0, 0.0, 0.1]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 1.0]),
    frequency_penalty=st.sampled_from([0.0, 1.0, -0.5]),
    min_new_tokens=st.sampled_from([0, 5, 20]),
    stop_token_ids=st.sampled_from([frozenset(), frozenset({STOP})]),
    rng_seed=st.integers(0, 2**64 - 1),
)


@st.composite
def drafts_near(draw: st.DrawFn, answer: list[int], prompt: list[int]) -> list[DraftTree]:
    """Trees that contain some of what will come, in any shape, trimmed in any way."""
    trees: list[DraftTree] = []
    for _ in range(draw(st.integers(0, 8))):
        size = draw(st.integers(0, MAX_DRAFT))
        parents = [draw(st.integers(-1, node - 1)) for node in range(size)]
        tree = tree_of([draw(st.sampled_from(answer + prompt)) for _ in range(size)], parents)
        kept = [True] * size
        for node, parent in enumerate(parents):
            kept[node] = (parent < 0 or kept[parent]) and draw(st.integers(0, 4)) > 0
        trees.append(tree.keep(np.flatnonzero(kept)))
    return trees


@settings(deadline=None, max_examples=150)
@given(
    configs,
    st.integers(0, 500),
    st.integers(1, VOCAB_SIZE),
    st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=5),
    st.data(),
)
def test_no_draft_changes_the_answer(
    config: GenerationConfig, seed: int, num_top: int, prompt: list[int], data: st.DataObject
) -> None:
    target = TableTarget(VOCAB_SIZE, seed)
    plain = Answer(target, config, num_top).run(prompt, in_turn([]))
    script = in_turn(data.draw(drafts_near(plain, prompt)))
    assert Answer(target, config, num_top).run(prompt, script) == plain


PENALISED = {
    "repetition": GenerationConfig(repetition_penalty=1.3),
    "presence": GenerationConfig(presence_penalty=1.0),
    "frequency": GenerationConfig(frequency_penalty=1.0),
    "min_new_tokens": GenerationConfig(min_new_tokens=20, stop_token_ids=frozenset({STOP, 1, 2})),
    "sampled": GenerationConfig(do_sample=True, temperature=0.7, repetition_penalty=1.3),
}


def by_turns(whole: list[int], guess: Script) -> Script:
    """By turns what will come, penalties and all, and a guess that knows of no penalty."""

    def script(tokens: Sequence[int], max_tokens: int) -> DraftTree:
        if len(tokens) % 2:
            return guess(tokens, max_tokens)
        return tree_of(whole[len(tokens) : len(tokens) + max_tokens])

    return script


@pytest.mark.parametrize("num_children", [1, 3])
@pytest.mark.parametrize("name", PENALISED)
def test_penalties_act_per_token_however_many_a_step_emits(name: str, num_children: int) -> None:
    """With many drafts accepted and many rejected, so that both sides are really there."""
    num_accepted = num_rejected = 0
    for seed in range(30):
        target = TableTarget(VOCAB_SIZE, seed, spread=2.5)
        prompt = [seed % VOCAB_SIZE, 3]
        plain = Answer(target, PENALISED[name], num_top=5).run(prompt, in_turn([]))
        guess = noisy_copy(target, accuracy=0.8, num_children=num_children, seed=seed)
        answer = Answer(target, PENALISED[name], num_top=5)
        assert answer.run(prompt, by_turns(prompt + plain, guess)) == plain
        num_accepted += sum(verdict.num_accepted for verdict in answer.verdicts)
        num_rejected += sum(
            verdict.num_verified - verdict.num_accepted for verdict in answer.verdicts
        )
    assert num_accepted >= 50
    assert num_rejected >= 50
