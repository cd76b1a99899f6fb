"""Samples of fixed or bounded size, and Poisson samples: against every sample of small data sets."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from mpmath import mp, mpf
from scipy.stats import norm

from dpaudit import (
    ApproxDP,
    DiscreteLaplace,
    Exponential,
    FixedSizeSampled,
    Neighbouring,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    RandomizedResponse,
    Tabulated,
    TruncatedPoissonSampled,
)
from dpaudit.accountants.calibration.calibration import scale_ledger
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.composition.costs import pure_epsilon
from dpaudit.accountants.curves.curves import LossProfile, pld_profile
from dpaudit.accountants.pairs.batches import _opposite, _tail, batch_losses
from dpaudit.accountants.pairs.dominating_pairs import losses
from dpaudit.accountants.pairs.profiles import inner_losses
from dpaudit.accountants.privacy_loss import PrivacyLoss, SampledGaussianTerm
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import OnSample, dominating
from tests import make, oracles
from tests.sweeps import sweep

ADD, REPLACE, ZERO = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE, Neighbouring.ZERO_OUT
SCALE = 1.3
REACH = 60
Row = tuple[int, ...]
Draw = Callable[[int], dict[Row, float]]
NOISE = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / SCALE)
NOISE /= NOISE.sum()


def poisson(rate: float, most: int = 99) -> Draw:
    """Every sample of units 0, 1, ..., with its probability; of a larger one every part of size `most`."""

    def draw(units: int) -> dict[Row, float]:
        found: dict[Row, float] = {}
        for size in range(units + 1):
            for drawn in itertools.combinations(range(units), size):
                kept = list(itertools.combinations(drawn, min(size, most)))
                for one in kept:
                    weight = rate**size * (1 - rate) ** (units - size) / len(kept)
                    found[one] = found.get(one, 0.0) + weight
        return found

    return draw


def fixed(size: int) -> Draw:
    def draw(units: int) -> dict[Row, float]:
        return {one: 1 / math.comb(units, size) for one in itertools.combinations(range(units), size)}

    return draw


def law(data: Row, draw: Draw) -> Any:
    """The noisy sum of a sample: [outputs]."""
    found = np.zeros(2 * REACH + 1)
    for sample, weight in draw(len(data)).items():
        found += weight * np.roll(NOISE, sum(data[i] for i in sample))
    return found


def neighbours(units: int, *, replaced: bool) -> Iterator[tuple[Row, Row]]:
    """Values in -1, 0, 1, whose parts are at most 1 and whose changes are at most 2."""
    values = (-1, 0, 1)
    for others in itertools.combinations_with_replacement(values, units - 1):
        for one in values:
            if replaced:
                yield from (((*others, one), (*others, other)) for other in values if other != one)
            else:
                yield (*others, one), others


def largest(draw: Draw, units: int, epsilon: Any, *, replaced: bool, orders: str) -> Any:
    """The largest delta of all neighbours, in the orders that are named, at each epsilon."""
    found = np.zeros(len(epsilon))
    for with_unit, without in neighbours(units, replaced=replaced):
        p, q = law(with_unit, draw), law(without, draw)
        for order, (one, other) in {"first": (p, q), "second": (q, p)}.items():
            if order in orders:
                gaps = one[None, :] - np.exp(epsilon)[:, None] * other[None, :]
                found = np.maximum(found, np.maximum(gaps, 0.0).sum(axis=1))
    return found


def noise(moved: int) -> DiscreteLaplace:
    return make.discrete_laplace(SCALE, float(moved))


def truncated(rate: float, most: int, units: int, inner: Any) -> TruncatedPoissonSampled:
    return TruncatedPoissonSampled(rate=rate, most=most, units=units, mechanism=inner, contribution=1.0)


UNITS = 5
CASES: dict[str, tuple[OnSample, Draw]] = {
    "poisson": (make.poisson(noise(2), 0.3, 1.0), poisson(0.3)),
    "fixed": (FixedSizeSampled(size=2, units=UNITS, mechanism=noise(2)), fixed(2)),
    "truncated": (truncated(0.3, 2, UNITS, noise(2)), poisson(0.3, 2)),
    "mostly cut": (truncated(0.8, 1, UNITS, noise(2)), poisson(0.8, 1)),
}


def curve(*made: make.Made, relation: Neighbouring = REPLACE) -> LossProfile:
    profile = pld_profile(make.composition(*made, relation=relation))
    assert isinstance(profile, LossProfile)
    return profile


def pair_of(mechanism: OnSample) -> dominating.Batch:
    pair = mechanism.dominating_pair()
    assert isinstance(pair, dominating.Batch)
    return pair


@pytest.mark.parametrize("case", CASES)
def test_no_replaced_unit_costs_more(case: str) -> None:
    mechanism, draw = CASES[case]
    epsilon = np.linspace(0.0, 1.6, 33)
    truth = largest(draw, UNITS, epsilon, replaced=True, orders="first, second")
    bound = batch_losses(pair_of(mechanism), replaced=True, mixture_first=None).delta(epsilon)
    assert np.all(bound >= truth)
    near = len(epsilon) if case == "fixed" else 4
    assert np.allclose(bound[:near], truth[:near], rtol=0.5 if case == "truncated" else 1e-6)
    assert bound[0] <= truth[0] * 1.001


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("order", ["first", "second"])
def test_no_added_or_removed_unit_costs_more(case: str, order: str) -> None:
    mechanism, draw = CASES[case]
    epsilon = np.linspace(-1.5, 1.5, 31)
    pair = pair_of(mechanism)
    first = order == "first"
    bound = batch_losses(pair, replaced=False, mixture_first=first).delta(epsilon)
    both = batch_losses(pair, replaced=False, mixture_first=None).delta(epsilon)
    assert np.all(both >= bound - 1e-12)
    # A fixed size needs no fewer than `units`, a truncated sample no more.
    for units in range(UNITS + 1, UNITS + 3) if pair.fixed else range(1, UNITS + 1):
        assert np.all(bound >= largest(draw, units, epsilon, replaced=False, orders=order) - 1e-12)


def test_the_enumeration_finds_rates_that_are_too_small() -> None:
    epsilon = np.linspace(0.0, 1.6, 33)
    for case in ("fixed", "truncated"):
        mechanism, draw = CASES[case]
        pair = pair_of(mechanism)
        assert not pair.fixed or pair.rate == pytest.approx(0.4)
        truth = largest(draw, UNITS, epsilon, replaced=True, orders="first")
        less = dominating.Batch(pair.change, pair.own, pair.rate * 0.8, pair.fixed, pair.most, pair.units)
        assert np.any(batch_losses(less, replaced=True, mixture_first=None).delta(epsilon) < truth)
        # Nor does the inner mechanism hide a replaced unit as if it had only left.
        own = noise(1).dominating_pair()
        alone = dominating.Batch(own, own, pair.rate, pair.fixed, pair.most, pair.units)
        assert np.any(batch_losses(alone, replaced=True, mixture_first=None).delta(epsilon) < truth)


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.2, 0.4), (5.0, 1e-3)])
def test_the_curve_of_fixed_size_is_the_theorems(mu: float, rate: float) -> None:
    pair = dominating.Batch(*[dominating.Gaussian(Fraction(mu))] * 2, rate, fixed=True)
    inner = np.array([0.01, 0.5, 2.0, 6.0]) * mu + 0.3 * mu * mu
    epsilon = np.log1p(rate * np.expm1(inner))
    found = batch_losses(pair, replaced=True, mixture_first=None).delta(epsilon)
    with mp.workdps(40):
        for at, bound in zip(epsilon.tolist(), found.tolist(), strict=True):
            e = mp.log1p(mp.expm1(mpf(at)) / mpf(rate))
            truth = rate * oracles.gaussian_delta(mu, e)
            assert truth <= bound <= truth * (1 + mpf(1e-3))


@pytest.mark.parametrize(
    ("mu", "rate", "count"), [(1.0, 0.02, 40), pytest.param(2.0, 0.1, 7, marks=pytest.mark.nightly)]
)
def test_runs_agree_with_dp_accounting_on_the_same_curve(mu: float, rate: float, count: int) -> None:
    """Its distribution is made of the theorem's curve at a lattice; its own Renyi bound is looser."""
    spacing = 2e-3
    places = np.arange(-6000, 6001)
    epsilon = np.abs(places) * spacing
    inner = np.log1p(np.expm1(epsilon) / rate)
    alone = norm.cdf(mu / 2 - inner / mu) - np.exp(inner + norm.logcdf(-mu / 2 - inner / mu))
    delta = rate * np.maximum(alone, 0.0)
    delta = np.where(places < 0, -np.expm1(-epsilon) + np.exp(-epsilon) * delta, delta)
    law = pld_pmf.create_pmf_pessimistic_connect_dots(spacing, places, delta)
    theirs = law.self_compose(count).get_epsilon_for_delta(1e-6)
    mechanism = FixedSizeSampled(size=round(rate * 1000), units=1000, mechanism=make.gaussian(1.0, mu))
    lower, upper = curve((mechanism, count)).bracket(1e-6)
    assert upper == pytest.approx(theirs, rel=1e-3)
    # The lower end is that of the mixture against one of its parts, which is a real pair.
    real = PrivacyLoss.compose([(SampledGaussianTerm(mu, rate), count)]).epsilon(1e-6)
    assert 0.5 * upper < lower == pytest.approx(real.lower, rel=1e-9)


def test_added_units_are_exact_where_a_poisson_sample_is() -> None:
    inner = make.gaussian(1.0)
    added = FixedSizeSampled(size=10, units=1000, mechanism=inner)
    ((term, _),) = losses(added, ADD)
    assert isinstance(term, SampledGaussianTerm)
    assert term.rate == pytest.approx(0.01)
    never_cut = truncated(0.01, 50, 50, inner).model_copy(update={"contribution": 0.5})
    assert losses(never_cut, ADD) == [(SampledGaussianTerm(0.5, 0.01), 1)]
    whole = FixedSizeSampled(size=9, units=9, mechanism=inner)
    assert losses(whole, REPLACE) == losses(make.poisson(inner, 1.0), REPLACE)


def at_half(mechanism: OnSample, *, replaced: bool) -> float:
    """delta(0.5) of one run."""
    first = None if replaced else True
    found = batch_losses(pair_of(mechanism), replaced=replaced, mixture_first=first)
    return float(found.delta(np.array([0.5]))[0])


def test_a_cap_that_is_rarely_reached_costs_little_and_one_that_always_is_costs_a_fixed_size() -> None:
    inner = make.gaussian(1.0, 2.0)

    def capped(rate: float, most: int) -> OnSample:
        return truncated(rate, most, 1000, inner)

    free = PrivacyLoss.compose([(SampledGaussianTerm(1.0, 0.01), 1)]).delta(0.5).upper
    costs = [at_half(capped(0.01, most), replaced=False) for most in (60, 20, 12)]
    assert free < costs[0] < 1.001 * free
    assert 1.001 * free < costs[1] < 0.9 * costs[2]
    size = FixedSizeSampled(size=10, units=1000, mechanism=inner)
    always = at_half(capped(1.0, 10), replaced=True)
    assert always == pytest.approx(at_half(size, replaced=True), rel=1e-3)
    # In between, the probability of a place falls with the number of those who are drawn.
    assert at_half(capped(0.05, 10), replaced=True) < 1.1 * always


@pytest.mark.parametrize(
    "inner",
    [
        make.laplace(1.0),
        RandomizedResponse(epsilon=0.7, categories=5),
        Exponential(epsilon=0.7),
        OpaquePureDP(epsilon=0.7, justification="x"),
        OpaqueApproxDP(epsilon=0.7, delta=1e-3, justification="x"),
        OpaqueZCDP(rho=0.1, justification="x"),
        make.discrete_gaussian(1.5),
        make.discrete_gaussian(1.5, 2.0),
        Tabulated(losses=(-0.2, 0.4), probabilities=(0.4, 0.5), infinity=0.1, justification="x"),
    ],
    ids=lambda inner: inner.kind,
)
def test_sampling_never_costs_more_than_none(inner: Any) -> None:
    epsilon = np.linspace(0.0, 1.0, 41)
    sampled = [make.poisson(inner, rate) for rate in (1e-3, 0.1, 0.6)]
    pairs = [dominating.Batch(*one.inner_pairs(), one.rate) for one in sampled]
    found = [batch_losses(pair, replaced=True, mixture_first=None).delta(epsilon) for pair in pairs]
    for less, more in itertools.pairwise([*found, inner_losses(pairs[0].change).delta(epsilon)]):
        assert np.all(less <= more * (1.0 + 1e-9))
    assert found[0][0] < 1e-3
    for pair, curve in zip(pairs, found, strict=True):
        for first in (True, False):
            added = batch_losses(pair, replaced=False, mixture_first=first)
            assert np.all(added.delta(epsilon) <= curve * (1.0 + 1e-9))
            term = added.term
            assert math.fsum(term.probabilities) + term.infinite == pytest.approx(1.0, abs=1e-12)


def test_pure_guarantees_are_amplified() -> None:
    sampled = FixedSizeSampled(size=10, units=1000, mechanism=noise(2))
    assert pure_epsilon(sampled) == pytest.approx(math.log1p(0.01 * math.expm1(2 / SCALE)), rel=1e-12)


@pytest.mark.parametrize(
    ("least", "trials", "rate"), [(3, 10, 0.2), (1, 1, 0.5), (60, 1000, 0.01), (5, 4, 0.3)]
)
def test_the_binomial_tail(least: int, trials: int, rate: float) -> None:
    with mp.workdps(40):
        p = mpf(rate)
        exact = mp.fsum(
            mp.binomial(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(least, trials + 1)
        )
    assert _tail(least, trials, rate) == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


def test_parts_whose_sizes_the_values_decide_are_refused() -> None:
    sampled = FixedSizeSampled(size=2, units=5, mechanism=noise(2))
    by_values = make.release(sampled, part="a", by="values")
    with pytest.raises(CannotBound, match="part of a split by values"):
        compose([by_values], REPLACE)
    compose([by_values], ADD)
    compose([make.release(sampled, part="a")], REPLACE)
    with pytest.raises(CannotBound, match="groups of 2"):
        pld_profile(compose([by_values], ADD, 2))


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.3, 0.5), (4.0, 1e-4)])
def test_the_curve_of_two_opposite_parts(mu: float, rate: float) -> None:
    """P(x > edge) - e^epsilon Q(x > edge), the loss being epsilon at the edge; solved in w = e^(mu x)."""
    epsilon = np.array([0.0, 1e-4, 0.01, 0.3, 1.0, 3.0])
    bound = _opposite(mu, rate).delta(epsilon)
    with mp.workdps(50):
        m, q = mpf(mu), mpf(rate)
        for at, found in zip(epsilon.tolist(), bound.tolist(), strict=True):
            grown, a = mp.exp(at), q * mp.exp(-m * m / 2)
            linear = (1 - q) * (grown - 1)
            edge = mp.log((linear + mp.sqrt(linear**2 + 4 * a * a * grown)) / (2 * a)) / m
            plain, up, down = (mp.ncdf(-edge + shift) for shift in (0, m, -m))
            exact = (1 - q) * plain + q * up - grown * ((1 - q) * plain + q * down)
            assert exact <= found <= exact * (1 + mpf(1e-3)) + mpf(1e-13)


@pytest.mark.parametrize(
    ("units", "rate", "most", "sigma", "count", "theirs"),
    [
        (4, 0.5, 2, 1.0, 3, 15.3101),
        pytest.param(1000, 0.05, 60, 1.0, 1000, 29.80, marks=pytest.mark.nightly),
        pytest.param(1000, 0.05, 80, 2.0, 1000, 8.2973, marks=pytest.mark.nightly),
    ],
)
def test_truncated_samples_cost_no_more_than_by_dp_accounting(
    units: int, rate: float, most: int, sigma: float, count: int, theirs: float
) -> None:
    """Its figures at 1e-6, of the privacy-loss accountant under REPLACE_ONE, rounded up."""
    mechanism = truncated(rate, most, units, make.gaussian(sigma, 2.0))
    lower, upper = curve((mechanism, count)).bracket(1e-6)
    assert 0.1 * upper < lower < upper <= theirs


@sweep("number", [12, 100], everyday=(0,))
def test_many_different_samples_are_composed_and_not_only_bounded_by_divergences(number: int) -> None:
    def sample(size: int) -> FixedSizeSampled:
        return FixedSizeSampled(size=size, units=100_000, mechanism=make.gaussian(1.0))

    lower, upper = curve(*((sample(1000 + 120 * i // number), 5) for i in range(number))).bracket(1e-6)
    least, most = (curve((sample(size), 5 * number)).epsilon(1e-6) for size in (1000, 1120))
    assert 0.85 * most < least < upper < most
    assert 0.85 * upper < lower


@pytest.mark.nightly
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    "mechanism",
    [
        FixedSizeSampled(size=10, units=1000, mechanism=make.gaussian(1.0, 2.0)),
        truncated(0.01, 20, 1000, make.gaussian(1.0, 2.0)),
    ],
    ids=lambda one: one.kind,
)
def test_noise_is_calibrated_and_confirmed(mechanism: OnSample, relation: Neighbouring) -> None:
    target = ApproxDP(epsilon=1.0, delta=1e-6)
    found = scale_ledger([make.release(mechanism, 50)], target, neighbouring=relation)
    enough = mechanism.with_noise(found.factor)
    for noise, proved in ((enough, True), (mechanism.with_noise(0.9 * found.factor), False)):
        assert (curve((noise, 50), relation=relation).epsilon(1e-6) <= 1.0 + 1e-8) is proved


@pytest.mark.parametrize(("rate", "runs", "delta"), [(0.5, 5, 0.03), (0.1, 5, 0.1), (0.1, 2, 1e-3)])
def test_a_zeroed_unit_may_show_where_no_sum_is_released(rate: float, runs: int, delta: float) -> None:
    """Three laws, each epsilon from the others: without the unit, with it, and with a zero in its place."""
    laws = [np.where(np.arange(3) == i, math.exp(3.0), 1.0) / (math.exp(3.0) + 2.0) for i in range(3)]
    inner = OpaquePureDP(epsilon=3.0, justification="three laws")
    p, q = ((1 - rate) * laws[0] + rate * law for law in laws[1:])
    losses: dict[float, float] = {0.0: 1.0}
    for _ in range(runs):
        nxt: dict[float, float] = {}
        for loss, mass in losses.items():
            for a, b in zip(p, q, strict=True):
                nxt[loss + math.log(a / b)] = nxt.get(loss + math.log(a / b), 0.0) + mass * a
        losses = nxt
    bound = make.epsilon(make.ledger((make.poisson(inner, rate), runs), neighbouring="zero-out"), delta)
    truth = sum(mass * max(0.0, 1.0 - math.exp(bound - loss)) for loss, mass in losses.items())
    assert truth <= delta * (1 + 1e-9)
