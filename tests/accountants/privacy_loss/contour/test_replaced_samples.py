"""Poisson samples in which a unit is replaced: closed forms, other pairs, and dp-accounting."""

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as theirs
from mpmath import mp, mpf
from scipy.stats import norm

from dpaudit import ApproxDP, Neighbouring, PoissonSampled
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.composition.costs import pure_epsilon
from dpaudit.accountants.curves.curves import LossProfile, pld_profile, rdp_profile
from dpaudit.accountants.interval.interval import enclose_delta
from dpaudit.accountants.interval.interval_bounds import interval_bound
from dpaudit.accountants.pairs.dominating_pairs import losses
from dpaudit.accountants.privacy_loss import (
    GaussianTerm,
    PrivacyLoss,
    PureTerm,
    ReplacedGaussianTerm,
    SampledGaussianTerm,
)
from dpaudit.accountants.privacy_loss.contour.replaced_gaussian import (
    ReplacedGaussianFactor,
    replaced_loss,
    replaced_point,
)
from dpaudit.errors import CannotBound
from tests import make
from tests.sweeps import sweep

REPLACE = Neighbouring.REPLACE_ONE
RUNS = [(1.0, 0.01), (2.0, 0.2), (0.3, 0.9), (6.0, 1e-4), (0.05, 0.5)]


def mechanism(
    rate: float, sigma: float, bound: float | None, sensitivity: float | None = None
) -> PoissonSampled:
    moved = sensitivity if sensitivity is not None else 2.0 * (bound or 1.0)
    return PoissonSampled(rate=rate, mechanism=make.gaussian(sigma, moved), contribution=bound)


def one_run(mu: float, rate: float, epsilon: float) -> mpf:
    """P(x > edge) - e^epsilon Q(x > edge), the loss being epsilon at the edge; solved in w = e^(mu x)."""
    m, q, grown = mpf(mu), mpf(rate), mp.exp(mpf(epsilon))
    a = q * mp.exp(-m * m / 2)
    linear = (1 - q) * (grown - 1)
    edge = mp.log((linear + mp.sqrt(linear**2 + 4 * a * a * grown)) / (2 * a)) / m
    plain, up, down = (mp.ncdf(-edge + shift) for shift in (0, m, -m))
    return (1 - q) * plain + q * up - grown * ((1 - q) * plain + q * down)


@sweep("mu, rate", RUNS, everyday=(3, 4))
@sweep("epsilon", [0.0, 0.1, 1.0], everyday=(2,))
def test_one_run_is_enclosed(mu: float, rate: float, epsilon: float) -> None:
    found = PrivacyLoss.compose([(ReplacedGaussianTerm(mu, rate), 1)]).delta(epsilon)
    with mp.workdps(40):
        truth = one_run(mu, rate, epsilon)
    assert found.lower <= truth <= found.upper
    assert found.upper <= truth * (1.0 + 1e-3) + 1e-12


@pytest.mark.parametrize(("mu", "rate"), RUNS)
def test_the_loss_and_its_point_are_each_others_inverse(mu: float, rate: float) -> None:
    x = np.linspace(-9.0, 9.0, 37)
    with mp.workdps(60):
        for at, found in zip(x.tolist(), replaced_loss(x, mu, rate).tolist(), strict=True):
            up, down = (1 - rate + rate * mp.exp(s * mu * mpf(at) - mpf(mu) ** 2 / 2) for s in (1, -1))
            assert abs(found - mp.log(up / down)) <= 1e-13 * abs(mp.log(up / down))
    loss = replaced_loss(x, mu, rate)
    told_apart = np.abs(loss) > 1e-6
    back = replaced_point(loss, mu, rate)
    assert np.allclose(back[told_apart], x[told_apart], rtol=1e-6, atol=1e-6)


@sweep("epsilon", [-0.5, 0.0, 0.3, 1.0, 2.5], everyday=(3,))
def test_no_other_two_parts_within_the_bound_cost_more(epsilon: float) -> None:
    """Any two vectors in the plane, by a sum over a grid."""
    mu, rate, source = 1.3, 0.2, np.random.default_rng(5)
    grid = np.linspace(-9.0, 9.0, 601)
    one, two = np.meshgrid(grid, grid, indexing="ij")
    plain = np.exp(-0.5 * (one**2 + two**2)) * (grid[1] - grid[0]) ** 2 / (2.0 * math.pi)

    def delta(x: Any, y: Any) -> float:
        ratios = [np.exp(v[0] * one + v[1] * two - 0.5 * (v @ v)) for v in (x, y)]
        first, second = (1.0 - rate + rate * ratio for ratio in ratios)
        return float((plain * np.maximum(first - math.exp(epsilon) * second, 0.0)).sum())

    worst = delta(np.array([mu, 0.0]), np.array([-mu, 0.0]))
    if epsilon >= 0.0:
        assert worst == pytest.approx(float(one_run(mu, rate, epsilon)), abs=1e-5)
    for _ in range(25):
        angles, sizes = source.uniform(0.0, 2.0 * math.pi, 2), mu * np.sqrt(source.uniform(0.0, 1.0, 2))
        x, y = (size * np.array([math.cos(a), math.sin(a)]) for a, size in zip(angles, sizes, strict=True))
        assert delta(x, y) <= worst + 1e-5
    # The oracle is no tautology: past the bound there is a worse pair.
    assert delta(np.array([0.0, 1.1 * mu]), np.array([0.0, -1.1 * mu])) > worst + 1e-3


@sweep(
    "rate, sigma, count, delta, most",
    [(0.01, 1.0, 1000, 1e-6, 3.2143), (0.2, 0.5, 3, 0.15, 1.5399), (0.05, 2.0, 50, 1e-5, math.inf)],
    everyday=(2,),
)
def test_runs_agree_with_dp_accounting(
    rate: float, sigma: float, count: int, delta: float, most: float
) -> None:
    releases = [make.release(mechanism(rate, sigma, 1.0), count)]
    profile = pld_profile(compose(releases, REPLACE))
    assert isinstance(profile, LossProfile)
    lower, upper = profile.bracket(delta)
    other = theirs.from_gaussian_mechanism(
        sigma,
        value_discretization_interval=1e-4,
        sampling_prob=rate,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    composed = other.self_compose(count)
    assert upper == pytest.approx(composed.get_epsilon_for_delta(delta), rel=2e-3)
    assert lower <= upper <= most
    assert upper - lower <= 1e-3 * upper


@sweep("mu, rate", [(1.0, 0.01), (0.5, 0.3)], everyday=(1,))
@sweep("c", [0.3, 4.0], everyday=(1,))
def test_the_factor_is_the_moment_and_decays_as_proved(mu: float, rate: float, c: float) -> None:
    factor = ReplacedGaussianFactor(mu, rate, 1.0, mixture_first=True)
    t = np.array([0.0, 2.0, 4.0, 6.0])
    along, cumulant = factor.along(c, t), factor.cumulant(c)

    def moment(s: Any) -> Any:
        def integrand(x: Any) -> Any:
            up, down = (1 - rate + rate * mp.exp(sign * mu * x - mpf(mu) ** 2 / 2) for sign in (1, -1))
            return mp.npdf(x) * mp.exp((s + 1) * mp.log(up) - s * mp.log(down))

        return mp.quad(integrand, mp.linspace(-14, 20, 18))

    with mp.workdps(20):
        at_zero = moment(mp.mpc(c, 0.0))
        assert abs(mp.log(at_zero) - cumulant.value) <= cumulant.error + 1e-14
        for place, at in enumerate(t.tolist()):
            exact = moment(mp.mpc(c, at)) / at_zero if at > 0.0 else mp.mpc(1)
            computed = mp.exp(mp.mpc(along.log_modulus[place], along.phase[place]))
            assert abs(exact - computed) <= abs(computed) * math.expm1(along.error[place]) + 1e-14
            if at > 0.0:
                bound = factor.decay(c, np.array([at * 0.999]), np.array([at * 1.001]))
                assert mp.log(abs(exact)) <= bound[0]
        (far,) = factor.decay(c, np.array([1e6]), np.array([math.inf]))
        assert far < -2.0


def test_lattice_and_contour_agree_where_both_reach() -> None:
    few = PrivacyLoss.compose([(ReplacedGaussianTerm(0.3, 0.5), 64)]).epsilon(1e-6)
    more = PrivacyLoss.compose([(ReplacedGaussianTerm(0.3, 0.5), 65)]).epsilon(1e-6)
    assert few.upper - few.lower < 1e-5
    assert more.upper - more.lower < 1e-5
    assert few.upper < more.lower < 1.02 * few.upper


def test_without_the_bound_or_where_it_is_no_help_nothing_is_amplified() -> None:
    """A bound on the change alone: parts that are far from all others show that they were sampled."""
    assert losses(mechanism(0.01, 1.0, None), REPLACE) == [(GaussianTerm(2.0), 1)]
    assert losses(mechanism(0.01, 1.0, 1.0), REPLACE) == [(ReplacedGaussianTerm(1.0, 0.01), 1)]
    assert losses(mechanism(0.9, 1.0, 1.0, math.sqrt(2.0)), REPLACE) == [(GaussianTerm(math.sqrt(2.0)), 1)]
    assert losses(mechanism(1.0, 1.0, 1.0), REPLACE) == [(GaussianTerm(2.0), 1)]
    added = losses(mechanism(0.01, 1.0, 1.0, 1.0), Neighbouring.ADD_OR_REMOVE_ONE)
    assert added == [(SampledGaussianTerm(1.0, 0.01), 1)]
    # Far away, a part is released as if the sample were public: with the rate's probability all is lost.
    found = PrivacyLoss.compose([(ReplacedGaussianTerm(1.0, 0.01), 1)]).delta(1.0).upper
    assert found < 0.01 * (norm.cdf(39.0) - math.e * norm.cdf(-41.0))


def test_divergences_are_amplified_too_and_never_below_the_exact_curve() -> None:
    for rate, sigma, count in ((0.01, 1.0, 1000), (0.2, 2.0, 30)):
        found = make.composition((mechanism(rate, sigma, 1.0), count), relation=REPLACE)
        exact, renyi = pld_profile(found).epsilon(1e-6), rdp_profile(found).epsilon(1e-6)
        assert exact <= renyi <= 1.5 * exact


def test_balls_have_no_such_amplification() -> None:
    with pytest.raises(CannotBound, match="replaced unit"):
        enclose_delta([(ReplacedGaussianTerm(1.0, 0.1), 1)], 1.0)


def test_a_bound_on_the_part_amplifies_laplace_noise_more() -> None:
    noise = make.laplace(1.0, 2.0)
    bounded, plain = (PoissonSampled(rate=0.1, mechanism=noise, contribution=c) for c in (1.0, None))
    known, unknown = (
        PrivacyLoss.compose([(term, 100) for term, _ in losses(one, REPLACE)]).epsilon(1e-6).upper
        for one in (bounded, plain)
    )
    pure = PrivacyLoss.compose([(PureTerm(pure_epsilon(plain)), 100)]).epsilon(1e-6).upper
    assert known < 0.9 * unknown < 0.9 * pure


def test_in_balls_a_ledger_keeps_the_noise_alone() -> None:
    found = make.composition((mechanism(0.01, 1.0, 1.0), 10), relation=REPLACE)
    bound = interval_bound(found, ApproxDP(epsilon=1.0, delta=1e-6)).guarantee
    unsampled = PrivacyLoss.compose([(GaussianTerm(2.0), 10)]).epsilon(1e-6)
    assert isinstance(bound, ApproxDP)
    assert bound.epsilon == pytest.approx(unsampled.upper, rel=1e-9)


def test_very_different_parts_are_computed_without_a_warning() -> None:
    lower, upper = PrivacyLoss.compose([(ReplacedGaussianTerm(60.0, 0.3), 2)]).epsilon(1e-6)
    assert 0.0 < lower <= upper < 2.0 * 60.0**2


@pytest.mark.parametrize(
    ("mu", "rate", "count", "gap"),
    [(1.0, 0.01, 10**4, 1e-9), (0.3, 1e-3, 10**5, 1e-8), (2.0, 0.2, 4097, 1e-9), (0.3, 1e-3, 4097, 1e-3)],
)
def test_many_runs_have_a_lower_end(mu: float, rate: float, count: int, gap: float) -> None:
    lower, upper = PrivacyLoss.compose([(ReplacedGaussianTerm(mu, rate), count)]).epsilon(1e-6)
    assert (1.0 - gap) * upper <= lower <= upper
