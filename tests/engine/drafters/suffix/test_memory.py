"""Earlier answers: bounded, and gone when they are gone."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from engine.drafters.suffix.index import SuffixIndex
from engine.drafters.suffix.memory import AnswerMemory


def found(memory: AnswerMemory, tokens: list[int]) -> list[int]:
    """What followed in memory where an answer began with ``tokens``, the longest past first."""
    index = SuffixIndex()
    index.extend(0, tokens)
    places = memory.nearest(index.end(0), limit=8)
    return [memory.tokens(place.text)[place.position] for place in places]


def test_forgets_whole_answers_the_oldest_first() -> None:
    memory = AnswerMemory(max_tokens=10)
    memory.add([1, 2, 3, 4])
    memory.add([5, 6, 7, 8])
    memory.add([9, 1, 1])

    assert len(memory) == 7
    assert found(memory, [2]) == []
    assert found(memory, [5, 6]) == [7]
    assert found(memory, [9]) == [1]


def test_what_was_forgotten_leaves_no_trace() -> None:
    random = np.random.default_rng(0)
    answers = [random.integers(0, 4, int(random.integers(1, 30))).tolist() for _ in range(60)]
    memory = AnswerMemory(max_tokens=200)
    for answer in answers:
        memory.add(answer)
    kept: list[list[int]] = []
    while sum(map(len, kept)) + len(answers[-1]) <= 200:
        kept.insert(0, answers.pop())
    fresh = AnswerMemory(max_tokens=200)
    for answer in kept:
        fresh.add(answer)

    assert len(memory) == len(fresh)
    for answer in kept:
        for end in range(1, len(answer) + 1):
            assert found(memory, answer[:end]) == found(fresh, answer[:end])


def test_an_answer_that_would_not_fit_alone_costs_no_other_its_place() -> None:
    memory = AnswerMemory(max_tokens=4)
    memory.add([1, 2])
    memory.add([3, 4, 5, 6, 7])
    memory.add([])

    assert len(memory) == 2
    assert found(memory, [1]) == [2]


@pytest.mark.parametrize("length", [7, 90])
def test_its_size_stays_bounded_however_many_answers_pass(length: int) -> None:
    random = np.random.default_rng(1)
    memory = AnswerMemory(max_tokens=2000)

    def pass_by(num_tokens: int) -> int:
        for _ in range(num_tokens // length):
            memory.add(random.integers(0, 50_000, length).tolist())
            assert len(memory) <= 2000
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full = pass_by(3000)
        later = pass_by(9000)
    finally:
        tracemalloc.stop()

    assert full < 2000 * 300
    assert later < 1.05 * full
