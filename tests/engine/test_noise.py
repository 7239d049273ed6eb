"""Noise by address: the same number for the same address, and good numbers over all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from engine.noise import Lane, NoiseStream

ALARM = 1e-6
IDS = np.arange(2000)


def p_uniform(numbers: np.ndarray) -> float:
    """Chi-square of numbers in (0, 1) over a hundred equal bins."""
    seen, _ = np.histogram(numbers, bins=100, range=(0.0, 1.0))
    expected = numbers.size / 100
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), 99))


def p_independent(first: np.ndarray, second: np.ndarray) -> float:
    """Chi-square of pairs over a grid of sixteen by sixteen equal cells."""
    seen, _, _ = np.histogram2d(
        first.ravel(), second.ravel(), bins=16, range=((0.0, 1.0), (0.0, 1.0))
    )
    expected = first.size / 256
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), 255))


def numbers(seeds: range, choices: range, positions: range) -> np.ndarray:
    """float64[seeds, choices, positions, ids]."""
    return np.array(
        [
            [
                [NoiseStream(seed, choice).uniform(position, IDS) for position in positions]
                for choice in choices
            ]
            for seed in seeds
        ]
    )


def test_the_same_address_gives_the_same_number_whatever_else_was_asked() -> None:
    stream, other = NoiseStream(5, 1), NoiseStream(5, 1)
    other.uniform(3, IDS)
    other.tail_gumbel(17)
    whole = stream.gumbel(17, IDS)
    assert np.array_equal(other.gumbel(17, IDS), whole)
    some = np.array([1999, 3, 700], np.int32)
    assert np.array_equal(other.gumbel(17, some), whole[some])
    assert stream.tail_gumbel(17) == other.tail_gumbel(17)


GAMMA = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
WORD = 2**64


def splitmix64(start: int, index: int) -> int:
    """Output number ``index`` of the generator that starts at ``start``, by its definition."""
    z = (start + (index + 1) * GAMMA) % WORD
    z = (z ^ (z >> 30)) * FACTORS[0] % WORD
    z = (z ^ (z >> 27)) * FACTORS[1] % WORD
    return z ^ (z >> 31)


def key(*parts: int) -> int:
    """Seed, choice, lane and position, absorbed one after the other."""
    start = 0
    for part in parts:
        start = splitmix64(start, part)
    return start


def token_with_output(start: int, output: int) -> int:
    """The index at which the generator from ``start`` gives ``output``: it is a bijection."""

    def undo_shift(z: int, shift: int) -> int:
        restored = z
        for _ in range(64 // shift + 1):
            restored = z ^ (restored >> shift)
        return restored

    z = undo_shift(output, 31) * pow(FACTORS[1], -1, WORD) % WORD
    z = undo_shift(z, 27) * pow(FACTORS[0], -1, WORD) % WORD
    z = undo_shift(z, 30)
    return ((z - start) * pow(GAMMA, -1, WORD) - 1) % WORD


def test_the_reference_generator_gives_the_published_numbers() -> None:
    assert [splitmix64(1234567, index) for index in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_numbers_are_outputs_of_the_generator_that_the_address_names() -> None:
    """Also pins them down: a seeded answer of today must be the answer of the next release."""
    tokens = [0, 1, 49151]
    for seed, choice, position in [(42, 0, 7), (0, 3, 0), (2**64 - 1, 1, 131_071)]:
        start = key(seed, choice, 0, position)
        expected = [((splitmix64(start, token) >> 12) + 0.5) * 2.0**-52 for token in tokens]
        stream = NoiseStream(seed, choice)
        assert stream.uniform(position, np.array(tokens)).tolist() == expected
        tail = ((splitmix64(key(seed, choice, 1, position), 0) >> 12) + 0.5) * 2.0**-52
        assert stream.tail_gumbel(position) == -math.log(-math.log(tail))


@pytest.mark.parametrize("output", [0, WORD - 1])
def test_not_even_the_extreme_outputs_give_zero_or_one(output: int) -> None:
    token = token_with_output(key(9, 0, 0, 4), output)
    ids = np.array([token], np.uint64).view(np.int64)
    number = NoiseStream(9).uniform(4, ids)[0]
    assert number == pytest.approx(2.0**-53 if output == 0 else 1.0, abs=2.0**-53)
    assert 0.0 < number < 1.0
    assert np.isfinite(NoiseStream(9).gumbel(4, ids)).all()


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**64 - 1])
def test_numbers_are_uniform(seed: int) -> None:
    drawn = numbers(range(seed, seed + 1), range(2), range(50))
    assert p_uniform(drawn) > ALARM
    assert kstest(drawn.ravel()[::20], "uniform").pvalue > ALARM


def test_numbers_are_uniform_along_every_axis_of_the_address() -> None:
    drawn = numbers(range(100), range(4), range(4))[..., :50]
    for axis in range(4):
        lines = np.moveaxis(drawn, axis, -1)
        means = lines.mean(axis=-1).ravel()
        scaled = (means - 0.5) * math.sqrt(12 * lines.shape[-1])
        # Sums of independent uniform numbers: their spread is known, whatever the axis.
        assert abs((scaled**2).mean() - 1.0) < 6 * math.sqrt(2 / len(scaled))


@pytest.mark.parametrize("axis", range(4), ids=["seed", "choice", "position", "token"])
def test_neighbours_are_independent(axis: int) -> None:
    drawn = np.moveaxis(numbers(range(5), range(5), range(5)), axis, 0)
    assert p_independent(drawn[:-1], drawn[1:]) > ALARM
    assert p_independent(drawn[:-2], drawn[2:]) > ALARM


def test_seeds_that_differ_in_one_bit_share_nothing() -> None:
    base = NoiseStream(0).uniform(0, IDS)
    for bit in range(64):
        other = NoiseStream(1 << bit).uniform(0, IDS)
        assert abs(np.corrcoef(base, other)[0, 1]) < 5.5 / math.sqrt(len(IDS))


def test_seed_choice_and_position_are_not_interchangeable() -> None:
    """Addresses whose parts add up to the same are still different addresses."""
    streams = [
        NoiseStream(1, 0).uniform(0, IDS),
        NoiseStream(0, 1).uniform(0, IDS),
        NoiseStream(0, 0).uniform(1, IDS),
        NoiseStream(0, 0).uniform(0, IDS + 1),
    ]
    for index, first in enumerate(streams):
        for second in streams[index + 1 :]:
            assert abs(np.corrcoef(first, second)[0, 1]) < 5.5 / math.sqrt(len(IDS))


def test_gumbel_noise_has_its_distribution_and_no_infinities() -> None:
    drawn = np.concatenate([NoiseStream(3).gumbel(position, IDS) for position in range(50)])
    assert np.isfinite(drawn).all()
    assert drawn.dtype == np.float64
    assert p_uniform(np.exp(-np.exp(-drawn))) > ALARM


def test_the_noise_of_the_tail_is_gumbel_and_independent_of_the_tokens() -> None:
    tail = np.array([NoiseStream(3).tail_gumbel(position) for position in range(20_000)])
    tokens = np.array([NoiseStream(3).uniform(position, IDS[:1])[0] for position in range(20_000)])
    as_uniform = np.exp(-np.exp(-tail))
    assert p_uniform(as_uniform) > ALARM
    assert p_independent(as_uniform, tokens) > ALARM


def test_the_largest_of_weighted_noise_is_a_draw_from_the_weights() -> None:
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    stream, ids, num_draws = NoiseStream(11), np.arange(4), 40_000
    drawn = [
        int((np.log(weights) + stream.gumbel(position, ids)).argmax())
        for position in range(num_draws)
    ]
    expected = weights * num_draws
    statistic = ((np.bincount(drawn, minlength=4) - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, 3) > ALARM
    # And one draw does not depend on the one before.
    pairs = np.histogram2d(drawn[:-1], drawn[1:], bins=4)[0]
    expected_pairs = np.outer(weights, weights) * (num_draws - 1)
    assert chi2.sf(((pairs - expected_pairs) ** 2 / expected_pairs).sum(), 9) > ALARM


def test_a_single_number_is_the_one_of_the_array() -> None:
    stream = NoiseStream(6, 2)
    for lane in Lane:
        numbers = stream.uniform(9, np.arange(5), lane).tolist()
        assert [stream.level(9, entry, lane) for entry in range(5)] == numbers


def test_no_two_lanes_share_a_number() -> None:
    """A draft, its test and what replaces it must know nothing of each other."""
    lanes = [
        np.array([NoiseStream(8).uniform(position, IDS, lane) for position in range(20)])
        for lane in Lane
    ]
    for index, first in enumerate(lanes):
        assert p_uniform(first) > ALARM
        for second in lanes[index + 1 :]:
            assert p_independent(first, second) > ALARM
