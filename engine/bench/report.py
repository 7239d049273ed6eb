"""Words and tables from figures: Markdown for people, one JSON object for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from engine.bench.machine import Machine
from engine.bench.records import Run
from engine.bench.summary import Comparison, Ratio

_COLUMNS = (
    "workload",
    "arm",
    "tok/s",
    "speed",
    "middle half",
    "CPU time",
    "cores busy",
    "tokens/step",
    "accepted",
    "own time",
    "equal",
)

_LEGEND = (
    "*Speed*: wall time per token after the first, the baseline's over the arm's, paired by prompt "
    "and round; median of the prompts' medians. *CPU time*: the same of process time, over whole "
    "answers; a row that is marked noisy was disturbed, for the two disagree. *Own time*: share of "
    "decoding that was not spent in the backend. *Equal*: answers with the baseline's very tokens."
)


@dataclass(frozen=True, slots=True)
class Report:
    """All that a benchmark found. ``peers`` are pairs of a peer's name and the speed of our plain
    decoding against it."""

    machine: Machine
    num_rounds: int
    num_tokens: int
    baseline: str
    comparisons: tuple[Comparison, ...]
    peers: tuple[tuple[str, Ratio], ...]
    runs: tuple[Run, ...]


def to_json(report: Report) -> dict[str, object]:
    """Everything, raw runs included."""
    return asdict(report)


def to_markdown(report: Report) -> str:
    """What a person reads: the machine, a table, and what stands out."""
    blocks = [
        _machine_line(report),
        _table(report.comparisons),
        "\n".join(f"- {line}" for line in _remarks(report)),
        _LEGEND,
    ]
    return "\n\n".join(block for block in blocks if block)


def _machine_line(report: Report) -> str:
    machine = report.machine
    return (
        f"{machine.model} on {machine.device_name} ({machine.device}, {machine.cores} cores), "
        f"{machine.cache_precision} cache; Paceline {machine.paceline}, OpenVINO "
        f"{machine.openvino}; up to {report.num_tokens} tokens an answer, "
        f"rounds: {report.num_rounds}; baseline: {report.baseline}."
    )


def _table(comparisons: Sequence[Comparison]) -> str:
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_row, comparisons)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _row(one: Comparison) -> tuple[str, ...]:
    return (
        one.workload,
        one.arm,
        f"{1000.0 / one.tpot_ms:.1f}",
        f"{one.speedup.median:.2f}x" + (" (noisy)" if one.is_noisy else ""),
        f"{one.speedup.low:.2f} to {one.speedup.high:.2f}",
        f"{one.cpu_speedup:.2f}x",
        f"{one.cores_busy:.1f}",
        _or_dash(one.tokens_per_step, ".2f"),
        _or_dash(one.acceptance_rate, ".0%"),
        _or_dash(one.own_share, ".1%"),
        f"{one.num_equal}/{one.num_runs}",
    )


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _remarks(report: Report) -> Iterator[str]:
    for name, ratio in report.peers:
        yield (
            f"{report.baseline} runs at {ratio.median:.2f}x of {name} "
            f"({ratio.low:.2f} to {ratio.high:.2f})."
        )
    yield from _difference_lines(report.comparisons)


def _difference_lines(comparisons: Iterable[Comparison]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()  # the sum over all workloads repeats them
    for one in comparisons:
        for difference in one.differences:
            if (one.arm, difference.prompt) in seen:
                continue
            seen.add((one.arm, difference.prompt))
            gap = "" if difference.gap is None else f", top-two gap {difference.gap:.4f}"
            yield f"{one.arm} differs on {difference.prompt} from token {difference.position}{gap}."
