"""Exact laws of a table target, worked out the slow and obvious way, and a test against counts.

Nothing here is shared with `engine.sampling`: dictionaries and full sorts over the whole row, one
processor after the other, as the documentation of the options reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import chi2

from engine.config import GenerationConfig
from tests.fakes import TableTarget

Law = dict[tuple[int, ...], float]


def processed(
    logits: Sequence[float], config: GenerationConfig, prompt: Sequence[int], answer: Sequence[int]
) -> list[float]:
    """The logits after ``prompt`` and ``answer`` as minimum length and penalties leave them."""
    values = [float(value) for value in logits]
    if len(answer) < config.min_new_tokens:
        for token in {*config.stop_token_ids, config.eos_token_id} - {None}:
            values[token] = -np.inf
    for token in {*prompt, *answer}:
        penalty = config.repetition_penalty
        values[token] = values[token] / penalty if values[token] >= 0 else values[token] * penalty
    for token, count in Counter(answer).items():
        values[token] -= config.presence_penalty + config.frequency_penalty * count
    return values


def next_token_law(
    logits: Sequence[float], config: GenerationConfig, prompt: Sequence[int], answer: Sequence[int]
) -> list[float]:
    """Probabilities of the token that follows ``prompt`` and ``answer``; a sampled request."""
    values = processed(logits, config, prompt, answer)
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))
    if config.top_k:
        order = order[: config.top_k]
    weights = {token: np.exp((values[token] - max(values)) / config.temperature) for token in order}
    total = sum(weights.values())
    probs = {token: weight / total for token, weight in weights.items()}
    probs = {token: p for token, p in probs.items() if p >= config.min_p * max(probs.values())}
    kept: dict[int, float] = {}
    for token in order:
        if token in probs and (config.top_p == 1.0 or sum(kept.values()) <= config.top_p):
            kept[token] = probs[token]
    return [kept.get(token, 0.0) / sum(kept.values()) for token in range(len(values))]


def sequence_law(
    target: TableTarget, config: GenerationConfig, prompt: Sequence[int], length: int
) -> Law:
    """Probability of every answer of ``length`` tokens that can come after ``prompt``."""
    law: Law = {(): 1.0}
    for _ in range(length):
        longer: Law = {}
        for answer, prob in law.items():
            logits = target.logits([*prompt, *answer]).tolist()
            for token, p in enumerate(next_token_law(logits, config, prompt, answer)):
                if p > 0.0:
                    longer[(*answer, token)] = prob * p
        law = longer
    return law


def p_value(counts: Mapping[tuple[int, ...], int], law: Law) -> float:
    """Pearson's chi-square test of ``counts`` against ``law``; 0 where something impossible came.

    Cells that are expected less than ten times are taken together.
    """
    if any(cell not in law for cell in counts):
        return 0.0
    num_draws = sum(counts.values())
    rare_seen = rare_expected = statistic = 0.0
    num_cells = 0
    for cell, p in law.items():
        seen, expected = counts.get(cell, 0), p * num_draws
        if expected < 10.0:
            rare_seen, rare_expected = rare_seen + seen, rare_expected + expected
        else:
            statistic += (seen - expected) ** 2 / expected
            num_cells += 1
    if rare_expected > 0.0:
        statistic += (rare_seen - rare_expected) ** 2 / max(rare_expected, 1.0)
        num_cells += 1
    return float(chi2.sf(statistic, num_cells - 1))
