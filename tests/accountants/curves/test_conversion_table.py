"""Conversions against closed forms with mpmath, and their order; every figure above the truth, none far."""

import itertools
import math
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from dpaudit.accountants.curves.conversion_table import (
    ALWAYS,
    COMPARISON,
    IF_GAUSSIAN,
    LARGEST,
    LARGEST_GAUSSIAN,
    Conversion,
    conversions,
    curves,
    largest,
)
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from tests import oracles

GIVEN: list[AnyGuarantee] = [
    ZCDP(rho=0.5),
    ZCDP(rho=1e-4),
    GDP(mu=0.3),
    PureDP(epsilon=1.0),
    PureDP(epsilon=30.0),
    RDP(alpha=8.0, epsilon=1.0),
    ApproxDP(epsilon=1.0, delta=1e-7),
]
DELTAS = (1e-3, 1e-6, 1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.1, 1.0, 5.0, 100.0, 700.0, 1e4])
@pytest.mark.parametrize("alpha", [1.0 + 1e-12, 1.0001, 1.5, 2.0, 32.0, 1e6])
def test_renyi_divergence_of_pure_dp(epsilon: float, alpha: float) -> None:
    with mp.workdps(80):
        e, a = mpf(epsilon), mpf(alpha)
        exact = (mp.log(mp.cosh((2 * a - 1) * e / 2)) - mp.log(mp.cosh(e / 2))) / (a - 1)
        (row,) = [
            row for row in conversions(PureDP(epsilon=epsilon), (), (alpha,)) if row.guarantee.kind == "rdp"
        ]
        figure = leading_figure(row.guarantee)
        assert figure >= exact or figure == epsilon
        assert figure <= exact * (1 + mpf("1e-12"))


def test_renyi_divergence_of_pure_dp_where_digits_underflow() -> None:
    """Of tiny epsilons it is alpha epsilon^2 / 2, but never above epsilon: as a double, rounded up."""

    def figure(epsilon: float, alpha: float) -> float:
        *_, row = conversions(PureDP(epsilon=epsilon), (), (alpha,))
        return leading_figure(row.guarantee)

    for epsilon in (1e-150, 1.1e-160, 1.3e-160, 1.7e-160, 3e-161, 1e-200, 5e-324):
        for alpha in (1.5, 2.0, 3.0):
            exact = Fraction(alpha) * Fraction(epsilon) ** 2 / 2
            most = exact * (1 + Fraction(1e-12)) + 3 * Fraction(5e-324)
            assert exact <= Fraction(figure(epsilon, alpha)) <= most
    assert figure(1e-305, 1e308) == 1e-305
    assert figure(0.0, 2.0) == 0.0


def gaussian_epsilon(mu: mpf, delta: float) -> mpf:
    """The least epsilon of a Gaussian pair, by bisection."""
    low, high = mpf(0), mu * mu / 2 + 40 * mu
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (low, middle) if oracles.gaussian_delta(mu, middle) <= delta else (middle, high)
    return low


def figure_of(rows: list[Conversion], method: str, holds: str, **fields: float) -> Conversion:
    """The one row by a method that has these figures."""
    [found] = [
        row
        for row in rows
        if (row.method, row.holds) == (method, holds) and row.guarantee.to_json().items() >= fields.items()
    ]
    return found


def held_to(row: Conversion, exact: mpf, least: mpf, width: str = "1e-9") -> None:
    """A figure is at least what its theorem says, its slack at least its excess over the least there is."""
    figure = mpf(leading_figure(row.guarantee))
    assert exact <= figure <= exact * (1 + mpf(width))
    assert row.slack is not None
    assert figure / least - 1 <= row.slack * (1 + mpf("1e-9")) + mpf("1e-15")
    assert row.slack <= figure / least - 1 + mpf("1e-8")


def nearest_above(figure: float, exact: Fraction) -> bool:
    """Whether a double is the least one that is not below a rational number."""
    return math.nextafter(figure, 0.0) < exact <= Fraction(figure)


@pytest.mark.parametrize("rho", [0.3, 1e-3])
def test_zcdp_implies_what_its_theorems_say(rho: float) -> None:
    rows = conversions(ZCDP(rho=rho), (1e-6,), (1.7, 3.3))
    with mp.workdps(40):
        r, log_delta, mu = mpf(rho), mp.log(mpf(1e-6)), mp.sqrt(2 * mpf(rho))
        least = gaussian_epsilon(mu, 1e-6)
        first = figure_of(rows, "bun-steinke", COMPARISON, delta=1e-6)
        held_to(first, r + 2 * mp.sqrt(-r * log_delta), least)
        held_to(figure_of(rows, "gdp", IF_GAUSSIAN, delta=1e-6), least, least)
        best = min(r * a + mp.log(1 - 1 / a) - (log_delta + mp.log(a)) / (a - 1) for a in orders(mu))
        held_to(figure_of(rows, "zcdp", ALWAYS, delta=1e-6), best * (1 - mpf("1e-5")), least, "1e-4")
        own = figure_of(rows, "gdp", IF_GAUSSIAN, kind="gdp")
        held_to(own, mu, mu, "3e-16")
        assert own.slack > 0.0
    for alpha in (1.7, 3.3):
        row = figure_of(rows, "zcdp", ALWAYS, alpha=alpha)
        assert nearest_above(leading_figure(row.guarantee), Fraction(rho) * Fraction(alpha))
        assert 0.0 < row.slack <= 3e-16
    assert (
        figure_of(conversions(ZCDP(rho=rho), (0.9,), ()), "bun-steinke", COMPARISON, delta=0.9).slack is None
    )


def orders(mu: mpf) -> list[mpf]:
    return [1 + mpf(k) / 100 * (1 + 6 / mu) for k in range(20, 200)]


@pytest.mark.parametrize("mu", [0.3, 1.7])
def test_gdp_implies_what_its_theorems_say(mu: float) -> None:
    rows = conversions(GDP(mu=mu), (1e-6,), (1.7, 3.3))
    with mp.workdps(40):
        least = gaussian_epsilon(mpf(mu), 1e-6)
        held_to(figure_of(rows, "gdp", ALWAYS, delta=1e-6), least, least)
    half = Fraction(mu) ** 2 / 2
    for row, exact in [
        (figure_of(rows, "gdp", ALWAYS, kind="zcdp"), half),
        *((figure_of(rows, "gdp", ALWAYS, alpha=alpha), half * Fraction(alpha)) for alpha in (1.7, 3.3)),
    ]:
        assert nearest_above(leading_figure(row.guarantee), exact)
        assert 0.0 < row.slack <= 3e-16
        assert row.to_json()["slack"] == row.slack
        assert row.to_json().keys() >= {"guarantee", "figure", "method", "source", "holds", "rigour"}
        assert "target_delta" not in row.to_json()


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 12.0])
def test_pure_dp_implies_what_randomized_response_needs(epsilon: float) -> None:
    rows = conversions(PureDP(epsilon=epsilon), (1e-6,), (1.7,))
    with mp.workdps(40):
        e, delta = mpf(epsilon), mpf(1e-6)
        exact = mp.log(mp.exp(e) - delta * (1 + mp.exp(e)))
        held_to(figure_of(rows, "pure", ALWAYS, delta=1e-6), exact, exact)
        # Of randomized response the divergence of order 1 is epsilon tanh(epsilon / 2): no rho is smaller.
        least = e * mp.tanh(e / 2)
        held_to(figure_of(rows, "bun-steinke", COMPARISON, kind="zcdp"), e * e / 2, least, "3e-16")
        sharp = figure_of(rows, "pure", ALWAYS, kind="zcdp")
        held_to(sharp, least * (1 - mpf("1e-15")), least, "1")
        assert leading_figure(sharp.guarantee) <= e * e / 2
        mu = -2 * mp.sqrt(2) * mp.erfinv(2 / (1 + mp.exp(e)) - 1)
        held_to(figure_of(rows, "pure", ALWAYS, kind="gdp"), mu, mu, "1e-12")
        row = figure_of(rows, "pure", ALWAYS, alpha=1.7)
        exact = mpf(leading_figure(row.guarantee)) * (1 - mpf("1e-12"))
        held_to(row, exact, exact, "2e-12")


@pytest.mark.parametrize(("alpha", "divergence"), [(8.0, 1.0), (1.3, 0.01), (200.0, 30.0), (2.0, 0.0)])
def test_renyi_dp_implies_what_its_theorems_say(alpha: float, divergence: float) -> None:
    rows = conversions(RDP(alpha=alpha, epsilon=divergence), (1e-6, 1e-300), ())
    first = figure_of(rows, "mironov", COMPARISON, delta=1e-6)
    if divergence == 0.0:
        assert {(leading_figure(row.guarantee), row.slack) for row in rows} == {(0.0, 0.0)}
        return
    with mp.workdps(40):
        a, d, log_delta = mpf(alpha), mpf(divergence), mp.log(mpf(1e-6))
        least = gaussian_epsilon(mp.sqrt(2 * d / a), 1e-6)
        held_to(first, d - log_delta / (a - 1), least, "1e-14")
        held_to(figure_of(rows, "gdp", IF_GAUSSIAN, delta=1e-6), least, least)
        best = d + mp.log(1 - 1 / a) - (log_delta + mp.log(a)) / (a - 1)
        held_to(figure_of(rows, "rdp", ALWAYS, delta=1e-6), best, least, "1e-13")
        # There a mu that is rounded down would show.
        rare = gaussian_epsilon(mp.sqrt(2 * d / a), 1e-300)
        held_to(figure_of(rows, "gdp", IF_GAUSSIAN, delta=1e-300), rare, rare)


def test_one_point_implies_more_at_a_larger_delta_and_nothing_at_a_smaller_one() -> None:
    given = ApproxDP(epsilon=1.0, delta=1e-3)
    at, above, flat = conversions(given, (1e-4, 1e-3, 0.1, 0.9), (2.0,))
    assert at.guarantee == given
    assert at.slack == 0.0
    with mp.workdps(40):
        grown, given_delta = mp.e, mpf(1e-3)
        share = (mpf(0.1) - given_delta) / (1 - given_delta)
        exact = mp.log(grown - share * (1 + grown))
        held_to(above, exact, exact)
    assert flat.guarantee == ApproxDP(epsilon=0.0, delta=0.9)


def curve_of(given: ZCDP | RDP, method: str, epsilon: mpf) -> mpf:
    """delta(epsilon) by a theorem."""
    if isinstance(given, RDP):
        alpha, divergence = mpf(given.alpha), mpf(given.epsilon)
        if method == "mironov":
            return mp.exp((alpha - 1) * (divergence - epsilon))
        return oracles.gaussian_delta(mp.sqrt(2 * divergence / alpha), epsilon)
    rho = mpf(given.rho)
    first = mp.exp(-((epsilon - rho) ** 2) / (4 * rho))
    return first if method == "bun-steinke" else oracles.gaussian_delta(mp.sqrt(2 * rho), epsilon)


RENYI = [RDP(alpha=alpha, epsilon=epsilon) for alpha, epsilon in ((3.3, 0.7), (1.01, 0.3), (17.0, 0.2))]


@pytest.mark.parametrize(
    ("given", "method"),
    [
        *itertools.product([ZCDP(rho=0.3)], ("bun-steinke", "gdp")),
        *itertools.product(RENYI, ("mironov", "gdp")),
    ],
)
def test_a_curve_for_a_picture_is_never_below_its_theorem(given: ZCDP | RDP, method: str) -> None:
    """Down to a delta of 1e-200, where a mu rounded down would show."""
    [curve] = [each for each in curves(given) if each.method == method]
    with mp.workdps(60):
        for k in range(1, 200):
            epsilon = 0.81 + 0.1731 * k
            truth = min(mpf(1), curve_of(given, method, mpf(epsilon)))
            assert truth <= curve.delta(epsilon) <= truth * (1 + mpf("1e-9"))
            if truth < 1e-200:
                break


def test_what_implies_nothing_of_a_curve_is_one() -> None:
    by_method = {curve.method: curve.delta for curve in curves(ZCDP(rho=0.3))}
    assert [by_method["bun-steinke"](epsilon) for epsilon in (0.0, 0.3, 0.3 + 1e-15)] == [1.0, 1.0, 1.0]
    by_method = {curve.method: curve.delta for curve in curves(ZCDP(rho=0.0))}
    assert [by_method["bun-steinke"](epsilon) for epsilon in (0.0, 5e-324, 1.0)] == [1.0, 0.0, 0.0]


def test_the_largest_gaussian_that_meets_a_target_is_rounded_down() -> None:
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-3), (4.0, 1e-12)):
        general, mu, rho = rows = largest(epsilon, delta)
        assert [row.holds for row in rows] == [LARGEST, LARGEST, LARGEST_GAUSSIAN]
        assert {row.to_json()["target_delta"] for row in rows} == {delta}
        assert leading_figure(general.guarantee) < leading_figure(rho.guarantee)
        m = leading_figure(mu.guarantee)
        with mp.workdps(40):
            assert oracles.gaussian_delta(mpf(m), mpf(epsilon)) <= delta
            assert oracles.gaussian_delta(mpf(m) * (1 + mpf("1e-11")), mpf(epsilon)) > delta
        half, figure = Fraction(m) ** 2 / 2, leading_figure(rho.guarantee)
        assert Fraction(figure) <= half < Fraction(math.nextafter(figure, 1.0))
        [curve] = [
            each for each in curves(ApproxDP(epsilon=epsilon, delta=delta)) if each.holds == LARGEST_GAUSSIAN
        ]
        assert curve.delta(epsilon) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_what_always_holds_is_never_below_what_gaussian_noise_needs(given: AnyGuarantee) -> None:
    rows = conversions(given, DELTAS, (2.0, 32.0))
    assert rows
    for row in rows:
        assert row.slack is None or row.slack >= 0.0
        assert row.source
    for delta in DELTAS:
        at = {
            (row.method, row.holds): leading_figure(row.guarantee)
            for row in rows
            if isinstance(row.guarantee, ApproxDP) and row.guarantee.delta == delta
        }
        gaussian = [figure for (_, holds), figure in at.items() if holds == IF_GAUSSIAN]
        best = [figure for (_, holds), figure in at.items() if holds == ALWAYS]
        first = [figure for (_, holds), figure in at.items() if holds == COMPARISON]
        for lower, upper in ((gaussian, best), (best, first)):
            assert all(low <= high for low in lower for high in upper)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_a_curve_passes_through_the_table(given: AnyGuarantee) -> None:
    by_method = {curve.method: curve for curve in curves(given)}
    for row in conversions(given, DELTAS, ()):
        if isinstance(row.guarantee, ApproxDP) and row.guarantee.epsilon > 0.0:
            found = by_method[row.method].delta(row.guarantee.epsilon)
            assert found == pytest.approx(row.guarantee.delta, rel=1e-6)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_curves_fall(given: AnyGuarantee) -> None:
    for curve in curves(given):
        deltas = [curve.delta(0.05 * k) for k in range(60)]
        assert all(1.0 >= before >= after >= 0.0 for before, after in itertools.pairwise(deltas))
