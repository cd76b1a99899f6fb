"""The curve that a claim implies, against closed forms at 60 digits and against other routes."""

import math
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from dpaudit import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpaudit.accountants.closed_forms.conversions import rdp_epsilon
from dpaudit.accountants.curves.implied import budget_for, held_to, implied, implied_curve
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.errors import CannotBound


@pytest.mark.parametrize("alpha", [1.001, 2.0, 8.5, 300.0])
@pytest.mark.parametrize("divergence", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 2.0, 30.0])
def test_renyi_against_sixty_digits(alpha: float, divergence: float, epsilon: float) -> None:
    curve = implied_curve(RDP(alpha=alpha, epsilon=divergence))
    with mp.workdps(60):
        a, d, e = (mpf(value) for value in (alpha, divergence, epsilon))
        exact = min(mpf(1), mp.exp((a - 1) * (d - e)) / a * (1 - 1 / a) ** (a - 1))
        found = mpf(curve(epsilon))
        assert exact <= found <= exact * (1 + mpf("1e-9")) + mpf("1e-320")


def test_renyi_inverts_the_conversion_to_epsilon() -> None:
    curve = implied_curve(RDP(alpha=6.0, epsilon=0.7))
    for delta in (1e-2, 1e-5, 1e-9):
        assert curve(rdp_epsilon(6.0, 0.7, delta)) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("guarantee", [ZCDP(rho=0.5), GDP(mu=1.0), RDP(alpha=4.0, epsilon=2.0)])
def test_curves_fall(guarantee: ZCDP | GDP | RDP) -> None:
    curve = implied_curve(guarantee)
    values = [curve(step / 10) for step in range(100)]
    assert all(0 <= value <= 1 for value in values)
    assert values == sorted(values, reverse=True)


def test_a_gaussian_claim_has_the_gaussian_curve() -> None:
    curve = implied_curve(GDP(mu=1.0))
    for epsilon in (0.0, 1.0, 3.0):
        exact = float(mp.ncdf(0.5 - epsilon) - mp.exp(epsilon) * mp.ncdf(-0.5 - epsilon))
        assert exact * (1 - 1e-12) <= curve(epsilon) <= exact * (1 + 1e-6)


def test_points_have_the_curve_of_their_worst_pair() -> None:
    pure, approximate = (implied_curve(PureDP(epsilon=1.0)), implied_curve(ApproxDP(epsilon=1.0, delta=1e-6)))
    assert pure(1.0) == 0.0
    assert 1e-6 <= approximate(1.0) <= 1e-6 * (1 + 1e-12)
    response = 1 - 2 / (1 + mp.e)
    assert response <= pure(0.0) <= response * (1 + 1e-12)
    assert pure(0.0) < approximate(0.0) <= response + 1e-6


def test_one_point_has_the_curve_of_its_worst_pair_at_every_epsilon() -> None:
    curve = implied_curve(ApproxDP(epsilon=1.3, delta=1e-3))
    with mp.workdps(40):
        grown, delta = mp.exp(mpf(1.3)), mpf(1e-3)
        for step in range(130):
            exact = delta + (1 - delta) * (grown - mp.exp(mpf(step / 100))) / (1 + grown)
            assert exact <= curve(step / 100) <= exact * (1 + mpf("1e-9"))


@pytest.mark.parametrize(
    ("given", "wanted", "found"),
    [
        (RDP(alpha=3.0, epsilon=0.7), RDP(alpha=3.0, epsilon=0.0), RDP(alpha=3.0, epsilon=0.7)),
        (RDP(alpha=3.0, epsilon=0.7), RDP(alpha=2.0, epsilon=0.0), RDP(alpha=2.0, epsilon=0.7)),
        (RDP(alpha=3.0, epsilon=0.7), RDP(alpha=3.5, epsilon=0.0), None),
        (RDP(alpha=3.0, epsilon=0.7), ZCDP(rho=0.0), None),
        (GDP(mu=0.5), ZCDP(rho=0.0), ZCDP(rho=0.125)),
        (GDP(mu=0.5), RDP(alpha=3.0, epsilon=0.0), RDP(alpha=3.0, epsilon=0.375)),
        (ZCDP(rho=0.5), RDP(alpha=3.0, epsilon=0.0), RDP(alpha=3.0, epsilon=1.5)),
        (ZCDP(rho=0.5), GDP(mu=0.0), None),
    ],
)
def test_what_follows_on_another_scale(
    given: RDP | GDP | ZCDP, wanted: AnyGuarantee, found: AnyGuarantee | None
) -> None:
    assert implied(given, wanted) == found


@pytest.mark.parametrize("size", [1, 3])
def test_a_run_is_held_to_its_budget_and_to_what_the_filter_may_have_let_through(size: int) -> None:
    tolerated = 1 + Fraction(1e-9)
    for budget, factor in ((PureDP(epsilon=0.7), size), (ZCDP(rho=0.3), size**2), (GDP(mu=0.9), size)):
        ((_, figure),) = held_to(budget, size).to_json().items() - budget.model_copy().to_json().items()
        exact = (
            Fraction(next(v for v in budget.to_json().values() if isinstance(v, float))) * tolerated * factor
        )
        assert math.nextafter(figure, 0.0) < exact <= Fraction(figure)
    with pytest.raises(CannotBound):
        held_to(RDP(alpha=2.0, epsilon=1.0), 3)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1.0, 1e-6), (0.01, 1e-6), (40.0, 1e-12), (0.01, 0.5), (1e-3, 0.99), (1e-300, 1e-6)],
)
def test_the_budget_for_a_target_is_the_largest(epsilon: float, delta: float) -> None:
    """Held to it runs meet the target, by some order of what zCDP implies; by a millionth more, by none."""
    rho = budget_for(ApproxDP(epsilon=epsilon, delta=delta)).rho

    def least(held: mpf) -> mpf:
        def at(log_t: mpf) -> mpf:
            t = mp.exp(log_t)
            a = 1 + t
            return held * a + mp.log(t / a) - (mp.log(delta) + mp.log(a)) / t

        low, high, golden = mpf(-60), mpf(800), (mp.sqrt(5) - 1) / 2
        for _ in range(60):
            one, two = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, two) if at(one) < at(two) else (one, high)
        return at((low + high) / 2)

    with mp.workdps(330):
        held = mpf(rho) * (1 + mpf(1e-9))
        assert least(held) <= epsilon < least(held * (1 + mpf("1e-6")))
