"""Many sampled Gaussian mechanisms at once: each sum holds what they add up to one by one, and the truth."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from dpaudit.accountants.privacy_loss.contour import many_sampled
from dpaudit.accountants.privacy_loss.contour.factors import Cumulant
from dpaudit.accountants.privacy_loss.contour.many_sampled import FEW, cumulants
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import SampledGaussianFactor
from tests.sweeps import sweep

ABSCISSAE = (1e-3, 0.3, 1.0, 5.0, 20.0, 60.0, 1000.0)


def drawn(
    mu: tuple[float, float], rate: tuple[float, float], number: int = 2 * FEW, *, first: bool
) -> list[SampledGaussianFactor]:
    """Log-uniform parameters and counts."""
    generator = np.random.default_rng(7)
    columns = [
        np.exp(generator.uniform(*np.log(ends), size=number)).tolist() for ends in (mu, rate, (1.0, 1000.0))
    ]
    return [SampledGaussianFactor(m, q, float(int(n)), first) for m, q, n in zip(*columns, strict=True)]


def added(parts: list[Cumulant]) -> Cumulant:
    return Cumulant(*map(math.fsum, zip(*parts, strict=True)))


@pytest.mark.parametrize("first", [True, False])
@sweep("rate", [(1e-10, 1e-6), (1e-4, 0.5), (0.3, 0.99)], everyday=(0, 2), ids=str)
@sweep("mu", [(0.5, 0.99), (0.01, 4.0), (5.0, 20.0), (1e-6, 1e-3), (0.9, 60.0)], everyday=(2, 3), ids=str)
def test_together_they_are_what_they_are_one_by_one(
    mu: tuple[float, float], rate: tuple[float, float], *, first: bool
) -> None:
    factors = drawn(mu, rate, first=first)
    for c in ABSCISSAE:
        one, many = added([factor.cumulant(c) for factor in factors]), added(cumulants(factors, c))
        assert abs(one.value - many.value) <= one.error + many.error
        assert many.error <= 2.0 * one.error
        if one.error <= 1e-6 * one.value:
            assert many.slope == pytest.approx(one.slope, rel=1e-9)
            assert many.curvature == pytest.approx(one.curvature, rel=1e-9)


@pytest.mark.parametrize("first", [True, False])
@sweep("c", [0.3, 5.0, 20.0], everyday=(1,))
def test_the_truth_lies_within_the_error(c: float, *, first: bool) -> None:
    factors = drawn((0.51, 0.99), (1e-3, 0.4), FEW, first=first)
    power = c + 1.0 if first else -c

    def truth(factor: SampledGaussianFactor) -> mpf:
        mu, rate = factor.parameter, factor.rate

        def density(x: mpf) -> mpf:
            return mp.npdf(x) * (1 - rate + rate * mp.exp(mu * x - mpf(mu) ** 2 / 2)) ** power

        ends = sorted({-12, -4, 0, 4, 8, 12, *(max(12, abs(power * mu)) + d for d in (0, 6, 12))})
        return factor.count * mp.log(mp.quad(density, ends))

    with mp.workdps(25):
        exact = mp.fsum(map(truth, factors))
        found = cumulants(factors, c)
        assert len(found) == 1
        assert abs(found[0].value - exact) <= found[0].error <= 1e-9 * exact


def test_a_rule_that_ends_too_soon_or_is_too_coarse_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above compare by: planted faults lie outside the error."""
    factors = drawn((0.51, 0.99), (1e-3, 0.4), first=True)
    one = added([factor.cumulant(5.0) for factor in factors])
    span = SampledGaussianFactor.span
    for low, high, step in ((1.0, 0.5, 1.0), (0.3, 1.0, 1.0), (1.0, 1.0, 4.0)):

        def narrow(self: SampledGaussianFactor, c: float, end: float) -> tuple[float, ...]:
            whole = span(self, c, end)
            return whole[0] * low, whole[1] * high, whole[2] * step  # noqa: B023

        monkeypatch.setattr(SampledGaussianFactor, "span", narrow)
        many = added(cumulants(factors, 5.0))
        assert abs(one.value - many.value) > 10.0 * (one.error + many.error)


def test_one_rule_serves_all_between_two_powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    span = SampledGaussianFactor.span
    monkeypatch.setattr(SampledGaussianFactor, "span", lambda *given: made.append(given) or span(*given))
    cumulants(drawn((0.5, 0.99), (0.01, 0.02), 500, first=True), 10.0)
    assert len(made) == 2  # for the least and the largest rate
    made.clear()
    cumulants(drawn((0.5, 0.99), (0.01, 0.02), FEW - 1, first=True), 10.0)
    assert len(made) == FEW - 1


def test_what_is_past_a_double_is_computed_one_by_one() -> None:
    factors = drawn((5.0, 7.9), (0.01, 0.4), first=True)
    assert many_sampled._together(factors, 0.3) is not None
    assert many_sampled._together(factors, 60.0) is None
    assert added(cumulants(factors, 60.0)) == added([factor.cumulant(60.0) for factor in factors])
