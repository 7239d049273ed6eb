"""Fast Draft: what it proposes depends on the text alone, however the text came about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import GenerationConfig
from engine.drafters.base import NO_LIMIT, DraftContext, DraftLimit, PrefillChunk
from engine.drafters.fast_draft import FastDraft
from engine.noise import NoiseStream
from engine.values import DraftTree, FloatArray, SeqId
from tests.engine.budget.texts import verdict
from tests.engine.draft_models import padded
from tests.fakes import TableBackend, TableTarget

MODEL = TableTarget(12, seed=5, spread=2.0)
PROMPT = [3, 1, 4]
SAMPLED = GenerationConfig(do_sample=True, temperature=0.8)


class Text:
    """One drafter, its draft model, and the texts that it was told of."""

    def __init__(self, model: TableTarget = MODEL, **options: Any) -> None:
        of_drafter = {
            name: options.pop(name)
            for name in ("vocab_size", "context_length", "max_rows")
            if name in options
        }
        self.backend = TableBackend(model, **options)
        self.drafter = FastDraft(self.backend, **of_drafter)
        self.tokens: dict[SeqId, list[int]] = {}
        self.trees = False

    def read(self, tokens: Sequence[int], seq: SeqId = 0) -> None:
        self.tokens.setdefault(seq, []).extend(tokens)
        self.drafter.on_prefill([PrefillChunk(seq, np.array(tokens, np.int32), None, True)])

    def emit(self, tokens: Sequence[int], seq: SeqId = 0) -> None:
        self.tokens[seq].extend(tokens)
        self.drafter.observe([verdict(seq, tokens)])

    def draft(
        self,
        max_tokens: int = 4,
        config: GenerationConfig | None = None,
        seq: SeqId = 0,
        limit: DraftLimit = NO_LIMIT,
    ) -> DraftTree:
        (tree,) = self.drafter.propose([self.context(max_tokens, config, seq)], limit)
        return tree

    def context(
        self, max_tokens: int = 4, config: GenerationConfig | None = None, seq: SeqId = 0
    ) -> DraftContext:
        config = config or GenerationConfig()
        noise = NoiseStream(config.rng_seed) if config.do_sample else None
        num_tokens = len(self.tokens[seq])
        return DraftContext(seq, config, num_tokens, max_tokens, self.trees, noise)


def walk(tokens: Sequence[int], length: int) -> list[int]:
    """What the draft model itself would say."""
    text = list(tokens)
    for _ in range(length):
        text.append(MODEL.likeliest(text))
    return text[len(tokens) :]


def started(text: Text, seq: SeqId = 0) -> Text:
    text.read(PROMPT, seq)
    text.emit([7], seq)
    return text


def test_drafts_what_the_draft_model_finds_likeliest() -> None:
    tree = started(Text()).draft(5)
    assert tree.tokens.tolist() == walk([*PROMPT, 7], 5)
    assert tree.is_chain
    assert tree.proposal is None
    assert tree.evidence.shape == (5, 3)


def test_a_row_is_fed_for_each_token_but_the_last() -> None:
    text = started(Text())
    before = text.backend.num_passes
    text.draft(5)
    assert text.backend.num_passes == before + 5
    assert [batch.num_rows for batch in text.backend.batches[before:]] == [1] * 5
    assert text.backend.committed(0) == [*PROMPT, 7, *walk([*PROMPT, 7], 4)]


@pytest.mark.parametrize("num_accepted", range(6))
def test_rows_that_the_target_agrees_with_are_not_fed_again(num_accepted: int) -> None:
    text = started(Text())
    drafted = text.draft(5).tokens.tolist()
    other = (drafted[num_accepted] if num_accepted < 5 else 0) + 1
    text.emit([*drafted[:num_accepted], other % 12])
    before = text.backend.num_passes
    assert text.draft(1).tokens.tolist() == walk(text.tokens[0], 1)
    (batch,) = text.backend.batches[before:]
    assert batch.num_rows == (2 if num_accepted == 5 else 1)  # the last token was never fed


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_draft_depends_on_the_text_alone(data: st.DataObject) -> None:
    tokens = st.lists(st.integers(0, 11), min_size=1, max_size=5)
    text = Text(max_rows=data.draw(st.integers(1, 6)))
    for chunk in data.draw(st.lists(tokens, min_size=1, max_size=3)):
        text.read(chunk)
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(st.sampled_from(["draft", "emit", "agree", "restore"])):
            case "draft":
                tree = text.draft(data.draw(st.integers(1, 5)))
                assert tree.tokens.tolist() == walk(text.tokens[0], len(tree))
            case "agree":
                length = data.draw(st.integers(1, 6))
                text.emit(walk(text.tokens[0], length))
            case "emit":
                text.emit(data.draw(tokens))
            case _:
                length = data.draw(st.integers(1, len(text.tokens[0])))
                text.drafter.restore(0, length)
                del text.tokens[0][length:]
    assert text.draft(4).tokens.tolist() == walk(text.tokens[0], 4)
    text.drafter.release(0)
    assert not text.backend.open_sequences


def test_all_sequences_share_each_pass() -> None:
    text = Text()
    for seq in range(4):
        text.read([*PROMPT, seq], seq)
        text.emit([7], seq)
    text.emit([5, 6], 2)  # has more to read than the others
    before = text.backend.num_passes
    contexts = [text.context(1 + seq, seq=seq) for seq in range(4)]
    trees = text.drafter.propose(contexts, NO_LIMIT)
    for seq, tree in enumerate(trees):
        assert tree.tokens.tolist() == walk(text.tokens[seq], 1 + seq)
    assert [len(batch.slices) for batch in text.backend.batches[before:]] == [4, 3, 2, 1]


def test_a_long_backlog_is_read_in_pieces() -> None:
    text = Text(max_rows=8)
    started(text)
    text.emit([1, 2, 3] * 10)
    before = text.backend.num_passes
    assert text.draft(2).tokens.tolist() == walk(text.tokens[0], 2)
    assert [batch.num_rows for batch in text.backend.batches[before:]] == [8, 8, 8, 7, 1]


# Where a draft ends.


def test_the_limit_is_asked_at_each_depth_and_ends_the_draft() -> None:
    asked: list[tuple[int, list[float]]] = []

    def may_continue(depth: int, evidence: FloatArray) -> bool:
        asked.append((depth, evidence.tolist()))
        return depth < 3

    tree = started(Text()).draft(6, limit=DraftLimit(may_continue))
    assert len(tree) == 3
    assert asked == [(1 + node, tree.evidence[node].tolist()) for node in range(3)]


def test_the_first_token_below_the_threshold_is_the_last() -> None:
    text = started(Text())
    chances = 1.0 / (1.0 + np.exp(-text.draft(6).evidence[:, 1]))
    text.emit([7])
    threshold = float(np.sort(chances)[2])
    config = GenerationConfig(assistant_confidence_threshold=threshold + 1e-3)
    tree = text.draft(6, config)
    sure = 1.0 / (1.0 + np.exp(-tree.evidence[:, 1])) >= threshold + 1e-3
    assert 1 <= len(tree) < 6
    assert sure[:-1].all()
    assert not sure[-1]


def test_nothing_is_drafted_behind_an_end_token() -> None:
    second = walk([*PROMPT, 7], 2)[1]
    config = GenerationConfig(stop_token_ids=frozenset({second}))
    assert len(started(Text()).draft(5, config)) == 2
    going_on = GenerationConfig(stop_token_ids=frozenset({second}), ignore_eos=True)
    assert len(started(Text()).draft(5, going_on)) == 5


def test_where_tokens_are_drawn_an_end_token_does_not_shape_the_draft() -> None:
    ends = frozenset(range(12))
    config = GenerationConfig(do_sample=True, stop_token_ids=ends)
    assert len(started(Text()).draft(5, config)) == 5


# Leaves.

HESITATING = TableTarget(12, seed=5, spread=0.7)


def branching(**options: Any) -> Text:
    text = started(Text(HESITATING, **options))
    text.trees = True
    return text


def three_deep(depth: int, evidence: FloatArray) -> bool:
    return depth < 3


def test_the_runner_up_becomes_a_leaf_beside_the_chain() -> None:
    tree = branching().draft(6, limit=DraftLimit(three_deep))
    assert tree.parents.tolist()[:3] == [-1, 0, 1]
    assert len(tree) > 3
    text = [*PROMPT, 7]
    for node in range(3, len(tree)):
        before = tree.tokens[: tree.parents[node] + 1].tolist()
        logits = HESITATING.logits([*text, *before])
        best, second = np.argsort(-logits)[:2].tolist()
        assert tree.tokens[node] == second
        assert tree.tokens[tree.parents[node] + 1] == best
        chance = float(np.exp(logits[second]) / np.exp(logits).sum())
        assert chance >= 0.1
        assert tree.evidence[node, :2].tolist() == pytest.approx(
            [logits[second] - logits[best], np.log(chance / (1.0 - chance))], abs=1e-4
        )


def test_the_chain_comes_first_and_leaves_take_what_is_left() -> None:
    assert branching().draft(5).is_chain
    sizes = [len(branching().draft(size, limit=DraftLimit(three_deep))) for size in (3, 4, 5)]
    assert sizes == [3, 4, 5]


def test_there_are_no_leaves_where_none_can_be_verified_or_tokens_are_drawn() -> None:
    text = started(Text(HESITATING))
    assert len(text.draft(6, limit=DraftLimit(three_deep))) == 3
    assert len(branching().draft(6, SAMPLED, limit=DraftLimit(three_deep))) == 3
    strict = GenerationConfig(assistant_confidence_threshold=0.9)
    assert len(branching().draft(6, strict)) == 1


def test_an_accepted_leaf_is_read_as_any_other_token() -> None:
    text = branching()
    tree = text.draft(6, limit=DraftLimit(three_deep))
    leaf = int(tree.tokens[3])
    text.emit([*tree.tokens[: tree.parents[3] + 1].tolist(), leaf, 2])
    fresh = Text(HESITATING)
    fresh.read(text.tokens[0])
    assert text.draft(4).tokens.tolist() == fresh.draft(4).tokens.tolist()


# The vocabulary.


@pytest.mark.parametrize("num_top", [3, 14], ids=["padding alone is ranked", "all are ranked"])
@pytest.mark.parametrize("config", [GenerationConfig(), SAMPLED], ids=["greedy", "sampled"])
def test_no_padding_is_proposed(num_top: int, config: GenerationConfig) -> None:
    text = started(Text(padded(MODEL, 4), vocab_size=12, num_top=num_top))
    tree = text.draft(5, config)
    assert len(tree) == 5
    assert tree.tokens.max() < 12
    if tree.proposal is not None:
        assert tree.proposal.ids.max() < 12
    else:
        assert tree.tokens.tolist() == walk([*PROMPT, 7], 5)


def test_a_text_with_a_token_that_the_draft_model_does_not_have_goes_on_without_a_draft() -> None:
    text = started(Text())
    text.emit([12])
    assert not len(text.draft())
    assert not text.backend.open_sequences
    text.emit([3])
    assert not len(text.draft())


# Room.


def test_a_text_longer_than_the_draft_models_context_goes_on_without_a_draft() -> None:
    text = started(Text(context_length=6))
    tree = text.draft(9)
    assert len(tree) == 3  # rows 0 to 5: the prompt's, the pending token's, and two of the draft
    text.emit([1, 2])
    assert text.draft(9).tokens.tolist() == walk(text.tokens[0], 1)
    text.emit([3])
    assert not len(text.draft(9))
    assert not text.backend.open_sequences
    text.emit([4])
    assert not len(text.draft(9))


def test_a_prompt_longer_than_the_draft_models_context_is_given_up_midway() -> None:
    text = Text(context_length=6)
    text.read([1, 2, 3, 4])
    text.read([5, 6, 7])
    text.emit([8])
    assert not len(text.draft())
    assert not text.backend.open_sequences


def test_a_sequence_without_room_in_the_cache_waits_until_there_is_some() -> None:
    text = Text(cache_tokens=16)
    text.read(PROMPT * 4, 0)
    text.emit([7], 0)
    text.read(PROMPT * 4, 1)
    text.emit([7], 1)
    trees = text.drafter.propose([text.context(seq=seq) for seq in (0, 1)], NO_LIMIT)
    assert [len(tree) for tree in trees] == [4, 0]
    text.drafter.release(0)
    assert text.draft(seq=1).tokens.tolist() == walk(text.tokens[1], 4)


def test_a_full_cache_ends_drafting_and_keeps_what_was_read() -> None:
    text = started(Text(cache_tokens=8))
    assert len(text.draft(4)) == 4
    text.emit([1, 2, 3])
    assert not len(text.draft(4))
    assert text.draft(2).tokens.tolist() == walk(text.tokens[0], 2)


def test_a_draft_model_for_one_sequence_serves_one_at_a_time() -> None:
    text = Text(max_sequences=1)
    for seq in (0, 1):
        started(text, seq)
    trees = text.drafter.propose([text.context(seq=seq) for seq in (0, 1)], NO_LIMIT)
    assert [len(tree) for tree in trees] == [4, 0]
    text.drafter.release(0)
    assert text.draft(seq=1).tokens.tolist() == walk(text.tokens[1], 4)


def test_release_forgets_a_sequence_in_the_middle_of_a_draft() -> None:
    text = started(Text())
    text.draft()
    text.drafter.release(0)
    text.drafter.release(0)
    assert not text.backend.open_sequences


# Drawn drafts.


def test_a_drawn_draft_tells_its_proposal_and_repeats_with_its_seed() -> None:
    trees = [started(Text()).draft(5, SAMPLED) for _ in range(2)]
    assert trees[0].tokens.tolist() == trees[1].tokens.tolist()
    proposal = trees[0].proposal
    assert proposal is not None
    np.testing.assert_allclose(proposal.probs.sum(axis=1), 1.0, rtol=1e-5)
    assert all((proposal.ids[node] == token).any() for node, token in enumerate(trees[0].tokens))


def test_what_shapes_a_draft_does_not_see_the_token_that_was_drawn() -> None:
    drafts = [
        started(Text()).draft(1, GenerationConfig(do_sample=True, rng_seed=seed))
        for seed in range(20)
    ]
    assert len({int(draft.tokens[0]) for draft in drafts}) > 1
    assert all((draft.evidence == drafts[0].evidence).all() for draft in drafts)


def test_the_threshold_does_not_see_the_token_that_was_drawn() -> None:
    lengths: dict[int, set[int]] = {}
    for seed in range(40):
        config = GenerationConfig(
            do_sample=True, rng_seed=seed, assistant_confidence_threshold=0.5, temperature=1.5
        )
        tree = started(Text()).draft(2, config)
        lengths.setdefault(int(tree.tokens[0]), set()).add(len(tree))
    assert len(lengths) > 1
    assert len(set.union(*lengths.values())) == 1  # the first place alone decides on the second
