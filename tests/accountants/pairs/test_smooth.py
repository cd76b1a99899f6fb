"""Smooth Gaussian noise against one-dimensional integrals and noncentral chi-square probabilities."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import ncx2

from dpaudit.accountants.closed_forms.gaussian import gaussian_delta
from dpaudit.accountants.pairs.smooth import _Pair, smooth_alpha, smooth_delta, smooth_log_moment
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms.smooth import lemma_loss, lemma_parameters
from tests.sweeps import sweep


def pair_delta(epsilon: float, variance: float, shift: float, dimension: int) -> float:
    """delta of N(shift, variance I) against N(0, I): the event is the outside, or inside, of a ball.

    log P/Q = (1 - 1/variance) |x|^2/2 + x.shift/variance - shift^2/(2 variance) - (d/2) log variance; with
    the square completed, a ball around -shift/(variance - 1).
    """
    if variance == 1.0:
        return gaussian_delta(epsilon, shift)
    curvature = 1.0 - 1.0 / variance
    centre = -shift / (variance - 1.0)
    rest = epsilon + shift**2 / (2 * variance) + 0.5 * dimension * math.log(variance)
    squared_radius = 2.0 * (rest + 0.5 * curvature * centre**2) / curvature
    if squared_radius <= 0.0:
        return 0.0
    inside_p = ncx2.cdf(squared_radius / variance, dimension, (shift - centre) ** 2 / variance)
    inside_q = ncx2.cdf(squared_radius, dimension, centre**2)
    if variance > 1.0:
        return float((1.0 - inside_p) - math.exp(epsilon) * (1.0 - inside_q))
    return float(inside_p - math.exp(epsilon) * inside_q)


def worst_on_a_grid(epsilon: float, alpha: float, beta: float, dimension: int) -> float:
    """The largest delta of pairs at the edge of what is allowed, both orders."""
    found = [gaussian_delta(epsilon, 1.0 / alpha)]
    for b in np.linspace(0.1, 1.0, 10) * beta:
        found.append(pair_delta(epsilon, math.exp(b), 1.0 / alpha, dimension))
        found.append(pair_delta(epsilon, math.exp(-b), math.exp(-0.5 * b) / alpha, dimension))
    return max(found)


@sweep(
    "epsilon, alpha, beta, dimension",
    [
        (0.1, 2.847, 5.8e-4, 40),
        (0.5, 1.0, 0.2, 1),
        (0.5, 0.7, 0.5, 3),
        (0.0, 3.0, 0.3, 2),
        (1.0, 2.0, 0.05, 20),
        (0.1, 0.4, 1.0, 1),
    ],
    everyday=(4, 5),
)
def test_the_worst_pair_is_covered_and_met(epsilon: float, alpha: float, beta: float, dimension: int) -> None:
    found = smooth_delta(epsilon, alpha, beta, dimension)
    worst = worst_on_a_grid(epsilon, alpha, beta, dimension)
    assert worst <= found * (1.0 + 1e-7)
    assert found <= worst * 1.02  # the grid is coarse where the worst b lies inside


def test_without_a_change_of_scale_it_is_the_gaussian_curve() -> None:
    for epsilon in (0.0, 0.3, 2.0):
        found = smooth_delta(epsilon, 1.5, 0.0, 7)
        assert gaussian_delta(epsilon, 1.0 / 1.5) <= found
        assert found == pytest.approx(gaussian_delta(epsilon, 1.0 / 1.5), rel=1e-5)


def test_monotone_in_everything() -> None:
    base = smooth_delta(0.5, 2.0, 0.05, 4)
    assert smooth_delta(0.6, 2.0, 0.05, 4) < base
    assert smooth_delta(0.5, 2.1, 0.05, 4) < base
    assert smooth_delta(0.5, 2.0, 0.06, 4) > base
    assert smooth_delta(0.5, 2.0, 0.05, 5) > base


@pytest.mark.nightly
def test_the_exact_calibration_needs_far_less_noise_than_the_lemma() -> None:
    alpha, beta = lemma_parameters(0.1, 0.1, 40)
    assert alpha == pytest.approx(122.39, abs=0.005)
    least = smooth_alpha(0.1, 0.1, 40, beta)
    assert least == pytest.approx(2.847, abs=5e-4)
    assert smooth_delta(0.1, least, beta, 40) <= 0.1
    assert smooth_delta(0.1, least * (1 - 1e-4), beta, 40) > 0.1
    assert worst_on_a_grid(0.1, least * (1 - 1e-4), beta, 40) > 0.1


def test_the_lemma_holds_where_its_proof_does() -> None:
    for epsilon, delta, dimension in ((0.1, 0.1, 40), (1.0, 1e-6, 5), (1.0, 0.1, 1), (3.0, 1e-3, 100)):
        alpha, beta = lemma_parameters(epsilon, delta, dimension)
        assert lemma_loss(alpha, beta, dimension, delta) <= epsilon
        assert smooth_delta(epsilon, alpha, beta, dimension) <= delta
        assert lemma_loss(alpha * 0.5, beta * 3.0, dimension, delta) > epsilon


def test_the_lemma_fails_at_epsilon_52_and_so_does_the_proof() -> None:
    alpha, beta = lemma_parameters(52.0, 0.1, 1)
    assert lemma_loss(alpha, beta, 1, 0.1) > 52.0
    assert pair_delta(52.0, math.exp(beta), 1.0 / alpha, 1) > 0.1
    assert smooth_delta(52.0, alpha, beta, 1) > 0.1


@pytest.mark.parametrize("t", [0.3, 1.0, 4.0])
def test_the_divergence_is_the_largest_integral(t: float) -> None:
    alpha, beta = 1.3, 0.15
    x = np.linspace(-60.0, 60.0, 400001)

    def moment(variance: float, shift: float) -> float:
        log_p = -0.5 * (x - shift) ** 2 / variance - 0.5 * math.log(2 * math.pi * variance)
        log_q = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
        return math.log(float(np.trapezoid(np.exp((t + 1) * log_p - t * log_q), x)))

    found = smooth_log_moment(t, alpha, beta, 1)
    assert found == pytest.approx(moment(math.exp(beta), 1.0 / alpha), rel=1e-9)
    for b in np.linspace(0.0, beta, 6):
        assert moment(math.exp(b), 1.0 / alpha) <= found * (1 + 1e-12)
        assert moment(math.exp(-b), math.exp(-b / 2) / alpha) <= found * (1 + 1e-12)
    assert smooth_log_moment(1.0 / math.expm1(beta), alpha, beta, 1) == math.inf


@pytest.mark.parametrize("k", [1.7, 0.1, -0.4])
@pytest.mark.parametrize("c", [0.2, 0.5, 3.0])
def test_the_characteristic_function_is_the_closed_form_of_complex_numbers(k: float, c: float) -> None:
    """log M(s) = -(d/2) (s log(1 + k) + log(1 - k s)) + s (s + 1) lambda / (2 (1 - k s)), k s < 1."""
    dimension, shift = 3, 0.7
    pair = _Pair(k, shift, dimension)
    if k * c >= 1.0:
        assert pair.cumulant(c).value == math.inf
        return

    def log_moment(s: mp.mpc) -> mp.mpc:
        scale = s * mp.log(1 + mpf(k)) + mp.log(1 - k * s)
        return -mpf(dimension) / 2 * scale + s * (s + 1) * shift / (2 * (1 - k * s))

    t = np.array([0.0, 1e-3, 0.3, 1.0, 7.0, 40.0])
    along, decay = pair.along(c, t), pair.decay(c, t, 2.0 * t)
    with mp.workdps(40):
        real, cumulant = log_moment(mpf(c)), pair.cumulant(c)
        assert abs(cumulant.value - real) <= cumulant.error <= 1e-12 * (1 + abs(real))
        first, second = (float(mp.diff(log_moment, c, n)) for n in (1, 2))
        assert (cumulant.slope, cumulant.curvature) == pytest.approx((first, second), rel=1e-9)
        for place, at in enumerate(t.tolist()):
            found, error = log_moment(mp.mpc(c, at)) - real, along.error[place]
            assert abs(along.log_modulus[place] - found.real) <= error <= 1e-11
            assert abs(along.phase[place] - found.imag) <= error
            assert found.real <= decay[place] <= 1e-12


def test_bad_or_hopeless_arguments_are_refused() -> None:
    for bad in (math.nan, math.inf, -1.0):
        with pytest.raises(InvalidParameter):
            smooth_delta(bad, 1.0, 0.1, 1)
        with pytest.raises(InvalidParameter):
            smooth_delta(1.0, bad, 0.1, 1)
        with pytest.raises(InvalidParameter):
            smooth_delta(1.0, 1.0, bad, 1)
    with pytest.raises(CannotBound):
        smooth_alpha(0.1, 1e-6, 40, 5.0)
    assert smooth_delta(1.0, 1e-300, 0.1, 1) == 1.0
    assert smooth_delta(1.0, 1.0, 1e300, 1) == 1.0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_the_lemma_refuses_what_it_does_not_speak_of(bad: float) -> None:
    for arguments in ((bad, 0.1, 2), (1.0, bad, 2)):
        with pytest.raises(InvalidParameter):
            lemma_parameters(*arguments)
    with pytest.raises(InvalidParameter):
        lemma_parameters(1.0, 0.1, 0)
    for alpha, delta in ((bad, 0.1), (1.0, bad)):
        with pytest.raises(InvalidParameter):
            lemma_loss(alpha, 0.1, 2, delta)
    with pytest.raises(InvalidParameter):
        lemma_loss(1.0, -0.1, 2, 0.1)
    assert lemma_loss(1.0, 800.0, 2, 0.1) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "alpha", "beta", "dimension"),
    [
        (1.0, 1e-3, 50.0, 10**9),
        (1.0, 1e-3, 29.0, 10**12),
        (1.0, 1.0, 0.1, 10**400),
        (1.0, 1e300, 1e-300, 10**9),
        (1e300, 1e3, 1e-3, 10),
        (1e3, 1e5, 1e-5, 1),
        (1e5, 1.0, 0.1, 1),
    ],
)
def test_what_no_double_holds_is_bounded_all_the_same(
    epsilon: float, alpha: float, beta: float, dimension: int
) -> None:
    """Ledgers written by hand may say anything; the truth is positive, and may lie below every double."""
    assert 0.0 < smooth_delta(epsilon, alpha, beta, dimension) <= 1.0
    assert smooth_log_moment(1e-3, alpha, beta, dimension) >= 0.0
