"""Mixtures of Gaussians and random allocation, against closed forms, integrals and enumeration."""

import itertools
import math
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from scipy import integrate, stats

from dpaudit.accountants.pairs import mixtures
from dpaudit.accountants.pairs.mixtures import mixture_losses
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import AnyMechanism, MixtureOfGaussians, RandomAllocation, SampledRecords, dominating
from tests import make
from tests.sweeps import sweep

ADDED = Neighbouring.ADD_OR_REMOVE_ONE
EPSILONS = [1e-3, 0.01, 0.1, 0.5, 1.0, 2.0]
NOISE = make.gaussian(1.0)


def call(shift: float, strike: float) -> float:
    """E (e^(c z - c^2 / 2) - strike)_+, z standard normal: the Black-Scholes formula."""
    if strike <= 0.0:
        return 1.0 - strike
    corner = math.log(strike) / shift + 0.5 * shift
    return float(stats.norm.sf(corner - shift) - strike * stats.norm.sf(corner))


def mixture_delta(shifts: list[float], weights: list[float], epsilon: float, *, mixture_first: bool) -> float:
    """By the threshold at which the likelihood ratio is e^epsilon."""
    y = math.exp(epsilon if mixture_first else -epsilon)

    def ratio(z: float) -> float:
        return sum(p * math.exp(c * z - c * c / 2) for c, p in zip(shifts, weights, strict=True))

    low, high = -60.0, 60.0
    if not ratio(low) < y < ratio(high):
        return 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ratio(middle) < y else (low, middle)
    each = zip(shifts, weights, strict=True)
    if mixture_first:
        return float(sum(p * stats.norm.sf(low - c) for c, p in each) - y * stats.norm.sf(low))
    return float(stats.norm.cdf(low) - sum(p * stats.norm.cdf(low - c) for c, p in each) / y)


def two_steps_delta(shift: float, epsilon: float, *, mixture_first: bool) -> float:
    """E over one answer of the closed form in the other."""
    y = math.exp(epsilon if mixture_first else -epsilon)

    def inner(z: float) -> float:
        left = 2.0 * y - math.exp(shift * z - shift * shift / 2)
        above = 0.5 * call(shift, left)  # E (S / 2 - y)_+
        if not mixture_first:  # (1 - S / (2 y))_+ = (S / (2 y) - 1)_+ - (S / (2 y) - 1)
            above = (above - 0.5 * (1.0 - left)) / y
        return above * float(stats.norm.pdf(z))

    corner = math.log(2.0 * y) / shift + 0.5 * shift
    return sum(integrate.quad(inner, *ends, epsabs=1e-13)[0] for ends in ((-12.0, corner), (corner, 14.0)))


def pair(shifts: list[float], weights: list[float], steps: int = 1) -> dominating.Mixture:
    return dominating.Mixture(tuple(map(Fraction, shifts)), tuple(map(Fraction, weights)), steps)


MIXTURES = [
    ([1.0], [1.0]),
    ([0.0, 1.0], [0.75, 0.25]),
    ([0.0, 1.0], [1.0 - 2.0**-10, 2.0**-10]),
    ([0.0, 0.5, 3.0], [0.5, 0.25, 0.25]),
    ([0.25, 4.0], [0.875, 0.125]),
    ([0.0, 0.01], [0.5, 0.5]),
]


@pytest.mark.parametrize(("shifts", "weights"), MIXTURES)
@pytest.mark.parametrize("mixture_first", [True, False])
def test_a_mixture_is_bounded_tightly_in_both_orders(
    shifts: list[float], weights: list[float], mixture_first: bool
) -> None:
    found = mixture_losses(pair(shifts, weights), mixture_first=mixture_first).delta(np.array(EPSILONS))
    for epsilon, delta in zip(EPSILONS, found, strict=True):
        truth = mixture_delta(shifts, weights, epsilon, mixture_first=mixture_first)
        assert delta >= truth * (1.0 - 1e-12) - 1e-17
        assert delta <= truth * 1.01 + 1e-12


@sweep("shift, mixture_first", [*itertools.product([0.25, 1.0, 3.0], [True, False])], everyday=(0, 3))
def test_one_of_two_answers_against_an_integral(shift: float, mixture_first: bool) -> None:
    found = mixture_losses(pair([shift], [1.0], 2), mixture_first=mixture_first).delta(np.array(EPSILONS))
    for epsilon, delta in zip(EPSILONS, found, strict=True):
        truth = two_steps_delta(shift, epsilon, mixture_first=mixture_first)
        assert truth - 1e-11 <= delta <= truth * 1.01 + 1e-9


@sweep("steps", [10, 100], everyday=(0,))
def test_one_of_many_answers_against_samples(steps: int) -> None:
    """Means of 40,000 losses under the mixture, seed fixed: 6 standard errors, and 3% for the grids."""
    epsilons = np.array([0.01, 0.1, 0.3])
    z = np.random.default_rng(0).normal(size=(40_000, steps))
    z[:, 0] += 1.0
    loss = np.log(np.exp(z - 0.5).mean(axis=1))
    lost = -np.expm1(np.minimum(epsilons - loss[:, None], 0.0))
    mean, error = lost.mean(axis=0), 6.0 * lost.std(axis=0) / 200.0
    found = mixture_losses(pair([1.0], [1.0], steps), mixture_first=True).delta(epsilons)
    assert np.all(found >= mean - error)
    assert np.all(found <= 1.03 * mean + error)


def test_a_pair_for_both_orders_lies_above_each() -> None:
    for given in (pair([0.0, 1.0], [0.75, 0.25]), pair([1.0], [1.0], 4)):
        orders = (mixture_losses(given, mixture_first=order) for order in (None, True, False))
        both, *each = (one.delta(np.array(EPSILONS)) for one in orders)
        assert np.all(both >= np.maximum(*each) * (1.0 - 1e-12))
        assert np.all(both <= np.maximum(*each) * (1.0 + 1e-6) + 1e-13)


@sweep("up", [True, False], everyday=(0,))
def test_sums_of_laws_are_larger_in_the_convex_order(up: bool) -> None:
    """Every sum of three draws of a small law, exactly; means of both kinds of convex functions."""
    at, mass = np.array([0.0, 0.125, 0.5, 1.0, 3.0]), np.array([0.0, 0.25, 0.25, 0.25, 0.25])
    law = mixtures._Law(at, mass, 0.0, 0.0)
    three = mixtures._added(mixtures._added(law, law, up=up), law, up=up)
    rows = list(zip(map(Fraction, at.tolist()), map(Fraction, mass.tolist()), strict=True))
    exact: dict[Fraction, Fraction] = {}
    for drawn in itertools.product(rows, repeat=3):
        place = sum((value for value, _ in drawn), Fraction(0))
        exact[place] = exact.get(place, Fraction(0)) + math.prod((p for _, p in drawn), start=Fraction(1))
    law_of_three = list(
        zip(map(Fraction, three.at.tolist()), map(Fraction, three.mass.tolist()), strict=True)
    )
    for strike in (Fraction(k, 7) for k in range(1, 70, 3)):
        sign = 1 if up else -1  # (s - y)_+ or (y - s)_+
        wanted = sum((p * max(sign * (s - strike), Fraction(0)) for s, p in exact.items()), Fraction(0))
        found = sum((p * max(sign * (s - strike), Fraction(0)) for s, p in law_of_three), Fraction(0))
        assert found >= wanted * (1 - Fraction(1, 10**11))
        assert found <= wanted * Fraction(101, 100) + Fraction(1, 10**4)


def test_vectors_in_different_directions_cost_less() -> None:
    """Shifts of lengths 1 and 2 at an angle, by an integral over the plane; the table has one line."""
    weights, epsilon = [0.5, 0.3, 0.2], 0.4
    grid = np.linspace(-8.0, 10.0, 721)
    x, y = np.meshgrid(grid, grid, indexing="ij")
    density = np.exp(-0.5 * (x**2 + y**2)) / (2.0 * math.pi) * (grid[1] - grid[0]) ** 2
    table = mixture_losses(pair([0.0, 1.0, 2.0], weights), mixture_first=True).delta(np.array([epsilon]))[0]
    found = []
    for angle in (0.0, 0.5, 1.5, 3.0):
        a, b = math.cos(angle), math.sin(angle)
        ratio = weights[0] + weights[1] * np.exp(x - 0.5) + weights[2] * np.exp(2.0 * (a * x + b * y) - 2.0)
        found.append(float((density * np.maximum(ratio - math.exp(epsilon), 0.0)).sum()))
    assert found == sorted(found, reverse=True)
    assert table == pytest.approx(found[0], rel=1e-3)
    assert found[1] < table


def epsilon_of(mechanism: AnyMechanism, count: int = 1, delta: float = 1e-6) -> dict[str, float]:
    return make.figures(make.composition((mechanism, count)), delta)


def test_many_runs_of_a_mixture_are_close_to_those_of_a_poisson_sample() -> None:
    """The same pair twice: once as a table, once by quadrature."""
    sampled = epsilon_of(make.poisson(NOISE, 0.01), 300)
    for same in (
        MixtureOfGaussians(sigma=1.0, sensitivities=(0.0, 1.0), probabilities=(0.99, 0.01)),
        SampledRecords(rate=0.01, records=1, mechanism=NOISE),
    ):
        found = epsilon_of(same, 300)
        assert sampled["pld"] * (1.0 - 1e-9) <= found["pld"] <= sampled["pld"] * 1.005
        assert sampled["rdp"] * (1.0 - 1e-9) <= found["rdp"] <= sampled["rdp"] * 1.005


def test_users_with_several_records() -> None:
    """Binomial weights by hand; between one record at twice the rate and one of twice the size."""
    rate, found = 0.1, epsilon_of(SampledRecords(rate=0.1, records=2, mechanism=NOISE))["pld"]
    weights = ((1 - rate) ** 2, 2 * rate * (1 - rate), rate**2)
    by_hand = MixtureOfGaussians(sigma=1.0, sensitivities=(0.0, 1.0, 2.0), probabilities=weights)
    assert found == pytest.approx(epsilon_of(by_hand)["pld"], rel=1e-9)
    truth = mixture_delta([0.0, 1.0, 2.0], list(weights), found, mixture_first=True)
    assert 1e-6 * (1 - 1e-2) <= truth <= 1e-6
    twice = make.gaussian(1.0, 2.0)
    assert found < epsilon_of(make.poisson(twice, 2 * rate))["pld"]
    assert found > epsilon_of(make.poisson(NOISE, rate))["pld"]


def test_dp_accounting_finds_the_same_for_a_mixture() -> None:
    pld = import_module("dp_accounting.pld.privacy_loss_distribution")
    shifts, weights = [0.0, 0.5, 1.0], [0.8, 0.15, 0.05]
    theirs = pld.from_mixture_gaussian_mechanism(1.0, shifts, weights, value_discretization_interval=1e-2)
    ours = MixtureOfGaussians(sigma=1.0, sensitivities=tuple(shifts), probabilities=tuple(weights))
    for delta in (1e-3, 1e-5):
        found = epsilon_of(ours, 1, delta)["pld"]
        assert found == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=5e-3)


def test_an_allocation_costs_less_with_more_answers_and_more_with_more_epochs() -> None:
    costs = [epsilon_of(RandomAllocation(steps=steps, mechanism=NOISE))["pld"] for steps in (1, 2, 8)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == pytest.approx(4.886554117462212, rel=1e-9)
    epochs = [costs[-1], epsilon_of(RandomAllocation(steps=8, mechanism=NOISE), 3)["pld"]]
    assert epochs[0] < epochs[1] < 3 * epochs[0]
    # Three epochs of eight answers beside as many Poisson samples of the same rate.
    assert epochs[1] == pytest.approx(epsilon_of(make.poisson(NOISE, 1 / 8), 24)["pld"], rel=0.5)


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomAllocation(steps=5, mechanism=NOISE),
        SampledRecords(rate=0.1, records=3, mechanism=NOISE),
        MixtureOfGaussians(sigma=1.0, sensitivities=(1.0,), probabilities=(1.0,)),
    ],
)
def test_replaced_units_and_groups_are_refused(mechanism: AnyMechanism) -> None:
    with pytest.raises(CannotBound):
        make.figures(make.composition(mechanism, relation=Neighbouring.REPLACE_ONE), 1e-6)
    assert mechanism.for_group(2, lambda figure, factor: figure * factor) is None


def test_what_is_too_large_is_refused_and_what_moves_nothing_is_free() -> None:
    with pytest.raises(CannotBound, match="a shift of 30 standard deviations"):
        mixture_losses(pair([0.0, 30.0], [0.5, 0.5]), mixture_first=True)
    with pytest.raises(CannotBound, match="one of 1000000 answers"):
        mixture_losses(pair([1.0], [1.0], 10**6), mixture_first=True)
    free = MixtureOfGaussians(sigma=1.0, sensitivities=(0.0,), probabilities=(1.0,))
    assert min(epsilon_of(free).values()) == 0.0


def test_hardly_any_shift_and_hardly_any_weight_are_raised_to_what_can_be_told_from_none() -> None:
    for given in (pair([0.0, 1e-12], [0.5, 0.5]), pair([0.0, 1.0], [1.0 - 2.0**-52, 2.0**-52])):
        for order in (True, False):
            assert mixture_losses(given, mixture_first=order).delta(np.array([1e-3]))[0] < 1e-8


def test_a_shift_past_every_double_is_refused_and_a_weight_below_every_double_is_raised() -> None:
    """10^600 standard deviations; three records at once with probability 10^-900."""
    huge = MixtureOfGaussians(sigma=1e-300, sensitivities=(0.0, 1e300), probabilities=(0.5, 0.5))
    with pytest.raises(CannotBound, match="a shift of inf"):
        mixture_losses(huge.dominating_pair(), mixture_first=True)
    rare = SampledRecords(rate=1e-300, records=3, mechanism=NOISE).dominating_pair()
    assert isinstance(rare, dominating.Mixture)
    for order in (True, False):
        assert 0.0 < mixture_losses(rare, mixture_first=order).delta(np.array([1e-3]))[0] < 1e-8


@pytest.mark.parametrize(
    "fields",
    [
        {"sensitivities": (1.0,), "probabilities": (0.5,)},
        {"sensitivities": (1.0, 2.0), "probabilities": (1.0,)},
        {"sensitivities": (), "probabilities": ()},
        {"sensitivities": (-1.0,), "probabilities": (1.0,)},
        {"sensitivities": (math.nan,), "probabilities": (1.0,)},
        {"sensitivities": (1.0, 1.0), "probabilities": (1.5, -0.5)},
    ],
)
def test_what_is_no_mixture_is_refused(fields: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(InvalidParameter):
        MixtureOfGaussians(sigma=1.0, **fields)
