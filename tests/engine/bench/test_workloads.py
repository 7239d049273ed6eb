from __future__ import annotations

import pytest

from engine.bench.workloads import all_workloads, load_workload, workload_names
from engine.errors import InvalidOptionError


def test_every_kind_of_text_has_a_workload() -> None:
    assert {"code", "math", "prose", "chat", "copy", "edit", "repeat"} <= set(workload_names())


def test_all_workloads_load_with_enough_different_prompts() -> None:
    workloads = all_workloads()
    assert [workload.name for workload in workloads] == list(workload_names())
    for workload in workloads:
        assert len(workload.prompts) >= 6
    texts = [prompt.text for workload in workloads for prompt in workload.prompts]
    assert len(texts) == len(set(texts)) >= 30


def test_names_tell_the_prompts_of_a_workload_apart() -> None:
    for workload in all_workloads():
        names = [prompt.name for prompt in workload.prompts]
        assert len(names) == len(set(names))


def test_texts_carry_no_blank_lines_from_the_file() -> None:
    for prompt in load_workload("copy").prompts:
        assert prompt.text == prompt.text.strip()


def test_the_same_and_a_similar_question_are_asked_twice() -> None:
    prompts = load_workload("repeat").prompts

    assert all(prompt.earlier for prompt in prompts)
    assert {prompt.earlier == prompt.text for prompt in prompts} == {True, False}
    assert all(prompt.earlier is None for prompt in load_workload("chat").prompts)


def test_an_unknown_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidOptionError, match=r"'poems'.*\bcode\b.*\bprose\b"):
        load_workload("poems")
