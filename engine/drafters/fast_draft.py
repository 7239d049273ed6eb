"""Fast Draft: a smaller model with the same vocabulary drafts one token after another.

The model runs behind the `Backend` interface with a cache of its own. Everything is fed to it as
rows of a prompt, which stay in the cache; what turns out wrong is cut off. So the cache of a
sequence always holds the first rows of its text and of the draft behind it, and drafting is one
loop: feed what is not in the cache yet, take the next token off the last row, and again. A
sequence may lag behind, by the last token of an accepted draft or by all that was emitted while
drafting rested; it is read on the way. All sequences share each pass.

Where the draft model has no room, in its context or its cache, the sequence goes on without a
draft. The algorithm is that of Leviathan, Kalman and Matias (2023) and of Chen et al. (2023). It
does not compare vocabularies (`engine.library.pairing`).

The second-best token of a row costs nothing to know. Where the draft model hesitates, and the
chain has left room, it becomes a leaf beside the chain; nothing is drafted behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.backends.base import Backend, Batch, Slice
from engine.config import GenerationConfig
from engine.drafters.base import DraftContext, DraftLimit, Needs, PrefillChunk
from engine.sampling import SamplingState
from engine.sampling.proposal import DraftSampling, ProposedToken, RunnerUp, proposal_of
from engine.values import ROOT, DraftTree, FloatArray, Scores, SeqId, SliceKind, Verdict

NAME = "fast_draft"

MAX_ROWS = 256
"""Most rows of one pass, as many as the target reads of a prompt at once by default."""

MIN_LEAF_PROBABILITY = 0.1
"""A runner-up that the draft model believes in less is not worth a row."""


@dataclass(slots=True)
class _Line:
    """One sequence. The cache holds the first ``num_rows`` tokens of ``tokens`` and then
    ``drafted``.

    ``tokens`` are prompt and answer, the pending token included; ``num_prompt`` of them are the
    prompt's.
    """

    seq: SeqId
    tokens: list[int] = field(default_factory=list[int])
    num_prompt: int = 0
    drafted: list[int] = field(default_factory=list[int])
    num_rows: int = 0
    has_room: bool = False
    """Whether the sequence is known to the backend."""
    is_foreign: bool = False
    """Whether a token is none of the draft model's."""
    sampling: SamplingState | None = None

    @property
    def is_read(self) -> bool:
        """Whether every token has its row."""
        return self.num_rows == len(self.tokens) + len(self.drafted)

    def next_rows(self, limit: int) -> list[int]:
        """The next tokens to feed."""
        begin = self.num_rows
        if begin < len(self.tokens):
            return [*self.tokens[begin : begin + limit], *self.drafted][:limit]
        return self.drafted[begin - len(self.tokens) :][:limit]

    def sampling_state(self, config: GenerationConfig, vocab_size: int) -> SamplingState:
        """The state behind all tokens; kept, so that a step adds no more than its own."""
        if self.sampling is None:
            self.sampling = SamplingState(config, self.tokens[: self.num_prompt], vocab_size)
        self.sampling.commit(self.tokens[self.num_prompt + self.sampling.num_generated :])
        return self.sampling


@dataclass(slots=True)
class _Draft:
    """A chain in the making; ``max_tokens`` is the room that it shares with its leaves."""

    context: DraftContext
    line: _Line
    sampling: DraftSampling
    max_tokens: int
    tokens: list[ProposedToken] = field(default_factory=list[ProposedToken])


class FastDraft:
    """The drafter: one line of text per sequence, and the draft model."""

    def __init__(
        self,
        backend: Backend,
        *,
        vocab_size: int | None = None,
        context_length: int | None = None,
        max_rows: int = MAX_ROWS,
    ) -> None:
        """``backend`` runs the draft model, and stays the caller's to close. ``vocab_size`` are the
        tokens that both models have, without padding (None: as wide as the scores);
        ``context_length`` the positions that the draft model was made for (None: no limit)."""
        self._backend = backend
        self._vocab_size = min(vocab_size or backend.vocab_size, backend.vocab_size)
        self._context_length = context_length
        self._max_rows = max_rows
        self._lines: dict[SeqId, _Line] = {}

    @property
    def name(self) -> str:
        return NAME

    @property
    def needs(self) -> Needs:
        return Needs(trees=True, samples=True)

    def on_prefill(self, chunks: Sequence[PrefillChunk]) -> None:
        """Read prompt tokens as the target reads them."""
        lines: list[_Line] = []
        for chunk in chunks:
            line = self._lines.setdefault(chunk.seq, _Line(chunk.seq))
            self._extend(line, chunk.tokens.tolist())
            line.num_prompt = len(line.tokens)
            if self._make_room(line, len(line.tokens)):
                lines.append(line)
        while lines := [line for line in lines if not line.is_read]:
            self._forward(lines)

    def propose(self, contexts: Sequence[DraftContext], limit: DraftLimit) -> list[DraftTree]:
        """A chain for each context, with leaves where there may be branches; empty where the draft
        model has no room.

        Where tokens are drawn, nothing but the threshold of the request looks at them, and then
        only at those before the place: such a draft has to be verified as a whole.
        """
        drafts = [self._begin(context) for context in contexts]
        active = [draft for draft in drafts if draft is not None]
        while active:
            scores = self._forward([draft.line for draft in active])
            active = [
                draft
                for draft, row in zip(active, scores, strict=True)
                if not draft.line.is_read or _grow(draft, row, limit)
            ]
        return [DraftTree.empty() if draft is None else _tree(draft) for draft in drafts]

    def observe(
        self, verdicts: Sequence[Verdict], features: Sequence[FloatArray] | None = None
    ) -> None:
        """Take over what was emitted, and keep the rows that agree with it."""
        for verdict in verdicts:
            line = self._lines[verdict.seq]
            emitted = [token.token for token in verdict.emitted]
            agreed = _num_agreeing(line.drafted, emitted)
            self._cut(line, len(line.tokens) + agreed)
            self._extend(line, emitted)

    def restore(self, seq: SeqId, length: int) -> None:
        """Forget the tokens of ``seq`` from position ``length`` on."""
        line = self._lines[seq]
        self._cut(line, length)
        del line.tokens[length:]
        line.num_prompt = min(line.num_prompt, length)
        line.is_foreign = self._is_foreign(line.tokens)
        line.sampling = None

    def release(self, seq: SeqId) -> None:
        """Forget the sequence; unknown sequences are ignored."""
        line = self._lines.pop(seq, None)
        if line is not None:
            self._give_back(line)

    def _begin(self, context: DraftContext) -> _Draft | None:
        """A draft that can be as long as asked, or as the draft model's context allows."""
        line = self._lines[context.seq]
        length = len(line.tokens)
        assert length == context.num_tokens, "the drafter missed tokens"
        max_tokens = context.max_tokens
        if self._context_length is not None:
            # The last token of a draft is not fed.
            max_tokens = min(max_tokens, self._context_length - length + 1)
        # The row of the pending token is scored, so that it has to be fed now.
        self._cut(line, length - 1)
        if not self._make_room(line, length + max(max_tokens - 1, 0)) or max_tokens < 1:
            return None
        state = line.sampling_state(context.config, self._backend.vocab_size)
        sampling = DraftSampling(state, context.noise, self._vocab_size)
        return _Draft(context, line, sampling, max_tokens)

    def _make_room(self, line: _Line, length: int) -> bool:
        """Reserve ``length`` rows in all, if the draft model can have the text and has room."""
        is_too_long = self._context_length is not None and length > self._context_length
        if line.is_foreign or is_too_long:
            self._give_back(line)
            return False
        cache = self._backend.cache
        if line.has_room:
            fits = cache.can_reserve(line.seq, length)
        else:
            num_held = sum(other.has_room for other in self._lines.values())
            is_free = num_held < self._backend.capabilities.max_sequences
            fits = is_free and cache.can_admit(length)
        if fits:
            cache.reserve(line.seq, length)
            line.has_room = True
        return fits

    def _forward(self, lines: Sequence[_Line]) -> tuple[Scores, ...]:
        """Feed each line's next rows; the last row of a line is scored if it is its last token."""
        limit = max(1, self._max_rows // len(lines))
        parts: list[Slice] = []
        for line in lines:
            tokens, past_len = line.next_rows(limit), line.num_rows
            line.num_rows += len(tokens)
            scored = [len(tokens) - 1] if line.is_read else []
            parts.append(
                Slice(
                    seq=line.seq,
                    kind=SliceKind.PREFILL,
                    past_len=past_len,
                    tokens=np.array(tokens, np.int32),
                    positions=np.arange(past_len, line.num_rows, dtype=np.int64)[None],
                    scored=np.array(scored, np.int32),
                )
            )
        return self._backend.forward(Batch(tuple(parts))).scores

    def _extend(self, line: _Line, tokens: Sequence[int]) -> None:
        line.tokens.extend(tokens)
        line.is_foreign = line.is_foreign or self._is_foreign(tokens)

    def _is_foreign(self, tokens: Iterable[int]) -> bool:
        return max(tokens, default=0) >= self._backend.vocab_size

    def _cut(self, line: _Line, length: int) -> None:
        """Forget the draft, and the rows from position ``length`` on with the room behind."""
        line.drafted.clear()
        line.num_rows = min(line.num_rows, length)
        if line.has_room:
            self._backend.restore(line.seq, line.num_rows)

    def _give_back(self, line: _Line) -> None:
        if line.has_room:
            self._backend.release(line.seq)
        line.has_room = False
        line.num_rows = 0


def _grow(draft: _Draft, scores: Scores, limit: DraftLimit) -> bool:
    """Add a token to the draft; whether another one should follow."""
    line, config = draft.line, draft.context.config
    proposed = draft.sampling.propose(scores, line.drafted)
    line.drafted.append(proposed.token)
    draft.tokens.append(proposed)
    if draft.context.noise is None and proposed.token in _ends(config):
        return False
    depth = len(draft.tokens)
    # As in OpenVINO GenAI, the token that was not sure enough is still verified.
    is_sure = proposed.confidence >= config.assistant_confidence_threshold
    return depth < draft.max_tokens and is_sure and limit.may_continue(depth, proposed.evidence)


def _ends(config: GenerationConfig) -> frozenset[int]:
    """Tokens that end the answer: a draft that went on behind one would be verified for nothing."""
    return frozenset() if config.ignore_eos else config.stop_token_ids


def _tree(draft: _Draft) -> DraftTree:
    chain, context = draft.tokens, draft.context
    # A threshold is the user's own word on what is verified: no leaf goes with it.
    may_branch = context.trees and not context.config.assistant_confidence_threshold
    leaves = _leaves(draft) if may_branch else []
    tokens = [proposed.token for proposed in chain] + [leaf.token for _, leaf in leaves]
    evidence = [proposed.evidence for proposed in chain] + [leaf.evidence for _, leaf in leaves]
    parents = [*range(ROOT, len(chain) - 1), *(place - 1 for place, _ in leaves)]
    return DraftTree(
        np.array(tokens, np.int32),
        np.array(parents, np.int32),
        np.stack(evidence),
        proposal_of(chain),
    )


def _leaves(draft: _Draft) -> list[tuple[int, RunnerUp]]:
    """Runners-up beside the chain, each with its place in it (0: beside its first token): the most
    likely ones, as many as there is room for."""
    found: list[tuple[float, int, RunnerUp]] = []
    reached = 1.0  # the chance that the chain gets here, if the draft model is right
    for place, proposed in enumerate(draft.tokens):
        second = proposed.runner_up
        if second is not None and second.probability >= MIN_LEAF_PROBABILITY:
            found.append((reached * second.probability, place, second))
        reached *= proposed.confidence
    found.sort(key=lambda leaf: -leaf[0])
    room = draft.max_tokens - len(draft.tokens)
    return sorted(((place, leaf) for _, place, leaf in found[:room]), key=lambda leaf: leaf[0])


def _num_agreeing(drafted: Sequence[int], emitted: Sequence[int]) -> int:
    for place, (one, other) in enumerate(zip(drafted, emitted, strict=False)):
        if one != other:
            return place
    return min(len(drafted), len(emitted))
