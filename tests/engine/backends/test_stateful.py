"""The stateful backend, on the real small model and on tiny ones that grow their state often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import openvino as ov
import pytest

from engine.backends.base import Batch
from engine.backends.settings import BackendSettings
from engine.backends.stateful import StatefulBackend
from engine.config import CachePrecision
from engine.errors import CacheTooSmallError, ModelUnusableError
from tests.engine.backends.feeder import PROMPT, Feeder
from tests.engine.graph.tiny_model import VOCAB_SIZE, TinyModel

SETTINGS = BackendSettings(
    "CPU", CachePrecision.F32, 1 << 20, max_sequences=1, inference_precision="f32"
)


def tiny(settings: BackendSettings = SETTINGS, *, is_plain: bool = True) -> StatefulBackend:
    return StatefulBackend(ov.Core(), TinyModel(is_plain=is_plain).build(), settings)


def random_tokens(seed: int, num_tokens: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB_SIZE, num_tokens).tolist()


def fresh(backend: StatefulBackend, prompt: list[int]) -> Feeder:
    """A new sequence in place of the one before."""
    backend.release(1)
    return Feeder(backend, 1, np.array(prompt, np.int32))


def test_rejected_rows_leave_no_trace(stateful: StatefulBackend) -> None:
    feeder = Feeder(stateful, 1)
    feeder.step([5], 1)
    untouched = feeder.verify([6, 9])
    after: list[np.ndarray] = []
    for rejected in ([3000, 4000, 7, 8], [17, 18, 19, 20]):
        feeder = Feeder(stateful, 1)
        feeder.step([5, *rejected], 1)
        after.append(feeder.verify([6, 9]))
    assert np.abs(untouched - after[0]).max() < 1e-4
    assert np.array_equal(*after)


@pytest.mark.parametrize("is_plain", [True, False], ids=["reset", "copy"])
@pytest.mark.parametrize("seed", range(4))
def test_a_long_answer_with_rejections_scores_as_if_read_at_once(seed: int, is_plain: bool) -> None:
    # Cuts meet every growth of the state: from 3 rows to 300, mostly a few at a time.
    backend = tiny(is_plain=is_plain)
    random = np.random.default_rng(seed)
    tokens = random_tokens(seed, 300)
    feeder = fresh(backend, tokens[:3])
    rows: list[np.ndarray] = []
    while feeder.length < len(tokens):
        right = tokens[feeder.length : feeder.length + int(random.integers(1, 9))]
        wrong = random.integers(0, VOCAB_SIZE, random.integers(0, 40)).tolist()
        rows.extend(feeder.step([*right, *wrong], len(right))[: len(right)])
    whole = fresh(backend, tokens[:3]).verify(tokens[3:])
    assert np.abs(np.stack(rows) - whole).max() < 1e-3  # of logits up to 80
    assert np.abs(whole[:-1] - whole[1:]).max() > 10


@pytest.mark.parametrize(
    ("precision", "smallest", "largest", "num_rows"),
    [(CachePrecision.F16, 0.01, 1, 5440), (CachePrecision.U8, 1, 10, 5440)],
)
def test_the_state_is_as_precise_and_as_large_as_asked(
    precision: CachePrecision, smallest: float, largest: float, num_rows: int
) -> None:
    tokens = random_tokens(1, 60)
    exact = fresh(tiny(), tokens[:30])
    rough = fresh(tiny(replace(SETTINGS, cache_precision=precision)), tokens[:30])
    exact.step(tokens[30:40], 3)
    rough.step(tokens[30:40], 3)
    difference = np.abs(exact.verify(tokens[33:]) - rough.verify(tokens[33:])).max()
    assert smallest < difference < largest  # of logits up to 80
    assert rough.backend.cache.total_tokens == num_rows


def test_says_when_it_has_to_copy_the_state() -> None:
    assert tiny().capabilities.notes == ()
    (note,) = tiny(is_plain=False).capabilities.notes
    assert "each rejected draft costs a copy" in note


def test_a_restored_sequence_goes_on_from_there() -> None:
    backend = tiny()
    tokens = random_tokens(2, 40)
    expected = fresh(backend, tokens[:20]).verify(tokens[20:30])
    feeder = fresh(backend, tokens)
    backend.restore(1, 20)
    feeder.length = 20
    assert np.abs(feeder.verify(tokens[20:30]) - expected).max() < 1e-4


def test_one_sequence_after_another_starts_from_nothing() -> None:
    backend = tiny()
    tokens = random_tokens(3, 30)
    expected = fresh(backend, tokens[:20]).verify(tokens[20:])
    Feeder(backend, 1, np.array(tokens[::-1], np.int32)).step(tokens[:7], 2)
    backend.release(1)
    assert np.array_equal(Feeder(backend, 2, np.array(tokens[:20])).verify(tokens[20:]), expected)


def test_a_second_sequence_has_to_wait_for_the_first() -> None:
    backend = tiny()
    Feeder(backend, 1, np.array([1, 2, 3]))
    assert backend.capabilities.max_sequences == 1
    with pytest.raises(AssertionError, match="another sequence"):
        Feeder(backend, 2, np.array([1, 2, 3]))


def test_rows_do_not_branch() -> None:
    backend = tiny()
    part = Feeder(backend, 1, np.array([1])).slice([1, 2, 3], [-1, 0, 0], [0, 1, 1])
    assert not backend.capabilities.trees
    with pytest.raises(AssertionError, match="do not branch"):
        backend.forward(Batch((part,)))


def test_a_full_cache_refuses_further_rows_and_takes_them_after_a_release() -> None:
    backend = tiny(replace(SETTINGS, num_blocks=2))
    assert backend.cache.total_tokens == 64
    feeder = Feeder(backend, 1, np.array(random_tokens(4, 60), np.int32))
    with pytest.raises(CacheTooSmallError, match="65 are needed"):
        feeder.slice([1, 2, 3, 4, 5])
    backend.release(1)
    assert backend.cache.free_tokens == 64


def test_rejected_rows_give_their_room_back() -> None:
    backend = tiny(replace(SETTINGS, num_blocks=2))
    feeder = Feeder(backend, 1, np.array(random_tokens(4, 20), np.int32))
    feeder.step(random_tokens(5, 40), 1)
    assert backend.cache.free_tokens == 32


def test_a_cache_below_one_block_is_refused_with_both_figures() -> None:
    with pytest.raises(CacheTooSmallError, match=r"1000 bytes.*12288 bytes"):
        tiny(replace(SETTINGS, cache_bytes=1000))


def test_names_the_inputs_of_a_model_that_it_cannot_feed() -> None:
    model = TinyModel().build()
    picture = ov.opset13.parameter([-1], ov.Type.f32, name="pixel_values")
    picture.output(0).set_names({"pixel_values"})
    model.add_parameters([picture])
    with pytest.raises(ModelUnusableError, match="wants the inputs pixel_values"):
        StatefulBackend(ov.Core(), model, SETTINGS)


def test_scores_of_an_earlier_pass_are_not_mistaken_for_new_ones(stateful: StatefulBackend) -> None:
    feeder = Feeder(stateful, 1, PROMPT[:5])
    scores = stateful.forward(Batch((feeder.slice([5]),))).scores[0]
    feeder.verify([6])
    with pytest.raises(AssertionError, match="gone"):
        scores.full(0)
