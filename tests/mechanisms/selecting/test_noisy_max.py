"""Report noisy max: its probabilities against enumeration and mpmath, its epsilon, its samplers."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dpaudit.mechanisms import Array, Exponential, ReportNoisyMax
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.randomness import ExactRandomness, SeededRandomness
from tests.sweeps import sweep

ALARM = 1e-6
FLIP = ReportNoisyMax(epsilon=1.0)
LAPLACE = ReportNoisyMax(epsilon=1.0, noise_law="laplace")
WEIGHTS = [[0.0], [0.0, 0.0], [0.0, -1.0, -2.0, 0.5], [0.0, -30.0, -1.0, -700.0, -0.1]]


def probabilities(mechanism: ReportNoisyMax, weights: Any) -> Array:
    found = [mechanism.log_probability(i, np.array(weights)) for i in range(len(weights))]
    assert None not in found
    return np.exp(np.array(found, dtype=np.float64))


def flipped(weights: list[float]) -> Array:
    """Permute-and-flip as it is defined: over all orders, the first whose coin shows."""
    chance = [math.exp(w - max(weights)) for w in weights]
    found = np.zeros(len(weights))
    orders = list(itertools.permutations(range(len(weights))))
    for order in orders:
        left = 1.0
        for i in order:
            found[i] += left * chance[i]
            left *= 1.0 - chance[i]
    return found / len(orders)


def largest(weights: list[float], index: int) -> mpf:
    """The probability that a weight plus Laplace noise is the largest, by quadrature between the weights."""

    def density(x: mpf) -> mpf:
        below = [1 - mp.exp(w - x) / 2 if x > w else mp.exp(x - w) / 2 for w in weights]
        return mp.exp(-abs(x - weights[index])) / 2 * mp.fprod(below[:index] + below[index + 1 :])

    low, high = min(weights) - 8.0, max(weights) + 32.0
    ends = sorted({*weights, *np.linspace(low, high, 12).tolist()})
    return mp.quad(density, [-mp.inf, *ends, mp.inf])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_permute_and_flip_is_what_its_definition_says(weights: list[float]) -> None:
    assert probabilities(FLIP, weights) == pytest.approx(flipped(weights), rel=1e-12, abs=0.0)


@sweep("weights", [*WEIGHTS[:3], [0.0, -20.0, -1.0]], everyday=(0, 1, 3))
def test_the_largest_under_laplace_noise(weights: list[float]) -> None:
    with mp.workdps(25):
        for index in range(len(weights)):
            found = LAPLACE.log_probability(index, np.array(weights))
            assert found == pytest.approx(float(mp.log(largest(weights, index))), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("mechanism", [FLIP, LAPLACE])
@pytest.mark.parametrize("spread", [0.0, 0.3, 30.0])
def test_probabilities_of_many_candidates_add_up(mechanism: ReportNoisyMax, spread: float) -> None:
    weights = spread * np.random.default_rng(3).normal(size=40)
    assert probabilities(mechanism, weights).sum() == pytest.approx(1.0, rel=1e-11)


def test_many_candidates_have_a_probability_or_none() -> None:
    weights = np.zeros(100_000)
    assert FLIP.log_probability(7, weights) == pytest.approx(-math.log(100_000), rel=1e-12)
    assert LAPLACE.log_probability(7, np.arange(5000.0)) is None
    assert FLIP.log_density(np.array(7.5), weights) == -math.inf
    assert FLIP.log_density(np.array(-1.0), weights) == -math.inf


@pytest.mark.parametrize("mechanism", [FLIP, LAPLACE])
def test_no_loss_exceeds_epsilon_and_some_come_near(mechanism: ReportNoisyMax) -> None:
    """Weights whose changes vary by 1, on a grid of weights and changes: losses up to 1 and no more."""
    worst = 0.0
    for weights in itertools.product([0.0, -0.5, -3.0], repeat=3):
        for change in [(-0.5, 0.5, 0.5), (0.5, -0.5, -0.5), (0.5, 0.0, -0.5), (0.0, -0.5, 0.5)]:
            one = probabilities(mechanism, np.array(weights))
            other = probabilities(mechanism, np.array(weights) + 7.0 + np.array(change))
            worst = max(worst, float(np.abs(np.log(one / other)).max()))
    assert 0.7 < worst <= 1.0 + 1e-12


def test_permute_and_flip_has_no_bounded_range() -> None:
    """The exponential mechanism's losses lie in an interval of length epsilon; these do not."""
    losses = np.log(probabilities(FLIP, [0.0, 0.0]) / probabilities(FLIP, [0.5, -0.5]))
    assert losses == pytest.approx([-math.log(2.0 - math.exp(-1.0)), 1.0], rel=1e-12)
    assert np.ptp(losses) > 1.4
    alike = [
        Exponential(epsilon=1.0).log_probability(i, np.array(w))
        for w in ([0, 0], [0.5, -0.5])
        for i in (0, 1)
    ]
    assert np.ptp(np.array(alike[:2]) - np.array(alike[2:])) <= 1.0 + 1e-12


def test_its_expected_score_is_at_least_the_exponential_mechanisms() -> None:
    generator = np.random.default_rng(5)
    for _ in range(20):
        weights = generator.normal(size=6) * generator.choice([0.3, 3.0])
        other = np.exp(weights) / np.exp(weights).sum()
        assert probabilities(FLIP, weights) @ weights >= other @ weights - 1e-12


@pytest.mark.parametrize("mechanism", [FLIP, LAPLACE])
@pytest.mark.parametrize("exact", [False, True])
def test_samplers(mechanism: ReportNoisyMax, exact: bool, nightly: bool) -> None:
    trials, off = (20_000, 0.1) if nightly else (5_000, 0.2)  # as surely rejected
    generator = np.random.default_rng(11)
    draws = ExactRandomness(SeededBits(generator)) if exact else SeededRandomness(generator)
    weights = np.array([0.0, 2.0, 0.5, 1.8])
    counts = np.bincount([int(mechanism.sample(weights, draws)) for _ in range(trials)], minlength=4)

    def p(scale: float) -> float:
        law = probabilities(mechanism, scale * weights)
        return float(stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue)

    assert p(1.0) > ALARM
    assert p(1.0 - off) < ALARM
    assert p(1.0 + off) < ALARM


def test_monotone_scores_weigh_twice_as_much() -> None:
    scores = np.array([1.0, 2.0])
    assert FLIP.log_weights(scores, 0.5).tolist() == [1.0, 2.0]
    assert FLIP.log_weights(scores, 0.5, monotone=True).tolist() == [2.0, 4.0]
    assert (FLIP.factor(0.5), FLIP.factor(0.5, monotone=True)) == (Fraction(1), Fraction(2))
