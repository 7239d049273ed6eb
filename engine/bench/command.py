"""The command's options, and what follows from them: load, measure, report."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.arms import Arm, EngineArm, top_two_gaps
from engine.bench.machine import describe_machine
from engine.bench.measure import measure
from engine.bench.peers import PeerSettings, load_peer, require_peer
from engine.bench.records import Run, Task
from engine.bench.report import Report, to_json, to_markdown
from engine.bench.summary import summarise, wall_ratio
from engine.bench.workloads import Workload, load_workload, workload_names
from engine.cli.parser import OneLineParser
from engine.cli.session import model_folder
from engine.cli.terminal import quiet_progress, say, tell
from engine.config import BackendKind, CachePrecision, EngineConfig, Speculation
from engine.config.generation import MAX_ASSISTANT_TOKENS
from engine.errors import InvalidOptionError, InvalidRequestError
from engine.interface import Engine
from engine.load import load_engine
from engine.paths import Folders
from engine.prompts import TextPrompt, encode_prompt

PLAIN = "plain"
"""The baseline: our engine with speculation off."""

_MIN_TOKENS = 2  # a rate needs a first and a last token


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to measure. ``num_prompts`` None: all of each workload."""

    workloads: tuple[Workload, ...]
    static_lengths: tuple[int, ...]
    peers: tuple[str, ...]
    num_rounds: int
    num_tokens: int
    num_prompts: int | None
    json_file: Path | None


def run(arguments: Sequence[str]) -> int:
    """Measure, print the table, and return the exit code.

    Raises:
        PacelineError: whatever is wrong with the input.
    """
    args = _build_parser().parse_args(arguments)
    options = read_options(args)
    folders = Folders.from_environment(os.environ)
    progress = quiet_progress()
    config = EngineConfig(
        model=model_folder(args, folders, progress),
        device=args.device,
        backend=BackendKind.PAGED,  # auto could be OpenVINO GenAI, which is among the peers
        cache_precision=CachePrecision(args.cache_precision),
        inference_precision=args.inference_precision,
        compile_cache=folders.compile_cache,
        profile_store=folders.profiles,
    )
    engine = load_engine(config, progress)
    try:
        report = bench(engine, config, options)
    finally:
        engine.close()
    say(to_markdown(report))
    if options.json_file is not None:
        _write_json(options.json_file, to_json(report))
    return 0


def bench(engine: Engine, config: EngineConfig, options: BenchOptions) -> Report:
    """Load the peers beside ``engine`` and let all arms answer.

    Raises:
        PacelineError: a prompt or a setting that an arm refuses.
    """
    arms = [*engine_arms(engine, options.static_lengths)]
    settings = PeerSettings(
        config.model, engine.plan.device, config.cache_precision, config.inference_precision
    )
    for name in options.peers:
        tell(f"Loading {name}")
        arms.append(load_peer(name, settings))
    tasks = make_tasks(engine, options.workloads, options.num_tokens, options.num_prompts)
    num_runs = options.num_rounds * len(tasks) * len(arms)
    runs: list[Run] = []
    for one in measure(arms, tasks, options.num_rounds):
        runs.append(one)
        if len(runs) % len(arms) == 0:
            tell(f"{len(runs)} of {num_runs} answers: {one.workload}/{one.prompt}")
    comparisons = summarise(runs, PLAIN)
    different = {each.prompt for one in comparisons for each in one.differences}
    if different:
        comparisons = summarise(runs, PLAIN, _gaps(engine, tasks, different))
    return Report(
        machine=describe_machine(engine, config.inference_precision),
        num_rounds=options.num_rounds,
        num_tokens=options.num_tokens,
        baseline=PLAIN,
        comparisons=tuple(comparisons),
        peers=tuple((name, wall_ratio(runs, name, PLAIN)) for name in options.peers),
        runs=tuple(runs),
    )


def engine_arms(engine: Engine, static_lengths: Sequence[int]) -> list[Arm]:
    """The baseline, the default, and a fixed length for each that was asked for."""
    return [
        EngineArm(engine, PLAIN, Speculation.OFF),
        EngineArm(engine, "adaptive", Speculation.ADAPTIVE),
        *(
            EngineArm(engine, f"static-{length}", Speculation.STATIC, length)
            for length in static_lengths
        ),
    ]


def make_tasks(
    engine: Engine, workloads: Sequence[Workload], num_tokens: int, num_prompts: int | None = None
) -> list[Task]:
    """The prompts as the model reads them, each a user's message in its chat template if it has
    one; answers of ``num_tokens``, or fewer where the workload says so."""

    def encode(text: str) -> tuple[int, ...]:
        return encode_prompt(
            engine.tokenizer,
            TextPrompt(text),
            apply_chat_template=engine.model.has_chat_template,
        )

    return [
        Task(
            workload.name,
            prompt.name,
            encode(prompt.text),
            min(num_tokens, workload.max_tokens or num_tokens),
            None if prompt.earlier is None else encode(prompt.earlier),
        )
        for workload in workloads
        for prompt in workload.prompts[:num_prompts]
    ]


def read_options(args: argparse.Namespace) -> BenchOptions:
    """The options, checked before anything is loaded.

    Raises:
        InvalidOptionError: an unknown workload or peer, or a number that makes no sense.
        InvalidRequestError: the folder of ``--json`` is not there.
    """
    for name, least in (("rounds", 1), ("tokens", _MIN_TOKENS), ("prompts", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise InvalidOptionError(
                f"'{name}' is {value}: it must be at least {least}.", param=name
            )
    for length in args.static:
        if not 1 <= length <= MAX_ASSISTANT_TOKENS:
            raise InvalidOptionError(
                f"'static' is {length}: it must be 1 to {MAX_ASSISTANT_TOKENS}.", param="static"
            )
    for name in args.peer:
        require_peer(name)
    if args.json is not None and not args.json.absolute().parent.is_dir():
        raise InvalidRequestError(f"{args.json} cannot be written: its folder is not there.")
    names = args.workload or workload_names()
    return BenchOptions(
        workloads=tuple(load_workload(name) for name in dict.fromkeys(names)),
        static_lengths=tuple(dict.fromkeys(args.static)),
        peers=tuple(dict.fromkeys(args.peer)),
        num_rounds=args.rounds,
        num_tokens=args.tokens,
        num_prompts=args.prompts,
        json_file=args.json,
    )


def _gaps(
    engine: Engine, tasks: Sequence[Task], prompts: set[str]
) -> Mapping[str, tuple[float, ...]]:
    names = [(f"{task.workload}/{task.prompt}", task) for task in tasks]
    return {
        name: top_two_gaps(engine, task.prompt_ids, task.num_tokens)
        for name, task in names
        if name in prompts
    }


def _write_json(path: Path, content: dict[str, object]) -> None:
    try:
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be written ({error.strerror}).") from error


def _build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="paceline bench",
        description="Measure speed: plain decoding, drafts and peers, in turn on the same prompts.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--workload", action="append", default=[], metavar="NAME", help="Repeatable; default: all.")
    add(
        "--static", action="append", default=[], type=int, metavar="N", help="Also N drafts a step."
    )
    add("--peer", action="append", default=[], metavar="NAME", help="genai or genai-lookup.")
    add("--rounds", type=int, default=3, metavar="N", help="Answers per prompt and arm; default 3.")
    add(
        "--tokens",
        type=int,
        default=128,
        metavar="N",
        help="Tokens per answer at most; default 128.",
    )
    add("--prompts", type=int, metavar="N", help="Only the first N prompts of each workload.")
    add("--json", type=Path, metavar="FILE", help="Write everything there, raw figures included.")
    add("--model", type=Path, metavar="DIR", help="Model folder; default: the embedded one.")
    add("--device", default="AUTO", help="AUTO or CPU.")
    add(
        "--cache-precision",
        choices=[precision.value for precision in CachePrecision],
        default=CachePrecision.F16.value,
        help="Elements of the cache, of peers too; default: f16.",
    )
    add("--inference-precision", choices=["f32"], help="Type to compute in.")
    return parser
