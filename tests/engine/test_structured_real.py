"""Structure on the real small model, which is begged for something else, with drafts and without.

The cache and inference are f32, where drafts change no token (see `test_lossless`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import jsonschema
import pytest

from engine.config import (
    BackendKind,
    CachePrecision,
    EngineConfig,
    SampledRule,
    SchedulerConfig,
    Speculation,
    resolve,
)
from engine.errors import InvalidOptionError
from engine.events import FailedEvent, FinishedEvent, GenerationRequest
from engine.interface import Engine
from engine.load import load_engine
from engine.prompts import TextPrompt, encode_prompt
from engine.values import FinishReason
from tests.schemas import BEGGING, random_schema

MAX_TOKENS = 160

DRAFTERS = ("prompt_lookup", "suffix", "prompt_lookup+suffix")

Wanted = tuple[str, dict[str, Any]]


@contextmanager
def engine_on(model: Path, backend: BackendKind) -> Iterator[Engine]:
    loaded = load_engine(
        EngineConfig(
            model=model,
            backend=backend,
            cache_precision=CachePrecision.F32,
            inference_precision="f32",
            scheduler=SchedulerConfig(max_num_seqs=8),
        )
    )
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    with engine_on(smollm2, BackendKind.PAGED) as loaded:
        yield loaded


def answers(
    engine: Engine, wanted: Sequence[Wanted], speculation: Speculation, **more: Any
) -> list[FinishedEvent]:
    """All at once, as far as the engine lets them, drafters in turn; answers in order."""
    done: SimpleQueue[tuple[int, FinishedEvent | FailedEvent]] = SimpleQueue()
    for index, (text, options) in enumerate(wanted):

        def sink(event: Any, index: int = index) -> None:
            if isinstance(event, FinishedEvent | FailedEvent):
                done.put((index, event))

        prompt = encode_prompt(engine.tokenizer, TextPrompt(text), apply_chat_template=True)
        config = resolve({"max_new_tokens": MAX_TOKENS, **options}, engine.model_defaults)
        drafter = DRAFTERS[index % len(DRAFTERS)]
        request = GenerationRequest(str(index), prompt, config, speculation, drafter, **more)
        engine.submit(request, sink)
    ended = dict(done.get(timeout=900) for _ in wanted)
    for event in ended.values():
        assert isinstance(event, FinishedEvent), event
    return [event for _, event in sorted(ended.items()) if isinstance(event, FinishedEvent)]


def of_schemas(seeds: range) -> list[Wanted]:
    """Greedy and seeded, drafts of a fixed length and as the engine likes, all in turn."""
    wanted: list[Wanted] = []
    for seed in seeds:
        options: dict[str, Any] = {"json_schema": random_schema(seed)}
        if seed % 2:
            options |= {"do_sample": True, "temperature": 1.2, "rng_seed": seed}
        if seed % 4 == 3:
            options |= {"top_k": 50}
        wanted.append((BEGGING[seed % len(BEGGING)], options))
    return wanted


def check_schemas(engine: Engine, seeds: range) -> tuple[int, int]:
    """Every finished answer validates and equals the undrafted one; tokens accepted, rejected."""
    wanted = of_schemas(seeds)
    plain = answers(engine, wanted, Speculation.OFF)
    fixed = [(text, options | {"num_assistant_tokens": 5}) for text, options in wanted]
    drafted = answers(engine, fixed, Speculation.STATIC)
    accepted = verified = num_finished = 0
    for (_, options), mine, other in zip(wanted, drafted, plain, strict=True):
        assert mine.token_ids == other.token_ids
        assert mine.text == other.text
        accepted += mine.metrics.num_accepted_tokens
        verified += mine.metrics.num_verified_tokens
        if mine.finish_reason is FinishReason.STOP:
            num_finished += 1
            jsonschema.validate(json.loads(mine.text), options["json_schema"])
    assert num_finished >= 0.95 * len(wanted)
    return accepted, verified - accepted


def test_a_dozen_random_schemas_are_obeyed_with_drafts_and_without(engine: Engine) -> None:
    accepted, _ = check_schemas(engine, range(12))
    assert accepted > 0


def test_schemas_are_obeyed_on_the_stateful_backend(smollm2: Path) -> None:
    with engine_on(smollm2, BackendKind.STATEFUL) as engine:
        accepted, _ = check_schemas(engine, range(20, 23))
        assert accepted > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_hundred_random_schemas_are_obeyed_with_drafts_and_without(engine: Engine) -> None:
    accepted, rejected = check_schemas(engine, range(1000, 1200))
    assert accepted >= 50
    assert rejected >= 50


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"regex": r"\d{3}-[a-f]{2,4}(x|yz)"}, r"[0-9]{3}-[a-f]{2,4}(x|yz)"),
        ({"choice": ["north", "north-east", "south"]}, "north|north-east|south"),
        ({"grammar": 'root ::= ("ho " | "hey ") "ho "? "end"'}, "(ho |hey )(ho )?end"),
    ],
)
def test_the_other_structures_are_obeyed(
    engine: Engine, options: dict[str, Any], pattern: str
) -> None:
    sampled = [
        (BEGGING[seed], {**options, "do_sample": True, "temperature": 1.5, "rng_seed": seed})
        for seed in range(2)
    ]
    for rule in SampledRule:
        for each in answers(engine, sampled, Speculation.ADAPTIVE, sampled_rule=rule):
            assert each.finish_reason is FinishReason.STOP
            assert re.fullmatch(pattern, each.text)


def test_a_wrong_schema_leaves_the_engine_usable(engine: Engine) -> None:
    with pytest.raises(InvalidOptionError):
        answers(engine, [("Hi", {"json_schema": {"type": "objekt"}})], Speculation.OFF)
    (answer,) = answers(engine, [("Hi", {"choice": ["yes", "no"]})], Speculation.OFF)
    assert answer.text in ("yes", "no")
