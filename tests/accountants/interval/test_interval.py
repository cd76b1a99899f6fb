"""Enclosures hold the value that mpmath or a closed form gives, and agree with the floating-point bounds."""

import math
from fractions import Fraction
from functools import partial

import pytest
from mpmath import mp, mpf

from dpaudit import ZCDP, Claim, account
from dpaudit.accountants.interval import interval
from dpaudit.accountants.interval.ball_factors import BallFactors
from dpaudit.accountants.interval.interval import enclose_delta, enclose_epsilon
from dpaudit.accountants.interval.interval_bounds import enclosed_rho, enclosed_zcdp_epsilon
from dpaudit.accountants.privacy_loss import (
    ApproxTerm,
    BoundedRangeTerm,
    DiscreteTerm,
    GaussianTerm,
    LaplaceTerm,
    PrivacyLoss,
    PureTerm,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    Term,
)
from dpaudit.certificate.verdicts import Proof, leading_figure
from dpaudit.claims.guarantees import GDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import Exponential, RandomizedResponse
from tests import make, oracles
from tests.sweeps import sweep

Releases = list[tuple[Term, int]]


def gaussian_delta(epsilon: float, mu: float) -> mpf:
    with mp.workdps(400):
        return oracles.gaussian_delta(mu, epsilon)


@pytest.mark.parametrize("mu", [1e-4, 0.5, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, 6.0, 30.0])
def test_gaussian_delta(mu: float, share: float) -> None:
    epsilon = 0.5 * mu * mu + share * mu
    assert oracles.encloses(
        enclose_delta([(GaussianTerm(mu), 1)], epsilon), gaussian_delta(epsilon, mu), 1e-15
    )


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [
        (1.0, 1e-6, 4.886554117462212),
        (1.0, 1e-12, 7.23849442017885),
        (1.0, 1e-30, 11.743883025231736),
        (0.5, 1e-6, 2.254084650219742),
        (10.0, 1e-6, 96.7172719638677),
        (1000.0, 1e-6, 504752.42667835933),
    ],
)
def test_gaussian_epsilon(mu: float, delta: float, epsilon: float) -> None:
    found = enclose_epsilon([(GaussianTerm(mu), 1)], delta)
    assert found.upper == pytest.approx(epsilon, rel=2e-15)
    assert gaussian_delta(found.upper, mu) <= delta < gaussian_delta(found.lower, mu)
    assert found.upper - found.lower <= 1e-12 * epsilon


def test_equal_gaussians_merge_exactly() -> None:
    many = enclose_epsilon([(GaussianTerm(0.5), 4)], 1e-6)
    assert many == enclose_epsilon([(GaussianTerm(1.0), 1)], 1e-6)


def test_randomized_response_atom_by_atom() -> None:
    releases: Releases = [(RandomizedResponseTerm(0.75), 12), (PureTerm(0.5), 5)]
    epsilon = 3.0
    with mp.workdps(60):
        exact = mpf(0)
        p, q = (1 / (1 + mp.exp(-mpf(e))) for e in (0.75, 0.5))
        for k in range(13):
            for j in range(6):
                weight = mp.binomial(12, k) * p**k * (1 - p) ** (12 - k)
                weight *= mp.binomial(5, j) * q**j * (1 - q) ** (5 - j)
                loss = mpf(0.75) * (2 * k - 12) + mpf(0.5) * (2 * j - 5)
                exact += weight * max(mpf(0), 1 - mp.exp(epsilon - loss))
    found = enclose_delta(releases, epsilon)
    assert found.method == "lattice"
    assert oracles.encloses(found, exact, 1e-14)


def test_a_gaussian_and_one_laplace_by_quadrature() -> None:
    # The Laplace loss has atoms at +-1 and a density between; given it, the rest is the Gaussian curve.
    mu, epsilon = mpf(0.5), mpf(2)
    with mp.workdps(40):

        def given(loss: mpf) -> mpf:
            return oracles.gaussian_delta(mu, epsilon - loss)

        between = mp.quad(lambda x: mp.exp(-x) / 2 * given(1 - 2 * x), [0, 0.25, 0.5, 0.75, 1])
        exact = given(mpf(1)) / 2 + mp.exp(-1) / 2 * given(mpf(-1)) + between
    found = enclose_delta([(LaplaceTerm(1.0), 1), (GaussianTerm(0.5), 1)], 2.0)
    assert found.method == "contour"
    assert oracles.encloses(found, exact, 1e-10)


def sampled_at(e: mpf, *, mixture_first: bool) -> mpf:
    """Delta at any e of Gaussian noise at mu = 2, sampled at rate 1/8."""
    return oracles.sampled_delta(partial(oracles.gaussian_delta, 2), 0.125, e, mixture_first=mixture_first)


@pytest.mark.parametrize("other", [LaplaceTerm(0.5), SampledGaussianTerm(2.0, 0.125)], ids=str)
def test_the_closed_form_of_one_run_is_not_that_of_two(other: Term) -> None:
    """It would leave one of them out; alone each has one."""
    alone, both = [(other, 1)], [(LaplaceTerm(1.0), 1), (other, 1)]
    assert all(interval._closed_form(factors) is not None for factors in BallFactors.orders(alone))
    assert all(interval._closed_form(factors) is None for factors in BallFactors.orders(both))


@pytest.mark.nightly
def test_one_laplace_beside_one_sampled_run_by_quadrature() -> None:
    """Each alone has a closed form, which leaves out the other."""
    epsilon, kept = mpf(0.3), mp.log(mpf(0.875))
    exact = mpf(0)
    for first in (True, False):
        given = partial(sampled_at, mixture_first=first)
        kinks = [(e - epsilon + 1) / 2 for e in (kept, -kept)]
        between = mp.quad(lambda x: mp.exp(-x) / 2 * given(epsilon - 1 + 2 * x), [0, *kinks, 1])  # noqa: B023
        exact = max(exact, given(epsilon - 1) / 2 + mp.exp(-1) / 2 * given(epsilon + 1) + between)
    found = enclose_delta([(LaplaceTerm(1.0), 1), (SampledGaussianTerm(2.0, 0.125), 1)], 0.3)
    assert found.method == "contour"
    assert found.lower <= exact * (1 + mpf("1e-10"))
    assert exact * (1 - mpf("1e-10")) <= found.upper <= 1.02 * exact


def test_one_laplace_whose_atoms_never_fade() -> None:
    found = enclose_delta([(LaplaceTerm(0.75), 1)], 0.25)
    assert oracles.encloses(found, 1 - mp.exp(mpf("-0.25")), 1e-8)


@pytest.mark.parametrize(
    "releases",
    [
        [(GaussianTerm(0.3), 7)],
        [(RandomizedResponseTerm(math.log(3.0)), 50)],
        [(LaplaceTerm(0.001), 10**6)],
        [(LaplaceTerm(0.1), 1000)],
        [(LaplaceTerm(0.1), 30), (GaussianTerm(0.3), 3), (RandomizedResponseTerm(0.2), 20)],
        [(LaplaceTerm(0.1), 30), (GaussianTerm(0.3), 3), (ApproxTerm(0.2, 1e-9), 20)],
    ],
    ids=["gaussian", "response", "laplace", "strong", "mix", "approximate"],
)
@sweep("delta", [1e-3, 1e-6, 1e-12, 1e-30], everyday=(0, -1))
def test_it_agrees_with_floating_point(releases: Releases, delta: float) -> None:
    pessimistic = PrivacyLoss.compose(releases)
    if delta <= pessimistic.least_delta.upper:
        with pytest.raises(CannotBound):
            enclose_epsilon(releases, delta)
        return
    bracket, found = pessimistic.epsilon(delta), enclose_epsilon(releases, delta)
    assert found.lower <= found.upper <= bracket.upper * (1 + 1e-9)
    assert bracket.lower <= found.upper
    assert found.lower <= bracket.upper


@pytest.mark.parametrize(
    "releases",
    [
        [(BoundedRangeTerm(0.1), 100)],
        [(BoundedRangeTerm(0.5), 4), (LaplaceTerm(0.5), 2), (GaussianTerm(0.5), 1)],
        [(DiscreteTerm((-1.0, 0.0, 1.0), (0.1, 0.6, 0.28)), 50), (GaussianTerm(0.5), 1)],
        [(DiscreteTerm((-1.0, 0.1, 0.9), (0.1, 0.6, 0.28), 1e-9), 9), (BoundedRangeTerm(0.3), 5)],
    ],
    ids=["choices", "mix", "table", "revealing"],
)
@sweep("delta", [1e-3, 1e-6], everyday=(1,))
def test_ranges_and_tables_agree_with_floating_point(releases: Releases, delta: float) -> None:
    bracket, found = PrivacyLoss.compose(releases).epsilon(delta), enclose_epsilon(releases, delta)
    assert found.lower <= found.upper <= bracket.upper * (1 + 1e-9)
    assert bracket.lower <= found.upper
    assert found.lower <= bracket.upper
    assert found.upper - found.lower <= 1e-7 * found.upper


@pytest.mark.nightly
def test_one_choice_of_bounded_range_is_its_closed_form() -> None:
    found = enclose_delta([(BoundedRangeTerm(1.0), 1)], 0.25)
    exact = (mp.exp(mpf("0.5")) - mp.exp(mpf("0.125"))) ** 2 / mp.expm1(1)
    assert oracles.encloses(found, exact, 1e-6)


def test_no_epsilon_above_the_largest_loss() -> None:
    assert enclose_epsilon([(RandomizedResponseTerm(0.5), 4)], 1e-300).upper == 2.0


def test_what_has_no_enclosure() -> None:
    for epsilon in (math.nan, math.inf, -1.0):
        with pytest.raises(InvalidParameter):
            enclose_delta([(GaussianTerm(1.0), 1)], epsilon)
    for delta in (math.nan, 0.0, 1.0):
        with pytest.raises(InvalidParameter):
            enclose_epsilon([(GaussianTerm(1.0), 1)], delta)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 40.0])
def test_rho_of_each_family(epsilon: float) -> None:
    with mp.workdps(60):
        e = mpf(epsilon)
        laplace, response = e + mp.expm1(-e), e * mp.tanh(e / 2)
        for mechanism, exact in (
            (make.laplace(1.0, epsilon), laplace),
            (RandomizedResponse(epsilon=epsilon), response),
            (Exponential(epsilon=epsilon), e**2 / 8),
            (make.gaussian(1.0, epsilon), e**2 / 2),
            (make.discrete_gaussian(1.0, epsilon), e**2 / 2),
        ):
            assert exact <= enclosed_rho(mechanism) <= exact * (1 + mpf("3e-16"))


def test_zcdp_alone() -> None:
    for rho, delta, epsilon in ((0.5, 1e-6, 5.22153), (0.01, 1e-6, 0.62169), (5.0, 1e-6, 20.5519)):
        assert enclosed_zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-5)
    assert enclosed_zcdp_epsilon(0.0, 1e-6) == 0.0


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (ApproxDP(epsilon=4.8866, delta=1e-6), Proof.PROVED),
        (ApproxDP(epsilon=4.8865, delta=1e-6), Proof.NOT_PROVED),
        (ZCDP(rho=0.5), Proof.PROVED),
        (ZCDP(rho=0.49), Proof.NOT_PROVED),
        (GDP(mu=1.0), Proof.PROVED),
    ],
)
def test_a_ledger_is_judged_by_its_enclosure(claim: AnyGuarantee, expected: Proof) -> None:
    found = account(make.ledger(make.gaussian(1.0), claim=Claim(claim)), rigour="interval")
    assert found.verdict is expected
    assert [bound.rigour for bound in found.bounds] == ["interval"]


def test_sums_are_exact() -> None:
    ledger = make.ledger(*[make.laplace(3.0)] * 3, claim=Claim(PureDP(epsilon=1.0)))
    (bound,) = account(ledger, rigour="interval").bounds
    third = Fraction(leading_figure(bound.guarantee))
    assert 1 <= third <= 1 + Fraction(1, 2**51)
