"""Suffix decoding: propose what followed when the end of the text stood somewhere before.

All places in prompt and answer, and in earlier answers, that agree longest with the end of the text
bear witness to what comes next (``index``); where they part, the draft branches if the backend can
verify a tree, and follows the majority if not (``tree``). After Oliaro et al., SuffixDecoding,
arXiv 2411.04975; unlike there, places are kept in order of their past instead of in a suffix tree,
and witnesses of several lengths are heard together.

Earlier answers (``memory``) are what it knows beyond prompt lookup: a question that is asked again
is drafted from the first answer. Prompts are never remembered. A draft only proposes: an answer is
the same with any memory, though not equally fast, so that whoever shares an engine could notice
that their answer was given before.

    index     texts sorted by context     tree      from witnesses to a draft
    memory    earlier answers, bounded
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from engine.config import GenerationConfig
from engine.drafters.base import DraftContext, DraftLimit, Needs, PrefillChunk
from engine.drafters.suffix.index import SuffixIndex, since
from engine.drafters.suffix.memory import AnswerMemory
from engine.drafters.suffix.tree import Shape, Source, Witness, grow
from engine.values import DraftTree, FloatArray, SeqId, Verdict

NAME = "suffix"

NUM_WITNESSES = 8
"""Places looked at in the text, and as many in earlier answers."""

DEPTH_FACTOR = 4
"""A draft goes so many times as deep as the longest agreement."""

_TEXT = 0


@dataclass(slots=True)
class _Answer:
    """One sequence: its only text is prompt and answer; ``num_prompt`` tokens are the prompt's."""

    index: SuffixIndex = field(default_factory=SuffixIndex)
    num_prompt: int = 0

    @property
    def tokens(self) -> list[int]:
        return self.index.tokens(_TEXT)


class SuffixDrafter:
    """The drafter: an index for each sequence, and the memory of earlier answers."""

    def __init__(self, memory: AnswerMemory | None = None) -> None:
        self._answers: dict[SeqId, _Answer] = {}
        self._memory = AnswerMemory() if memory is None else memory

    @property
    def name(self) -> str:
        return NAME

    @property
    def needs(self) -> Needs:
        return Needs(trees=True, model_free=True)

    def on_prefill(self, chunks: Sequence[PrefillChunk]) -> None:
        """Index prompt tokens; a sequence is new when its first chunk arrives."""
        for chunk in chunks:
            answer = self._answers.setdefault(chunk.seq, _Answer())
            answer.index.extend(_TEXT, chunk.tokens.tolist())
            answer.num_prompt = len(answer.tokens)

    def propose(self, contexts: Sequence[DraftContext], limit: DraftLimit) -> list[DraftTree]:
        """A tree for each context, a chain where ``context.trees`` is False.

        ``limit`` is not asked: looking up costs next to nothing, so there is nothing to stop early.
        """
        return [self._propose(context) for context in contexts]

    def observe(
        self, verdicts: Sequence[Verdict], features: Sequence[FloatArray] | None = None
    ) -> None:
        """Append what was emitted, drafted or not."""
        for verdict in verdicts:
            index = self._answers[verdict.seq].index
            index.extend(_TEXT, (emitted.token for emitted in verdict.emitted))

    def restore(self, seq: SeqId, length: int) -> None:
        """Forget the tokens of ``seq`` from position ``length`` on."""
        answer = self._answers[seq]
        answer.index.truncate(_TEXT, length)
        answer.num_prompt = min(answer.num_prompt, length)

    def release(self, seq: SeqId) -> None:
        """Forget the sequence but for its answer, however it ended; unknown sequences are
        ignored."""
        answer = self._answers.pop(seq, None)
        if answer is not None:
            self._memory.add(answer.tokens[answer.num_prompt :])

    def _propose(self, context: DraftContext) -> DraftTree:
        answer = self._answers[context.seq]
        assert len(answer.tokens) == context.num_tokens, "the drafter missed tokens"
        witnesses = self._witnesses(answer)
        if not witnesses:
            return DraftTree.empty()
        depth = DEPTH_FACTOR * witnesses[0].length
        return grow(witnesses, _shape(context, depth))

    def _witnesses(self, answer: _Answer) -> list[Witness]:
        """The longest first. The answer alone is looked up among earlier answers, since they were
        kept without what stood before them."""
        tokens, num_prompt = answer.tokens, answer.num_prompt
        end = answer.index.end(_TEXT)
        witnesses = [
            Witness(
                tokens,
                place.position,
                place.length,
                Source.PROMPT if place.position < num_prompt else Source.ANSWER,
            )
            for place in answer.index.nearest(end, NUM_WITNESSES)
        ]
        alone = since(end, len(tokens) - num_prompt)
        witnesses += [
            Witness(self._memory.tokens(place.text), place.position, place.length, Source.EARLIER)
            for place in self._memory.nearest(alone, NUM_WITNESSES)
        ]
        witnesses.sort(key=attrgetter("length"), reverse=True)
        return witnesses


def _shape(context: DraftContext, max_depth: int) -> Shape:
    """A request that fixes a length gets the tree that it asks for, by default a chain; else
    branches are bounded by their promise alone."""
    config = context.config
    max_children = context.max_tokens
    if config.num_assistant_tokens is not None:
        max_children = config.branching_factor
    return Shape(
        max_tokens=context.max_tokens,
        max_depth=min(max_depth, config.tree_depth or max_depth),
        max_children=max_children if context.trees else 1,
        ends=_ends(config),
    )


def _ends(config: GenerationConfig) -> frozenset[int]:
    """Tokens that end the answer: a draft that went on behind one would be verified for nothing."""
    return frozenset() if config.ignore_eos else config.stop_token_ids
