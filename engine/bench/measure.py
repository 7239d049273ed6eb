"""The order of a benchmark: warm up, then every arm in turn on every task, round by round.

Interleaved, so that the arms meet the same weather: a machine that is busy for a minute slows all
of them. The order of the arms is rotated from task to task and from round to round, so that none
always runs in the wake of the same other. Each task finds a program that has answered nothing
before, apart from the task's own earlier question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.bench.arms import Arm
from engine.bench.records import Run, Task


def measure(arms: Sequence[Arm], tasks: Sequence[Task], num_rounds: int) -> Iterator[Run]:
    """Every answer as soon as it has been given.

    Raises:
        PacelineError: as `Arm.answer`.
    """
    for arm in arms:
        arm.answer(tasks[0].prompt_ids, tasks[0].num_tokens)
    for number in range(num_rounds):
        for index, task in enumerate(tasks):
            for arm in rotated(arms, number + index):
                arm.begin()
                if task.earlier_ids is not None:
                    arm.answer(task.earlier_ids, task.num_tokens)
                answer = arm.answer(task.prompt_ids, task.num_tokens)
                yield Run(arm.name, task.workload, task.prompt, number, answer)


def rotated(arms: Sequence[Arm], offset: int) -> list[Arm]:
    """``arms`` beginning with the one at ``offset``, counted around the end."""
    first = offset % len(arms)
    return [*arms[first:], *arms[:first]]
