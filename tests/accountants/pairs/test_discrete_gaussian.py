"""Discrete Gaussian noise on integers against convolutions of its own law, in mpmath or by direct sums."""

import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.signal import fftconvolve

import dpaudit
from dpaudit import ApproxDP, DiscreteGaussian, Neighbouring
from dpaudit.accountants.composition.costs import rho
from dpaudit.accountants.interval.interval_bounds import interval_bound
from dpaudit.accountants.pairs.dominating_pairs import losses
from dpaudit.accountants.privacy_loss import PrivacyLoss
from dpaudit.errors import CannotBound
from tests import make, oracles
from tests.sweeps import sweep

RELATION = Neighbouring.ADD_OR_REMOVE_ONE


def composed(mechanism: DiscreteGaussian, count: int = 1) -> PrivacyLoss:
    return PrivacyLoss.compose((term, n * count) for term, n in losses(mechanism, RELATION))


def law(sigma: float, shift: int = 1, furthest: int = 24) -> dict[int, Any]:
    """Losses in units of 1 / (2 sigma^2), with their probabilities."""
    weights = {k: mp.exp(-(mpf(k) ** 2) / (2 * mpf(sigma) ** 2)) for k in range(-furthest, furthest + 1)}
    total = mp.fsum(weights.values())
    return {shift * shift - 2 * k * shift: p / total for k, p in weights.items()}


def delta_of(total: dict[int, Any], epsilon: float, sigma: float) -> Any:
    return oracles.law_delta(total, epsilon, 1 / (2 * mpf(sigma) ** 2))


@sweep("sigma, count", [(2.0, 20), (0.5, 4), (1.0, 7), (1.5, 1)], everyday=(1, 3))
def test_runs_are_composed_exactly(sigma: float, count: int) -> None:
    found = composed(make.discrete_gaussian(sigma), count)
    with mp.workdps(40):
        exact = oracles.convolved(*[law(sigma)] * count)
        for delta in (1e-3, 1e-6):
            lower, upper = found.epsilon(delta)
            assert delta_of(exact, upper, sigma) <= delta <= delta_of(exact, lower, sigma)
            assert upper - lower <= 1e-9 * upper


def test_twenty_runs_of_sigma_2() -> None:
    assert composed(make.discrete_gaussian(2.0), 20).epsilon(1e-6).upper == pytest.approx(12.60123, abs=1e-5)


@pytest.mark.parametrize("sigma", [0.6, 2.0])
@sweep(
    "sensitivity, moves",
    [(1.0, 1), (1.4, 1), (1.415, 2), (math.sqrt(2), 2), (math.sqrt(3), 3), (1.99, 3)],
    everyday=(0, 1, 2, -1),
)
def test_so_many_integers_as_the_squared_distance_move_by_one(
    sigma: float, sensitivity: float, moves: int
) -> None:
    mechanism = make.discrete_gaussian(sigma, sensitivity)
    [(_, times)] = losses(mechanism, RELATION)
    assert times == moves
    with mp.workdps(40):
        for fewer in range(1, moves + 1):
            exact = oracles.convolved(*[law(sigma)] * fewer)
            for epsilon in (0.0, 0.3, 1.7):
                assert composed(mechanism).delta(epsilon).upper >= delta_of(exact, epsilon, sigma)


def test_from_a_distance_of_two_on_no_move_is_the_worst() -> None:
    """One integer may move by 2, or four by one: each is the worse somewhere, so that rho alone is known."""
    with mp.workdps(40):
        one, four = law(1.0, shift=2, furthest=12), oracles.convolved(*[law(1.0, furthest=12)] * 4)
        differences = [delta_of(one, at, 1.0) - delta_of(four, at, 1.0) for at in np.linspace(0.0, 9.0, 91)]
    assert min(differences) < -1e-4
    assert max(differences) > 1e-4
    assert losses(make.discrete_gaussian(1.0, 0.9), RELATION) == []
    with pytest.raises(CannotBound, match="no dominating pair"):
        losses(make.discrete_gaussian(1.0, 2.0), RELATION)


@pytest.mark.parametrize("sigma", [10.0, 26.9, 27.0, 100.0, 3000.0])
def test_wide_noise_in_rows_of_several_outputs_is_never_below_the_truth(sigma: float) -> None:
    found = composed(make.discrete_gaussian(sigma))
    [(term, _)] = losses(make.discrete_gaussian(sigma), RELATION)
    masses = np.array(term.probabilities)  # type: ignore[union-attr]
    # Rows keep the probabilities of both sides, but for what a loss is rounded up by.
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)
    assert float(masses @ np.exp(-np.array(term.losses))) == pytest.approx(1.0, abs=1e-12)  # type: ignore[union-attr]
    k = np.arange(-math.ceil(12.0 * sigma), math.ceil(12.0 * sigma) + 1, dtype=np.float64)
    weight = np.exp(-0.5 * (k / sigma) ** 2)
    weight /= weight.sum()
    loss = (1.0 - 2.0 * k) / (2.0 * sigma**2)
    for share in (0.0, 1.0, 3.0, 4.5):
        epsilon = share / sigma
        above = loss > epsilon
        truth = float(weight[above] @ -np.expm1(epsilon - loss[above]))
        upper = found.delta(epsilon).upper
        assert truth * (1.0 - 1e-9) <= upper <= truth * 1.02


@pytest.mark.nightly
def test_more_noise_never_costs_more() -> None:
    found = [
        composed(make.discrete_gaussian(sigma), 30).epsilon(1e-6).upper
        for sigma in (8.0, 20.0, 26.9, 27.0, 35.0, 80.0)
    ]
    assert found == sorted(found, reverse=True)


def test_past_what_is_computed_only_rho_is_left() -> None:
    with pytest.raises(CannotBound, match="too many likely outputs"):
        losses(make.discrete_gaussian(1e6), RELATION)
    assert rho(make.discrete_gaussian(1e6)) == pytest.approx(5e-13)


def summed(sigma: float, count: int) -> tuple[Any, Any]:
    """The losses of so many runs, and their probabilities: a loss depends on the outputs' sum alone."""
    furthest = math.ceil(12.0 * sigma)
    weight = np.exp(-0.5 * (np.arange(-furthest, furthest + 1) / sigma) ** 2)
    weight, total = weight / weight.sum(), np.ones(1)
    for digit in f"{count:b}":
        total = fftconvolve(total, total)
        total = fftconvolve(total, weight) if digit == "1" else total
        middle, kept = len(total) // 2, math.ceil(12.0 * sigma * math.sqrt(count))
        total = np.maximum(total[max(0, middle - kept) : middle + kept + 1], 0.0)
    sums = np.arange(len(total), dtype=np.float64) - len(total) // 2
    return (count - 2.0 * sums) / (2.0 * sigma**2), total


@sweep("sigma, count", [(100.0, 10_000), (26.0, 3), (27.0, 1), (27.0, 2), (60.0, 50)], everyday=(0, 2))
def test_the_lower_end_is_that_of_the_noise_not_of_its_table(sigma: float, count: int) -> None:
    """Rows of several outputs are a table that dominates; at 1e4 runs of sigma 100 the truth is 4.8865541."""
    loss, mass = summed(sigma, count)
    bound = dpaudit.epsilon(make.discrete_gaussian(sigma), 1e-6, count=count)
    assert isinstance(bound.guarantee, ApproxDP)
    assert bound.at_least is not None

    def truth(epsilon: float) -> float:
        above = loss > epsilon
        return float(mass[above] @ -np.expm1(epsilon - loss[above]))

    assert truth(bound.at_least) >= 1e-6 * (1 - 1e-6) >= truth(bound.guarantee.epsilon) * (1 - 2e-6)
    assert bound.at_least >= 0.999 * bound.guarantee.epsilon


def test_an_enclosure_of_a_table_says_nothing_from_below() -> None:
    pytest.importorskip("flint")
    for sigma, known in ((30.0, False), (3.0, True)):
        composition = make.composition(make.discrete_gaussian(sigma))
        found = interval_bound(composition, ApproxDP(epsilon=0.0, delta=1e-6))
        assert (found.at_least is not None) is known


def test_integers_that_move_far_have_no_lower_end_of_another_pair() -> None:
    """Any pair of epsilon 1 stands for 2000 moves of scale 2000; 50 runs of that noise cost less."""
    wide = make.discrete_laplace(2000.0, 2000.0)
    line = make.laplace(2000.0, 2000.0)  # what integers come close to
    found, near = (dpaudit.epsilon(one, 1e-6, count=50) for one in (wide, line))
    assert found.guarantee.epsilon > near.guarantee.epsilon  # type: ignore[union-attr]
    assert (found.at_least or 0.0) <= near.guarantee.epsilon * (1 + 1e-3)  # type: ignore[union-attr]
