"""Every sampler accepts its true scale and rejects one that is 5% off; by day two of them one 10% off.

Seeds are fixed. A test at the true parameters would fail for at most one seed in a million: each checks
a p-value against `ALARM`.
"""

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dpaudit.claims.sensitivity import L2, Frobenius
from dpaudit.mechanisms import (
    Array,
    Exponential,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    TreeAggregation,
)
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import ExactRandomness, Randomness, SeededRandomness
from tests import make
from tests.sweeps import sweep

ALARM = 1e-6
N = 40_000
OFF = (0.95, 1.05)
TWICE_OFF = (0.9, 1.1)  # rejected as surely by a quarter of the draws


def two_sided(statistic: float, law: stats.rv_continuous) -> float:
    return float(2 * min(law.cdf(statistic), law.sf(statistic)))


def normal_p(noise: Array, sigma: float) -> float:
    """Exact: the sum of squares is chi-square."""
    return two_sided(np.square(noise / sigma).sum(), stats.chi2(noise.size))


def laplace_p(noise: Array, scale: float) -> float:
    """Exact: the sum of magnitudes is Gamma."""
    return two_sided(np.abs(noise / scale).sum(), stats.gamma(noise.size))


def lattice_p(noise: Array, weight: object) -> float:
    """Pearson's chi-square against probabilities proportional to `weight`, in cells of 50 or more."""
    reach = int(np.abs(noise).max()) + 20
    support = np.arange(-reach, reach + 1)
    weights = np.array([float(weight(int(k))) for k in support])  # type: ignore[operator]
    expected = noise.size * weights / weights.sum()
    counts = np.array([(noise == k).sum() for k in support])
    inner = expected >= 50
    observed = [*counts[inner], counts[~inner].sum()]
    wanted = [*expected[inner], expected[~inner].sum()]
    return float(stats.chisquare(observed, np.array(wanted) * sum(observed) / sum(wanted)).pvalue)


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(params=["seeded", "exact"])
def draws(request: pytest.FixtureRequest) -> Randomness:
    """Both samplers: in floating point, and exact."""
    if request.param == "seeded":
        return SeededRandomness(generator())
    return ExactRandomness(SeededBits(generator()))


def test_gaussian(draws: Randomness) -> None:
    noise = make.gaussian(3.0).sample(np.full((N, 1), 5.0), draws) - 5.0
    assert normal_p(noise, 3.0) > ALARM
    assert all(normal_p(noise, 3.0 * off) < ALARM for off in OFF)


def test_laplace(draws: Randomness) -> None:
    noise = make.laplace(3.0).sample(np.full(N, 5.0), draws) - 5.0
    assert laplace_p(noise, 3.0) > ALARM
    assert all(laplace_p(noise, 3.0 * off) < ALARM for off in OFF)


@sweep("sigma", [0.6, 2.3, 7.0], everyday=(2,))
def test_discrete_gaussian(sigma: float, draws: Randomness) -> None:
    noise = make.discrete_gaussian(sigma).sample(np.full(N, 5.0), draws) - 5.0
    assert lattice_p(noise, lambda k: math.exp(-k * k / (2 * sigma**2))) > ALARM
    for off in OFF:
        assert lattice_p(noise, lambda k, s=sigma * off: math.exp(-k * k / (2 * s**2))) < ALARM


@sweep("scale", [0.5, 2.3, 7.0], everyday=(0, 2))
def test_discrete_laplace(scale: float, draws: Randomness) -> None:
    noise = make.discrete_laplace(scale).sample(np.full(N, 5.0), draws) - 5.0
    assert lattice_p(noise, lambda k: math.exp(-abs(k) / scale)) > ALARM
    for off in OFF:
        assert lattice_p(noise, lambda k, b=scale * off: math.exp(-abs(k) / b)) < ALARM


def test_a_rounded_gaussian_is_not_a_discrete_one() -> None:
    """The fault that a variance alone would let pass: rounding adds 1/12 to it."""
    noise = np.rint(generator().normal(0.0, math.sqrt(0.36 - 1 / 12), 10 * N))
    assert lattice_p(noise, lambda k: math.exp(-k * k / (2 * 0.36))) < ALARM


@pytest.mark.parametrize("categories", [2, 5])
def test_randomized_response(categories: int, draws: Randomness) -> None:
    n = 5 * N
    value = generator(1).integers(0, categories, n).astype(float)
    output = RandomizedResponse(epsilon=1.0, categories=categories).sample(value, draws)
    kept = int((output == value).sum())

    def p(epsilon: float) -> float:
        keep = 1 / (1 + (categories - 1) * math.exp(-epsilon))
        return float(stats.binomtest(kept, n, keep).pvalue)

    assert p(1.0) > ALARM
    assert all(p(off) < ALARM for off in OFF)
    shift = ((output - value) % categories)[output != value].astype(int)
    counts = np.bincount(shift, minlength=categories)
    assert counts[0] == 0
    worst = max(abs(count - shift.size / (categories - 1)) for count in counts[1:])
    assert worst < 5.5 * math.sqrt(shift.size)


def test_exponential(draws: Randomness, nightly: bool) -> None:
    mechanism = Exponential(epsilon=4.0)
    weights = mechanism.log_weights(np.array([0.0, 1.0, 0.25, 0.9]), 1.0)
    chosen = [int(mechanism.sample(weights, draws)) for _ in range(2 * N if nightly else N // 2)]
    counts = np.bincount(chosen, minlength=4)

    def p(epsilon: float) -> float:
        law = np.exp(epsilon * np.array([0.0, 1.0, 0.25, 0.9]) / 2)
        return float(stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue)

    assert p(4.0) > ALARM
    assert all(p(4.0 * off) < ALARM for off in (OFF if nightly else TWICE_OFF))


def symmetric_coordinates(noise: Array) -> tuple[Array, Array]:
    rows, columns = np.triu_indices(noise.shape[-1], k=1)
    return np.diagonal(noise, axis1=-2, axis2=-1), noise[..., rows, columns]


def test_symmetric_gaussian(draws: Randomness) -> None:
    mechanism = SymmetricGaussian(sigma=2.0, dimension=3, sensitivity=Frobenius(1))
    noise = mechanism.sample(np.zeros((N, 3, 3)), draws)
    assert np.array_equal(noise, np.swapaxes(noise, 1, 2))
    diagonal, above = symmetric_coordinates(noise)
    assert normal_p(diagonal, 2.0) > ALARM
    assert normal_p(above, 2.0 / math.sqrt(2)) > ALARM
    for off in OFF:
        assert normal_p(diagonal, 2.0 * off) < ALARM
        assert normal_p(above, 2.0 * off / math.sqrt(2)) < ALARM
    assert normal_p(above, 2.0) < ALARM, "an independent upper triangle is not isotropic"


def test_smooth_gaussian_takes_the_scale_of_the_moment(draws: Randomness, nightly: bool) -> None:
    size = N if nightly else N // 4
    mechanism = SmoothGaussian(alpha=5.0, beta=0.1, dimension=size, epsilon=1.0, delta=1e-5)
    noise = mechanism.sample(np.zeros(size), 3.0, draws)
    assert normal_p(noise, 3.0) > ALARM
    assert all(normal_p(noise, 3.0 * off) < ALARM for off in (OFF if nightly else TWICE_OFF))


def test_poisson_sampling_rate_and_inner_noise(draws: Randomness) -> None:
    mechanism = PoissonSampled(rate=0.3, mechanism=make.gaussian(1e-3))
    rows = OnGrid(np.ones((1000, 1), dtype=np.int64), 0)
    sampled = sum(round(float(mechanism.sample(rows, draws)[0])) for _ in range(N // 1000))
    assert stats.binomtest(sampled, N, 0.3).pvalue > ALARM
    assert all(stats.binomtest(sampled, N, 0.3 * off).pvalue < ALARM for off in OFF)
    noisy = PoissonSampled(rate=0.5, mechanism=make.laplace(2.0))
    noise = noisy.sample(OnGrid(np.zeros((4, N), dtype=np.int64), 0), draws)
    assert laplace_p(noise, 2.0) > ALARM
    assert all(laplace_p(noise, 2.0 * off) < ALARM for off in OFF)


@pytest.mark.parametrize("norm", ["l2", "frobenius"])
def test_tree_node_noise(norm: str, draws: Randomness) -> None:
    sensitivity = L2(1) if norm == "l2" else Frobenius(1)
    mechanism = TreeAggregation(sigma=2.0, steps=4, sensitivity=sensitivity)
    diagonal, above = symmetric_coordinates(mechanism.sample_node(np.zeros((N, 2, 2)), draws))
    factor = 1.0 if norm == "l2" else 1 / math.sqrt(2)
    assert normal_p(diagonal, 2.0) > ALARM
    assert normal_p(above, 2.0 * factor) > ALARM
    assert all(normal_p(above, 2.0 * factor * off) < ALARM for off in OFF)


def test_large_integers_keep_every_digit(draws: Randomness) -> None:
    """2^53 + noise is added as an integer and rounded once."""
    value = np.full(1000, float(2**53 - 1))
    output = make.discrete_laplace(1.0).sample(value, draws)
    assert {int(entry) % 2 for entry in output if entry < 2**53} == {0, 1}


def test_discrete_gaussian_of_a_tiny_sigma_is_still(draws: Randomness) -> None:
    output = make.discrete_gaussian(1e-3).sample(np.arange(50.0), draws)
    with mp.workdps(60):
        assert mp.exp(-1 / (2 * mpf("1e-3") ** 2)) < mpf(10) ** -200
    assert np.array_equal(output, np.arange(50.0))
