"""The tables of the sampler check, against distribution functions and counts made one by one."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from scipy import stats

from dpaudit import (
    L1,
    L2,
    RKHS,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    ExponentialKernel,
    Frobenius,
    Gaussian,
    GaussianProcess,
    Laplace,
    MatrixMechanism,
    OpaquePureDP,
    RandomAllocation,
    RandomizedResponse,
    Release,
    ReportNoisyMax,
    SampledMatrix,
    Shuffled,
    SmoothGaussian,
    SparseVector,
    SymmetricGaussian,
    Toeplitz,
    TreeAggregation,
    mechanisms,
)
from dpaudit.auditors.replay import sampler_check
from dpaudit.auditors.replay.sampler_check import FALSE_ALARM, SamplerProbe
from dpaudit.curator.noise import Question
from dpaudit.mechanisms import Array
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.randomness import ExactRandomness, SeededRandomness

RANDOM = np.random.default_rng(1)


def test_the_statistic_is_pearsons() -> None:
    counts = np.array([130.0, 90.0, 100.0, 80.0])
    for probabilities in (np.full(4, 0.25), np.array([0.3, 0.25, 0.25, 0.2])):
        expected = float(stats.chisquare(counts, 400 * probabilities).pvalue)
        assert sampler_check._p_value(counts, probabilities) == pytest.approx(expected, rel=1e-9)


def test_bins_of_which_few_draws_are_expected_are_merged() -> None:
    """20 of each are enough; of less than one expected, more than 30 are a fault and up to that none."""
    counts, expected = np.array([500.0, 480.0, 11.0, 9.0]), np.array([490.0, 490.0, 15.0, 5.0])
    merged = stats.chisquare([500.0, 480.0, 20.0], [490.0, 490.0, 20.0])
    assert sampler_check._p_value(counts, expected / 1000) == pytest.approx(float(merged.pvalue), rel=1e-9)
    kept = np.array([500.0, 460.0, 40.0]), np.array([490.0, 490.0, 20.0])
    assert sampler_check._p_value(kept[0], kept[1] / 1000) == pytest.approx(
        float(stats.chisquare(*kept).pvalue), rel=1e-9
    )
    impossible = np.array([0.5, 0.5, 0.0])
    for seen, sure in ((30.0, False), (31.0, True)):
        found = sampler_check._p_value(np.array([500.0, 500.0, seen]), impossible)
        assert (found == 0.0) is sure
    # Half a draw is expected in the last bin: the others, and their one degree of freedom, are left.
    found = sampler_check._p_value(np.array([510.0, 480.0, 30.0]), np.array([0.5, 0.4995, 0.0005]))
    assert found == pytest.approx(float(stats.chi2.sf((480.0 - 509.49) ** 2 / 509.49, 1)), rel=1e-9)
    one = np.array([0.5, 0.499, 0.001])
    found = sampler_check._p_value(np.array([500.0, 499.0, 1.0]), one)
    assert found == pytest.approx(1.0)
    assert sampler_check._p_value(np.array([1000.0]), np.array([1.0])) == 1.0


def test_levels_fall_into_twelve_equal_bins() -> None:
    levels = np.array([0.0, 0.05, 0.0834, 0.5, 0.999, 1.0])
    counts, probabilities = sampler_check._equal_bins(levels)
    assert counts.tolist() == [2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2]
    assert probabilities.tolist() == [1 / 12] * 12
    noise = RANDOM.normal(size=(50, 4))
    assert np.array_equal(
        sampler_check._gaussian_bins(noise)[0],
        np.histogram(stats.norm.cdf(noise), np.linspace(0.0, 1.0, 13))[0],
    )
    points = np.array([-30.0, -1.0, -0.0, 0.0, 0.3, 2.0, 40.0])
    assert sampler_check._laplace_levels(points, 1.7) == pytest.approx(stats.laplace.cdf(points, scale=1.7))


DISCRETE = [
    (DiscreteGaussian(sigma=3.0, sensitivity=L2(1.0)), lambda k: np.exp(-(k**2) / 18.0), 9),
    (DiscreteLaplace(scale=2.5, sensitivity=L1(1.0)), lambda k: np.exp(-np.abs(k) / 2.5), 8),
    (DiscreteLaplace(scale=0.2, sensitivity=L1(1.0)), lambda k: np.exp(-np.abs(k) / 0.2), 1),
]


@pytest.mark.parametrize(("mechanism", "mass", "reach"), DISCRETE)
def test_integers_are_counted_in_bins_to_three_scales(
    mechanism: Any, mass: Callable[[Array], Array], reach: int
) -> None:
    support = np.arange(-200.0, 201.0)
    exact = mass(support) / mass(support).sum()
    noise = RANDOM.integers(-2 * reach, 2 * reach + 1, (40, 5)).astype(np.float64)
    counts, probabilities = sampler_check._integers(mechanism, noise)
    width = max(1, math.ceil(2 * reach / 12))
    bins = [range(low, min(low + width, reach + 1)) for low in range(-reach, reach + 1, width)]
    assert len(counts) == len(probabilities) == len(bins) + 1
    for place, integers in enumerate(bins):
        assert counts[place] == sum(int((noise == k).sum()) for k in integers)
        assert probabilities[place] == pytest.approx(sum(exact[k + 200] for k in integers), rel=1e-9)
    assert counts.sum() == noise.size
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)


def test_integers_that_are_as_good_as_the_line_are_counted_as_such() -> None:
    noise = 4e4 * RANDOM.normal(size=300)
    for mechanism, levels in (
        (DiscreteGaussian(sigma=4e4, sensitivity=L2(1.0)), stats.norm.cdf(noise / 4e4)),
        (DiscreteLaplace(scale=4e4, sensitivity=L1(1.0)), stats.laplace.cdf(noise / 4e4)),
    ):
        counts, probabilities = sampler_check._integers(mechanism, noise)
        assert np.array_equal(counts, np.histogram(levels, np.linspace(0.0, 1.0, 13))[0])
        assert probabilities.tolist() == [1 / 12] * 12


def test_a_new_mechanism_has_bins_to_three_sizes_of_its_noise() -> None:
    mechanism: Any = SimpleNamespace(
        typical_noise=2.0,
        log_density=lambda output, query: float(stats.gumbel_r.logpdf(output - query, scale=1.3).sum()),
    )
    noise = stats.gumbel_r.rvs(scale=1.3, size=500, random_state=2)
    counts, probabilities = sampler_check._by_density(mechanism, np.array([5.0]), noise)
    edges = np.linspace(-6.0, 6.0, 13)
    assert np.array_equal(counts[:-1], np.histogram(noise, edges)[0])
    assert counts.sum() == 500
    assert probabilities[:-1] == pytest.approx(np.diff(stats.gumbel_r.cdf(edges, scale=1.3)), rel=1e-3)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)


def question(mechanism: Any, query: Any, **more: Any) -> Question:
    value = np.asarray(query, dtype=np.float64)
    release = Release(label="x", mechanism=mechanism)
    given: Any = (value,)
    return Question(release, 0, value, value, mechanism.answering(), given, **more)


NOISE = MatrixMechanism(
    sigma=2.0, steps=9, strategy=Toeplitz(coefficients=(1.0, 0.5)), separation=3, sensitivity=L2(1.0)
)
SMOOTH = SmoothGaussian(alpha=0.1, beta=0.1, dimension=3, epsilon=1.0, delta=1e-6)
PATHS = GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0))
ALLOCATED = RandomAllocation(steps=4, mechanism=Gaussian(sigma=3.0, sensitivity=L2(1.0)))


def kind_of(value: Any) -> str | None:
    return getattr(value, "kind", None)


#: Every kind of noise that is tested, with a question, and how many numbers are drawn where 2,000 are wanted.
TESTED: list[tuple[Any, Any, int]] = [
    (Gaussian(sigma=3.0, sensitivity=L2(1.0)), [1.0, 2.0, 3.0], 2001),
    (Laplace(scale=3.0, sensitivity=L1(1.0)), [1.0, 2.0], 2000),
    (SymmetricGaussian(sigma=3.0, dimension=3, sensitivity=Frobenius(1.0)), np.eye(3), 223 * 6),
    (SMOOTH, [1.0, 2.0, 3.0], 2001),
    (TreeAggregation(sigma=2.0, steps=4, sensitivity=L2(1.0)), [], 2000),
    (TreeAggregation(sigma=2.0, steps=4, sensitivity=Frobenius(1.0)), [], 2000),
    (NOISE, [], 2000),
    (NOISE.model_copy(update={"steps": 2}), [], 2000),
    (SampledMatrix(rate=0.2, mechanism=NOISE), [], 2000),
    (ALLOCATED, [], 2000),
    (PATHS, [], 2000),
    (DiscreteGaussian(sigma=3.0, sensitivity=L2(1.0)), [1.0, 2.0], 2000),
    (DiscreteLaplace(scale=3.0, sensitivity=L1(1.0)), [1.0, 2.0], 2000),
    (RandomizedResponse(epsilon=3.0, categories=4), [1.0, 2.0], 2000),
]


@pytest.mark.parametrize(("mechanism", "query", "number"), TESTED, ids=kind_of)
def test_as_many_draws_as_are_wanted_fit(
    mechanism: Any, query: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DRAWS", "SLOW_DRAWS"):
        monkeypatch.setattr(sampler_check, name, 2_000)
    scale = 4.0 if mechanism is SMOOTH else None
    found = sampler_check._table(mechanism, question(mechanism, query, scale=scale), SeededRandomness(3))
    assert found is not None
    counts, probabilities = found
    assert counts.sum() == number
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-9)
    assert sampler_check._p_value(counts, probabilities) > 1e-6
    if mechanism is SMOOTH:
        assert sampler_check._table(mechanism, question(mechanism, query), SeededRandomness(3)) is None


@pytest.mark.parametrize(
    "mechanism",
    [case[0] for case in TESTED[:4]] + [ALLOCATED],
    ids=kind_of,
)
def test_noise_that_is_half_as_large_again_does_not_fit(
    mechanism: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About its query: what is added to that, and nothing else, is counted."""
    for name in ("DRAWS", "SLOW_DRAWS"):
        monkeypatch.setattr(sampler_check, name, 2_000)
    inner = mechanism.mechanism if mechanism is ALLOCATED else mechanism
    true = type(inner).sample
    monkeypatch.setattr(
        type(inner), "sample", lambda self, value, *rest: 1.5 * true(self, value, *rest) - 0.5 * value
    )
    query = 1e3 * (np.eye(3) if mechanism.kind == "symmetric-gaussian" else np.ones(3))
    asked = question(mechanism, query, scale=4.0 if mechanism is SMOOTH else None)
    found = sampler_check._table(mechanism, asked, SeededRandomness(3))
    assert found is not None
    assert 1e-200 < sampler_check._p_value(*found) < 1e-6


def test_a_symmetric_matrix_has_less_noise_beside_its_diagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = RANDOM.normal(size=(50, 3, 3))
    monkeypatch.setattr(sampler_check, "_noise", lambda *_: noise)
    mechanism = SymmetricGaussian(sigma=3.0, dimension=3, sensitivity=Frobenius(1.0))
    found = sampler_check._table(mechanism, question(mechanism, np.eye(3)), SeededRandomness(3))
    assert found is not None
    levels = [
        stats.norm.cdf(noise[:, i, j], scale=3.0 if i == j else 3.0 / math.sqrt(2.0))
        for i in range(3)
        for j in range(i, 3)
    ]
    assert np.array_equal(found[0], np.histogram(levels, np.linspace(0.0, 1.0, 13))[0])


def test_choices_are_counted_where_their_probabilities_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_check, "CHOICES", 2_000)
    mechanism = Exponential(epsilon=1.0)
    for weights in ([0.5], [0.0, 1.0, 2.0]):
        given: Any = (np.array(weights), np.array(weights), Fraction(1))
        asked = dataclasses.replace(question(mechanism, weights), given=given)
        found = sampler_check._table(mechanism, asked, SeededRandomness(3))
        assert found is not None
        shares = [math.exp(one) / sum(map(math.exp, weights)) for one in weights]
        assert found[1] == pytest.approx(shares, rel=1e-12)
        assert found[0].sum() == 2_000
        assert sampler_check._p_value(*found) > 1e-6
    many = ReportNoisyMax(epsilon=1.0, noise_law="laplace")
    assert sampler_check._table(many, question(many, np.zeros(10_000)), SeededRandomness(3)) is None
    # Of many candidates the likeliest choose among themselves; twice the weights are another distribution.
    monkeypatch.setattr(sampler_check, "CHOICES", 20_000)
    weights = np.random.default_rng(4).permutation(np.linspace(0.0, 800.0, 100_000))
    for factor, same in ((Fraction(1, 2), True), (Fraction(1), False)):
        given = (weights, 2.0 * weights, factor)
        asked = dataclasses.replace(question(mechanism, weights), given=given)
        found = sampler_check._table(mechanism, asked, ExactRandomness(SeededBits(np.random.default_rng(3))))
        assert found is not None
        assert found[1].size == sampler_check.CANDIDATES
        shares = np.exp(np.sort(weights)[-sampler_check.CANDIDATES :] - 800.0)
        assert np.sort(found[1]) == pytest.approx(shares / shares.sum(), rel=1e-9)
        assert (sampler_check._p_value(*found) > 1e-6) is same


class Shifted(mechanisms.ValueMechanism):
    """Some new noise."""

    kind: Literal["shifted"] = "shifted"
    sigma: float
    integer_noise: ClassVar[bool] = False

    def dominating_pair(self) -> Any:
        """None that is needed here."""
        raise AssertionError

    def for_group(self, size: int, times: Any) -> Any:
        """As the pair."""
        raise AssertionError

    @property
    def typical_noise(self) -> float:
        """Of one entry."""
        return self.sigma

    def sample(self, value: Any, randomness: Any, /) -> Array:
        """Gaussian noise."""
        return np.asarray(value + randomness.generator.normal(0.0, self.sigma, value.shape))

    def log_density(self, output: Array, query: Array) -> float:
        """Of Gaussian noise."""
        return float(stats.norm.logpdf(output - query, scale=self.sigma).sum())


class ShiftedIntegers(Shifted):
    """Noise without a density."""

    integer_noise = True


def test_new_noise_is_tested_where_it_is_one_number_with_a_density(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_check, "DRAWS", 2_000)
    asked = question(Gaussian(sigma=3.0, sensitivity=L2(1.0)), [5.0])
    new: Any = Shifted(sigma=3.0)
    found = sampler_check._table(new, asked, SeededRandomness(3))
    assert found is not None
    assert found[0].sum() == 2_000
    assert sampler_check._p_value(*found) > 1e-6
    two = dataclasses.replace(asked, query=np.array([5.0, 6.0]))
    integers: Any = ShiftedIntegers(sigma=3.0)
    assert sampler_check._table(new, two, SeededRandomness(3)) is None
    assert sampler_check._table(integers, asked, SeededRandomness(3)) is None


def test_a_threshold_is_tested_by_three_answers_at_it_and_to_either_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler_check, "CHOICES", 3_000)
    mechanism = SparseVector(epsilon=1.0, sensitivity=L1(1.0))
    found = sampler_check._table(mechanism, question(mechanism, []), SeededRandomness(3))
    assert found is not None
    counts, probabilities = found
    assert (len(counts), counts.sum()) == (8, 3_000)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-6)
    scale = max(mechanism.scales)
    for place, yes in enumerate(itertools.product((False, True), repeat=3)):
        expected = mechanism.log_probability(np.array(yes), scale * np.array([0.0, -1.0, 1.0]))
        assert probabilities[place] == pytest.approx(math.exp(expected))
    assert sampler_check._p_value(counts, probabilities) > 1e-6
    assert sampler_check._p_value(counts[::-1], probabilities) < 1e-6


def test_shuffled_answers_are_tested_one_by_one_and_what_is_hidden_not() -> None:
    local = RandomizedResponse(epsilon=1.0, categories=4)
    mechanism = Shuffled(local=local, users=100)
    table = sampler_check._table(mechanism, question(local, [1.0, 2.0]), SeededRandomness(3))
    assert table is not None
    assert table[1] == pytest.approx([math.e / (math.e + 3), 3 / (math.e + 3)], rel=1e-12)
    own: Any = OpaquePureDP(epsilon=1.0, justification="a theorem")
    assert sampler_check._table(own, question(local, [1.0]), SeededRandomness(3)) is None
    assert sampler_check._table(local, question(local, []), SeededRandomness(3)) is None


def test_an_error_is_reported_where_it_is_rarer_than_all_tests_together_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """16 mechanisms by two samplers each share one false alarm in a million."""
    mechanism = Laplace(scale=3.0, sensitivity=L1(1.0))
    monkeypatch.setattr(sampler_check, "_table", lambda *_: (np.ones(2), np.ones(2)))
    for p_value, faulty in ((1.01 * FALSE_ALARM / 32, False), (0.99 * FALSE_ALARM / 32, True)):
        for both in ([p_value, 1.0], [1.0, p_value]):
            values = iter(both)
            monkeypatch.setattr(sampler_check, "_p_value", lambda *_, values=values: next(values))
            probe = SamplerProbe(np.random.SeedSequence(1))
            probe.answer(question(mechanism, [1.0]))
            assert [*probe.faulty()] == ([("x", p_value)] if faulty else [])
            assert probe.untested() == []
    probe = SamplerProbe(np.random.SeedSequence(1))
    for number in range(17):
        one = Laplace(scale=3.0 + number, sensitivity=L1(1.0))
        probe.answer(dataclasses.replace(question(one, [1.0]), number=number))
    monkeypatch.setattr(sampler_check, "_p_value", lambda *_: 1.0)
    assert [*probe.faulty()] == []
    assert probe.untested() == ["x"]
