"""Densities of sums over secret samples, against all samples one by one; which rows moved."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit import (
    FixedSizeSampled,
    Laplace,
    RandomAllocation,
    SampledMatrix,
    SampledRecords,
    TruncatedPoissonSampled,
)
from dpaudit.mechanisms import Answer, Array, Asked
from dpaudit.mechanisms.samples import subsets
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.randomness import ExactRandomness
from tests import make
from tests.sweeps import sweep

NOISE = make.gaussian(1.5, 2.0)
#: Rows that are alike, rows of zeros, and others.
ROWS = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [-0.5, 0.5]])
OUTPUTS = np.array([[0.3, -0.2], [2.5, 1.0], [-4.0, 3.0]])


def poisson(chosen: tuple[int, ...]) -> float:
    return math.prod(0.3 if one else 0.7 for one in chosen)


def truncated(chosen: tuple[int, ...]) -> float:
    """A Poisson sample of more than two keeps two of them."""
    if sum(chosen) > 2:
        return 0.0
    more = stats.binom(6, 0.3).sf(2)
    return poisson(chosen) + (more / math.comb(6, 2) if sum(chosen) == 2 else 0.0)


def fixed(chosen: tuple[int, ...]) -> float:
    return (sum(chosen) == 2) / math.comb(6, 2)


SAMPLED: list[tuple[Any, Any]] = [
    (make.poisson(NOISE, 0.3), poisson),
    (make.poisson(NOISE, 1.0), lambda chosen: float(all(chosen))),
    (SampledRecords(rate=0.3, records=2, mechanism=NOISE), poisson),
    (TruncatedPoissonSampled(rate=0.3, most=2, units=6, mechanism=NOISE), truncated),
    (FixedSizeSampled(size=2, units=6, mechanism=NOISE), fixed),
    (make.poisson(make.laplace(0.8, 2.0), 0.3), poisson),
]


def density(mechanism: Any, output: Array, total: Array) -> float:
    if isinstance(mechanism, Laplace):
        return float(stats.laplace(total, mechanism.scale).pdf(output).prod())
    return float(stats.norm(total, mechanism.sigma).pdf(output).prod())


@sweep("mechanism, probability", SAMPLED, everyday=(1, 3, 4, 5))
def test_the_density_is_that_of_all_samples(mechanism: Any, probability: Any) -> None:
    samples = list(itertools.product((0, 1), repeat=len(ROWS)))
    assert math.fsum(map(probability, samples)) == pytest.approx(1.0)
    found = mechanism.log_densities(OUTPUTS, ROWS)
    for output, log in zip(OUTPUTS, found, strict=True):
        each = [probability(s) * density(mechanism.mechanism, output, np.array(s) @ ROWS) for s in samples]
        assert math.exp(log) == pytest.approx(math.fsum(each), rel=1e-9)
    asked = [Asked(ROWS.sum(axis=0), None, ROWS)]
    answer = Answer(query=ROWS.sum(axis=0), output=OUTPUTS[0], rows=ROWS)
    assert mechanism.log_likelihood([answer], asked) == pytest.approx(found[0])


@pytest.mark.parametrize("mechanism", [one for one, _ in SAMPLED[:5]])
def test_sizes_are_those_of_the_samples_that_are_drawn(mechanism: Any) -> None:
    randomness = ExactRandomness(SeededBits(np.random.default_rng(0)))
    drawn = Counter(int(mechanism.chosen(6, randomness).sum()) for _ in range(3_000))
    for size, log in enumerate(mechanism.sizes(6)):
        mean = 3_000 * math.exp(log)
        assert abs(drawn[size] - mean) <= 5.5 * math.sqrt(mean) + 1e-9  # a false alarm below 1e-6


def test_a_sample_without_rows_is_noise_alone() -> None:
    found = make.poisson(NOISE, 0.3).log_densities(OUTPUTS, np.zeros((0, 2)))
    assert found == pytest.approx(stats.norm(0.0, 1.5).logpdf(OUTPUTS).sum(axis=1))


def test_more_sums_than_can_be_enumerated_have_no_density() -> None:
    mechanism, many = make.poisson(NOISE, 0.3), np.arange(26.0).reshape(13, 2)
    assert mechanism.log_densities(OUTPUTS, many[:12]) is not None
    assert mechanism.log_densities(OUTPUTS, many) is None
    assert mechanism.log_densities(OUTPUTS, many[:1].repeat(4_000, axis=0)) is not None


def step(output: float, *, at: int, rows: Any) -> tuple[Answer, Asked]:
    held = np.array(rows, dtype=np.float64)
    asked = Asked(held.sum(axis=0), None, held)
    return Answer(query=asked.query, output=np.array(output), at=np.array(float(at)), rows=held), asked


EMPTY = Answer(query=np.empty(0), output=np.empty(0)), Asked(np.empty(0))


def test_random_allocation_is_the_mixture_over_all_turns() -> None:
    mechanism = RandomAllocation(steps=3, mechanism=make.gaussian(0.7))
    rows, outputs = np.array([[1.0, -0.5], [0.5, 0.25], [0.2, 0.9]]), np.array([0.4, -0.3, 1.2])
    steps = [step(o, at=t + 1, rows=r) for t, (o, r) in enumerate(zip(outputs, rows, strict=True))]
    answers, asked = zip(EMPTY, *steps, strict=True)
    each = []
    for turns in itertools.product(range(3), repeat=2):
        totals = [sum(rows[t][unit] for unit in range(2) if turns[unit] == t) for t in range(3)]
        each.append(stats.norm(totals, 0.7).pdf(outputs).prod() / 9)
    assert math.exp(mechanism.log_likelihood(answers, asked) or 0.0) == pytest.approx(math.fsum(each))
    assert mechanism.log_likelihood(answers[:1], asked[:1]) == 0.0


def test_sampled_matrix_is_the_mixture_over_turns_and_coins() -> None:
    mechanism = SampledMatrix(rate=0.25, mechanism=make.banded(0.9, 3, separation=2))
    rows, outputs = np.array([[1.0], [0.5], [-0.7]]), np.array([0.4, 0.9, -0.2])
    steps = [step(o, at=t + 1, rows=r) for t, (o, r) in enumerate(zip(outputs, rows, strict=True))]
    answers, asked = zip(EMPTY, *steps, strict=True)
    # Prefix sums of the items plus A C^-1 z: a Gaussian with this mean and covariance.
    sums = np.tril(np.ones((3, 3)))
    mixed = sums @ np.linalg.inv(np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]]))
    total = 0.0
    for first in range(2):
        for coins in itertools.product((0.0, 1.0), repeat=len(range(first, 3, 2))):
            part = np.zeros(3)
            part[first::2] = coins
            mean = sums @ (part * rows[:, 0])
            weight = 0.5 * math.prod(0.25 if coin else 0.75 for coin in coins)
            total += weight * float(stats.multivariate_normal(mean, 0.81 * mixed @ mixed.T).pdf(outputs))
    assert math.exp(mechanism.log_likelihood(answers, asked) or 0.0) == pytest.approx(total)


def test_turns_of_many_units_have_no_density() -> None:
    mechanism = RandomAllocation(steps=30, mechanism=NOISE)
    steps = [step(0.0, at=t + 1, rows=[1.0, 1.0, 0.0]) for t in range(30)]
    assert mechanism.log_likelihood(*zip(EMPTY, *steps, strict=True)) is None
    alone = [step(0.0, at=t + 1, rows=[1.0, 0.0, 0.0]) for t in range(30)]
    assert mechanism.log_likelihood(*zip(EMPTY, *alone, strict=True)) is not None


def test_rows_that_both_sides_have_do_not_move() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(9, 3))
    shuffled = random.permutation(rows)
    assert subsets.others_moved(rows, shuffled[:-1], "l2", 1) == 0.0
    assert subsets.others_moved(rows, np.vstack([rows[4:], rows[:4]]), "l2", 1) == 0.0
    replaced = rows.copy()
    replaced[3] = 7.0
    assert subsets.others_moved(rows, replaced, "l2", 1) == 0.0


def test_rows_of_others_that_move_add_up() -> None:
    rows = np.random.default_rng(1).normal(size=(6, 2))
    fewer = np.delete(rows, 2, axis=0)
    moved = fewer + np.array([0.003, 0.004])
    assert subsets.others_moved(rows, moved, "l2", 1) == pytest.approx(5 * 0.005)
    assert subsets.others_moved(moved, rows, "l2", 1) == pytest.approx(5 * 0.005)
    # Two rows went, where a unit has one: the shorter of them counts as another unit's.
    gone = np.delete(rows, [2, 3], axis=0)
    shorter = min(np.linalg.norm(rows[2]), np.linalg.norm(rows[3]))
    assert subsets.others_moved(rows, gone, "l2", 1) == pytest.approx(shorter)
    assert subsets.others_moved(rows, gone, "l2", 2) == 0.0
    assert subsets.others_moved(rows, np.zeros((0, 2)), "l2", 6) == 0.0


def test_rounding_of_many_rows_is_no_move_and_one_that_moves_among_them_is() -> None:
    rows = np.arange(200.0).reshape(100, 2)
    rounded = rows * (1.0 + 1e-9)
    assert subsets.others_moved(rows, rounded, "l2", 1, 1e-6) == 0.0
    rounded[7] += 1e-3
    rounded[8] += 1.0
    assert subsets.others_moved(rows, rounded, "l2", 1, 1e-6) == pytest.approx(1e-3 * math.sqrt(2), rel=1e-3)


@pytest.mark.parametrize("size", [1e2, 1e8, 1e12])
@pytest.mark.parametrize("sigma", [1e-3, 1.0, 1e5])
def test_rows_far_longer_than_the_noise_cancel_nowhere(size: float, sigma: float) -> None:
    """Two rows that differ by half a sigma: an output at one of them is e^(1/8) times as likely from it."""
    mechanism = FixedSizeSampled(size=1, units=2, mechanism=make.gaussian(sigma))
    rows = np.array([[size, 0.0], [size + 0.5, 0.0]]) * sigma
    [found] = mechanism.log_densities(rows[:1], rows)
    exact = math.log1p(math.exp(-0.125)) - math.log(4.0 * math.pi) - 2.0 * math.log(sigma)
    assert found == pytest.approx(exact, abs=1e-3 if size == 1e12 else 1e-6)
