"""The Gaussian pair's curve from either side, against mpmath at 60 digits."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from dpaudit.auditors.statistics.gaussian_pair import (
    LARGEST_EPSILON,
    MARGIN,
    _other,
    _term,
    delta_above,
    delta_below,
    epsilon_below,
    largest_rejected,
)

#: mu, and how many normal quantiles the epsilons lie from where the first term is a half.
CASES = [(1e-9, 30.0), (1e-3, 30.0), (0.1, 30.0), (1.0, 30.0), (7.0, 20.0), (300.0, 10.0)]


def exact(epsilon: float, mu: float) -> tuple[mpf, mpf]:
    """The two terms of which delta is the difference."""
    e, m = mpf(epsilon), mpf(mu)
    return mp.ncdf(m / 2 - e / m), mp.exp(e) * mp.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("mu", "reach"), CASES)
def test_each_term_is_moved_by_its_margin_and_the_curve_lies_between(mu: float, reach: float) -> None:
    random = np.random.default_rng(1)
    for quantile in random.uniform(-reach, 8.0, 25).tolist():
        epsilon = max(0.0, mu * (0.5 * mu - quantile))
        size = 0.5 * mu + epsilon / mu
        margins = [MARGIN * (1.0 + each**2) for each in (size, size + epsilon)]
        with mp.workdps(60):
            one, two = exact(epsilon, mu)
            for found, truth, margin in zip((_term, _other), (one, two), margins, strict=True):
                low, high = found(epsilon, mu, -1.0), found(epsilon, mu, 1.0)
                assert 0.8 * margin <= mp.log(truth / low) <= 1.2 * margin
                assert high == 1.0 or 0.8 * margin <= mp.log(high / truth) <= 1.2 * margin
            delta, width = one - two, 1.3 * (mp.expm1(margins[0]) * one + mp.expm1(margins[1]) * two)
            assert max(0, delta - width) <= delta_below(epsilon, mu) <= delta
            assert delta <= delta_above(epsilon, mu) <= min(1, delta + width + mpf(5e-324))


def test_at_the_ends_of_doubles_the_curve_is_still_on_the_safe_side() -> None:
    assert delta_below(0.0, 0.0) == delta_above(0.0, 0.0) == 0.0
    assert (delta_below(1e5, 1.0), delta_above(1e5, 1.0)) == (0.0, 5e-324)
    assert delta_above(0.0, 1e3) == 1.0
    assert 0.0 <= delta_below(0.0, 1e-160) <= delta_above(0.0, 1e-160) <= 1e-12


@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-100])
def test_epsilon_is_bounded_from_below_and_closely(mu: float, delta: float) -> None:
    found = epsilon_below(delta, mu)
    with mp.workdps(60):
        if found == 0.0:
            one, two = exact(0.0, mu)
            assert one - two <= delta * (1 + mpf("1e-9"))
            return
        (one, two), (less, lesser) = exact(found, mu), exact(found * (1.0 + 1e-9), mu)
        assert less - lesser < delta <= one - two


def test_the_largest_epsilon_that_is_rejected_is_found_by_doubling_and_bisection() -> None:
    for end in (1e-9, 0.7, 1.0, 5.0, 1e5):
        assert end * (1 - 1e-15) - 1e-300 <= largest_rejected(lambda epsilon, end=end: epsilon < end) <= end  # type: ignore[misc]
    assert largest_rejected(lambda epsilon: False) == 0.0
    assert LARGEST_EPSILON / 4 < largest_rejected(lambda epsilon: True) <= LARGEST_EPSILON
    assert epsilon_below(1e-5, 1e9) <= LARGEST_EPSILON
    assert not math.isnan(epsilon_below(1e-5, 1e9))
