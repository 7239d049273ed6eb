from __future__ import annotations

import json

from engine.bench.machine import Machine
from engine.bench.records import Run
from engine.bench.report import Report, to_json, to_markdown
from engine.bench.summary import summarise, wall_ratio
from tests.engine.bench.made_up import answer, run

MACHINE = Machine(
    device="CPU",
    device_name="Made-up CPU",
    cores=2,
    system="Linux",
    python="3.11",
    openvino="2026.4",
    openvino_genai="2026.4",
    paceline="0.1.0",
    model="tiny",
    weight_bytes=1000,
    cache_precision="f16",
    inference_precision=None,
)

RUNS = (
    run("plain", "p", 0, answer((1, 2, 3), tpot_ms=10.0)),
    run("genai", "p", 0, answer((1, 2, 9), tpot_ms=8.0)),
)


def report(runs: tuple[Run, ...] = RUNS) -> Report:
    comparisons = summarise(runs, "plain", {"prose/p": (2.0, 1.5, 0.0004)})
    peers = (("genai", wall_ratio(runs, "genai", "plain")),)
    return Report(MACHINE, 1, 3, "plain", tuple(comparisons), peers, runs)


def rows(text: str) -> list[list[str]]:
    """Cells of the table, its head and rule included."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_a_row_for_each_arm_and_no_ragged_line() -> None:
    table = rows(to_markdown(report()))
    assert len({len(row) for row in table}) == 1
    assert [row[:4] for row in table[2:]] == [
        ["prose", "plain", "100.0", "1.00x"],
        ["prose", "genai", "125.0", "1.25x"],
    ]


def test_the_report_says_where_it_was_measured() -> None:
    first = to_markdown(report()).splitlines()[0]
    for word in ("tiny", "Made-up CPU", "2 cores", "f16 cache", "2026.4"):
        assert word in first


def test_a_peer_is_compared_in_words() -> None:
    assert "- plain runs at 0.80x of genai (0.80 to 0.80)." in to_markdown(report())


def test_a_difference_is_told_with_its_gap() -> None:
    text = to_markdown(report())
    assert "- genai differs on prose/p from token 2, top-two gap 0.0004." in text
    assert rows(text)[3][-1] == "0/1"


def test_a_difference_is_told_once_though_the_total_repeats_it() -> None:
    more = (
        *RUNS,
        run("plain", "c", 0, answer(), "copy"),
        run("genai", "c", 0, answer(), "copy"),
    )
    assert to_markdown(report(more)).count("genai differs") == 1


def test_a_disturbed_figure_is_marked() -> None:
    disturbed = run("genai", "p", 0, answer((1, 2, 3), tpot_ms=20.0, busy=1.0))
    assert "0.50x (noisy)" in to_markdown(report((RUNS[0], disturbed)))
    assert "noisy)" not in to_markdown(report())


def test_the_json_holds_every_run_and_the_machine() -> None:
    content = json.loads(json.dumps(to_json(report())))
    assert content["machine"]["cores"] == 2
    assert [one["answer"]["token_ids"] for one in content["runs"]] == [[1, 2, 3], [1, 2, 9]]
    assert content["comparisons"][1]["differences"][0]["position"] == 2
