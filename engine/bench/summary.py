"""Figures from runs: ratios, medians, spread, equality. Pure.

A ratio is always taken between two runs of the same prompt in the same round, which met the same
weather. The figure of a workload is the median over its prompts of each prompt's median over the
rounds, so that no prompt counts twice; the spread is the middle half of all ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from engine.bench.records import Answer, Run

ALL = "all"
"""Stands for the workloads taken together."""

NOISY_ABOVE = 0.1
"""Relative disagreement of wall-time and process-time ratio from which a figure is doubted."""

Figure = Callable[[Answer], float | None]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A median and the middle half of what it is the median of."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer first departs from the baseline's. ``gap`` is how far the baseline's second
    choice lay behind its first there, in logits (None: unknown); tiny means that rounding
    decided."""

    prompt: str
    position: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One arm on one workload (or `ALL`), against the baseline."""

    workload: str
    arm: str
    num_runs: int
    tpot_ms: float
    speedup: Ratio
    """Wall time per token, the baseline's over the arm's: above one is faster."""
    cpu_speedup: float
    """The same of process time over whole answers."""
    cores_busy: float
    """Process time over wall time."""
    tokens_per_step: float | None
    acceptance_rate: float | None
    own_share: float | None
    num_equal: int
    differences: tuple[Difference, ...]
    """One for each prompt with a run that is not equal, at the earliest position."""
    is_noisy: bool
    """Wall time and process time tell different stories: something else was running."""


Gaps = Mapping[str, Sequence[float]]
"""For prompts by ``workload/name``: the top-two gap at each position of the baseline's answer."""


def summarise(runs: Sequence[Run], baseline: str, gaps: Gaps | None = None) -> list[Comparison]:
    """Every arm on every workload, in order of appearance, then over `ALL` if there are several."""
    workloads = list(dict.fromkeys(run.workload for run in runs))
    arms = list(dict.fromkeys(run.arm for run in runs))
    groups = [(name, [run for run in runs if run.workload == name]) for name in workloads]
    if len(groups) > 1:
        groups.append((ALL, list(runs)))
    return [
        _compare(name, arm, baseline, group, gaps or {}) for name, group in groups for arm in arms
    ]


def wall_ratio(runs: Sequence[Run], slower: str, faster: str) -> Ratio:
    """Wall time per token of ``slower`` over that of ``faster``: how many times as fast the latter
    is, paired by prompt and round."""
    return _ratio(_paired(runs, slower, faster), lambda answer: answer.tpot_ms)


_Pair = tuple[Run, Run]


def _paired(runs: Sequence[Run], first: str, second: str) -> list[_Pair]:
    """Runs of both arms on the same prompt in the same round."""
    firsts = {_visit(run): run for run in runs if run.arm == first}
    return [(firsts[_visit(run)], run) for run in runs if run.arm == second]


def _visit(run: Run) -> tuple[str, str, int]:
    return run.workload, run.prompt, run.round


def _compare(workload: str, arm: str, baseline: str, runs: Sequence[Run], gaps: Gaps) -> Comparison:
    pairs = _paired(runs, baseline, arm)
    mine = [run for _, run in pairs]
    total = _ratio(pairs, lambda answer: answer.total_ms)
    cpu = _ratio(pairs, lambda answer: answer.cpu_ms)
    return Comparison(
        workload=workload,
        arm=arm,
        num_runs=len(mine),
        tpot_ms=_over_prompts((run, run.answer.tpot_ms) for run in mine),
        speedup=_ratio(pairs, lambda answer: answer.tpot_ms),
        cpu_speedup=cpu.median,
        cores_busy=_over_prompts((run, run.answer.cpu_ms / run.answer.total_ms) for run in mine),
        tokens_per_step=_median_known(mine, _tokens_per_step),
        acceptance_rate=_acceptance_rate(mine),
        own_share=_median_known(mine, lambda answer: answer.own_share),
        num_equal=sum(base.answer.token_ids == run.answer.token_ids for base, run in pairs),
        differences=tuple(_differences(pairs, gaps)),
        is_noisy=abs(total.median / cpu.median - 1.0) > NOISY_ABOVE,
    )


def _ratio(pairs: Sequence[_Pair], figure: Callable[[Answer], float]) -> Ratio:
    ratios = [(run, figure(base.answer) / figure(run.answer)) for base, run in pairs]
    low, high = np.quantile([ratio for _, ratio in ratios], (0.25, 0.75)).tolist()
    return Ratio(_over_prompts(ratios), low, high)


def _over_prompts(figures: Iterable[tuple[Run, float]]) -> float:
    """Median over prompts of the median over rounds."""
    by_prompt: dict[tuple[str, str], list[float]] = {}
    for run, value in figures:
        by_prompt.setdefault((run.workload, run.prompt), []).append(value)
    return median(median(values) for values in by_prompt.values())


def _median_known(runs: Sequence[Run], figure: Figure) -> float | None:
    known = [(run, value) for run in runs if (value := figure(run.answer)) is not None]
    return _over_prompts(known) if known else None


def _tokens_per_step(answer: Answer) -> float | None:
    """After the first token, which comes from the prompt."""
    steps = answer.steps
    return None if steps is None else (len(answer.token_ids) - 1) / steps.num_steps


def _acceptance_rate(runs: Sequence[Run]) -> float | None:
    """Accepted / verified over all runs; None where nothing was verified."""
    steps = [run.answer.steps for run in runs if run.answer.steps is not None]
    num_verified = sum(totals.num_verified for totals in steps)
    return sum(totals.num_accepted for totals in steps) / num_verified if num_verified else None


def _differences(pairs: Sequence[_Pair], gaps: Gaps) -> Iterator[Difference]:
    earliest: dict[tuple[str, str], int] = {}
    for base, run in pairs:
        position = first_difference(base.answer.token_ids, run.answer.token_ids)
        if position is not None:
            key = run.workload, run.prompt
            earliest[key] = min(position, earliest.get(key, position))
    for key, position in earliest.items():
        name = "/".join(key)
        known = gaps.get(name, ())
        yield Difference(name, position, known[position] if position < len(known) else None)


def first_difference(expected: Sequence[int], got: Sequence[int]) -> int | None:
    """Position of the first token that differs or is missing on one side; None if equal."""
    for position, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            return position
    return None if len(expected) == len(got) else min(len(expected), len(got))
