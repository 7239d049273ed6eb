"""The wire format is read field by field, and missing fields are left blank."""

from __future__ import annotations

import pytest

from app.wire import (
    AnswerSettings,
    ChatRequest,
    Delta,
    Ended,
    EngineState,
    Origin,
    parse_chunk,
    parse_fault,
    parse_status,
)


def test_reads_text_and_step_of_a_chunk() -> None:
    chunk = {
        "choices": [{"index": 0, "delta": {"content": "two words"}, "finish_reason": None}],
        "paceline": {
            "step": {
                "t_ms": 12.5,
                "drafter": "prompt_lookup",
                "draft": {"tokens": [5, 6, 7], "parents": [-1, 0, 1], "survival": [0.9, 0.8, 0.7]},
                "verified": [0, 1],
                "num_reached": 2,
                "emitted": [
                    {"token": 5, "text": "two", "origin": "accepted", "depth": 1},
                    {"token": 9, "text": " words", "origin": "recovered", "depth": 0},
                ],
                "draft_ms": 0.1,
                "verify_ms": 9.0,
                "overhead_ms": 0.4,
            }
        },
    }
    delta = parse_chunk(chunk)
    assert isinstance(delta, Delta)
    assert delta.text == "two words"
    assert delta.step is not None
    step = delta.step
    assert (step.num_drafted, step.num_verified, step.num_reached, step.num_accepted) == (
        3,
        2,
        2,
        1,
    )
    assert [token.origin for token in delta.step.tokens] == [Origin.ACCEPTED, Origin.RECOVERED]


def test_reads_the_metrics_of_the_last_chunk() -> None:
    chunk = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}],
        "paceline": {
            "metrics": {
                "num_generated_tokens": 41,
                "ttft_ms": 110.0,
                "acceptance_rate": None,
                "acceptance_by_position": [0.9, 0.25],
            },
            "plan": {"backend": "paged", "device": "CPU", "drafter": "none"},
            "notes": ["The draft was not used."],
        },
    }
    ended = parse_chunk(chunk)
    assert isinstance(ended, Ended)
    assert ended.finish_reason == "length"
    assert ended.metrics is not None
    assert ended.metrics.num_generated_tokens == 41
    assert ended.metrics.acceptance_rate is None
    assert ended.metrics.acceptance_by_position == (0.9, 0.25)
    assert ended.notes == ("The draft was not used.",)
    totals = (ended.metrics.num_draft_tokens, ended.metrics.verify_ms, ended.metrics.overhead_ms)
    assert totals == (None, None, None)


def test_a_server_that_reports_no_steps_leaves_them_blank() -> None:
    delta = parse_chunk({"choices": [{"delta": {"content": "hello"}, "finish_reason": None}]})
    assert delta == Delta("hello", None)
    assert parse_chunk({"choices": [], "usage": {}}) is None


def test_reads_the_status_while_the_model_loads_and_when_it_failed() -> None:
    loading = parse_status({"state": "loading", "stage": "Compiling the model for CPU"})
    assert (loading.state, loading.model, loading.plan) == (EngineState.LOADING, None, None)
    failed = parse_status(
        {"state": "failed", "stage": "", "error": {"message": "No tokenizer.", "code": "x"}}
    )
    assert failed.fault is not None
    assert failed.fault.message == "No tokenizer."


def test_a_fault_without_words_still_says_something() -> None:
    fault = parse_fault({"message": None, "code": None, "type": "server_error"})
    assert fault is not None
    assert fault.message == "The engine gave no reason."
    assert fault.code == "server_error"


def test_asks_for_steps_and_leaves_the_rest_to_the_engine() -> None:
    request = ChatRequest((("user", "hi"),), AnswerSettings(max_tokens=7))
    body = request.to_json("m", None)
    assert body["stream_options"] == {"include_steps": True}
    assert body["max_tokens"] == 7
    plain = ChatRequest((("user", "hi"),), AnswerSettings()).to_json("m", None)
    assert plain.keys() == {"model", "messages", "stream", "stream_options", "max_tokens"}
    assert plain["max_tokens"] == 1024  # an answer that repeats itself comes to an end


@pytest.mark.parametrize(
    ("plan", "wanted", "asked"),
    [
        ("adaptive", True, None),
        ("static", True, None),
        ("off", True, "adaptive"),
        ("adaptive", False, "off"),
        ("static", False, "off"),
        ("off", False, None),
        (None, True, "adaptive"),
        (None, False, "off"),
        ("adaptive", None, None),
    ],
)
def test_names_the_speculation_only_where_the_plan_has_it_otherwise(
    plan: str | None, wanted: bool | None, asked: str | None
) -> None:
    status = parse_status({"state": "ready", "plan": {"drafter": "suffix", "speculation": plan}})
    request = ChatRequest((("user", "hi"),), AnswerSettings(speculation=wanted))
    assert request.to_json("m", status.plan).get("speculation") == asked


@pytest.mark.parametrize(
    ("plan", "stands"),
    [
        ({"backend": "paged", "drafter": "none", "speculation": "adaptive"}, False),
        ({"backend": "genai", "drafter": "none", "speculation": "off"}, False),
        ({"backend": "genai", "drafter": "prompt_lookup", "speculation": "static"}, True),
        ({"backend": "genai-stateful", "drafter": "none", "speculation": "off"}, False),
    ],
)
@pytest.mark.parametrize("wanted", [True, False, None])
def test_wishes_for_no_speculation_where_the_engine_has_one_way_only(
    plan: dict[str, str], stands: bool, wanted: bool | None
) -> None:
    status = parse_status({"state": "ready", "plan": plan})
    assert status.plan is not None
    assert status.plan.speculates is status.plan.fixed_speculation is stands
    request = ChatRequest((("user", "hi"),), AnswerSettings(speculation=wanted))
    assert "speculation" not in request.to_json("m", status.plan)


def test_nulls_of_a_step_stay_blank() -> None:
    blanks = ("draft", "verified", "num_reached", "draft_ms", "verify_ms", "overhead_ms")
    step = {"emitted": [{"text": "a", "origin": None}], **dict.fromkeys(blanks)}
    delta = parse_chunk({"choices": [{"delta": {}}], "paceline": {"step": step}})
    assert isinstance(delta, Delta)
    assert delta.step is not None
    assert delta.step.num_drafted is delta.step.num_verified is None
    assert delta.step.tokens[0].origin is delta.step.num_accepted is None
    assert delta.step.num_reached is None
    assert delta.step.draft_ms is delta.step.verify_ms is delta.step.overhead_ms is None


def test_a_told_zero_is_no_blank() -> None:
    step = {"verified": [], "num_reached": 0, "draft_ms": 0.0, "emitted": [{"origin": "plain"}]}
    delta = parse_chunk({"choices": [{"delta": {}}], "paceline": {"step": step}})
    assert isinstance(delta, Delta)
    assert delta.step is not None
    told = (delta.step.num_verified, delta.step.num_reached, delta.step.num_accepted)
    assert told == (0, 0, 0)
    assert delta.step.draft_ms == 0.0
