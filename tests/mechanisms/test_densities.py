"""Log densities of values against scipy and mp."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dpaudit.claims.sensitivity import Frobenius
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Exponential, RandomizedResponse, SmoothGaussian, SymmetricGaussian
from tests import make

QUERY = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]])
OUTPUT = np.array([[1.5, -1.0, 2.5], [-4.0, 3.0, 0.25]])
INTEGERS = np.array([3.0, 0.0, -7.0]), np.array([1.0, 0.0, -2.0])


def test_additive() -> None:
    gaussian, laplace = make.gaussian(1.3), make.laplace(1.3)
    assert gaussian.log_density(OUTPUT, QUERY) == pytest.approx(stats.norm(QUERY, 1.3).logpdf(OUTPUT).sum())
    assert laplace.log_density(OUTPUT, QUERY) == pytest.approx(stats.laplace(QUERY, 1.3).logpdf(OUTPUT).sum())


def test_smooth() -> None:
    mechanism = SmoothGaussian(alpha=5.0, beta=0.1, dimension=6, epsilon=1.0, delta=1e-5)
    expected = stats.norm(QUERY, 0.7).logpdf(OUTPUT).sum()
    assert mechanism.log_density(OUTPUT, QUERY, 0.7) == pytest.approx(expected)


@pytest.mark.parametrize("sigma", [0.05, 0.4, 0.999, 1.0, 1.7, 60.0])
def test_discrete_gaussian(sigma: float) -> None:
    output, query = INTEGERS
    with mp.workdps(60):
        double_variance = 2 * mpf(sigma) ** 2
        reach = int(40 * sigma) + 5
        normaliser = sum(mp.exp(-(mpf(k) ** 2) / double_variance) for k in range(-reach, reach + 1))
        noise = (output - query).tolist()
        expected = float(sum(-(mpf(k) ** 2) / double_variance - mp.log(normaliser) for k in noise))
    found = make.discrete_gaussian(sigma).log_density(output, query)
    assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("scale", [0.1, 1.0, 25.0])
def test_discrete_laplace(scale: float) -> None:
    output, query = INTEGERS
    expected = stats.dlaplace(1 / scale).logpmf(output - query).sum()
    found = make.discrete_laplace(scale).log_density(output, query)
    assert found == pytest.approx(expected, rel=1e-12)


def test_what_cannot_come_out_has_no_mass() -> None:
    output, query = np.array([0.5]), np.array([0.0])
    assert make.discrete_gaussian(1.0).log_density(output, query) == -math.inf
    assert make.discrete_laplace(1.0).log_density(output, query) == -math.inf
    assert RandomizedResponse(epsilon=1.0).log_density(np.array([2.0]), query) == -math.inf
    assert Exponential(epsilon=1.0).log_density(np.array(3.0), np.zeros(3)) == -math.inf
    skew = np.array([[0.0, 1.0], [0.0, 0.0]])
    mechanism = SymmetricGaussian(sigma=1.0, dimension=2, sensitivity=Frobenius(1))
    assert mechanism.log_density(skew, np.zeros((2, 2))) == -math.inf


@pytest.mark.parametrize("categories", [2, 4])
def test_randomized_response_sums_to_one_and_moves_by_epsilon(categories: int) -> None:
    mechanism = RandomizedResponse(epsilon=1.5, categories=categories)
    masses = [mechanism.log_density(np.array([k + 0.0]), np.array([1.0])) for k in range(categories)]
    assert sum(map(math.exp, masses)) == pytest.approx(1.0)
    assert max(masses) - min(masses) == pytest.approx(1.5)
    pair = mechanism.log_density(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    assert pair == pytest.approx(masses[1] + masses[0])


def test_exponential() -> None:
    mechanism = Exponential(epsilon=2.0)
    scores = np.array([3.0, 1.0, 2.5])
    weights = mechanism.log_weights(scores, 0.5)
    law = np.exp(2.0 * scores / (2 * 0.5))
    masses = [mechanism.log_density(np.array(float(k)), weights) for k in range(3)]
    assert np.exp(masses) == pytest.approx(law / law.sum())
    far = mechanism.log_weights(np.array([0.0, -1e6]), 1e-3)
    assert mechanism.log_density(np.array(1.0), far) == pytest.approx(-1e9)


def test_symmetric() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(2, 3, 3))
    output = noise + np.swapaxes(noise, 1, 2)
    query = np.broadcast_to(np.eye(3), (2, 3, 3))
    mechanism = SymmetricGaussian(sigma=1.3, dimension=3, sensitivity=Frobenius(1))
    free = [(i, j) for i in range(3) for j in range(i, 3)]
    covariance = np.diag([1.3**2 if i == j else 1.3**2 / 2 for i, j in free])
    expected = sum(
        stats.multivariate_normal(np.zeros(6), covariance).logpdf([residual[i, j] for i, j in free])
        for residual in output - query
    )
    assert mechanism.log_density(output, query) == pytest.approx(expected)


def test_shapes_are_never_broadcast() -> None:
    with pytest.raises(InvalidParameter, match="shape"):
        make.gaussian(1.0).log_density(np.zeros(5), np.zeros(1))
