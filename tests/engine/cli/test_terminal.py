"""What the commands print."""

from __future__ import annotations

import pytest

from engine.cli.terminal import complain, metrics_line
from engine.metrics import RequestMetrics


def test_the_metrics_line_as_the_contract_has_it():
    metrics = RequestMetrics(
        num_generated_tokens=41,
        num_target_steps=18,
        num_verified_tokens=31,
        num_accepted_tokens=22,
        ttft_ms=112.0,
        last_token_ms=112.0 + 40 * 1000 / 96,
    )
    assert (
        metrics_line(metrics)
        == "41 tokens · 96 tok/s · first 0.11 s · 2.3 tokens/step · 71% accepted"
    )


def test_one_token_has_no_rate():
    metrics = RequestMetrics(num_generated_tokens=1, num_target_steps=1, ttft_ms=50)
    assert metrics_line(metrics) == "1 token · first 0.05 s · 1.0 tokens/step"


def test_no_token_is_told_too():
    assert metrics_line(RequestMetrics()) == "0 tokens"


def test_a_message_of_several_lines_is_one_line(capsys: pytest.CaptureFixture[str]):
    complain("It failed:\n  here\n  and there")
    assert capsys.readouterr().err == "paceline: It failed: here and there\n"
