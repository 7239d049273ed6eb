"""The nouns that flow through the engine, and the glossary of its terms.

State convention: ``L`` committed tokens have valid cache rows; one *pending* token, already emitted
(or the last token of the prompt), sits at position ``L`` and has no cache row yet. Verifying ``K``
draft tokens feeds ``K + 1`` rows: row 0 is the pending token at position ``L``, row ``1 + i`` is
draft node ``i`` at position ``L + depth(i)``. Row ``j`` predicts the token after it.

*Accepted*: a draft token that the target keeps. *Recovered*: the target's own token where it first
disagrees with the draft. *Bonus*: its extra token after a fully accepted path. *Plain*: a token of
a step that verified no draft. Each verification emits the accepted tokens and exactly one of the
other kinds, unless a stop comes first.

Nothing here knows how anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]

SeqId = int
"""Identifies one sequence (one choice of one request) for as long as it is in the engine."""

ROOT = -1
"""The parent of a draft node that follows the pending token directly."""


class Origin(StrEnum):
    """Where an emitted token came from; defined in the module's docstring."""

    PLAIN = "plain"
    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    BONUS = "bonus"


class FinishReason(StrEnum):
    """Why a sequence ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


class SliceKind(StrEnum):
    """What a sequence does in a batch."""

    PREFILL = "prefill"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The distribution each draft token was drawn from, truncated to its ``K`` largest entries.

    ``ids`` int32[n, K] are target vocabulary ids, ``probs`` float32[n, K] sum to one per row.
    """

    ids: IntArray
    probs: FloatArray


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Candidate tokens for one sequence. A chain is a tree without branches.

    ``tokens`` int32[n]; ``parents`` int32[n] with ``parents[i] < i``, ``ROOT`` for the nodes that
    follow the pending token (a chain has -1, 0, 1, ...); ``evidence`` float32[n, f] is what the
    drafter knows about each node, in the drafter's own columns: the budget turns evidence into
    survival, the drafter never does. ``proposal`` is None for a deterministic drafter.
    """

    tokens: IntArray
    parents: IntArray
    evidence: FloatArray
    proposal: Proposal | None = None

    @staticmethod
    def empty() -> DraftTree:
        """No candidates: the step decodes plainly."""
        none = np.empty(0, np.int32)
        return DraftTree(none, none, np.empty((0, 0), np.float32))

    @staticmethod
    def chain(
        tokens: IntArray, evidence: FloatArray, proposal: Proposal | None = None
    ) -> DraftTree:
        """A tree in which each token follows the one before it."""
        parents = np.arange(-1, len(tokens) - 1, dtype=np.int32)
        return DraftTree(np.asarray(tokens, np.int32), parents, evidence, proposal)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """True when no node has two children."""
        return self.parents.tolist() == list(range(-1, len(self) - 1))

    def depths(self) -> IntArray:
        """int32[n], 1 for the nodes that follow the pending token."""
        depths = np.empty(len(self), np.int32)
        for node, parent in enumerate(self.parents):
            depths[node] = 1 if parent == ROOT else depths[parent] + 1
        return depths

    def children(self, node: int) -> list[int]:
        """Nodes whose parent is ``node`` (``ROOT`` for the first layer), in order."""
        return [int(child) for child in np.flatnonzero(self.parents == node)]

    def keep(self, nodes: IntArray) -> DraftTree:
        """The tree of ``nodes`` alone (ascending and prefix-closed: a node's parent is kept
        too)."""
        renumbered = np.full(len(self) + 1, ROOT, np.int32)  # last entry stands for ROOT
        renumbered[nodes] = np.arange(len(nodes), dtype=np.int32)
        proposal = self.proposal
        if proposal is not None:
            proposal = Proposal(proposal.ids[nodes], proposal.probs[nodes])
        return DraftTree(
            self.tokens[nodes], renumbered[self.parents[nodes]], self.evidence[nodes], proposal
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """Next-token scores of the ``s`` scored rows of one slice.

    ``ids`` int32[s, K] and ``logits`` float32[s, K] are the K largest, largest first, ties by lower
    id. ``log_sum_exp`` float32[s] is over the whole vocabulary, ``log_sum_exp_t`` float32[s] the
    same after multiplication by the slice's inverse temperature, ``entropy`` float32[s] in nats at
    temperature one. ``full(i)`` gives all logits of scored row ``i``, float32[V]; it costs a copy
    and is valid only until the backend's next ``forward``.
    """

    ids: IntArray
    logits: FloatArray
    log_sum_exp: FloatArray
    log_sum_exp_t: FloatArray
    entropy: FloatArray
    full: Callable[[int], FloatArray]


@dataclass(frozen=True, slots=True)
class TokenScore:
    """What the target said of one emitted token, before any processor and at temperature one."""

    logprob: float
    entropy: float
    """Of the whole next-token distribution, in nats."""
    top: tuple[tuple[int, float], ...] = ()
    """(token id, logprob) of the most likely tokens, most likely first, where the request asked."""


@dataclass(frozen=True, slots=True)
class EmittedToken:
    """One token as it leaves verification. ``depth`` is 0 for a token that was not drafted.

    ``origin`` and ``score`` are None where whoever ran the step does not tell; our own engine
    always does.
    """

    token: int
    origin: Origin | None
    depth: int
    score: TokenScore | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one forward pass decided for one sequence.

    ``kept_rows`` int32[m] are the rows of the sequence's slice whose cache rows stay valid, in path
    order, row 0 (the pending token) first; as many as there are emitted tokens, of which the last
    becomes the new pending token. Example: pending ``t``, draft chain ``a b c``; the target accepts
    ``a``, ``b`` and wants ``x`` instead of ``c``: kept rows ``[0, 1, 2]``, emitted ``a b x``.
    ``num_verified`` counts the draft tokens in the pass, ``num_reached`` the depths at which at
    least one of them was compared with the target's token: 3 in the example, and 2 if ``c`` had not
    been drafted (a path that ends in a leaf, or in a stop, reaches no deeper).
    """

    seq: SeqId
    kept_rows: IntArray
    emitted: tuple[EmittedToken, ...]
    num_verified: int
    num_reached: int = 0
    finish: FinishReason | None = None

    @property
    def num_accepted(self) -> int:
        """Emitted tokens that had been drafted."""
        return sum(token.origin is Origin.ACCEPTED for token in self.emitted)
