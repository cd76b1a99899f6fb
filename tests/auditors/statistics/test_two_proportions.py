"""Held against exact enumeration of every pair of counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpaudit.auditors.statistics.clopper_pearson import epsilon_lower
from dpaudit.auditors.statistics.two_proportions import Ceiling, by_epsilon, by_mu, region
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
