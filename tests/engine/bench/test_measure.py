from __future__ import annotations

from collections.abc import Sequence

from engine.bench.arms import Arm
from engine.bench.measure import measure, rotated
from engine.bench.records import Answer, Task
from tests.engine.bench.made_up import answer


class NotingArm(Arm):
    """Writes down in a shared list when it was asked what."""

    def __init__(self, name: str, notes: list[tuple[str, int]]) -> None:
        self._name = name
        self._notes = notes
        self._remembered: list[int] = []
        self.before: list[list[int]] = []

    @property
    def name(self) -> str:
        return self._name

    def begin(self) -> None:
        self._remembered.clear()

    def answer(self, prompt_ids: Sequence[int], num_tokens: int) -> Answer:
        self._notes.append((self._name, prompt_ids[0]))
        self.before.append([*self._remembered])
        self._remembered.append(prompt_ids[0])
        return answer(range(num_tokens))


TASKS = [Task("prose", "first", (11,), 4), Task("code", "second", (22,), 6)]


def measured(num_rounds: int) -> tuple[list[tuple[str, int]], list[tuple[str, str, int]]]:
    """What the arms a, b and c were asked, and which runs came of it."""
    notes: list[tuple[str, int]] = []
    arms = [NotingArm(name, notes) for name in "abc"]
    runs = [*measure(arms, TASKS, num_rounds)]
    return notes, [(run.arm, run.prompt, run.round) for run in runs]


def test_every_arm_warms_up_before_anything_counts() -> None:
    notes, runs = measured(1)
    assert notes[:3] == [("a", 11), ("b", 11), ("c", 11)]
    assert len(notes) == 3 + len(runs)


def test_each_round_asks_every_arm_every_task_once() -> None:
    _, runs = measured(2)
    assert len(runs) == len(set(runs)) == 2 * len(TASKS) * 3


def test_arms_take_turns_within_a_task() -> None:
    _, runs = measured(1)
    assert [prompt for _, prompt, _ in runs] == ["first"] * 3 + ["second"] * 3


def test_another_arm_begins_with_each_task_and_round() -> None:
    _, runs = measured(2)
    assert [arm for arm, _, _ in runs[::3]] == ["a", "b", "b", "c"]


def test_what_was_asked_earlier_is_answered_just_before_and_not_measured() -> None:
    notes: list[tuple[str, int]] = []
    arms = [NotingArm(name, notes) for name in "ab"]
    task = Task("repeat", "again", (11,), 4, earlier_ids=(10,))

    runs = [*measure(arms, [task], num_rounds=1)]

    assert notes[2:] == [("a", 10), ("a", 11), ("b", 10), ("b", 11)]
    assert len(runs) == 2


def test_nothing_else_is_remembered_from_one_answer_to_the_next() -> None:
    arm = NotingArm("a", [])
    again = Task("repeat", "again", (11,), 4, earlier_ids=(10,))

    _ = [*measure([arm], [again, *TASKS], num_rounds=2)]

    assert arm.before[1:] == 2 * [[], [10], [], []]


def test_rotation_keeps_the_circle() -> None:
    arms = [NotingArm(name, []) for name in "abc"]
    assert [arm.name for arm in rotated(arms, 5)] == ["c", "a", "b"]


def test_runs_name_their_workload() -> None:
    runs = [*measure([NotingArm("a", [])], TASKS, 1)]
    assert [run.workload for run in runs] == ["prose", "code"]


def test_each_task_says_how_long_its_answers_are() -> None:
    runs = [*measure([NotingArm("a", [])], TASKS, 1)]
    assert [len(run.answer.token_ids) for run in runs] == [4, 6]
