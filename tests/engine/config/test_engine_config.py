"""The rules of the scheduler's and the engine's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig, SchedulerConfig
from engine.errors import InvalidOptionError, InvalidRequestError, UnsupportedOptionError


@pytest.mark.parametrize(
    ("passes", "fails", "error"),
    [
        ({"max_num_batched_tokens": 1}, {"max_num_batched_tokens": 0}, InvalidOptionError),
        ({"max_num_seqs": 1}, {"max_num_seqs": "8"}, InvalidOptionError),
        ({"num_kv_blocks": None}, {"num_kv_blocks": 0}, InvalidOptionError),
        ({"cache_size_gib": 0.5}, {"cache_size_gib": 0}, InvalidOptionError),
        (
            {"cache_size_gib": 1},
            {"cache_size_gib": 1, "num_kv_blocks": 10},
            InvalidOptionError,
        ),
        (
            {"enable_prefix_caching": False},
            {"enable_prefix_caching": True},
            UnsupportedOptionError,
        ),
    ],
    ids=str,
)
def test_scheduler_refuses_what_the_rule_forbids_and_names_the_field(
    passes: dict[str, Any], fails: dict[str, Any], error: type[InvalidRequestError]
) -> None:
    SchedulerConfig(**passes).validate()
    with pytest.raises(error) as caught:
        SchedulerConfig(**fails).validate()
    assert caught.value.param == next(iter(fails))


def test_engine_accepts_its_defaults() -> None:
    EngineConfig(Path("model")).validate()


@pytest.mark.parametrize(
    ("fails", "param"),
    [
        ({"drafter": ""}, "drafter"),
        ({"scheduler": SchedulerConfig(max_num_seqs=0)}, "max_num_seqs"),
    ],
    ids=str,
)
def test_engine_refuses_what_cannot_work_whatever_the_model(
    fails: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        EngineConfig(Path("model"), **fails).validate()
    assert caught.value.param == param
