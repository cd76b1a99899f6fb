"""The Gaussian curve against mpmath at 120 digits, on both sides of every bound."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpaudit.accountants.closed_forms import gaussian
from dpaudit.accountants.closed_forms.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    log_normal_tail,
)
from dpaudit.errors import CannotBound, InvalidParameter

DELTAS = [float(f"1e-{power}") for power in (3, 4, 6, 9, 12, 15, 20, 30, 50, 100, 146, 200, 250, 300)]
MUS = [float(10.0**power) for power in np.linspace(-8.0, 4.0, 25)]


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(120):
        yield


def exact_delta(epsilon: float, mu: float, digits: int = 120) -> mpf:
    """Balle and Wang 2018, Theorem 8, as printed: enough digits stand in for care.

    The two terms agree in 17 digits at most, and the exponential of 1e8 loses 9.
    """
    with mp.workdps(digits):
        loss, shift, root = mpf(epsilon), mpf(mu), mp.sqrt(2)
        if epsilon == 0.0:
            return mp.erf(shift / (2 * root))
        upper = mp.erfc((loss / shift - shift / 2) / root)
        return (upper - mp.exp(loss) * mp.erfc((loss / shift + shift / 2) / root)) / 2


@pytest.mark.parametrize("t", [-1e300, -40.0, *np.linspace(-9.0, 12.0, 211).tolist(), 40.0, 1e6, 1e150])
def test_the_logarithm_of_a_normal_tail(t: float) -> None:
    exact = mp.log(mp.ncdf(-mpf(t))) if t < 1e5 else mp.log(mp.erfc(mpf(t) / mp.sqrt(2)) / 2)
    assert abs(mpf(log_normal_tail(t)) - exact) <= 4e-15 * (1 + abs(exact))


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [
        (1.0, 1e-6, 4.886554117462212),
        (1.0, 1e-12, 7.23849442017885),
        (1.0, 1e-30, 11.743883025231736),
        (0.5, 1e-6, 2.254084650219742),
        (10.0, 1e-6, 96.7172719638677),
        (1000.0, 1e-6, 504752.42667835933),
        (1e-4, 1e-6, 1.9383931724704e-4),
    ],
)
def test_published_epsilons(mu: float, delta: float, epsilon: float) -> None:
    assert gaussian_epsilon(delta, mu) == pytest.approx(epsilon, rel=5e-14)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (1.0, 1e-6, 4.22467888933),
        (1.0, 1e-12, 6.55782206746),
        (1.0, 1e-30, 11.083102949),
        (10.0, 1e-6, 0.541086831818),
    ],
)
def test_published_calibrations(epsilon: float, delta: float, sigma: float) -> None:
    assert 1.0 / gaussian_mu(epsilon, delta) == pytest.approx(sigma, rel=5e-12)


def test_calibration_that_cancels_elsewhere_is_refused() -> None:
    # At (20, 1e-9) a cancelling calibration returns sigma = 0.344, or 0.3442083; the first has delta 9.4e-9.
    mu = gaussian_mu(20.0, 1e-9)
    assert exact_delta(20.0, mu) <= mpf(1e-9) < exact_delta(20.0, mu * (1 + 1e-12))
    assert gaussian_delta(20.0, 1.0 / 0.3442083) > 1e-9
    assert 1.0 / mu > 0.3442083


def test_delta_is_never_below_and_close_above() -> None:
    generator = np.random.default_rng(20260101)
    forms = set()
    for _ in range(600):
        mu = 10.0 ** generator.uniform(-8.0, 4.0)
        x = generator.uniform(-2.0, 2.0) if generator.random() < 0.5 else generator.uniform(-8.0, 37.0)
        epsilon = max(0.0, mu * mu / 2.0 + mu * x)
        truth = exact_delta(epsilon, mu)
        bound = mpf(gaussian_delta(epsilon, mu))
        assert truth <= bound
        assert bound <= truth * (1 + mpf(1e-13)) + mpf(5e-324)
        logarithm = mp.log(truth)
        slack = mpf(gaussian_log_delta(epsilon, mu)) - logarithm
        assert slack >= 0
        assert slack <= mpf(1e-13) - mpf(2e-15) * logarithm
        point = gaussian._point(epsilon, mu)
        forms.add((point.complement, mu <= 1.0 + epsilon / mu - mu / 2.0))
    assert len(forms) == 3  # each of the three forms was visited


def test_rounding_budget_is_at_most_a_quarter_used() -> None:
    # Without inflation the curve must already be good to 45 u; INFLATION allows for 180 u.
    generator = np.random.default_rng(7)
    for _ in range(200):
        mu = 10.0 ** generator.uniform(-8.0, 4.0)
        epsilon = max(0.0, mu * mu / 2.0 + mu * generator.uniform(-4.0, 36.0))
        point = gaussian._point(epsilon, mu)
        truth = exact_delta(epsilon, mu)
        truth = 1 - truth if point.complement else truth
        if truth > 1e-300:
            assert abs(mpf(point.value(0.0)) / truth - 1) <= 45 * mpf(2) ** -53


def test_erfcx_is_as_good_as_the_error_analysis_assumes() -> None:
    points = np.concatenate([np.linspace(0.0, 60.0, 400), np.logspace(-9.0, 3.0, 200)])
    with mp.workdps(60):
        for point in points:
            argument = mpf(float(point))
            truth = mp.exp(argument * argument) * mp.erfc(argument)
            assert abs(mpf(gaussian._erfcx(float(point))) / truth - 1) <= 16 * mpf(2) ** -53


@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_never_below_and_close_above(delta: float) -> None:
    for mu in MUS:
        epsilon = gaussian_epsilon(delta, mu)
        assert gaussian_delta(epsilon, mu) <= delta
        assert exact_delta(epsilon, mu) <= mpf(delta)
        lower = epsilon * (1.0 - 1e-12) - 1e-13 * mu
        if lower > 0.0:
            assert exact_delta(lower, mu) > mpf(delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_never_above_and_close_below(delta: float) -> None:
    for epsilon in (0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 20.0, 1e3, 1e6, 1e8):
        mu = gaussian_mu(epsilon, delta)
        assert gaussian_delta(epsilon, mu) <= delta
        assert exact_delta(epsilon, mu) <= mpf(delta) < exact_delta(epsilon, mu * (1.0 + 1e-12))


def test_delta_at_zero_is_the_total_variation_distance() -> None:
    for mu in (*MUS, 1e-150, 1e-199, 1e-201, 1e-290, 1e-320, 5e-324):
        truth = exact_delta(0.0, mu)
        assert truth <= mpf(gaussian_delta(0.0, mu)) <= truth * (1 + mpf(1e-13)) + mpf(5e-324)


def test_far_tail_has_a_logarithm_and_never_a_zero_delta() -> None:
    for epsilon, mu in ((50.0, 1.0), (1e3, 1.0), (1.0, 1e-3), (1.0, 1e-8), (1e8, 1e-8), (6e7, 1e4)):
        assert gaussian_delta(epsilon, mu) >= 5e-324
        with mp.workdps(60):
            x, y = mpf(epsilon) / mpf(mu) - mpf(mu) / 2, mpf(epsilon) / mpf(mu) + mpf(mu) / 2
            # log phi(x) + log of the difference of Mills' ratios, by its leading terms: within 5 / x^2.
            leading = -x * x / 2 - mp.log(mp.sqrt(2 * mp.pi)) + mp.log(mpf(mu) / (x * y))
        assert float(leading) == pytest.approx(
            gaussian_log_delta(epsilon, mu), rel=1e-14, abs=float(5 / x**2)
        )


def test_subnormal_and_extreme_deltas_are_sound() -> None:
    for delta in (5e-324, 1e-320, 1e-310, 2.3e-308, 0.5, 0.999999, 1.0 - 1e-12, 1.0 - 2.0**-53):
        for mu in (1e-8, 1e-3, 1.0, 3.0, 50.0):
            epsilon = gaussian_epsilon(delta, mu)
            assert epsilon >= 0.0
            assert exact_delta(epsilon, mu) <= mpf(delta)
        for epsilon in (0.0, 1.0):
            assert exact_delta(epsilon, gaussian_mu(epsilon, delta)) <= mpf(delta)


def test_no_release_costs_nothing() -> None:
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_log_delta(1.0, 0.0) == -math.inf
    assert gaussian_epsilon(1e-9, 0.0) == 0.0
    assert gaussian_epsilon(gaussian_delta(0.0, 1.0), 1.0) == 0.0


def test_extreme_arguments_stay_sound() -> None:
    assert gaussian_delta(1.7e308, 1.0) == 5e-324
    assert gaussian_delta(0.0, 1e15) == 1.0
    assert gaussian_epsilon(1e-300, 1e-300) == 0.0
    assert gaussian_epsilon(1e-6, 5e-324) == 0.0
    assert gaussian_epsilon(1e-6, 1e15) >= 5e29
    assert 0.0 < gaussian_mu(0.0, 1e-300) <= math.sqrt(2.0 * math.pi) * 1e-300
    assert 0.0 < gaussian_mu(1.7e308, 1e-6) <= 1e15
    assert gaussian_mu(0.0, 5e-324) > 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, -5e-324, "1", None, True, 10**400])
def test_bad_epsilon_and_mu_are_refused(bad: float) -> None:
    with_epsilon: list[Callable[[], float]] = [
        lambda: gaussian_delta(bad, 1.0),
        lambda: gaussian_log_delta(bad, 1.0),
        lambda: gaussian_mu(bad, 1e-6),
    ]
    for call in with_epsilon:
        with pytest.raises(InvalidParameter, match="epsilon = "):
            call()
    with_mu: list[Callable[[], float]] = [
        lambda: gaussian_delta(1.0, bad),
        lambda: gaussian_log_delta(1.0, bad),
        lambda: gaussian_epsilon(1e-6, bad),
    ]
    for call in with_mu:
        with pytest.raises(InvalidParameter, match="mu = "):
            call()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1e-6, 0.0, 1.0, 2.0])
def test_bad_delta_is_refused(bad: float) -> None:
    with pytest.raises(InvalidParameter, match=r"delta = .*\(0, 1\)"):
        gaussian_epsilon(bad, 1.0)
    with pytest.raises(InvalidParameter, match=r"delta = .*\(0, 1\)"):
        gaussian_mu(1.0, bad)


def test_mu_past_the_range_is_refused() -> None:
    with pytest.raises(CannotBound, match="mu"):
        gaussian_delta(1.0, 1.1e15)
    with pytest.raises(CannotBound, match="mu"):
        gaussian_epsilon(1e-6, 1e300)


log_deltas = st.floats(min_value=-300.0, max_value=-0.01)
log_mus = st.floats(min_value=-8.0, max_value=4.0)


@given(log_deltas, log_deltas, log_mus, log_mus)
def test_epsilon_is_monotone(first: float, second: float, low: float, high: float) -> None:
    # A rounded bound may wobble by its own slack, and by no more.
    smaller, larger = sorted((10.0**first, 10.0**second))
    weaker, stronger = sorted((10.0**low, 10.0**high))
    slack = 1.0 + 1e-12
    assert gaussian_epsilon(larger, weaker) <= gaussian_epsilon(smaller, weaker) * slack + 1e-13 * weaker
    assert gaussian_epsilon(larger, weaker) <= gaussian_epsilon(larger, stronger) * slack + 1e-12 * stronger


@given(st.floats(min_value=0.0, max_value=36.0), log_mus)
def test_round_trips(x: float, power: float) -> None:
    mu = 10.0**power
    epsilon = mu * x + mu * mu / 2.0
    delta = gaussian_delta(epsilon, mu)
    if 1e-300 < delta < 0.9:
        # gaussian_delta(epsilon, mu) <= delta holds with equality: both solvers must come back.
        assert gaussian_epsilon(delta, mu) == pytest.approx(epsilon, rel=1e-12, abs=1e-13 * mu)
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-12)


@given(st.floats(min_value=0.0, max_value=1e8), log_deltas)
def test_calibration_is_verified_by_the_solver_for_epsilon(epsilon: float, power: float) -> None:
    delta = 10.0**power
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_epsilon(delta, mu) <= epsilon * (1.0 + 1e-12) + 1e-12 * mu
