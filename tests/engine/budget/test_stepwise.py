"""The length that adapts by steps: two more, one less, within its bounds."""

from __future__ import annotations

from engine.budget.stepwise import StepwiseLength


def lengths(start: int, accepted: list[int]) -> list[int]:
    """The length of each step, -1 standing for a draft that was accepted as a whole."""
    now = StepwiseLength.starting_at(start)
    seen = [now.length]
    for count in accepted:
        now = now.after(now.length if count < 0 else count)
        seen.append(now.length)
    return seen


def test_grows_by_two_up_to_twice_the_start() -> None:
    assert lengths(5, [-1, -1, -1, -1]) == [5, 7, 9, 10, 10]


def test_shrinks_by_one_down_to_one() -> None:
    assert lengths(3, [2, 0, 0, 0]) == [3, 2, 1, 1, 1]


def test_recovers_from_the_shortest() -> None:
    assert lengths(2, [0, 0, -1, -1, 3]) == [2, 1, 1, 3, 4, 3]
