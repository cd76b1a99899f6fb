"""The curve that a claim implies, against closed forms at 60 digits and against other routes."""

from __future__ import annotations

import mpmath
import pytest

from dpaudit import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpaudit.accountants.closed_forms.conversions import rdp_epsilon
from dpaudit.accountants.curves.implied import implied_curve


@pytest.mark.parametrize("alpha", [1.001, 2.0, 8.5, 300.0])
@pytest.mark.parametrize("divergence", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 2.0, 30.0])
def test_renyi_against_sixty_digits(alpha: float, divergence: float, epsilon: float) -> None:
    curve = implied_curve(RDP(alpha=alpha, epsilon=divergence))
    with mpmath.workdps(60):
        a, d, e = (mpmath.mpf(value) for value in (alpha, divergence, epsilon))
        exact = min(mpmath.mpf(1), mpmath.exp((a - 1) * (d - e)) / a * (1 - 1 / a) ** (a - 1))
        found = mpmath.mpf(curve(epsilon))
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-320")


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
        exact = float(mpmath.ncdf(0.5 - epsilon) - mpmath.exp(epsilon) * mpmath.ncdf(-0.5 - epsilon))
        assert exact * (1 - 1e-12) <= curve(epsilon) <= exact * (1 + 1e-6)


def test_points_have_the_curve_of_their_worst_pair() -> None:
    pure, approximate = (implied_curve(PureDP(epsilon=1.0)), implied_curve(ApproxDP(epsilon=1.0, delta=1e-6)))
    assert pure(1.0) == 0.0
    assert 1e-6 <= approximate(1.0) <= 1e-6 * (1 + 1e-12)
    response = 1 - 2 / (1 + mpmath.e)
    assert response <= pure(0.0) <= response * (1 + 1e-12)
    assert pure(0.0) < approximate(0.0) <= response + 1e-6
