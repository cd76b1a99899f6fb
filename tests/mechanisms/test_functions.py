"""Gaussian-process paths against dense kernel matrices."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dpaudit.claims.sensitivity import RKHS
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, ExponentialKernel, GaussianProcess
from dpaudit.noise.paths import bridge
from dpaudit.noise.randomness import SeededRandomness

N = 40_000
ALARM = 1e-6


def process(sigma: float = 2.0, beta: float = 3.0) -> GaussianProcess:
    return GaussianProcess(sigma=sigma, kernel=ExponentialKernel(beta=beta), sensitivity=RKHS(1.0))


def dense(points: Array, beta: float) -> Array:
    return np.array([[math.exp(-beta * abs(x - y)) for y in points] for x in points])


ORDERS = (
    [0.5, 0.1, 0.9, 0.3, 0.7, 0.31],  # inwards and outwards
    [0.1, 0.3, 0.31, 0.5, 0.7, 0.9],  # left to right
    [0.9, 0.7, 0.5, 0.31, 0.3, 0.1],  # right to left
    [0.1, 0.9, 0.5, 0.3, 0.31, 0.7],  # bridges only
)


def whitened(points: list[float], sigma: float, beta: float) -> Array:
    path = process().path((N,), SeededRandomness(11))
    values = np.array([path.at(point, np.zeros(N)) for point in points])  # [n, N]
    factor = np.linalg.cholesky(sigma**2 * dense(np.array(points), beta))
    return np.linalg.solve(factor, values)


@pytest.mark.parametrize("points", ORDERS)
def test_covariance_does_not_depend_on_the_order_of_queries(points: list[float]) -> None:
    """Whitened by the dense kernel matrix the values are independent standard normals.

    The sum of squares is chi-square; each of the 21 entries of the empirical covariance is within 5.5
    of its standard deviations but for a chance below 1e-6.
    """
    white = whitened(points, 2.0, 3.0)
    law = stats.chi2(white.size)
    assert 2 * min(law.cdf(np.square(white).sum()), law.sf(np.square(white).sum())) > ALARM
    covariance = white @ white.T / N
    spread = np.where(np.eye(len(points)) == 1, math.sqrt(2 / N), math.sqrt(1 / N))
    assert (np.abs(covariance - np.eye(len(points))) < 5.5 * spread).all()


@pytest.mark.parametrize(("sigma", "beta"), [(2.1, 3.0), (1.9, 3.0), (2.0, 3.15), (2.0, 2.85)])
def test_a_parameter_five_percent_off_is_seen(sigma: float, beta: float) -> None:
    points = ORDERS[0]
    white = whitened(points, sigma, beta)
    covariance = white @ white.T / N
    spread = np.where(np.eye(len(points)) == 1, math.sqrt(2 / N), math.sqrt(1 / N))
    assert (np.abs(covariance - np.eye(len(points))) > 5.5 * spread).any()


@pytest.mark.parametrize("beta", [1e-9, 0.3, 3.0, 500.0, 16161.6])
@pytest.mark.parametrize(
    ("left", "point", "right"), [(0.1, 0.25, 0.9), (0.2, 0.2000001, 0.7), (0.0, 0.5, 1.0)]
)
def test_bridge_against_conditioning(beta: float, left: float, point: float, right: float) -> None:
    with mp.workdps(60):
        b, x, y, z = mpf(beta), mpf(left), mpf(point), mpf(right)
        far = mp.exp(-b * (z - x))
        known = mp.matrix([[1, far], [far, 1]])
        across = mp.matrix([mp.exp(-b * (y - x)), mp.exp(-b * (z - y))])
        weights = mp.lu_solve(known, across)
        variance = 1 - (across.T * weights)[0]
    found = bridge(beta, left, point, right)
    assert found == pytest.approx(
        (float(weights[0]), float(weights[1]), float(variance)), rel=1e-6, abs=1e-300
    )


def test_bridge_between_points_that_doubles_hardly_tell_apart() -> None:
    left, right, variance = bridge(1e-300, 0.0, 1e-20, 4e-20)
    assert (left, right, variance) == pytest.approx((0.75, 0.25, 0.0))


def test_a_point_keeps_its_noise() -> None:
    path = process().path((), SeededRandomness(0))
    zero = np.zeros(())
    first = path.at(0.4, zero)
    path.at(0.39, zero)
    path.at(0.41, zero)
    assert path.at(0.4, zero) == first


def test_squared_norm_is_the_quadratic_form_and_grows_to_the_function_norm() -> None:
    kernel, points = ExponentialKernel(beta=3.0), np.array([0.5, 0.1, 0.9, 0.3])
    values = np.random.default_rng(0).normal(size=(4, 2))
    form = sum(column @ np.linalg.solve(dense(points, 3.0), column) for column in values.T)
    assert kernel.squared_norm(points, values) == pytest.approx(form, rel=1e-12)
    grid = np.linspace(0, 1, 4001)
    # f(x) = x: (0 + 1)/2 + (1/6) (1 + 9/3) by the norm's closed form on [0, 1].
    assert kernel.squared_norm(grid, grid) == pytest.approx(0.5 + 4 / 6, rel=1e-6)
    assert kernel.squared_norm(grid[::40], grid[::40]) <= 0.5 + 4 / 6


def test_log_density_is_the_multivariate_normal() -> None:
    mechanism, points = process(), np.array([0.5, 0.1, 0.9, 0.3])
    generator = np.random.default_rng(0)
    outputs, means = generator.normal(size=(4, 2)), generator.normal(size=(4, 2))
    covariance = 4.0 * dense(points, 3.0)
    expected = sum(stats.multivariate_normal(means[:, j], covariance).logpdf(outputs[:, j]) for j in range(2))
    assert mechanism.log_density(outputs, means, points) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InvalidParameter):
        mechanism.log_density(outputs, means, np.array([0.1, 0.1, 0.2, 0.3]))


def test_kernel_covariance() -> None:
    points = np.array([0.0, 0.2, 1.0])
    assert np.allclose(ExponentialKernel(beta=3.0).covariance(points), dense(points, 3.0), rtol=1e-15)
