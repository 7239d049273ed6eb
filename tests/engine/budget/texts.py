"""A made-up target that follows a script, so that the budget can be driven without a model.

`run` plays the loop of one sequence: prompt lookup proposes, the budget chooses, the script says
which tokens the target emits, and a true cost curve says how long each step would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.budget import Budget, Candidate, Drafting, Outcome, StepCost, StepTiming
from engine.config import GenerationConfig
from engine.drafters.base import DraftContext, Drafter, PrefillChunk
from engine.drafters.prompt_lookup import PromptLookup
from engine.values import DraftTree, EmittedToken, Origin, SeqId, TokenScore, Verdict

VOCABULARY = 2000


def reference_machine() -> StepCost:
    """The curve of the machine that the README names."""
    return StepCost((1, 2, 4, 6, 16), (12.0, 15.6, 19.2, 24.0, 40.8))


def prose(num_tokens: int, random: np.random.Generator) -> list[int]:
    """Tokens as frequent as words are (Zipf), each independent of those before it."""
    ranks = np.arange(1, VOCABULARY + 1)
    weights = 1.0 / ranks
    return random.choice(VOCABULARY, num_tokens, p=weights / weights.sum()).tolist()


def verdict(seq: SeqId, tokens: Sequence[int], num_verified: int = 0) -> Verdict:
    """A verdict that emits ``tokens``; where they come from does not matter to the budget."""
    score = TokenScore(logprob=0.0, entropy=0.0)
    emitted = tuple(EmittedToken(token, Origin.PLAIN, 0, score) for token in tokens)
    return Verdict(seq, np.arange(len(tokens), dtype=np.int32), emitted, num_verified)


@dataclass(frozen=True, slots=True)
class Step:
    """One simulated step: the answer's position before it, what was verified and emitted, its
    time."""

    position: int
    num_verified: int
    num_emitted: int
    ms: float


def run(
    budget: Budget,
    prompt: list[int],
    answer: list[int],
    true_cost: StepCost,
    seq: SeqId = 0,
    drafter: Drafter | None = None,
) -> list[Step]:
    """Generate ``answer`` after ``prompt`` under the budget, with prompt lookup or ``drafter``."""
    drafter = drafter or PromptLookup()
    drafter.on_prefill([PrefillChunk(seq, np.array(prompt, np.int32), None, is_last=True)])
    config = GenerationConfig()
    steps: list[Step] = []
    position = 0
    while position < len(answer):
        context_len = len(prompt) + position
        limit = budget.limit(Drafting(drafter.name, True, 1, 1, context_len))
        most = min(limit.max_tokens, len(answer) - position - 1)
        contexts = [DraftContext(seq, config, context_len, most)]
        (tree,) = drafter.propose(contexts, limit.draft)
        (kept,) = budget.choose([Candidate(seq, drafter.name, tree)], 1, context_len).kept
        emitted = _emit(tree.keep(kept), answer[position:])
        ms = true_cost.ms(1 + len(kept))
        step = verdict(seq, emitted, len(kept))
        budget.observe(
            [Outcome(drafter.name, tree, step)],
            StepTiming(1 + len(kept), context_len, ms, 0.0, False),
        )
        drafter.observe([step])
        steps.append(Step(position, len(kept), len(emitted), ms))
        position += len(emitted)
    budget.release(seq)
    drafter.release(seq)
    return steps


def speed_up(steps: Sequence[Step], true_cost: StepCost) -> float:
    """Against plain decoding of the same tokens."""
    plain_ms = true_cost.ms(1) * sum(step.num_emitted for step in steps)
    return plain_ms / sum(step.ms for step in steps)


def _emit(chain: DraftTree, answer: list[int]) -> list[int]:
    """The accepted part of the chain, and one token of the target's own."""
    accepted = 0
    for token, wanted in zip(chain.tokens.tolist(), answer, strict=False):
        if token != wanted:
            break
        accepted += 1
    return answer[: accepted + 1]
