"""One sampled run against its curve at sixty digits, in either order of its pair."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from dpaudit.accountants.privacy_loss import PrivacyLoss, SampledGaussianTerm, SampledLaplaceTerm
from dpaudit.accountants.privacy_loss.contour.sampled import log_mixture
from dpaudit.accountants.privacy_loss.factors_from_terms import collect
from tests.sweeps import sweep

RUNS: list[SampledGaussianTerm | SampledLaplaceTerm] = [
    SampledGaussianTerm(1.0, 0.01),
    SampledGaussianTerm(1.0, 1e-6),
    SampledGaussianTerm(0.01, 0.9),
    SampledGaussianTerm(1000.0, 1e-9),
    SampledGaussianTerm(20.0, 0.999),
    SampledLaplaceTerm(1.0, 0.01),
    SampledLaplaceTerm(1e-6, 0.5),
    SampledLaplaceTerm(30.0, 1e-9),
    SampledLaplaceTerm(500.0, 0.999),
    SampledGaussianTerm(2.0, 1e-300),
    SampledLaplaceTerm(400.0, 1e-300),
    SampledGaussianTerm(4.3, 1e-64),
    SampledLaplaceTerm(2.0, 1e-40),
    SampledLaplaceTerm(40.0, 1.0 - 1e-12),
    *(SampledGaussianTerm(mu, rate) for mu, rate in ((0.1, 0.2), (1.0, 0.003), (1.0, 0.2), (3.0, 0.9))),
    *(SampledLaplaceTerm(e, rate) for e, rate in ((0.1, 0.2), (1.0, 0.9), (5.0, 0.2))),
    *(SampledGaussianTerm(mu, rate) for mu, rate in ((30.0, 0.3), (31.0, 0.5), (100.0, 0.3))),
]


def truth(term: SampledGaussianTerm | SampledLaplaceTerm, epsilon: float, *, mixture_first: bool) -> mpf:
    """P(A) - e^epsilon Q(A) for the set A where the loss exceeds epsilon; u is the loss without sampling."""
    q, bar = mpf(term.rate), mp.exp(mpf(epsilon))
    odds = (bar - 1 + q) / q if mixture_first else (1 / bar - 1 + q) / q  # e^u at the edge of A
    if odds <= 0:
        return mpf(0)

    def beyond(moved: bool) -> mpf:
        """The probability of A, which lies below the edge where the mixture is second."""
        u, sign = mp.log(odds), 1 if mixture_first else -1
        if isinstance(term, SampledGaussianTerm):
            x = u / mpf(term.mu) + (-1 if moved else 1) * mpf(term.mu) / 2
            return mp.ncdf(-sign * x)
        e = mpf(term.epsilon)
        u = -u if moved else u  # the moved law of u is the unmoved one of -u
        above = (sign > 0) != moved
        lowest = mp.exp(-(u + e) / 2) / 2 if -e <= u < e else mpf(u < -e)
        return lowest if above else 1 - lowest

    mixed, plain = (1 - q) * beyond(False) + q * beyond(True), beyond(False)
    first, second = (mixed, plain) if mixture_first else (plain, mixed)
    return max(first - bar * second, mpf(0))


@pytest.mark.parametrize("term", RUNS)
@sweep("exponent", [1, 6, 30, 250], everyday=(1, 2))
def test_one_run_is_exact_in_both_orders(
    term: SampledGaussianTerm | SampledLaplaceTerm, exponent: int
) -> None:
    loss, delta = PrivacyLoss.compose([(term, 1)]), 10.0**-exponent
    lower, upper = loss.epsilon(delta)
    assert loss.method == "single"
    with mp.workdps(350):
        orders = [True, False]
        assert max(truth(term, upper, mixture_first=order) for order in orders) <= delta
        if lower > 0.0:
            assert max(truth(term, lower, mixture_first=order) for order in orders) >= delta
        ceiling = collect([(term, 1)]).ceiling
        assert upper == 0.0 or upper <= lower * (1.0 + 1e-9) or upper >= ceiling * (1.0 - 1e-9)
        for epsilon in (0.0, 0.5 * upper, upper, 1.5 * upper):
            exact = max(truth(term, epsilon, mixture_first=order) for order in orders)
            found = loss.delta(epsilon)
            assert found.lower <= exact <= found.upper
            if epsilon < 0.999 * ceiling and exact > 1e-280:
                assert found.upper <= found.lower * (1.0 + 1e-9)
    assert math.isfinite(upper)


@pytest.mark.parametrize("rate", [1e-300, 1e-9, 0.3, 0.7, 1.0 - 1e-6, 1.0 - 1e-12, 1.0 - 2.0**-53])
@pytest.mark.parametrize("loss", [-800.0, -60.0, -27.0, -1.0, -0.4, -1e-9, 1e-9, 3.0, 40.0, 699.0, 701.0])
def test_the_ratio_of_a_mixture_keeps_its_digits(rate: float, loss: float) -> None:
    with mp.workdps(700):
        exact = mp.log(1 - mpf(rate) + mpf(rate) * mp.exp(mpf(loss)))
        assert abs(log_mixture(np.array(loss), rate) - exact) <= 1e-15 * max(abs(exact), abs(loss), 1e-307)


def test_a_ceiling_does_not_underflow() -> None:
    assert collect([(SampledLaplaceTerm(1e-4, 5e-324), 10**12)]).ceiling >= 4.9e-316
