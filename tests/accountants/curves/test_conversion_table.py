"""Conversions against closed forms with mpmath, and their order; every figure above the truth, none far."""

from __future__ import annotations

import itertools

import mpmath
import pytest

from dpaudit.accountants.curves.conversion_table import ALWAYS, COMPARISON, IF_GAUSSIAN, conversions, curves
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP

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
    with mpmath.workdps(80):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
        exact = (mpmath.log(mpmath.cosh((2 * a - 1) * e / 2)) - mpmath.log(mpmath.cosh(e / 2))) / (a - 1)
        (row,) = [
            row for row in conversions(PureDP(epsilon=epsilon), (), (alpha,)) if row.guarantee.kind == "rdp"
        ]
        figure = leading_figure(row.guarantee)
        assert figure >= exact or figure == epsilon
        assert figure <= exact * (1 + mpmath.mpf("1e-12"))


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
