"""From the state of sequences to the rows of a batch, and back. Small steps of the loop, and pure
but for `take_in`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.backends.base import Slice
from engine.drafters.base import PrefillChunk
from engine.drafting import Draft, StepShape
from engine.scheduler import PrefillShare, Schedule
from engine.sequence import Sequence
from engine.values import SeqId, SliceKind

_FIRST_ROW = np.array([-1], np.int32)  # the pending token follows the cache


def step_shape(schedule: Schedule, sequences: Mapping[SeqId, Sequence]) -> StepShape:
    """What the batch is before drafts come on top."""
    shares = [(seq, 1) for seq in schedule.verify]
    shares += [(share.seq, share.num_rows) for share in schedule.prefill]
    num_rows = sum(rows for _, rows in shares)
    cached = sum(sequences[seq].num_computed * rows for seq, rows in shares)
    return StepShape(base_rows=num_rows, context_len=cached // max(1, num_rows))


def verify_slice(answer: Sequence, draft: Draft) -> Slice:
    """The pending token and the nodes to verify: ``1 + n`` rows, all of them scored."""
    tree, past_len = draft.tree, answer.num_computed
    num_rows = 1 + len(tree)
    positions = np.arange(past_len, past_len + num_rows, dtype=np.int64)
    parents = None
    if not tree.is_chain:
        positions[1:] = past_len + tree.depths()
        parents = np.concatenate((_FIRST_ROW, 1 + tree.parents))
    tokens = np.empty(num_rows, np.int32)
    tokens[0] = answer.pending_token
    tokens[1:] = tree.tokens
    return Slice(
        seq=answer.seq,
        kind=SliceKind.VERIFY,
        past_len=past_len,
        tokens=tokens,
        positions=positions[None],
        scored=np.arange(num_rows, dtype=np.int32),
        parents=parents,
        inverse_temperature=answer.sampling.inverse_temperature,
    )


def prefill_slice(answer: Sequence, share: PrefillShare) -> Slice:
    """The next rows of the prompt; the last row of the last chunk is scored."""
    begin = answer.num_computed
    end = begin + share.num_rows
    scored = [share.num_rows - 1] if share.is_last else []
    return Slice(
        seq=answer.seq,
        kind=SliceKind.PREFILL,
        past_len=begin,
        tokens=np.array(answer.prompt[begin:end], np.int32),
        positions=np.arange(begin, end, dtype=np.int64)[None],
        scored=np.array(scored, np.int32),
        inverse_temperature=answer.sampling.inverse_temperature,
    )


def take_in(answer: Sequence, part: Slice) -> tuple[Sequence, PrefillChunk]:
    """Count the prompt rows that a pass has computed, and show them to the drafter."""
    answer.num_computed += part.num_rows
    is_last = answer.num_computed == answer.prompt_len
    return answer, PrefillChunk(part.seq, part.tokens, None, is_last)
