"""Held against exact enumeration of every pair of counts."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpaudit.auditors.statistics.clopper_pearson import epsilon_lower, proportion_lower, proportion_upper
from dpaudit.auditors.statistics.two_proportions import Ceiling, Region, by_epsilon, by_mu, region
from dpaudit.mechanisms import Array


def _line(epsilon: float, delta: float) -> Ceiling:
    return lambda q: np.exp(epsilon) * q + delta


def _size(p_values: Array, level: float, ceiling: Ceiling, trials: int) -> float:
    """The largest probability of p <= level, by enumeration, over a fine grid of q at p = F(q)."""
    counts, worst = np.arange(trials + 1), 0.0
    for q in np.concatenate([np.geomspace(1e-4, 0.1, 60), np.linspace(0.1, 1.0, 90)]):
        p = float(np.clip(ceiling(np.array([q])), 0, 1)[0])
        chance = np.outer(binom.pmf(counts, trials, p), binom.pmf(counts, trials, q))
        worst = max(worst, float(np.sum(chance[p_values <= level])))
    return worst


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.1)])
def test_level_is_kept_over_all_true_proportions(epsilon: float, delta: float) -> None:
    trials, level = 14, 0.05
    order = by_epsilon(trials, delta, level)
    ceiling = _line(epsilon, delta)
    p_values = np.array(
        [
            [region(x, y, trials, order, level).p_value(ceiling) for y in range(trials + 1)]
            for x in range(trials + 1)
        ]
    )
    assert _size(p_values, level, ceiling, trials) <= level
    # The test is no idle one: it uses a good part of its level, and one-and-a-half times it does not hold.
    assert _size(p_values, level, ceiling, trials) > 0.015
    assert _size(p_values, level, _line(epsilon + 1.0, delta), trials) > level


def test_level_is_kept_on_the_gaussian_trade_off() -> None:
    trials, level = 14, 0.05
    order = by_mu(trials)

    def ceiling(q: Array) -> Array:
        return np.asarray(norm.cdf(norm.ppf(q) + 0.8))

    p_values = np.array(
        [
            [region(x, y, trials, order, level).p_value(ceiling) for y in range(trials + 1)]
            for x in range(trials + 1)
        ]
    )
    assert 0.01 < _size(p_values, level, ceiling, trials) <= level


@pytest.mark.parametrize(("x", "y"), [(300, 100), (60, 2), (20, 0), (900, 500)])
def test_sharper_than_two_separate_intervals(x: int, y: int) -> None:
    delta, error, trials = 1e-5, 0.05, 1000
    bound = region(x, y, trials, by_epsilon(trials, delta, error), error).largest_refuted(
        lambda epsilon: _line(epsilon, delta), 10.0, error
    )
    separate = epsilon_lower(x, trials, y, trials, delta, error)
    assert separate < bound < separate + 0.5
    assert bound < np.log(x / max(y, 1e-9)) if y else True


def test_large_counts_agree_with_the_normal_approximation() -> None:
    x, y, n = 200_000, 100_000, 1_000_000
    bound = region(x, y, n, by_epsilon(n, 0.0, 0.05), 0.05).largest_refuted(
        lambda epsilon: _line(epsilon, 0.0), 10.0, 0.05
    )
    normal = np.log(2) - 1.645 * np.sqrt(1 / x + 1 / y - 2 / n)
    assert bound == pytest.approx(normal, abs=4e-4)
    assert bound <= normal + 5e-5


def test_nothing_seen_is_nothing_refuted() -> None:
    order = by_epsilon(100, 0.0, 0.05)
    assert region(0, 0, 100, order, 0.05).p_value(_line(0.0, 0.0)) == 1.0
    assert region(50, 50, 100, order, 0.05).largest_refuted(lambda e: _line(e, 0.0), 5.0, 0.05) == 0.0
    assert region(100, 100, 100, order, 0.05).largest_refuted(lambda e: _line(e, 0.0), 5.0, 0.05) == 0.0


def test_a_regions_probability_is_the_sum_over_its_groups_at_the_worst_cell() -> None:
    """Every kind of step: all x, from 1 on, from the middle, the last x alone, and none."""
    trials, starts = 5, np.array([0.0, 1.0, 3.0, 5.0, 6.0])
    mass = np.array([[0.1, 0.2, 0.3, 0.25, 0.15], [0.05, 0.15, 0.3, 0.3, 0.2]])
    found = Region(trials, np.array([0.1, 0.3, 0.4]), mass, starts, 0.001)
    for slope in (0.5, 1.0, 2.0, 5.0):  # the last one past 1
        cells = []
        for q, row in zip((0.3, 0.4), mass.tolist(), strict=True):
            p = min(1.0, slope * q)
            chances = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
            cells.append(sum(m * sum(chances[int(start) :]) for m, start in zip(row, starts, strict=True)))
        p_value = found.p_value(lambda q, slope=slope: slope * q)
        assert p_value == pytest.approx(max(cells) * (1 + 1e-9) + 0.001, rel=1e-12)
    everything = Region(trials, np.array([0.1, 0.3]), np.array([[1.0]]), np.array([0.0]), 0.001)
    assert everything.p_value(lambda q: q) == 1.0


def test_what_is_refuted_at_the_level_itself_counts() -> None:
    found = region(9, 1, 12, by_epsilon(12, 0.0, 0.05), 0.05)
    level = found.p_value(_line(0.5, 0.0))
    assert found.largest_refuted(lambda _: _line(0.5, 0.0), 7.0, level) == 7.0
    assert found.largest_refuted(lambda _: _line(0.5, 0.0), 7.0, level * (1 - 1e-12)) == 0.0
    exact = found.largest_refuted(lambda e: _line(e, 0.0), 7.0, level)
    assert 0.5 - 7.0 / 2**22 <= exact <= 0.5


@pytest.mark.parametrize(("x", "y", "trials"), [(9, 1, 12), (700, 400, 1000), (5000, 5000, 10_000)])
def test_a_region_leaves_nothing_out(x: int, y: int, trials: int) -> None:
    """Its cells hold q but for the stated part of the error, its groups all y."""
    error = 0.05
    order = by_epsilon(trials, 0.0, error)
    found = region(x, y, trials, order, error)
    assert found.nuisance == error * 1e-3
    assert found.edges[0] == proportion_lower(y, trials, found.nuisance / 2)
    assert found.edges[-1] == proportion_upper(y, trials, found.nuisance / 2)
    assert len(found.edges) == 129
    assert np.all(np.diff(found.edges) > 0)
    np.testing.assert_allclose(found.mass.sum(axis=1), 1.0, rtol=1e-12)
    assert np.all(np.diff(found.starts) >= 0)
    assert found.starts[0] <= x
    assert found.trials == trials


@pytest.mark.parametrize("trials", [7, 12])
def test_a_region_is_no_smaller_than_the_counts_as_strong(trials: int) -> None:
    """By enumeration: with so few trials every y is a group of its own, so that the region is exact."""
    for order in (by_epsilon(trials, 0.1, 0.05), by_mu(trials)):
        counts = np.arange(trials + 1.0)
        table = np.array([order(np.full(trials + 1, x), counts) for x in counts])
        for x in range(trials + 1):
            for y in range(trials + 1):
                found = region(x, y, trials, order, 0.05)
                strong = table >= table[x, : y + 1].min()
                least = np.where(strong.any(axis=0), strong.argmax(axis=0), trials + 1)
                assert found.starts.tolist() == np.maximum.accumulate(least).tolist()
                low = found.edges[:-1]
                chances = binom.pmf(np.arange(trials + 1), trials, low[:, None])
                np.testing.assert_allclose(found.mass, chances, rtol=1e-9, atol=1e-13)


def test_a_staircase_is_the_least_count_as_strong() -> None:
    found = region(1, 1, 12, lambda x, y: x - 2 * y, 0.05)  # as strong as -1
    assert found.starts.tolist() == [max(0, 2 * k - 1) if 2 * k - 1 <= 12 else 13 for k in range(13)]


@pytest.mark.parametrize(("x", "y"), [(60.0, 20.0), (1.0, 2.0), (11.0, 0.0), (100.0, 99.0), (0.0, 3.0)])
def test_counts_are_ordered_by_the_normal_approximation(x: float, y: float) -> None:
    """The delta method: log((p - delta)/q) less its standard deviations, with one more run seen beside q."""
    n, normal = 100, NormalDist()
    assert (
        by_epsilon(n, 0.01, 0.05)(np.array([1.0]), np.array([y]))[0] == -math.inf
    )  # no more than delta's own
    for delta in (0.0, 0.05):
        found = float(by_epsilon(n, delta, 0.05)(np.array([x]), np.array([y]))[0])
        if x <= n * delta:
            assert found == -math.inf
            continue
        excess = x - n * delta
        variance = (1 / x - 1 / (n + 1)) * (x / excess) ** 2 + 1 / (y + 1) - 1 / (n + 2)
        expected = math.log(excess / (y + 1)) + normal.inv_cdf(0.05) * math.sqrt(variance)
        assert found == pytest.approx(expected, rel=1e-9)
    at = min(x + 0.5, n + 0.75) / (n + 1), (y + 0.5) / (n + 1)
    expected = normal.inv_cdf(at[0]) - normal.inv_cdf(at[1])
    assert float(by_mu(n)(np.array([x]), np.array([y]))[0]) == pytest.approx(expected, abs=1e-9)
