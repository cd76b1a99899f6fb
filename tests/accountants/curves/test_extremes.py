"""Every curve at extreme epsilons and deltas, against closed forms in long arithmetic: never below them."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from typing import Any

import pytest
from mpmath import mp, mpf

from dpaudit import GDP, RDP, ZCDP, ApproxDP, Exponential, Neighbouring, PureDP, RandomizedResponse
from dpaudit.accountants.closed_forms.conversions import pure_to_gdp
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves import conversion_table, curves
from dpaudit.accountants.curves.implied import implied_curve
from dpaudit.accountants.interval.interval import enclose_delta, enclose_epsilon
from dpaudit.accountants.pairs.dominating_pairs import loss_terms
from dpaudit.errors import CannotBound
from tests import make, oracles
from tests.sweeps import sweep

#: delta(epsilon) in long arithmetic.
Exact = Callable[[Any], Any]

EPSILONS = (0.0, 5e-324, 1e-300, 1e-9, 0.7, 8.0, 38.0, 700.0, 745.2, 1e4, 1e6)
DELTAS = (5e-324, 1e-310, 1e-300, 1e-100, 1e-9, 0.3, 1.0 - 2.0**-53)


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(400):
        yield


@cache
def gaussian(variance: Fraction) -> Exact:
    """Balle and Wang 2018, Theorem 8, at mu^2."""

    @cache
    def delta(epsilon: Any) -> Any:
        mu = mp.sqrt(mpf(variance.numerator) / variance.denominator)
        x, y = ((mpf(epsilon) / mu + sign * mu / 2) / mp.sqrt(2) for sign in (-1, 1))
        if x > 1e6:  # below it: phi(x) [R(x) - R(x + mu)] with R(x) = 1 / x - 1 / x^3 + ..., x sqrt 2 for x
            return mp.exp(-x * x) * (1 / x - 1 / y) * (1 - 1 / x) / (2 * mp.sqrt(mp.pi))
        return (mp.erfc(x) - mp.exp(epsilon) * mp.erfc(y)) / 2

    return delta


def response(pure: float) -> Exact:
    """Kairouz, Oh and Viswanath 2015."""
    return lambda x: max(mpf(0), (mp.exp(pure) - mp.exp(x)) / (1 + mp.exp(pure)))


def laplace(pure: float) -> Exact:
    return partial(oracles.laplace_delta, pure)


def bounded_range(pure: float) -> Exact:
    """A choice between two whose losses are pure / 2 and -pure / 2 has that range (Dong and others 2020)."""
    return response(pure / 2.0)


RELEASES = [
    *(
        (make.gaussian(s), n, gaussian(n / Fraction(s) ** 2))
        for s, n in ((0.01, 1), (1.0, 1), (1.0, 10**12), (1e9, 3), (1e60, 10**12), (1e300, 1))
    ),
    *((make.laplace(s), 1, laplace(1.0 / s)) for s in (0.25, 2.0**40, 2.0**900)),
    *((RandomizedResponse(epsilon=e), 1, response(e)) for e in (5e-324, 1e-320, 1e-9, 1.0, 50.0)),
    *((Exponential(epsilon=e), 1, bounded_range(e)) for e in (1e-300, 1e-9, 1.0, 50.0)),
]


@sweep("mechanism, count, exact", RELEASES, everyday=(0, 2, 7, 9, 10, 11, 12, 13, 15))
def test_no_accountant_is_below_the_mechanism(mechanism: Any, count: int, exact: Exact) -> None:
    releases = [make.release(mechanism, count)]
    composition = compose(releases, Neighbouring.ADD_OR_REMOVE_ONE)
    found = curves.profiles(composition)
    assert len(found) >= 3
    for profile in found:
        for epsilon in EPSILONS:
            assert exact(epsilon) <= profile.delta(epsilon) <= 1.0, (profile.method, epsilon)
        for delta in DELTAS:
            assert exact(profile.epsilon(delta)) <= delta, (profile.method, delta)
    if not isinstance(mechanism, Exponential):
        [tightest] = [p for p in found if p.method == "pld"]
        for epsilon in EPSILONS:
            assert tightest.delta(epsilon) <= exact(epsilon) * (1 + 1e-7) + 1e-150


#: But for choices, whose enclosed pair is no single one's, and for noise whose balls take too many digits.
ENCLOSED = [row for row in RELEASES if getattr(row[0], "sigma", 1.0) < 1e6 and row[0].kind != "exponential"]


@sweep("mechanism, count, exact", ENCLOSED, everyday=(0, 1, 4, 6, 7, 8, 9, 10))
def test_no_enclosure_excludes_the_mechanism(mechanism: Any, count: int, exact: Exact) -> None:
    terms = loss_terms([(mechanism, count)], Neighbouring.ADD_OR_REMOVE_ONE)
    slack = 1 + mpf(10) ** -12  # sensitivity / sigma was rounded up before it was enclosed
    for epsilon in EPSILONS:
        found = enclose_delta(terms, epsilon)
        assert found.lower <= max(exact(epsilon) * slack, exact(epsilon / slack)) + 1e-300
        assert exact(epsilon) <= found.upper
    for delta in DELTAS:
        assert exact(enclose_epsilon(terms, delta).upper) <= delta


GUARANTEES: list[tuple[Any, Exact]] = [
    *((PureDP(epsilon=e), response(e)) for e in (5e-324, 1.5e-323, 1e-9, 1.0, 50.0, 1e6)),
    *((ZCDP(rho=r), gaussian(2 * Fraction(r))) for r in (5e-324, 1e-300, 1e-9, 0.5, 1e3)),
    *((GDP(mu=m), gaussian(Fraction(m) ** 2)) for m in (5e-324, 1e-200, 1e-9, 1.0, 30.0, 1e4)),
    *(
        (RDP(alpha=a, epsilon=e), gaussian(2 * Fraction(e) / Fraction(a)))
        for a in (1.0 + 2.0**-52, 2.0, 1e12)
        for e in (5e-324, 1e-9, 1.0, 1e3)
    ),
    *(
        (ApproxDP(epsilon=e, delta=d), lambda x, e=e, d=d: d + (1 - mpf(d)) * response(e)(x))
        for e in (5e-324, 1.0, 50.0)
        for d in (5e-324, 1e-300, 1e-9, 0.5)
    ),
]


@sweep("guarantee, exact", GUARANTEES, everyday=[*range(11), 13, 15, *range(17, 41, 2)])
def test_no_implied_curve_is_below_a_mechanism_that_has_the_guarantee(guarantee: Any, exact: Exact) -> None:
    implied = implied_curve(guarantee)
    always = [curve for curve in conversion_table.curves(guarantee) if curve.holds.startswith("always")]
    for epsilon in EPSILONS:
        for delta in (implied, *(curve.delta for curve in always)):
            assert exact(epsilon) <= delta(epsilon) <= 1.0, epsilon
    for row in conversion_table.conversions(guarantee, [d for d in DELTAS if d > 1e-300], []):
        if isinstance(row.guarantee, ApproxDP) and row.holds.startswith("always"):
            assert exact(row.guarantee.epsilon) <= row.guarantee.delta, row


@pytest.mark.parametrize("epsilon", [5e-324, 6.4e-323, 1e-310, 1e-155, 1e-149, 1e-9, 1.0, 600.0])
@pytest.mark.parametrize("alpha", [1.0 + 2.0**-52, 1.0 + 1e-9, 2.0, 1e9, 1e150, 1e300])
def test_no_divergence_is_below_randomized_response(epsilon: float, alpha: float) -> None:
    """Also where the square of epsilon, or its product with the order, underflows."""
    a, e = mpf(alpha), mpf(epsilon)
    exact = (mp.log(mp.cosh((2 * a - 1) * e / 2)) - mp.log(mp.cosh(e / 2))) / (a - 1)
    release = make.release(RandomizedResponse(epsilon=epsilon))
    profile = curves.rdp_profile(compose([release], Neighbouring.ADD_OR_REMOVE_ONE))
    [row] = [
        row for row in conversion_table.conversions(PureDP(epsilon=epsilon), (), (alpha,))
        if isinstance(row.guarantee, RDP)
    ]  # fmt: skip
    for found in (profile.divergence(alpha), row.guarantee.epsilon):
        assert exact <= found <= exact * (1 + mpf(10) ** -8) + mpf(10) ** -300


@pytest.mark.parametrize("rho", [5e-324, 1e-300, 1e-20, 1.0])
@pytest.mark.parametrize("alpha", [1.0 + 2.0**-52, 1.0 + 1e-9, 2.4, 1e10, 1e100])
def test_no_divergence_is_below_that_of_gaussian_noise(rho: float, alpha: float) -> None:
    mechanism = make.gaussian(1.0, math.sqrt(2.0 * rho))
    profile = curves.rdp_profile(make.composition(mechanism, relation=Neighbouring.ZERO_OUT))
    exact = mpf(alpha) * mpf(mechanism.sensitivity.value) ** 2 / 2
    assert exact <= profile.divergence(alpha)


@pytest.mark.parametrize("epsilon", [5e-324 * k for k in range(1, 40)])
def test_no_mu_is_below_that_of_the_least_epsilons(epsilon: float) -> None:
    assert pure_to_gdp(epsilon) >= mp.sqrt(mp.pi / 2) * mpf(epsilon)


def test_a_group_of_runs_too_small_for_doubles_adds_up() -> None:
    """The moment of one run underflows; so many of them are no longer small."""
    releases = [make.release(RandomizedResponse(epsilon=1e-200), 10**300)]
    profile = curves.rdp_profile(compose(releases, Neighbouring.ADD_OR_REMOVE_ONE))
    assert profile.divergence(2.0) >= 1e-100
    with pytest.raises(CannotBound):
        curves.pld_profile(compose(releases, Neighbouring.ADD_OR_REMOVE_ONE))
