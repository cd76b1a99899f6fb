"""A path's noisy values are those of real numbers: computed a second way, from the bits that it kept."""

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dpaudit.noise.bits import SeededBits
from dpaudit.noise.grid import grid
from dpaudit.noise.paths import ExactPath

POINTS = [0.3, 0.9, 0.5, -2.0, 0.5000000001, 40.0, 0.7, 0.4]


def normal_numbers(path: ExactPath) -> list[mpf]:
    """The standard normal numbers that a path's bits stand for: a sign, and a number in [0, 1/2)."""
    found = []
    for *_, [(sign, uniform)] in path._points:
        u = (mpf(uniform._known) + mpf(0.5)) / mpf(2) ** uniform.width
        found.append(-sign * mp.sqrt(2) * mp.erfinv(2 * u - 1))
    return found


@pytest.mark.parametrize(("digits", "enough"), [(6, 48), (128, 128)])
def test_values_are_those_of_the_cholesky_factor_of_the_whole_covariance(
    digits: int, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One normal number a point, in the order of drawing: the factor is lower triangular and unique.

    With too few digits at first every cell is undecided, and all earlier points are extended.
    """
    sigma, beta = 1.7, 2.5
    path = ExactPath(SeededBits(np.random.default_rng(1)), sigma, beta, ())
    monkeypatch.setattr(path, "_digits", digits)
    means = np.linspace(-3.0, 1e6, len(POINTS))
    found = [float(path.at(x, np.array(m))) for x, m in zip(POINTS, means.tolist(), strict=True)]
    assert path._digits == enough
    with mp.workdps(60):
        x = [mpf(point) for point in POINTS]
        covariance = mp.matrix([[mp.exp(-mpf(beta) * abs(a - b)) for b in x] for a in x])
        path_there = mp.cholesky(covariance) * mp.matrix(normal_numbers(path))
        g = mpf(2) ** grid(sigma)
        for mean, value, out in zip(means.tolist(), path_there, found, strict=True):
            assert out == float(mp.floor((mean + mpf(sigma) * value) / g + mpf(0.5)) * g)


def test_a_repeated_point_has_the_same_noise_on_any_mean() -> None:
    path = ExactPath(SeededBits(np.random.default_rng(2)), 1.0, 1.0, (2,))
    first = path.at(0.25, np.zeros(2))
    path.at(0.5, np.zeros(2))
    assert np.array_equal(path.at(0.25, np.ones(2)), first + 1.0)


def test_a_value_far_below_a_coarse_grid_is_no_error() -> None:
    for value in (5e-324, -1e-310):
        found = [
            ExactPath(SeededBits(np.random.default_rng(4)), 1e30, 1.0, (1,)).at(0.5, np.array([mean]))
            for mean in (value, 0.0)
        ]
        assert found[0] == found[1]


def test_components_have_the_covariance_of_the_kernel(nightly: bool) -> None:
    """5 standard errors of a mean of 4,000 products are 0.12 at most: about 1e-6 an entry."""
    number = 4000 if nightly else 2000
    path = ExactPath(SeededBits(np.random.default_rng(3)), 2.0, 1.0, (number,))
    at = [0.0, 1.0, 0.5, -1.0]
    values = np.array([path.at(x, np.zeros(number)) for x in at]) / 2.0
    covariance = values @ values.T / number
    allowed = 0.12 * (4000 / number) ** 0.5
    assert np.abs(covariance - np.exp(-np.abs(np.subtract.outer(at, at)))).max() < allowed
    assert all(stats.kstest(row, stats.norm.cdf).pvalue > 1e-6 for row in values)
