"""THE acceptance rule: what one forward pass of the target makes of one sequence's draft.

The target has scored the pending token (row 0) and every draft node (row ``1 + node``); row ``j``
predicts the token after it. The walk starts at the pending token. At each node a *rule* names the
token that comes next; if a child carries it, the walk goes on from that child, else it ends there:

    draft tree         target           emitted            kept rows
    t ─┬─ a ─┬─ b      after t:  a      a  accepted        0  (t)
       └─ c  └─ d ─ e  after a:  d      d  accepted        1  (a)
                       after d:  f      f  recovered       the row of d

A chain is a tree without branches and plain decoding a tree without nodes; there is no other case.

The rule here is *sample, then match*: the target decides its own next token in the context of the
path, without a look at what was drafted, and the draft is right or wrong about it. What is emitted
is then the target's own sequence by construction, token for token: greedy if the decision is the
largest score, a sample if it is a draw with noise that depends on the position alone
(`engine.noise`). A deterministic draft is accepted as often as any lossless rule can accept it,
with probability p(draft token), and several children with the sum of theirs; the trial of one
child after the other with p renormalised in between (SpecInfer, EAGLE) has the same law. A rule
that does look at the draft, min(1, p/q) with the residual, is in `engine.rejection`, behind the
same `AcceptanceRule`.

What ends a sequence (end token, stop string, length) acts on each token as it is emitted, never on
the step: nothing is emitted after a stop, and an accepted stop is not followed by a bonus.

Pure: no model, no cache, and no state of the sequence is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.values import (
    ROOT,
    DraftTree,
    EmittedToken,
    FinishReason,
    Origin,
    Proposal,
    SeqId,
    TokenScore,
    Verdict,
)

OnToken = Callable[[int], FinishReason | None]
"""Told of each token as it is emitted; says whether the sequence ends with it."""

Decide = Callable[[int, Sequence[int]], tuple[int, TokenScore]]
"""``decide(row, path)``: the target's own token after ``row``, whose context is the committed
tokens and then ``path``. A pure function: asked twice, it answers the same."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The children of one node, in order, and the distributions they were drawn from, if any."""

    tokens: tuple[int, ...]
    proposal: Proposal | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The token that comes next, and the first candidate that carries it (None: none does)."""

    child: int | None
    token: int
    score: TokenScore


class AcceptanceRule(Protocol):
    """Decides one token at one node. Bound to the scores of one sequence's rows."""

    def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
        """What follows ``row``; ``path`` are the accepted tokens up to and with the row's own."""
        ...


@dataclass(frozen=True, slots=True)
class SampleThenMatch:
    """The target decides alone; a candidate is accepted if it carries the target's token."""

    decide: Decide

    def at(self, row: int, path: Sequence[int], candidates: Candidates) -> Decision:
        """The target's own token, and the candidate that agrees with it."""
        token, score = self.decide(row, path)
        child = candidates.tokens.index(token) if token in candidates.tokens else None
        return Decision(child, token, score)


def verify(seq: SeqId, tree: DraftTree, rule: AcceptanceRule, on_token: OnToken) -> Verdict:
    """Walk ``tree`` from the root and emit tokens until the draft or the sequence ends.

    ``tree`` is what was verified: node ``i`` is row ``1 + i`` of the scores that ``rule`` is bound
    to. Emits at least one token; the ``i``-th kept row is the row that decided the ``i``-th
    emitted token.
    """
    children = _children(tree)
    node = ROOT
    path: list[int] = []
    kept_rows: list[int] = []
    emitted: list[EmittedToken] = []
    num_reached = 0
    finish: FinishReason | None = None
    accepted = True
    while accepted and finish is None:
        row = 1 + node
        offered = children[row]
        decision = rule.at(row, path, _candidates(tree, offered))
        accepted = decision.child is not None
        num_reached += bool(offered)
        kept_rows.append(row)
        path.append(decision.token)
        origin = _origin(tree, offered, accepted)
        depth = len(path) if accepted else 0
        emitted.append(EmittedToken(decision.token, origin, depth, decision.score))
        finish = on_token(decision.token)
        if decision.child is not None:
            node = offered[decision.child]
    return Verdict(
        seq=seq,
        kept_rows=np.array(kept_rows, np.int32),
        emitted=tuple(emitted),
        num_verified=len(tree),
        num_reached=num_reached,
        finish=finish,
    )


def _origin(tree: DraftTree, offered: Sequence[int], accepted: bool) -> Origin:
    if accepted:
        return Origin.ACCEPTED
    if offered:
        return Origin.RECOVERED
    return Origin.BONUS if len(tree) else Origin.PLAIN


def _children(tree: DraftTree) -> list[list[int]]:
    """For each row the nodes that follow it."""
    children = [list[int]() for _ in range(1 + len(tree))]
    parents: list[int] = tree.parents.tolist()
    for node, parent in enumerate(parents):
        children[1 + parent].append(node)
    return children


def _candidates(tree: DraftTree, nodes: Sequence[int]) -> Candidates:
    tokens = tuple([int(tree.tokens[node]) for node in nodes])
    proposal = tree.proposal
    if proposal is not None:
        proposal = Proposal(proposal.ids[nodes], proposal.probs[nodes])
    return Candidates(tokens, proposal)
