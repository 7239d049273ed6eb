"""The paged backend on the real small model, with an f32 cache and f32 inference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest

from engine.backends.base import Batch, Slice
from engine.backends.paged import PagedBackend
from engine.backends.settings import BackendSettings
from engine.config import CachePrecision
from engine.errors import CacheTooSmallError, ModelUnusableError
from engine.values import SliceKind
from tests.engine.backends.feeder import PROMPT, Feeder, full

TOLERANCE = 5e-4
"""Largest difference of a logit between two ways to batch the same rows; logits reach about 30."""


@pytest.fixture(name="backend")
def _backend(paged: PagedBackend) -> PagedBackend:
    return paged


def test_summaries_agree_with_the_whole_row(backend: PagedBackend) -> None:
    feeder = Feeder(backend, 1)
    part = feeder.slice([5, 1000])
    part = Slice(
        part.seq, part.kind, part.past_len, part.tokens, part.positions, part.scored,
        inverse_temperature=1.25,
    )  # fmt: skip
    scores = backend.forward(Batch((part,))).scores[0]
    rows = full(scores).astype(np.float64)
    order = np.argsort(-rows, axis=1, kind="stable")[:, : scores.ids.shape[1]]
    log_sum_exp = np.log(np.exp(rows).sum(axis=1))
    probs = np.exp(rows - log_sum_exp[:, None])
    assert np.array_equal(scores.ids, order)
    assert np.array_equal(scores.logits, np.take_along_axis(rows, order, axis=1))
    np.testing.assert_allclose(scores.log_sum_exp, log_sum_exp, rtol=1e-5)
    np.testing.assert_allclose(scores.log_sum_exp_t, np.log(np.exp(1.25 * rows).sum(axis=1)), 1e-5)
    np.testing.assert_allclose(scores.entropy, -(probs * np.log(probs)).sum(axis=1), rtol=1e-4)


def test_rejected_rows_leave_no_trace(backend: PagedBackend) -> None:
    untouched = Feeder(backend, 1)
    untouched.verify([5])
    untouched.keep([0])
    feeder = Feeder(backend, 2)
    feeder.verify([5, 3000, 4000, 7, 8])
    feeder.keep([0])
    assert np.abs(untouched.verify([6, 9]) - feeder.verify([6, 9])).max() < TOLERANCE


def test_each_branch_of_a_tree_scores_as_if_it_were_alone(backend: PagedBackend) -> None:
    chains = {branch: Feeder(backend, 1).verify([5, *branch]) for branch in ((6, 7), (8, 9))}
    tree = Feeder(backend, 2).verify(
        [5, 6, 8, 7, 9], parents=[-1, 0, 0, 1, 2], depths=[0, 1, 1, 2, 2]
    )
    assert np.abs(tree[[0, 1, 3]] - chains[6, 7]).max() < TOLERANCE
    assert np.abs(tree[[0, 2, 4]] - chains[8, 9]).max() < TOLERANCE
    assert np.abs(tree[1] - tree[2]).max() > 1.0  # the branches do differ


def test_the_accepted_path_of_a_tree_goes_on_as_a_chain_would(backend: PagedBackend) -> None:
    chain = Feeder(backend, 1)
    chain.verify([5, 8, 9])
    chain.keep([0, 1, 2])
    tree = Feeder(backend, 2)
    tree.verify([5, 6, 8, 7, 9], parents=[-1, 0, 0, 1, 2], depths=[0, 1, 1, 2, 2])
    tree.keep([0, 2, 4])
    assert np.abs(chain.verify([77]) - tree.verify([77])).max() < TOLERANCE


def test_sequences_of_one_batch_do_not_touch_each_other(backend: PagedBackend) -> None:
    alone = Feeder(backend, 1).verify([5, 6])
    first, second = Feeder(backend, 2), Feeder(backend, 3, PROMPT[::-1].copy())
    newcomer = Feeder.__new__(Feeder)
    newcomer.backend, newcomer.seq, newcomer.length = backend, 4, 0
    backend.release(4)
    output = backend.forward(
        Batch(
            (
                second.slice([9, 6, 8], [-1, 0, 0], [0, 1, 1]),
                newcomer.prefill(PROMPT[:33]),
                first.slice([5, 6]),
            )
        )
    )
    assert np.abs(full(output.scores[2]) - alone).max() < TOLERANCE


def test_scores_of_an_earlier_pass_are_not_mistaken_for_new_ones(backend: PagedBackend) -> None:
    feeder = Feeder(backend, 1)
    scores = backend.forward(Batch((feeder.slice([5]),))).scores[0]
    feeder.verify([6])
    with pytest.raises(AssertionError, match="gone"):
        scores.full(0)


def test_refuses_rows_beyond_what_was_reserved(backend: PagedBackend) -> None:
    feeder = Feeder(backend, 1)
    part = feeder.slice([5] * 3)
    backend.cache.trim(1, len(PROMPT))
    too_long = Slice(
        1, SliceKind.VERIFY, part.past_len, np.zeros(64, np.int32),
        np.arange(64)[None], np.arange(64, dtype=np.int32),
    )  # fmt: skip
    with pytest.raises(AssertionError, match="reserved"):
        backend.forward(Batch((too_long,)))


def test_a_model_without_attention_is_named_as_such() -> None:
    parameter = ov.opset13.parameter([-1, 4], ov.Type.f32, name="input_ids")
    model = ov.Model([ov.opset13.result(parameter)], [parameter], "no attention")
    settings = BackendSettings("CPU", CachePrecision.F16, 1 << 20, 1)
    with pytest.raises(ModelUnusableError, match="export it again|no attention layer"):
        PagedBackend(ov.Core(), model, settings)


def test_a_cache_below_one_block_is_refused_with_both_figures(smollm2: Path) -> None:
    core = ov.Core()
    settings = BackendSettings("CPU", CachePrecision.F16, 1000, 1)
    with pytest.raises(CacheTooSmallError, match=r"1000 bytes.*737280 bytes"):
        PagedBackend(core, core.read_model(smollm2 / "openvino_model.xml"), settings)


def test_names_the_inputs_of_a_model_that_it_cannot_feed(smollm2: Path) -> None:
    core = ov.Core()
    model = core.read_model(smollm2 / "openvino_model.xml")
    picture = ov.opset13.parameter([-1], ov.Type.f32, name="pixel_values")
    picture.output(0).set_names({"pixel_values"})
    model.add_parameters([picture])
    with pytest.raises(ModelUnusableError, match="wants the inputs pixel_values"):
        PagedBackend(core, model, BackendSettings("CPU", CachePrecision.F16, 1 << 20, 1))
