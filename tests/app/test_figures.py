"""Figures follow the engine's definitions and are put into one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.figures import (
    Answer,
    DrafterFigures,
    Figures,
    Tally,
    answer_line,
    comparison_text,
    number_text,
    share,
)
from app.wire import Ended, Metrics, Origin, Step, Token


def a_step(t_ms: float, accepted: int, verified: int, drafter: str | None = None) -> Step:
    """A step on a chain that goes on after the first mismatch, if there is one."""
    tokens = [Token("x", Origin.ACCEPTED, place + 1) for place in range(accepted)]
    tokens.append(Token("y", Origin.RECOVERED if verified else Origin.PLAIN, 0))
    reached = min(accepted + 1, verified)
    return Step(t_ms, drafter, tuple(tokens), verified, verified, reached, 0.5, 8.0, 1.0)


def a_blank_step(t_ms: float, accepted: int) -> Step:
    """A step of which its engine tells what came out, and how much of that was accepted."""
    tokens = [Token("x", Origin.ACCEPTED, place + 1) for place in range(accepted)]
    return Step(t_ms, "theirs", (*tokens, Token("y", None, 0)), *(None,) * 6)


def test_counts_a_stopped_answer_from_its_steps() -> None:
    tally = Tally()
    for step in (a_step(100, 0, 0), a_step(200, 2, 3), a_step(300, 0, 1)):
        tally.add(step)
    figures = tally.figures()
    assert figures.num_tokens == 5
    assert figures.first_token_s == pytest.approx(0.1)
    assert figures.rate_tok_s == pytest.approx(4 / 0.2)
    assert figures.tokens_per_step == pytest.approx(5 / 3)
    assert figures.acceptance == pytest.approx(2 / 4)
    # Three compared, two accepted reach positions 1 to 3; one compared reaches position 1.
    assert figures.by_position == pytest.approx((1 / 2, 1.0, 0.0))


def test_each_drafter_answers_for_the_steps_that_verified_its_drafts() -> None:
    tally = Tally()
    for step in (
        a_step(100, 0, 0),
        a_step(200, 2, 3, "suffix"),
        a_step(300, 1, 1, "prompt_lookup"),
        a_step(400, 0, 2, "suffix"),
        a_step(500, 0, 0, "prompt_lookup"),  # drafted, and the budget verified nothing of it
    ):
        tally.add(step)
    assert tally.figures().by_drafter == (
        DrafterFigures("suffix", num_steps=2, num_verified=5, num_accepted=2),
        DrafterFigures("prompt_lookup", num_steps=1, num_verified=1, num_accepted=1),
    )


def test_nothing_is_claimed_of_an_answer_that_has_not_begun() -> None:
    figures = Tally().figures()
    assert figures.rate_tok_s is None
    assert figures.acceptance is None
    assert answer_line(figures, speculation=True) == "0 tokens"


def test_the_engines_own_metrics_win_over_the_count() -> None:
    tally = Tally()
    tally.add(a_step(100, 1, 1))
    ended = Ended("", None, "stop", Metrics(41, 110.0, 96.2, 2.3, 0.71, (0.8, 0.5)), None)
    figures = tally.settled(ended)
    assert figures.by_position == (0.8, 0.5)
    line = answer_line(figures, speculation=True)
    assert line == "41 tokens · 96 tok/s · first 0.11 s · 2.3 tokens/step · 71% accepted"


@pytest.mark.parametrize(
    ("figures", "speculation", "reason", "line"),
    [
        (
            Figures(1, 4.21, 0.5),
            False,
            "stop",
            "1 token · 4.2 tok/s · first 0.50 s · speculation off",
        ),
        (
            Figures(1200, None, 12.3),
            True,
            "length",
            "1,200 tokens · first 12 s · cut at the length limit",
        ),
    ],
)
def test_the_line_leaves_out_what_is_not_known(
    figures: Figures, speculation: bool, reason: str, line: str
) -> None:
    assert answer_line(figures, speculation=speculation, finish_reason=reason) == line


def test_a_comparison_names_the_factor_and_whether_the_answers_agree() -> None:
    fast, slow = Figures(9, 143.0), Figures(9, 100.0)
    same = comparison_text(Answer("abc", fast), Answer("abc", slow))
    assert same == "1.43× with speculation · the two answers are identical"
    parted = comparison_text(Answer("abX", fast), Answer("abYZ", slow))
    assert parted == "1.43× with speculation · the answers part after 2 characters"
    assert comparison_text(Answer("a", Figures()), Answer("a", Figures())) == (
        "the two answers are identical"
    )


def test_what_a_step_does_not_tell_stays_blank_in_the_answers_figures() -> None:
    tally = Tally()
    for step in (a_step(100, 0, 0), a_blank_step(200, 2), a_step(300, 1, 3, "ours")):
        tally.add(step)
    figures = tally.figures()
    assert figures.num_drafted is figures.num_verified is figures.num_accepted is None
    assert figures.draft_ms is figures.verify_ms is figures.overhead_ms is None
    assert figures.acceptance is figures.by_position is None
    assert figures.by_drafter == (DrafterFigures("ours", 1, 3, 1),)
    assert (figures.num_tokens, figures.num_steps, figures.rate_tok_s) == (6, 3, 25.0)
    assert answer_line(figures, speculation=True) == (
        "6 tokens · 25 tok/s · first 0.10 s · 2.0 tokens/step"
    )


def test_one_kind_of_blank_leaves_the_others_counted() -> None:
    tally = Tally()
    tally.add(replace(a_step(100, 0, 0), verify_ms=None, overhead_ms=None))
    figures = tally.figures()
    assert (figures.draft_ms, figures.verify_ms, figures.overhead_ms) == (0.5, None, None)
    assert (figures.num_drafted, figures.num_verified, figures.num_accepted) == (0, 0, 0)
    assert figures.by_position == ()
    tally.add(replace(a_blank_step(200, 2), num_reached=3))  # how many of the three is not told
    assert tally.figures().by_position is None


def test_totals_that_the_engine_tells_at_the_end_fill_the_blanks_of_its_steps() -> None:
    tally = Tally()
    tally.add(a_blank_step(100, 2))
    told = Metrics(3, 100.0, None, 3.0, 0.5, None, 4, 4, 2, 1.5, 20.0, None)
    figures = tally.settled(Ended("", None, "stop", told, None))
    assert (figures.num_drafted, figures.num_verified, figures.num_accepted) == (4, 4, 2)
    assert (figures.draft_ms, figures.verify_ms, figures.overhead_ms) == (1.5, 20.0, None)
    assert figures.by_position is None
    assert answer_line(figures, speculation=True).endswith("3.0 tokens/step · 50% accepted")


def test_a_blank_number_is_a_dash_and_has_no_share() -> None:
    assert number_text(None) == "–"
    assert number_text(1200) == "1,200"
    assert share(None, 3) is share(1, None) is share(0, 0) is None
    assert share(0, 3) == 0.0
