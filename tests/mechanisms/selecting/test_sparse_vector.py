"""Sparse vector: the probabilities of whole answers by mpmath, its cost by enumeration, its samplers."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dpaudit import L1, L2, Neighbouring
from dpaudit.accountants.composition.costs import pure_epsilon, rho
from dpaudit.accountants.pairs.comparisons import log_outcomes
from dpaudit.accountants.pairs.moments import log_moment
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import AboveThreshold, GaussianSparseVector, SparseVector
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.levels import ExactLevel
from dpaudit.noise.randomness import ExactRandomness, SeededRandomness
from tests import make
from tests.noise.reference import Scripted
from tests.sweeps import sweep

ALARM = 1e-6
REPLACE = Neighbouring.REPLACE_ONE
LAPLACE = SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=2)
GAUSSIAN = GaussianSparseVector(sigma=3.0, sensitivity=L2(1.0), answers=2, steps=3)


def density(mechanism: AboveThreshold, x: mpf) -> mpf:
    return mp.exp(-abs(x)) / 2 if isinstance(mechanism, SparseVector) else mp.npdf(x)


def below(mechanism: AboveThreshold, x: mpf) -> mpf:
    if isinstance(mechanism, SparseVector):
        return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2
    return mp.ncdf(x)


def by_mpmath(mechanism: AboveThreshold, yes: Any, ahead: Any) -> float:
    on_threshold, on_value = mechanism.scales

    def joint(level: mpf) -> mpf:
        passed = [(a - level) / on_value * (1 if said else -1) for said, a in zip(yes, ahead, strict=True)]
        tails = mp.fprod(below(mechanism, x) for x in passed)
        return density(mechanism, level / on_threshold) / on_threshold * tails

    ends = sorted({0.0, *map(float, ahead), *np.linspace(-60.0, 60.0, 9).tolist()})
    return float(mp.log(mp.quad(joint, [-mp.inf, *ends, mp.inf])))


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
@sweep(
    "yes, ahead",
    [([True], [0.0]), ([False, True], [1.0, -2.0]), ([False, False, True, True], [3.0, -20.0, 8.0, 0.5])],
    everyday=(0, 2),
)
def test_the_probability_of_answers_by_quadrature(mechanism: AboveThreshold, yes: Any, ahead: Any) -> None:
    with mp.workdps(20):
        expected = by_mpmath(mechanism, yes, ahead)
    found = mechanism.log_probability(np.array(yes), np.array(ahead))
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-11)


def outcomes(mechanism: AboveThreshold, steps: int) -> Iterator[list[bool]]:
    """All answers to so many values: a sequence that ends at its last yes, or with the values."""
    for answers in itertools.product((False, True), repeat=steps):
        said = list(answers)
        if sum(said) < mechanism.answers or (sum(said) == mechanism.answers and said[-1]):
            yield said
    if steps > 1:
        yield from (said for said in outcomes(mechanism, steps - 1) if sum(said) == mechanism.answers)


def law(mechanism: AboveThreshold, ahead: Any) -> np.ndarray:
    ahead = np.array(ahead, dtype=np.float64)
    logs = [
        mechanism.log_probability(np.array(said), ahead[: len(said)])
        for said in outcomes(mechanism, len(ahead))
    ]
    return np.array(logs, dtype=np.float64)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
def test_all_outcomes_together_are_certain(mechanism: AboveThreshold) -> None:
    assert np.exp(law(mechanism, [0.5, -3.0, 2.0, 0.0])).sum() == pytest.approx(1.0, rel=1e-12)


def worst(mechanism: AboveThreshold, *, opposed: bool) -> float:
    """The loss where it is largest: many noes far above the threshold, then yeses far below.

    Together the noes say that the threshold's own noise is large. On the neighbour they are 1 higher, so that
    it is 1 larger; and the yeses are as much lower, if values may move in opposite directions.
    """
    said = np.array([False] * 60 + [True] * mechanism.answers)
    ahead, moved = np.where(said, -40.0, 40.0), np.where(said, -1.0 if opposed else 0.0, 1.0)
    sides = [mechanism.log_probability(said, each) for each in (ahead, ahead + moved)]
    assert sides[0] is not None
    assert sides[1] is not None
    return sides[0] - sides[1]


@pytest.mark.parametrize("mechanism", [LAPLACE, SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=1)])
def test_no_loss_exceeds_epsilon(mechanism: SparseVector) -> None:
    losses = [
        np.abs(law(mechanism, at) - law(mechanism, np.add(at, move))).max()
        for at in ([0.0, 0.0, 0.0], [-30.0, -30.0, -30.0], [30.0, 30.0, -30.0], [30.0, -30.0, -30.0])
        for move in [(1.0, 1.0, -1.0), (1.0, -1.0, -1.0), (-1.0, 1.0, 1.0)]
    ]
    assert 0.5 < max(losses) <= 1.0 + 1e-9


@pytest.mark.parametrize("answers", [1, 2, 7])
def test_some_loss_comes_near_epsilon_and_a_planted_fault_passes_it(answers: int) -> None:
    mechanism = SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=answers)
    assert 0.99 < worst(mechanism, opposed=True) <= 1.0 + 1e-9
    monotone = SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=answers, monotone=True)
    assert monotone.scales[1] < mechanism.scales[1]
    assert 0.99 < worst(monotone, opposed=False) <= 1.0 + 1e-9
    assert worst(monotone, opposed=True) > 1.3, "what is sound for monotone values only"


def test_noise_that_ignores_the_number_of_answers_is_too_little() -> None:
    """Lyu, Su and Li 2017, Algorithm 4: the scales of one answer, and three of them."""

    class Wrong(SparseVector):
        @property
        def scales(self) -> tuple[float, float]:
            return SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=1).scales

    assert worst(Wrong(epsilon=1.0, sensitivity=L1(1.0), answers=3), opposed=True) > 2.0


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 7.3, 1e3])
@pytest.mark.parametrize("answers", [1, 3, 1000])
@pytest.mark.parametrize("sensitivity", [1.0, 0.1, 1e-200])
def test_the_scales_cost_epsilon_and_no_more(epsilon: float, answers: int, sensitivity: float) -> None:
    mechanism = SparseVector(epsilon=epsilon, sensitivity=L1(sensitivity), answers=answers)
    threshold, value = map(mpf, mechanism.scales)
    with mp.workdps(60):
        cost = mpf(sensitivity) / threshold + 2 * answers * mpf(sensitivity) / value
        assert epsilon * (1 - mpf(2) ** -48) <= cost <= epsilon
    assert pure_epsilon(mechanism) == epsilon


@pytest.mark.parametrize(("answers", "steps"), [(1, 1), (1, 4), (2, 3), (2, 5), (5, 5), (9, 3)])
def test_the_number_of_outcomes(answers: int, steps: int) -> None:
    mechanism = SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=answers)
    counted = sum(1 for _ in outcomes(mechanism, steps))
    found = math.exp(log_outcomes(min(answers, steps), steps))
    assert counted * (1 - 1e-12) <= found
    assert found <= (counted if 2 * answers < steps else 2**steps) * (1 + 1e-9)


def test_the_number_of_outcomes_of_long_sequences_is_bounded_from_above() -> None:
    for answers, steps in ((1, 5000), (3, 5000), (40, 10**6)):
        exact = mp.log(mp.fsum(mp.binomial(steps, yes) for yes in range(answers + 1)))
        assert exact <= log_outcomes(answers, steps) <= exact + answers + 1


def divergence(one: np.ndarray, other: np.ndarray, t: float) -> float:
    """t times the Renyi divergence of order 1 + t."""
    return float(np.log(np.exp((1.0 + t) * one - t * other).sum()))


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("answers", [1, 2])
def test_gaussian_divergences_are_never_below_the_truth(answers: int, monotone: bool) -> None:
    mechanism = GaussianSparseVector(
        sigma=2.0, sensitivity=L2(1.0), answers=answers, steps=3, monotone=monotone
    )
    bound = log_moment(mechanism, REPLACE, mixture_first=True)
    moves = [(1.0, 0.0, 1.0), (0.0, 1.0, 1.0)] if monotone else [(1.0, 1.0, -1.0), (1.0, -1.0, -1.0)]
    for at, move in itertools.product(([0.0, 0.0, 0.0], [-6.0, -6.0, -6.0], [4.0, -4.0, -8.0]), moves):
        one, other = law(mechanism, at), law(mechanism, np.add(at, move))
        for t in (0.1, 1.0, 5.0, 30.0):
            assert max(divergence(one, other, t), divergence(other, one, t)) <= bound(t)


def test_gaussian_curves_are_never_below_the_truth_and_gain_from_silence() -> None:
    proved = min(make.figures(make.composition(GAUSSIAN, relation=REPLACE), 1e-3).values())
    one, other = law(GAUSSIAN, [-3.0] * 3), law(GAUSSIAN, [-2.0, -2.0, -4.0])
    for first, second in ((one, other), (other, one)):
        excess = np.exp(first) - np.exp(proved + second)
        assert excess[excess > 0].sum() <= 1e-3
    # Of a thousand values hardly any is above: far less than if all of them were released.
    long = GaussianSparseVector(sigma=10.0, sensitivity=L2(1.0), answers=1, steps=1000)
    figures = make.figures(make.composition(long, relation=REPLACE), 1e-6)
    assert figures["rdp"] < 0.2 * figures["gdp"]
    assert rho(long) == pytest.approx(5.0)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("exact", [False, True])
def test_samplers(mechanism: AboveThreshold, exact: bool, nightly: bool) -> None:
    trials = 20_000 if nightly else 12_000  # both reject what is planted
    generator = np.random.default_rng(5)
    draws = ExactRandomness(SeededBits(generator)) if exact else SeededRandomness(generator)
    counts = np.zeros(4)
    places = np.array([1.0, -1.5])
    for _ in range(trials):
        answer = mechanism.answering()
        first, second = (int(answer(np.array(x), np.array(0.0), draws)) for x in places)
        counts[2 * first + second] += 1

    def p(scale: float) -> float:
        logs = [mechanism.log_probability(np.array(said), scale * places) for said in SAID]
        return float(stats.chisquare(counts, trials * np.exp(np.array(logs, dtype=np.float64))).pvalue)

    assert p(1.0) > ALARM
    assert p(0.7) < ALARM
    assert p(1.4) < ALARM
    # Planted: independent thresholds, one for each value, would make the answers independent.
    yes = counts.reshape(2, 2) / counts.sum()
    apart = np.outer(yes.sum(axis=1), yes.sum(axis=0)).ravel()
    assert stats.chisquare(counts, counts.sum() * apart).pvalue < ALARM


SAID = list(itertools.product((False, True), repeat=2))


@pytest.mark.parametrize("law_name", ["laplace", "normal"])
def test_a_comparison_is_decided_at_the_very_edge(law_name: Any) -> None:
    """A value so far from the threshold as both noises are, to either side: more bits decide."""
    level, noise, more = 2**62 + 12345, 3 * 2**61 + 77, 2**63
    bits = Scripted([], [level, noise, more, more])
    with mp.workdps(60):
        # Both signs are +: the noise is minus the quantile of (bits + 1/2) 2^-64.
        at = [
            -mp.findroot(lambda x, u=u: lower_tail(law_name, x) - (mpf(u) + mpf(1) / 2) / mpf(2) ** 64, -0.5)
            for u in (level, noise)
        ]
        edge = float(at[0] - at[1])
    for step, reached in ((8.0, True), (-8.0, False)):
        value = edge + step * np.spacing(edge) * 4.0
        bits = Scripted([], [level, noise, more, more])
        assert ExactLevel(bits, law_name, 1.0).reached(value, 0.0, 1.0) is reached
        assert [width for _, width in bits.taken][:2] == [64, 64]
        assert len(bits.taken) == 4, "the doubles cannot tell, so that more bits were taken"


def lower_tail(law_name: str, x: mpf) -> mpf:
    return mp.exp(x) / 2 if law_name == "laplace" else mp.ncdf(x)


def test_noise_that_no_double_holds_is_refused() -> None:
    mechanism = SparseVector(epsilon=1e-300, sensitivity=L1(1e300))
    for refused in (
        lambda: mechanism.level(SeededRandomness(1)),
        lambda: SparseVector(epsilon=0.0, sensitivity=L1(1.0)),
        lambda: SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=0),
        lambda: GaussianSparseVector(sigma=math.nan, sensitivity=L2(1.0), steps=3),
    ):
        with pytest.raises(InvalidParameter):
            refused()
