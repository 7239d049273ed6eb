"""What a drafter is: something that proposes tokens, and learns from what became of them.

A drafter never touches the target's cache, never decides how many of its tokens are verified, and
never says how likely they are: it hands out evidence, the budget judges. A new drafter is one file
and one line in ``engine/drafters/__init__.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.config import GenerationConfig
from engine.noise import NoiseStream
from engine.values import DraftTree, FloatArray, IntArray, SeqId, Verdict


@dataclass(frozen=True, slots=True)
class Needs:
    """What a drafter asks of the target's side."""

    features: tuple[int, ...] = ()
    """Target layers whose output is tapped."""
    trees: bool = False
    """Whether the drafter may propose branches."""
    samples: bool = False
    """Whether the drafter draws its tokens where ``DraftContext.noise`` lets it."""
    model_free: bool = False
    """True when drafting costs next to nothing, so that it stays on while nothing pays."""


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """Prompt tokens of one sequence that have just been computed; ``features`` float32[n, W] if
    tapped."""

    seq: SeqId
    tokens: IntArray
    features: FloatArray | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class DraftContext:
    """One sequence that could use a draft now.

    ``num_tokens`` counts prompt and answer, the pending token included. ``max_tokens`` is the most
    the step may propose: the user's fixed length or the budget's limit, already cut to what the
    request and the context have left. ``trees``: whether the draft may branch, which the backend
    has to be able to verify.

    ``noise`` is there for drafters that draw their tokens, where the draft will be verified by
    rejection; it is looked up in `Lane.DRAFT`. Such a draft tells its ``proposal``, and its shape,
    how many nodes and which follow which, may not depend on the tokens that were drawn for it: else
    the law is lost (`engine.budget.survival`). Without ``noise``, a draft is deterministic.
    """

    seq: SeqId
    config: GenerationConfig
    num_tokens: int
    max_tokens: int
    trees: bool = False
    noise: NoiseStream | None = None


@dataclass(frozen=True, slots=True)
class DraftLimit:
    """The budget's say while an autoregressive drafter is still drafting."""

    may_continue: Callable[[int, FloatArray], bool]
    """``may_continue(depth, evidence float32[f])``: whether a token at ``depth + 1`` could still
    pay."""


class Drafter(Protocol):
    """One strategy. Used from the engine's thread only."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Needs: ...

    def on_prefill(self, chunks: Sequence[PrefillChunk]) -> None:
        """Take note of prompt tokens; a sequence is new when its first chunk arrives."""
        ...

    def propose(self, contexts: Sequence[DraftContext], limit: DraftLimit) -> list[DraftTree]:
        """One tree for each context, empty where the drafter knows nothing."""
        ...

    def observe(
        self, verdicts: Sequence[Verdict], features: Sequence[FloatArray] | None = None
    ) -> None:
        """Learn what was emitted. Also called for steps that verified nothing, so that the
        drafter's view of each sequence is always complete."""
        ...

    def restore(self, seq: SeqId, length: int) -> None:
        """Forget the tokens of ``seq`` from position ``length`` on."""
        ...

    def release(self, seq: SeqId) -> None:
        """Forget the sequence; unknown sequences are ignored."""
        ...


NO_LIMIT = DraftLimit(may_continue=lambda depth, evidence: True)
"""For fixed draft lengths: the drafter goes on until ``max_tokens``."""


def evidence_table(rows: Sequence[Sequence[float]], width: int) -> FloatArray:
    """float32[n, width] from Python rows; keeps its width when there are none."""
    return np.asarray(rows, np.float32).reshape(len(rows), width)
