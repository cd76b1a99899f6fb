"""What the tests of dp-accounting's own accountants expect, as its main branch has them: met or beaten.

Its privacy-loss figures are rounded upwards, with a tolerance; here bounds may be lower, never higher by more
than the last digit that is given.
"""

import math
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import signal, stats

from dpaudit import DiscreteGaussian, FixedSizeSampled, OpaqueApproxDP, OpaquePureDP, PoissonSampled
from dpaudit.accountants.bridges.from_dp_events import from_dp_event
from dpaudit.accountants.composition.composition import Composition, compose_ledger
from dpaudit.accountants.curves.curves import pld_profile, profiles, rdp_profile
from dpaudit.errors import CannotBound
from tests.sweeps import sweep

ADD, SPECIAL, REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
    NeighboringRelation.REPLACE_ONE,
)
GAUSSIAN, LAPLACE, DISCRETE = (
    dp_event.GaussianDpEvent,
    dp_event.LaplaceDpEvent,
    dp_event.DiscreteLaplaceDpEvent,
)
POISSON, WITHOUT, TIMES = (
    dp_event.PoissonSampledDpEvent,
    dp_event.SampledWithoutReplacementDpEvent,
    dp_event.SelfComposedDpEvent,
)
CUT = dp_event.TruncatedSubsampledGaussianDpEvent


def composition(relation: NeighboringRelation, *events: Any) -> Composition:
    return compose_ledger(from_dp_event(dp_event.ComposedDpEvent(list(events)), relation))


def least(found: Composition, epsilon: float) -> float:
    return min(profile.delta(epsilon) for profile in profiles(found))


@sweep(
    "events, relation, epsilon, delta",
    [
        ([TIMES(GAUSSIAN(math.sqrt(3)), 3)], ADD, 1.0, 0.126937),
        ([TIMES(POISSON(0.2, GAUSSIAN(0.5)), 3)], ADD, 1.0, 0.15594),
        ([TIMES(LAPLACE(1.0), 3), TIMES(LAPLACE(2.0), 2)], ADD, 4.0, 0.0),
        ([TIMES(DISCRETE(1.0, 1), 3), TIMES(DISCRETE(0.5, 1), 2)], ADD, 4.0, 0.0),
        ([TIMES(POISSON(0.2, LAPLACE(0.5)), 3)], ADD, 2.46965, 1e-14),
        ([dp_event.RandomizedResponseDpEvent(4 / (3 + math.e), 4)], REPLACE, 1.0, 1e-15),
        ([dp_event.RandomizedResponseDpEvent((4 - math.e) / 3, 4)], SPECIAL, 1.0 + 1e-12, 0.0),
        ([dp_event.RandomizedResponseDpEvent(math.exp(-1), 2)], SPECIAL, 1.0 + 1e-12, 0.0),
        (
            [POISSON(0.0, GAUSSIAN(0.0)), POISSON(0.0, LAPLACE(1.0)), WITHOUT(9, 0, GAUSSIAN(1.0))],
            REPLACE,
            0.0,
            0.0,
        ),
        ([CUT(9, 0.0, 3, 0.0), CUT(0, 0.5, 3, 1.0), CUT(9, 0.5, 0, 1.0)], ADD, 0.0, 0.0),
    ],
    everyday=(0, 1, 2, 3, 5, 6, 7, 8, 9),
)
def test_the_privacy_losses_expectations(
    events: list[Any], relation: NeighboringRelation, epsilon: float, delta: float
) -> None:
    found = composition(relation, *events)
    assert (least(found, epsilon) if found.distinct else 0.0) <= delta


@sweep(
    "relation, most",
    [pytest.param(SPECIAL, 17.904330, marks=pytest.mark.nightly), (ADD, 17.904330), (REPLACE, 18.486390)],
    everyday=(2,),
)
def test_truncated_batches(relation: NeighboringRelation, most: float) -> None:
    """Three runs on 4 records and two on 3, half of them drawn and two kept.

    Where units are added or removed, dp-accounting takes the numbers of records as known; here they are not,
    and the bound is lower all the same.
    """
    found = composition(relation, TIMES(CUT(4, 0.5, 2, 1.0), 3), TIMES(CUT(3, 0.5, 2, 1.0), 2))
    assert pld_profile(found).epsilon(1e-6) <= most


def drawn_others_revealed(runs: list[tuple[int, int]], *, rate: float, most: int, delta: float) -> float:
    """The epsilon of truncated samples that tell how many of the others were drawn; losses rounded down.

    `runs` is (others, runs). Noise of scale 1: a unit with a place moves the sum by 1; in another's place by
    2. The unit is in one data set alone, which comes first.
    """
    step, width = 1e-3, 60.0
    x = np.arange(-12.0, 14.0, 1e-3)
    law = np.ones(1)
    for others, count in runs:
        losses = np.zeros(int(2 * width / step))
        for k in range(others + 1):
            weight = stats.binom.pmf(k, others, rate)
            own, shift = (rate, 1.0) if k < most else (rate * most / (k + 1), 2.0)
            cells = (np.diff(stats.norm.cdf(x)), np.diff(stats.norm.cdf(x - shift)))
            loss = np.log1p(own * np.expm1(shift * x[:-1] - shift**2 / 2))
            mass = weight * ((1.0 - own) * cells[0] + own * cells[1])
            np.add.at(losses, np.floor((loss + width) / step).astype(int), mass)
        for _ in range(count):
            law = signal.fftconvolve(law, losses)
    total = sum(count for _, count in runs)
    at = step * np.arange(len(law)) - total * width
    low, high = 0.0, width
    while high - low > step:
        middle = 0.5 * (low + high)
        beyond = at > middle
        found = float(law[beyond] @ -np.expm1(middle - at[beyond]))
        low, high = (middle, high) if found > delta else (low, middle)
    return low


@pytest.mark.nightly
def test_truncated_batches_of_an_unknown_number_of_records() -> None:
    """dp-accounting's 17.904330 adds to delta the weight of full samples; ours is of what they reveal."""
    found = composition(ADD, TIMES(CUT(4, 0.5, 2, 1.0), 3), TIMES(CUT(3, 0.5, 2, 1.0), 2))
    revealed = drawn_others_revealed([(3, 3), (2, 2)], rate=0.5, most=2, delta=1e-6)
    epsilon = pld_profile(found).epsilon(1e-6)
    assert revealed <= epsilon < 17.904330
    assert epsilon < revealed * 1.03


ORDERS = (1.5, 2.5, 5.0, 50.0, 100.0)


@pytest.mark.parametrize(
    ("event", "relation", "expected"),
    [
        (
            TIMES(POISSON(0.01, GAUSSIAN(2.5)), 50),
            ADD,
            (6.70579741e-04, 1.08548710e-03, 2.18075656e-03, 2.38460375e-02, 1.67416308e02),
        ),
        (
            dp_event.RandomizedResponseDpEvent(0.3, 10),
            REPLACE,
            (2.6946320226546314, 2.983865364028855, 3.11316970070507, 3.1854244842182466, 3.1886682560677593),
        ),
        (
            dp_event.RandomizedResponseDpEvent(0.01, 3),
            REPLACE,
            (5.684126770932727, 5.692634596034571, 5.695421239467805, 5.696956976543137, 5.697025920968522),
        ),
        (dp_event.ZCDpEvent(2.71828), ADD, None),
        (POISSON(1.0, dp_event.ComposedDpEvent([GAUSSIAN(2.71828), GAUSSIAN(6.28319)])), ADD, None),
    ],
)
def test_the_renyi_divergences_expectations(
    event: Any, relation: NeighboringRelation, expected: tuple[float, ...] | None
) -> None:
    if expected is None:
        theirs = RdpAccountant(ORDERS, relation).compose(event)._rdp
        expected = tuple(float(figure) for figure in theirs)
    profile = rdp_profile(composition(relation, event))
    for order, figure in zip(ORDERS, expected, strict=True):
        assert profile.divergence(order) <= figure * (1.0 + 1e-4)


@sweep(
    "units, size, sigma, count",
    [
        (1000, 10, 1.0, 1),
        (1000, 10, 1.0, 1000),
        pytest.param(10000, 100, 2.0, 1000, marks=pytest.mark.nightly),
        pytest.param(1000, 100, 3.0, 10000, marks=pytest.mark.nightly),
        pytest.param(1000, 1, 0.5, 100, marks=pytest.mark.nightly),
    ],
    everyday=(1,),
)
def test_samples_of_a_fixed_size_cost_less_than_by_integer_orders(
    units: int, size: int, sigma: float, count: int
) -> None:
    """Its Renyi accountant takes a replaced record to move the query by once the multiplier's unit."""
    theirs = RdpAccountant(neighboring_relation=REPLACE)
    theirs.compose(TIMES(WITHOUT(units, size, GAUSSIAN(sigma)), count))
    # `whole`: the multiplier is that of the whole move.
    ledger = from_dp_event(TIMES(WITHOUT(units, size, GAUSSIAN(sigma)), count), REPLACE, whole=True)
    found = compose_ledger(ledger)
    exact, renyi = pld_profile(found).epsilon(1e-6), rdp_profile(found).epsilon(1e-6)
    assert exact <= renyi <= theirs.get_epsilon(1e-6)
    assert exact < 0.65 * theirs.get_epsilon(1e-6)


def test_a_sample_of_fixed_size_is_read_under_each_relation() -> None:
    event = WITHOUT(1000, 10, GAUSSIAN(1.0))
    (replaced,) = from_dp_event(event, REPLACE).releases
    assert isinstance(replaced.mechanism, FixedSizeSampled)
    assert (replaced.mechanism.size, replaced.mechanism.units) == (10, 1000)
    assert replaced.mechanism.sensitivity.value == 2.0
    (added,) = from_dp_event(event, ADD).releases
    assert isinstance(added.mechanism, FixedSizeSampled)
    # A record may also leave; and another one takes its place in the sample.
    assert (added.mechanism.units, added.mechanism.sensitivity.value) == (999, 2.0)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(dp_event.DpEvent):
    """As dp-accounting's main branch has it."""

    epsilon: float
    delta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class DiscreteGaussianDpEvent(dp_event.DpEvent):
    """As dp-accounting's main branch has it."""

    sigma: float
    sensitivity: float = 1.0
    dimension: int | None = None


def test_guarantees_that_are_stated() -> None:
    found = composition(ADD, EpsilonDeltaDpEvent(1.0, 0.1), EpsilonDeltaDpEvent(2.0, 0.2))
    assert pld_profile(found).delta(3.0) == pytest.approx(0.28, rel=1e-12)
    assert pld_profile(found).epsilon(0.28 * (1 + 1e-12)) <= 3.0
    pure = composition(ADD, EpsilonDeltaDpEvent(1.0, 0.0), EpsilonDeltaDpEvent(2.0, 0.0))
    assert least(pure, 3.0) == 0.0
    (one, other) = from_dp_event(
        dp_event.ComposedDpEvent([EpsilonDeltaDpEvent(1.0, 0.0), EpsilonDeltaDpEvent(1.0, 0.5)]), ADD
    ).releases
    assert isinstance(one.mechanism, OpaquePureDP)
    assert isinstance(other.mechanism, OpaqueApproxDP)


def test_discrete_gaussian_noise() -> None:
    found = composition(ADD, DiscreteGaussianDpEvent(5.0, 2.0))
    assert rdp_profile(found).divergence(3.14159) <= 3.14159 * 4.0 / 50.0 * (1.0 + 1e-12)
    (sampled,) = from_dp_event(POISSON(0.01, DiscreteGaussianDpEvent(2.5)), ADD).releases
    assert isinstance(sampled.mechanism, PoissonSampled)
    assert isinstance(sampled.mechanism.mechanism, DiscreteGaussian)
    whole = composition(ADD, TIMES(DiscreteGaussianDpEvent(2.5), 50))
    part = composition(ADD, TIMES(POISSON(0.01, DiscreteGaussianDpEvent(2.5)), 50))
    smooth = composition(ADD, TIMES(POISSON(0.01, GAUSSIAN(2.5)), 50))
    of_part = pld_profile(part).epsilon(1e-6)
    assert of_part < 0.1 * pld_profile(whole).epsilon(1e-6)
    assert of_part == pytest.approx(pld_profile(smooth).epsilon(1e-6), rel=0.05)


@pytest.mark.parametrize("name", ["SampledWithReplacementDpEvent"])
def test_what_is_refused_names_the_theorem(name: str) -> None:
    event = getattr(dp_event, name)(9, 3, GAUSSIAN(1.0))
    with pytest.raises(CannotBound, match="Theorem 10 of Balle, Barthe and Gaboardi 2018"):
        from_dp_event(event, REPLACE)


@pytest.mark.nightly
def test_a_guarantee_of_unknown_noise_is_amplified_by_its_curve() -> None:
    """dp-accounting takes a sample of any rho-zCDP release for one of Gaussian noise; no theorem says so."""
    guessed = composition(ADD, TIMES(POISSON(0.01, GAUSSIAN(2.5)), 50))
    proved = composition(ADD, TIMES(POISSON(0.01, dp_event.ZCDpEvent(0.5 / 2.5**2)), 50))
    whole = composition(ADD, TIMES(dp_event.ZCDpEvent(0.5 / 2.5**2), 50))
    figures = [pld_profile(one).epsilon(1e-6) for one in (guessed, proved)]
    assert figures == sorted(figures)
    assert figures[1] < 0.5 * rdp_profile(whole).epsilon(1e-6)
