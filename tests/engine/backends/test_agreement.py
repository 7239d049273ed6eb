"""What the paged and the stateful backend have in common, on the real small model."""

from __future__ import annotations

import numpy as np
import pytest

from engine.backends.base import Backend
from engine.backends.paged import PagedBackend
from engine.backends.stateful import StatefulBackend
from engine.values import FloatArray
from tests.engine.backends.feeder import PROMPT, Feeder

TOLERANCE = 5e-4
"""Largest difference of a logit between two ways to compute the same row; logits reach about 30."""

NEAR_TIE = 1e-3
"""Top-two gap below which either of two tokens may be the largest."""


@pytest.fixture(params=["paged", "stateful"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("block", [2, 3, 4, 8])
def test_blocks_of_rows_score_as_one_row_after_another(backend: Backend, block: int) -> None:
    tokens = PROMPT[:24].tolist()
    feeder = Feeder(backend, 1)
    single = np.concatenate([feeder.step([token], 1) for token in tokens])
    backend.release(1)
    feeder = Feeder(backend, 2)
    parts = [tokens[begin : begin + block] for begin in range(0, len(tokens), block)]
    blocks = np.concatenate([feeder.step(part, len(part)) for part in parts])
    backend.release(2)
    assert np.abs(single - blocks).max() < TOLERANCE
    assert np.array_equal(single.argmax(axis=1), blocks.argmax(axis=1))


def test_plain_decoding_goes_the_same_way(paged: PagedBackend, stateful: StatefulBackend) -> None:
    one, other = Feeder(paged, 1), Feeder(stateful, 1)
    token = 5
    for _ in range(120):
        rows = one.step([token], 1)[0], other.step([token], 1)[0]
        assert np.abs(rows[0] - rows[1]).max() < TOLERANCE
        token, runner_up = np.argsort(-rows[0])[:2].tolist()
        assert rows[1].argmax() == token or rows[0][token] - rows[0][runner_up] < NEAR_TIE


def test_features_agree_however_the_prompt_is_cut(
    paged: PagedBackend, stateful: StatefulBackend
) -> None:
    reference = features(paged, chunk=len(PROMPT))
    assert reference.shape == (len(PROMPT), 3 * 576)
    for backend, chunk in ((paged, 33), (stateful, len(PROMPT)), (stateful, 33)):
        assert backend.capabilities.features
        # A few of them are a thousand times as large as most.
        np.testing.assert_allclose(features(backend, chunk), reference, rtol=1e-4, atol=1e-3)


def features(backend: Backend, chunk: int) -> FloatArray:
    parts = [output.features for output in Feeder(backend, 1, chunk=chunk).prefilled]
    backend.release(1)
    return np.concatenate([part[0] for part in parts if part is not None])
