"""Conversions against their formulas at 60 digits, and against the divergences they claim to bound."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpaudit.accountants.closed_forms.conversions import (
    bun_steinke_epsilon,
    laplace_to_zcdp,
    pure_to_gdp,
    pure_to_zcdp,
    rdp_delta,
    rdp_epsilon,
    response_delta,
    response_epsilon,
    zcdp_delta,
    zcdp_epsilon,
)
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.errors import CannotBound, InvalidParameter
from tests.sweeps import sweep

RHOS = [1e-12, 1e-6, 1e-3, 0.01, 0.5, 1.0, 5.0, 50.0, 1e3, 1e6]
DELTAS = [0.1, 1e-3, 1e-6, 1e-12, 1e-30, 1e-100, 1e-300]
EPSILONS = [1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.001, 3.0, 10.0, 40.0, 300.0]


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


def exact_renyi_epsilon(t: mpf, divergence: mpf, delta: float) -> mpf:
    """Canonne, Kamath and Steinke 2020, Proposition 12, at alpha = 1 + t."""
    alpha = 1 + t
    return divergence + (mp.log(1 / mpf(delta)) + t * mp.log(1 - 1 / alpha) - mp.log(alpha)) / t


def least(function: Callable[[mpf], mpf], points: int = 60) -> mpf:
    """Minimum of a unimodal function of log t by golden section; blind to any stationarity condition."""
    low, high = mpf(-120), mpf(720)
    ratio = (mp.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    value_left, value_right = function(mp.exp(left)), function(mp.exp(right))
    for _ in range(points):
        if value_left < value_right:
            high, right, value_right = right, left, value_left
            left = high - ratio * (high - low)
            value_left = function(mp.exp(left))
        else:
            low, left, value_left = left, right, value_right
            right = low + ratio * (high - low)
            value_right = function(mp.exp(right))
    return min(value_left, value_right)


@pytest.mark.parametrize(
    ("rho", "delta", "classic", "best", "gaussian"),
    [
        (0.5, 1e-6, 5.757, 5.22153, 4.88655),
        (0.01, 1e-6, 0.7534, 0.62169, 0.57506),
        (5.0, 1e-6, 21.623, 20.5519, 19.4237),
        (50.0, 1e-12, 124.34, 122.735, 119.588),
    ],
)
def test_published_figures(rho: float, delta: float, classic: float, best: float, gaussian: float) -> None:
    assert bun_steinke_epsilon(rho, delta) == pytest.approx(classic, rel=1e-4)
    assert zcdp_epsilon(rho, delta) == pytest.approx(best, rel=1e-5)
    assert gaussian_epsilon(delta, math.sqrt(2.0 * rho)) == pytest.approx(gaussian, rel=1e-5)


@pytest.mark.parametrize("rho", RHOS)
def test_zcdp_epsilon_is_the_minimum_over_orders(rho: float) -> None:
    for delta in DELTAS:
        truth = max(
            mpf(0),
            least(lambda t, delta=delta: exact_renyi_epsilon(t, mpf(rho) * (1 + t), delta)),  # type: ignore[misc]
        )
        bound = mpf(zcdp_epsilon(rho, delta))
        # Golden section stops within 1e-10 of the minimiser, squared in the minimum.
        assert truth * (1 - mpf(1e-18)) <= bound <= truth * (1 + mpf(1e-12)) + mpf(1e-15) * mp.sqrt(rho)


@pytest.mark.parametrize("rho", RHOS)
def test_zcdp_delta_is_the_minimum_over_orders(rho: float) -> None:
    for multiple in (0.0, 0.5, 1.0, 3.0, 10.0, 30.0):
        epsilon = rho + multiple * math.sqrt(2.0 * rho)

        def exact_log_delta(t: mpf, epsilon: float = epsilon) -> mpf:
            alpha = 1 + t
            return t * (mpf(rho) * alpha - mpf(epsilon)) - mp.log(t) + alpha * mp.log(1 - 1 / alpha)

        truth = min(mpf(1), mp.exp(least(exact_log_delta)))
        bound = mpf(zcdp_delta(rho, epsilon))
        assert truth * (1 - mpf(1e-16)) <= bound <= truth * (1 + mpf(2e-11))


def test_any_order_bounds_the_best() -> None:
    for rho in RHOS:
        for delta in DELTAS:
            best = zcdp_epsilon(rho, delta)
            for alpha in (1.0 + 1e-9, 1.1, 2.0, 10.0, 1e4, 1e12):
                bound = rdp_epsilon(alpha, rho * alpha, delta)
                truth = exact_renyi_epsilon(mpf(alpha) - 1, mpf(rho * alpha), delta)
                assert mpf(bound) >= truth
                assert mpf(bound) <= max(mpf(0), truth) * (1 + mpf(1e-13)) + mpf(1e-14) * (
                    mpf(rho) * mpf(alpha) + 800 / (mpf(alpha) - 1)
                )
                assert bound >= best * (1.0 - 1e-12)


def test_conversion_order() -> None:
    for rho in RHOS:
        for delta in DELTAS:
            best = zcdp_epsilon(rho, delta)
            assert gaussian_epsilon(delta, math.sqrt(2.0 * rho)) <= best * (1.0 + 1e-12)
            assert 0.0 <= best <= bun_steinke_epsilon(rho, delta) * (1.0 + 1e-14)


def test_no_delta_exceeds_one() -> None:
    """For a large rho the best order is all but 1, and rounding upwards alone would pass 1."""
    assert max(zcdp_delta(rho, 0.0) for rho in RHOS) == 1.0
    assert response_delta(1e3, 0.0) == 1.0


@pytest.mark.parametrize("pure", [5e-324, *EPSILONS, 1e3])
def test_the_curve_of_randomized_response(pure: float) -> None:
    """Kairouz, Oh and Viswanath 2015: p - e^epsilon q of the one answer that is likelier."""
    with mp.workdps(400):
        likely, other = 1 / (1 + mp.exp(-mpf(pure))), 1 / (1 + mp.exp(mpf(pure)))
        for share in (0.0, 1e-9, 0.25, 0.5, 1 - 1e-9):
            epsilon = share * pure
            truth = likely - mp.exp(mpf(epsilon)) * other
            assert truth <= mpf(response_delta(pure, epsilon)) <= truth * (1 + mpf(2e-14)) + mpf(1e-323)
        for epsilon in (pure, 2.0 * pure):
            assert response_delta(pure, epsilon) == 0.0
        alone = float(likely)  # at delta = 2 likely - 1 nothing of epsilon is left
        for delta in [*DELTAS, 0.5, *((2.0 * alone - 1.0) * (1.0 - gap) for gap in (1e-3, 1e-9, 1e-14))]:
            if not 0.0 < delta < 1.0:
                continue
            left = mp.exp(mpf(pure)) - mpf(delta) * (1 + mp.exp(mpf(pure)))
            truth = max(mpf(0), mp.log(left)) if left > 0 else mpf(0)
            found = mpf(response_epsilon(pure, delta))
            room = mpf(5e-15) * (1 + mpf(pure)) * (1 + mp.exp(mpf(pure) - truth))
            assert truth <= found <= min(mpf(pure), truth + room)


def test_a_delta_that_covers_a_whole_answer_leaves_no_epsilon() -> None:
    """For every double about 1/2, where the formula has the logarithm of nothing or of less."""
    assert {response_epsilon(0.0, 0.5 + step * 2.0**-53) for step in range(-40, 40)} == {0.0}
    assert response_epsilon(0.1, 0.6) == response_epsilon(3.0, 1.0 - 2.0**-53) == 0.0


def test_what_underflows_is_still_rounded_upwards() -> None:
    for epsilon in (1e-162, 1e-170, 1e-300):
        assert pure_to_zcdp(epsilon) > 0.0
        assert laplace_to_zcdp(epsilon) > 0.0
    for epsilon in (5e-324, 1e-310, 1e-200, 0.9e-150):
        with mp.workdps(400):
            truth = mp.sqrt(mp.pi / 2) * mpf(epsilon)
            assert truth <= mpf(pure_to_gdp(epsilon)) <= truth * (1 + mpf(1e-12)) + mpf(1e-323)


@pytest.mark.parametrize("epsilon", [1.7215, 1.722, 1.7225, 1.723, 1.7235])
def test_a_delta_among_the_least_doubles_is_rounded_upwards(epsilon: float) -> None:
    def exact_log_delta(t: mpf) -> mpf:
        return t * (mpf(1e-3) * (1 + t) - mpf(epsilon)) - mp.log(t) + (1 + t) * mp.log(t / (1 + t))

    truth = mp.exp(least(exact_log_delta, 90))
    assert truth <= mpf(zcdp_delta(1e-3, epsilon)) <= truth + 2 * mpf(5e-324)


def test_a_quantile_that_is_a_little_off_is_polished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is planted: a quantile of the normal law that is wrong by a millionth."""
    known = [pure_to_gdp(epsilon) for epsilon in (1.0, 3.0, 40.0, 300.0)]
    quantile = scipy.special.ndtri_exp
    for off in (1.0 - 1e-6, 1.0 + 1e-6):
        monkeypatch.setattr(scipy.special, "ndtri_exp", lambda x, off=off: quantile(x) * off)
        found = [pure_to_gdp(epsilon) for epsilon in (1.0, 3.0, 40.0, 300.0)]
        assert found == pytest.approx(known, rel=5e-14)


def test_zero_and_extreme_parameters() -> None:
    assert zcdp_epsilon(0.0, 1e-6) == 0.0
    assert zcdp_delta(0.0, 0.0) == 0.0
    assert bun_steinke_epsilon(0.0, 1e-6) == 0.0
    assert rdp_epsilon(2.0, 0.0, 1e-6) == 0.0
    assert pure_to_zcdp(0.0) == laplace_to_zcdp(0.0) == pure_to_gdp(0.0) == 0.0
    assert zcdp_delta(1e300, 0.0) == 1.0
    assert zcdp_delta(1e-300, 1e300) > 0.0
    assert zcdp_delta(1.7e308, 1e-300) == 1.0
    assert zcdp_epsilon(1e300, 1e-6) >= 1e300
    assert zcdp_epsilon(1e-300, 5e-324) >= 0.0
    with pytest.raises(CannotBound):
        zcdp_epsilon(1.7976931348623157e308, 1e-6)
    with pytest.raises(CannotBound):
        bun_steinke_epsilon(1.7976931348623157e308, 1e-6)
    with pytest.raises(CannotBound):
        rdp_epsilon(2.0, 1.7976931348623157e308, 1e-6)


def randomized_response_divergence(epsilon: float, alpha: mpf) -> mpf:
    """Renyi divergence of order alpha, by summing over the two answers."""
    honest, lie = 1 / (1 + mp.exp(-mpf(epsilon))), 1 / (1 + mp.exp(mpf(epsilon)))
    return mp.log(honest**alpha * lie ** (1 - alpha) + lie**alpha * honest ** (1 - alpha)) / (alpha - 1)


def laplace_divergence(epsilon: float, alpha: mpf) -> mpf:
    """Mironov 2017, Table II; held to an integral below."""
    loss = mpf(epsilon)
    return mp.log(
        alpha / (2 * alpha - 1) * mp.exp((alpha - 1) * loss)
        + (alpha - 1) / (2 * alpha - 1) * mp.exp(-alpha * loss)
    ) / (alpha - 1)


def test_the_laplace_divergence_is_the_integral() -> None:
    for epsilon in (0.1, 1.0, 3.0):
        for alpha in (1.5, 2.0, 7.0):

            def integrand(x: mpf, epsilon: float = epsilon, alpha: float = alpha) -> mpf:
                return mp.exp(-alpha * abs(x) - (1 - alpha) * abs(x - mpf(epsilon))) / 2

            with mp.workdps(30):
                moment = mp.quad(integrand, [-mp.inf, 0, mpf(epsilon), mp.inf])
                assert float(mp.log(moment) / (mpf(alpha) - 1)) == pytest.approx(
                    float(laplace_divergence(epsilon, mpf(alpha))), rel=1e-12
                )


@sweep("epsilon", EPSILONS, everyday=range(0, 12, 3))
@pytest.mark.parametrize(
    ("convert", "divergence"),
    [(pure_to_zcdp, randomized_response_divergence), (laplace_to_zcdp, laplace_divergence)],
)
def test_the_zcdp_constant_is_the_supremum_over_orders(
    epsilon: float, convert: Callable[[float], float], divergence: Callable[[float, mpf], mpf]
) -> None:
    rho = mpf(convert(epsilon))
    for power in np.linspace(-12.0, 6.0, 91):
        alpha = 1 + mpf(10) ** mpf(float(power))
        assert divergence(epsilon, alpha) <= alpha * rho
    # It is the limit alpha -> 1, so nothing smaller would do: 1e-12 less already fails at alpha = 1 + 1e-20.
    alpha = 1 + mpf(10) ** -20
    with mp.workdps(120):
        assert divergence(epsilon, alpha) > alpha * rho * (1 - mpf(10) ** -12)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 1e-100, 1e-8, 1e4, 1e100])
def test_zcdp_constants_are_never_below_their_formulas(epsilon: float) -> None:
    with mp.workdps(350):
        loss = mpf(epsilon)
        pure, laplace = loss * mp.tanh(loss / 2), loss + mp.expm1(-loss)
        assert pure <= mpf(pure_to_zcdp(epsilon)) <= pure * (1 + mpf(1e-14))
        assert laplace <= mpf(laplace_to_zcdp(epsilon)) <= laplace * (1 + mpf(1e-14))
    assert laplace_to_zcdp(epsilon) <= pure_to_zcdp(epsilon) * (1.0 + 1e-12)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 1e-100, 1e-8, 700.0, 1e4, 1e8])
def test_pure_to_gdp_passes_through_the_kink(epsilon: float) -> None:
    mu = pure_to_gdp(epsilon)

    def log_tail(shift: mpf) -> mpf:
        return mp.log(mp.erfc(shift / (2 * mp.sqrt(2))) / 2)

    with mp.workdps(260):
        kink = -mp.log1p(mp.exp(mpf(epsilon)))
        assert log_tail(mpf(mu)) <= kink < log_tail(mpf(mu) * (1 - mpf(3e-13)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_gdp_curve_lies_below_the_pure_curve(epsilon: float) -> None:
    mu = mpf(pure_to_gdp(epsilon))
    for first_error in np.linspace(0.001, 0.999, 60):
        error = mpf(float(first_error))
        pure = max(mpf(0), 1 - mp.exp(epsilon) * error, mp.exp(-epsilon) * (1 - error))
        quantile = -mp.sqrt(2) * mp.erfinv(2 * error - 1)
        assert mp.ncdf(quantile - mu) <= pure


CALLS: list[tuple[str, Callable[[float], float]]] = [
    ("rho", lambda bad: zcdp_epsilon(bad, 1e-6)),
    ("rho", lambda bad: zcdp_delta(bad, 1.0)),
    ("rho", lambda bad: bun_steinke_epsilon(bad, 1e-6)),
    ("rdp", lambda bad: rdp_epsilon(2.0, bad, 1e-6)),
    ("alpha", lambda bad: rdp_epsilon(bad, 1.0, 1e-6)),
    ("epsilon", lambda bad: zcdp_delta(1.0, bad)),
    ("epsilon", pure_to_zcdp),
    ("epsilon", laplace_to_zcdp),
    ("epsilon", pure_to_gdp),
    ("delta", lambda bad: zcdp_epsilon(1.0, bad)),
    ("delta", lambda bad: bun_steinke_epsilon(1.0, bad)),
    ("delta", lambda bad: rdp_epsilon(2.0, 1.0, bad)),
]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, "1", None, True])
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_bad_arguments_are_refused(bad: float, name: str, call: Callable[[float], float]) -> None:
    with pytest.raises(InvalidParameter, match=rf"{name} = .*[\[(]"):
        call(bad)


@pytest.mark.parametrize("bad", [0.0, 1.0])
def test_the_ends_of_open_ranges_are_refused(bad: float) -> None:
    for name, call in CALLS:
        if name in {"delta", "alpha"}:
            with pytest.raises(InvalidParameter, match=name):
                call(bad)


log_rhos = st.floats(min_value=-12.0, max_value=6.0)
log_deltas = st.floats(min_value=-300.0, max_value=-0.01)


@given(log_rhos, log_rhos, log_deltas, log_deltas)
def test_monotone_and_nonnegative(first: float, second: float, third: float, fourth: float) -> None:
    weak, strong = sorted((10.0**first, 10.0**second))
    small, large = sorted((10.0**third, 10.0**fourth))
    slack = 1.0 + 1e-12
    assert 0.0 <= zcdp_epsilon(weak, large) <= zcdp_epsilon(weak, small) * slack + 1e-15
    assert zcdp_epsilon(weak, large) <= zcdp_epsilon(strong, large) * slack + 1e-15


@given(log_rhos, log_deltas)
def test_epsilon_and_delta_are_inverse(first: float, second: float) -> None:
    rho, delta = 10.0**first, 10.0**second
    epsilon = zcdp_epsilon(rho, delta)
    if epsilon > 0.0:
        assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    else:
        assert zcdp_delta(rho, 0.0) <= delta * (1.0 + 1e-9)


@pytest.mark.parametrize("alpha", [1.001, 1.5, 2.0, 10.0, 1e4])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0, 20.0])
def test_delta_of_a_renyi_divergence_is_its_formula_rounded_up(alpha: float, epsilon: float) -> None:
    """Canonne, Kamath and Steinke 2020, Proposition 12: e^(t (rdp - epsilon)) (1 - 1/alpha)^t / alpha."""
    for rdp in (0.0, 1e-3, 0.1, 1.0, 1.9, 5.0):
        with mp.workdps(50):
            order = mpf(alpha)
            t = order - 1
            exact = mp.exp(t * (mpf(rdp) - mpf(epsilon))) * (1 - 1 / order) ** t / order
            found = rdp_delta(alpha, rdp, epsilon)
            assert min(exact, 1) <= found <= exact * (1 + mpf("1e-10")) + mpf("1e-300")
            assert found <= 1.0
