"""Every bet is held against the claim by exact expectation over distributions that just satisfy it."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from dpaudit.auditors.statistics.betting import (
    FIRST_BLOCK,
    Bets,
    best_bets,
    both_directions,
    largest_refutable,
    log_ratio,
    looks,
    most_log_gain,
    pairs_needed,
    place,
    soft_tests,
)
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import ThresholdEvent
from dpaudit.mechanisms import Array
from tests.sweeps import sweep

BINS = 12


def _worst(data: Array, neighbour: Array, epsilon: float, delta: float) -> float:
    """The largest E_P[data] + E_Q[neighbour] over all P, Q that satisfy the claim, by linear programming.

    P <= e^epsilon Q + r with r >= 0 of sum delta, and the same of Q. With factors of means a and b a bet pays
    a b <= ((a + b) / 2)^2, which is at most 1 where the sum is at most 2.
    """
    bins = len(data)
    one, odds, none = np.eye(bins), math.exp(epsilon) * np.eye(bins), np.zeros((bins, bins))
    sums = np.kron(np.eye(4), np.ones(bins))
    found = linprog(
        -np.concatenate([data, neighbour, np.zeros(2 * bins)]),
        A_ub=np.vstack([np.block([[one, -odds, -one, none], [-odds, one, none, -one]]), sums[2:]]),
        b_ub=np.append(np.zeros(2 * bins), [delta, delta]),
        A_eq=sums[:2],
        b_eq=np.ones(2),
    )
    assert found.status == 0
    return -float(found.fun)


def _bets(random: np.random.Generator, epsilon: float, delta: float) -> list[Bets]:
    p, q = random.dirichlet(np.full(BINS, 0.5)) + 1e-4, random.dirichlet(np.full(BINS, 0.5)) + 1e-4
    p, q = p / p.sum(), q / q.sum()
    ratio, at, deltas = np.log(p / q), np.array([epsilon]), np.array([delta])
    forth, _ = best_bets(p, q, soft_tests(ratio, at), at, deltas)
    back = best_bets(q, p, soft_tests(-ratio, at), at, deltas)[0].swapped()
    return [forth, back, both_directions(forth, back)]


@sweep("epsilon, delta", [(0.0, 0.0), (1.0, 0.0), (0.5, 0.05), (2.0, 1e-5), (0.0, 0.3)], everyday=(0, 3))
def test_no_bet_gains_where_the_claim_is_true(epsilon: float, delta: float, nightly: bool) -> None:
    random = np.random.default_rng(1)
    staked, pairs = 0, 40 if nightly else 10
    for _ in range(pairs):
        for bets in _bets(random, epsilon, delta):
            staked += bool(bets.growth[0] > 0)
            assert bets.data.min() > 0
            assert bets.neighbour.min() > 0
            paid = math.log(bets.data.max()) + math.log(bets.neighbour.max())
            assert paid <= most_log_gain(epsilon, delta) + 1e-9
            assert _worst(bets.data[0], bets.neighbour[0], epsilon, delta) <= 2 + 1e-6
    assert staked > 1.5 * pairs


def test_no_factor_falls_below_the_floor_however_sure_the_past_is() -> None:
    """Where some bins have hardly been seen on either side, the most growth is at a factor of nothing."""
    random, least = np.random.default_rng(2), []
    epsilons, deltas = np.array([0.0, 0.1, 1.0, 5.0, 11.0]), np.array([0.0, 0.5, 1e-6, 0.0, 1e-6])
    for _ in range(150):
        p, q = random.dirichlet(np.full(6, 0.05), 2)
        phi = random.choice([random.random((5, 3, 6)), random.integers(0, 2, (5, 3, 6))])
        bets, _ = best_bets(p, q, phi, epsilons, deltas)
        least += [bets.data.min(), bets.neighbour.min()]
    assert 1e-3 * (1 - 1e-9) <= min(least) < 2e-3


def test_a_bet_against_another_claim_gains() -> None:
    """The planted fault of the test above: the same bets where twice as much may be revealed."""
    for bets in _bets(np.random.default_rng(1), 0.5, 0.05):
        assert _worst(bets.data[0], bets.neighbour[0], 1.0, 0.05) > 2 + 1e-3


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_no_bet_of_a_block_gains_where_the_claim_is_true(upper: bool, swapped: bool) -> None:
    random = np.random.default_rng(3)
    sides = [random.normal(1.0 if upper else -1.0, 1.0, 500), random.normal(0.0, 1.0, 500)]
    past = Samples(*(sides[::-1] if swapped else sides), 3)
    epsilons, deltas = np.array([0.0, 0.3, 0.6]), np.array([1e-5, 0.01, 0.0])
    block = place(past, ThresholdEvent(0.8 if upper else -0.8, upper, swapped), epsilons, deltas)
    for bets in (block.soft, block.single):
        assert np.all(bets.growth > 0)
        assert min(bets.data.min(), bets.neighbour.min()) > 0
        for row in zip(bets.data, bets.neighbour, epsilons, deltas, strict=True):
            assert _worst(*row) <= 2 + 1e-6


@pytest.mark.parametrize(("tail", "share"), [(0.6, 1.1), (0.02, 1.8)])
def test_a_bet_gains_where_the_claim_is_false(tail: float, share: float) -> None:
    """P and Q mirror each other; for rare events the other direction is worth nearly as much again."""
    p = np.array([tail, 0.9 - tail, 0.1]) if tail > 0.1 else np.array([tail, 1 - 1.2 * tail, 0.2 * tail])
    q = p[::-1]
    at, delta = np.array([1.0]), np.zeros(1)
    ratio = np.log(p / q)
    forth, _ = best_bets(p, q, soft_tests(ratio, at), at, delta)
    both = both_directions(forth, best_bets(q, p, soft_tests(-ratio, at), at, delta)[0].swapped())
    one, two = (float(np.log(bets.data[0]) @ p + np.log(bets.neighbour[0]) @ q) for bets in (forth, both))
    assert one == pytest.approx(float(forth.growth[0]), rel=1e-9)
    assert one > 0
    assert two > share * one


def test_growth_is_the_information_projection() -> None:
    """For randomized response the nearest distributions that satisfy the claim are known."""
    at = np.array([0.5])
    p, q = np.array([0.2, 0.8]), np.array([0.9, 0.1])
    test = np.array([[[0.0, 1.0]]])
    bets, _ = best_bets(p, q, test, at, np.zeros(1))
    # min over b of KL(p || e^0.5 b) + KL(q || b), by brute force.
    b = np.linspace(0.1, 0.6, 500_001)
    a = math.exp(0.5) * b
    inside = a < 1
    a, b = a[inside], b[inside]
    divergence = (
        0.8 * np.log(0.8 / a)
        + 0.2 * np.log(0.2 / (1 - a))
        + 0.1 * np.log(0.1 / b)
        + 0.9 * np.log(0.9 / (1 - b))
    )
    assert bets.growth[0] == pytest.approx(float(divergence.min()), rel=1e-6)


def test_log_ratio_finds_the_gaussian_one() -> None:
    scores = np.linspace(-4, 5, 200)
    data, neighbour = 1e6 * np.exp(-((scores - 1) ** 2) / 2), 1e6 * np.exp(-(scores**2) / 2)
    assert log_ratio(scores, data, neighbour) == pytest.approx(scores - 0.5, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.7, 0.0), (2.0, 1e-5), (1.0, 0.3), (5.0, 0.01)])
def test_how_many_pairs_it_takes_follows_from_randomized_response(epsilon: float, delta: float) -> None:
    """Each pair multiplies the wealth by at most 1/r^2, and 1/(1 - confidence) of it refutes."""
    likelier = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    assert most_log_gain(epsilon, delta) == pytest.approx(-2 * math.log(likelier), rel=1e-12)
    for confidence in (0.9, 0.95, 1 - 1e-6):
        bets = pairs_needed(epsilon, delta, confidence) - FIRST_BLOCK
        assert likelier ** (-2 * bets) >= 1 / (1 - confidence) > likelier ** (-2 * (bets - 1))


def test_the_largest_epsilon_that_pairs_can_refute_is_the_last_for_which_they_suffice() -> None:
    for pairs in (70, 100, 5000):
        found = largest_refutable(pairs, 1e-5, 0.95, 12.0)
        assert pairs_needed(found, 1e-5, 0.95) <= pairs < pairs_needed(found + 1e-9, 1e-5, 0.95)
    assert largest_refutable(FIRST_BLOCK, 1e-5, 0.95, 12.0) == 0.0
    assert largest_refutable(10**9, 1e-5, 0.95, 12.0) == 12.0
    assert pairs_needed(0.0, 1.0, 0.95) == 10**18 <= pairs_needed(1e4, 0.0, 0.95)


def test_a_block_is_looked_at_sixteen_times_and_at_its_end() -> None:
    assert looks(160).tolist() == list(range(10, 161, 10))
    assert looks(5).tolist() == [1, 2, 3, 4, 5]
    assert looks(17).tolist() == [*range(1, 16), 17]
