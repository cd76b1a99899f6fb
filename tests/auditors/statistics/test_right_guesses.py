"""Bounds on the number of right guesses, held against exact worst cases that share no code with them."""

import itertools
import math
from bisect import bisect_right
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import linprog
from scipy.stats import binom, norm

from dpaudit.auditors.statistics.right_guesses import (
    EDGES,
    Family,
    Hypothesis,
    approximate_floor,
    best_count,
    beyond,
    curve_floor,
    gaussian_floor,
    largest_parameter,
    one_run_p_value,
    planned,
)
from dpaudit.errors import InvalidParameter

Points = list[tuple[float, float]]


def worst_case(canaries: int, guesses: int, correct: int, points: Points) -> float:
    """The largest P[N >= v] that any mechanism reaches that is (epsilon, delta)-DP per coin at every point.

    Such a mechanism may be taken to be symmetric in coins and guesses, and is then a distribution of N alone:
    an output with i right guesses, among them that of a given coin, has i/m of the mass of N = i, and once
    this coin is flipped (r-i+1)/m of that of N = i-1. Each point bounds what the one exceeds e^epsilon times
    the other by, in either direction: a linear program, exact for small m.
    """
    n, pairs = guesses + 1, 2 * guesses * len(points)
    rows, limits = [], []
    for k, (epsilon, delta) in enumerate(points):
        total = np.zeros(n + pairs)
        for i, way in itertools.product(range(1, n), (0, 1)):
            slack = n + 2 * (k * guesses + i - 1) + way
            row = np.zeros(n + pairs)
            one, other = (i, i - 1) if way == 0 else (i - 1, i)
            mass = {i: i / canaries, i - 1: (guesses - i + 1) / canaries}
            row[one], row[other], row[slack] = mass[one], -math.exp(epsilon) * mass[other], -1.0
            total[slack] = 1.0
            rows.append(row)
            limits.append(0.0)
        rows.append(total)
        limits.append(delta)
    reached = np.zeros(n + pairs)
    reached[correct:n] = -1.0
    whole = (np.arange(n + pairs) < n).astype(float)[None, :]
    found = linprog(reached, np.array(rows), limits, whole, [1.0], method="highs")
    assert found.success
    return -float(found.fun)


def gaussian_points(mu: float, number: int) -> Points:
    epsilons = np.linspace(0, 6 * mu, number)
    deltas = norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * norm.cdf(-mu / 2 - epsilons / mu)
    return list(zip(epsilons.tolist(), deltas.tolist(), strict=True))


CURVES: dict[str, Points] = {
    "pure": [(0.7, 0.0)],
    "approximate": [(0.4, 0.03)],
    "nothing but delta": [(0.0, 0.2)],
    "Gaussian": gaussian_points(0.8, 9),
    "two points": [(0.2, 0.3), (1.5, 0.01)],
}
CASES = [
    (name, m, r, v)
    for (name, m) in itertools.product(CURVES, (3, 5, 8))
    for r, v in {(m, m), (m, m - 1), (m - 1, m - 1), (max(1, m // 2), max(1, m // 2))}
]


@pytest.mark.parametrize(("name", "m", "r", "v"), CASES)
def test_no_mechanism_guesses_better_than_the_bound(name: str, m: int, r: int, v: int) -> None:
    points = CURVES[name]
    exact = worst_case(m, r, v, points)
    bound = Hypothesis(curve_floor(points), tuple(points)).p_value(m, r, v)
    assert exact * (1 - 1e-7) <= bound <= 1.0
    if name != "nothing but delta":
        assert bound <= 2 * exact + 0.1


@pytest.mark.parametrize(("m", "r", "mu"), [(5, 5, 0.8), (8, 6, 0.3), (20, 10, 2.0)])
def test_where_all_guesses_are_right_theorem_1_is_exact(m: int, r: int, mu: float) -> None:
    """By its own recursion, without the second theorem; with a wrong guess it is close."""
    points = gaussian_points(mu, 12)
    floor = curve_floor(points)
    exact = worst_case(m, r, r, points)
    assert exact * (1 - 1e-7) <= Hypothesis(floor).p_value(m, r, r) <= exact * (1 + 2e-6)
    assert not beyond(m, r, r, floor, exact * (1 - 1e-7))
    assert beyond(m, r, r, floor, exact * (1 + 2e-6))
    exact = worst_case(m, r, r - 1, points)
    assert exact * (1 - 1e-7) <= Hypothesis(floor).p_value(m, r, r - 1) <= 1.3 * exact


@pytest.mark.parametrize(
    ("m", "r", "v", "error"), [(9, 7, 6, 0.1), (50, 50, 33, 0.1), (40, 8, 6, 0.1), (42, 19, 13, 0.1)]
)
def test_the_steps_of_theorem_1_are_rounded_down(m: int, r: int, v: int, error: float) -> None:
    """Against the same steps in rational numbers, with a floor that has many digits."""
    seen: list[float] = []

    def floor(y: float) -> float:
        seen.append(y)
        return 0.97 * y + 0.003

    tail, right, steps = Fraction(error), v * Fraction(error), []
    for j in range(v - 1, -1, -1):
        steps.append(right / m)
        more = (m * Fraction(0.97 * float(right / m) + 0.003) + right - r * tail) / (r - j)
        tail, right = tail + more, right + j * more
    beyond(m, r, v, floor, error)
    assert len(seen) > 2
    for y, exact in zip(seen, steps, strict=False):
        assert exact * (1 - Fraction(1e-14)) <= Fraction(y) < exact


def test_what_may_be_certain_is_no_contradiction() -> None:
    """One coin is guessed rightly with probability 1/2, of which the other half follows, and no more."""
    assert not beyond(1, 1, 1, lambda y: 0.5, 0.5)
    assert beyond(1, 1, 1, lambda y: 0.5 + 2.0**-50, 0.5)
    assert not beyond(1, 1, 1, lambda y: 0.0, 0.5)


@pytest.mark.parametrize(("m", "r", "v"), [(20, 10, 8), (50, 40, 22), (3, 3, 1)])
def test_theorem_2_is_its_formula(m: int, r: int, v: int) -> None:
    epsilon, delta = 0.8, 1e-3
    with mp.workdps(40):
        share = 1 / (1 + mp.exp(-mpf(epsilon)))
        terms = [mp.binomial(r, k) * share**k * (1 - share) ** (r - k) for k in range(r + 1)]
        steepest = max(sum(terms[:k]) / (k * terms[k]) for k in range(1, v + 1))
        exact = min(1, sum(terms[v:]) * (1 + m * mpf(delta) * steepest))
        assert exact <= one_run_p_value(m, r, v, epsilon, delta) <= exact * (1 + mpf("1e-8"))


def test_a_p_value_is_the_least_of_all_bounds_and_at_most_1() -> None:
    nothing: Points = [(0.5, 0.0), (1.5, 0.0)]
    singly = [one_run_p_value(10, 10, 9, *point) for point in nothing]
    assert Hypothesis(lambda y: 0.0, tuple(nothing)).p_value(10, 10, 9) == min(singly) < max(singly)
    assert Hypothesis(lambda y: 0.0).p_value(5, 5, 1) == 1.0
    assert one_run_p_value(10, 10, 0, 0.0, 0.0) == one_run_p_value(10, 10, 1, 0.0, 0.9) == 1.0
    # Nothing smaller is sought below 2^-100.
    assert Family(0.0).member(0.0).p_value(400, 400, 400) == one_run_p_value(400, 400, 400, 0.0, 0.0) < 1e-100
    for epsilon in (math.inf, -1.0, math.nan):
        with pytest.raises(InvalidParameter):
            one_run_p_value(10, 5, 3, epsilon, 0.0)


@pytest.mark.nightly
def test_no_mechanism_guesses_better_in_a_wide_sweep() -> None:
    random = np.random.default_rng(7)
    closest = 0.0
    for _ in range(300):
        m = int(random.integers(2, 25))
        r = int(random.integers(1, m + 1))
        v = int(random.integers(1, r + 1))
        kind = int(random.integers(3))
        epsilon, delta = float(random.uniform(0, 2)), float(10 ** random.uniform(-4, -0.5))
        points = [(epsilon, 0.0)] if kind == 0 else [(epsilon, delta)] if kind == 1 else []
        points = points or gaussian_points(float(random.uniform(0.2, 2)), 12)
        exact = worst_case(m, r, v, points)
        bound = Hypothesis(curve_floor(points), tuple(points)).p_value(m, r, v)
        assert exact * (1 - 1e-7) <= bound
        closest = max(closest, exact / bound)
    assert closest > 0.999


@pytest.mark.parametrize("mu", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("m", [3, 8, 60])
def test_guesses_by_a_threshold_are_binomial_and_no_likelier_than_the_bound(mu: float, m: int) -> None:
    """Every coin guessed by whether its score exceeds mu/2: N is binomial at Phi(mu/2), exactly."""
    gaussian = Hypothesis(gaussian_floor(mu))
    for v in {m, m - 1, math.ceil(0.8 * m)}:
        assert binom.sf(v - 1, m, norm.cdf(mu / 2)) <= gaussian.p_value(m, m, v)
    told = [binom.sf(v - 1, m, 1 / (1 + math.exp(-mu))) for v in (m, m - 1)]
    pure = Family(0.0).member(mu)
    assert [pure.p_value(m, m, v) for v in (m, m - 1)] == pytest.approx(told, rel=1e-6)


def test_all_coins_told_together_are_within_the_bound() -> None:
    """With probability a everything is published: (0, a)-DP, with coins that are anything but independent."""
    for m, a in itertools.product((10, 100), (0.01, 0.04)):
        hypothesis = Family(a).member(0.0)
        assert a + (1 - a) * 0.5**m <= hypothesis.p_value(m, m, m)
        assert not hypothesis.refuted(m, m, m, a)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_a_mechanism_attains_theorem_2_where_an_older_bound_fails(epsilon: float) -> None:
    """Two coins, both guessed by the output; its DP is checked on every event of every pair."""
    delta, grown = 0.01, math.exp(epsilon)
    q = 1 / (1 + grown)
    none = q**2 * (1 - (2 + grown) * delta)
    right = [none, 2 * (grown * none + delta), grown * (grown * none + delta)]
    assert sum(right) == pytest.approx(1.0, abs=1e-12)
    outputs = list(itertools.product((0, 1), repeat=2))

    def probability(output: tuple[int, ...], coins: tuple[int, ...]) -> float:
        agreed = sum(a == b for a, b in zip(output, coins, strict=True))
        return right[agreed] / math.comb(2, agreed)

    for coins, flipped in itertools.product(outputs, repeat=2):
        if sum(a != b for a, b in zip(coins, flipped, strict=True)) == 1:
            for event in itertools.chain.from_iterable(itertools.combinations(outputs, k) for k in range(5)):
                p, other = (sum(probability(o, side) for o in event) for side in (coins, flipped))
                assert p <= grown * other + delta + 1e-12
    assert one_run_p_value(2, 2, 1, epsilon, delta) == pytest.approx(1 - none, rel=1e-8)
    older = (1 - q**2) + 2 * 2 * delta * q**2
    assert older < 1 - none


def test_a_bound_that_forgot_the_coins_dependence_would_be_caught() -> None:
    """A planted fault: a binomial tail at delta = 0 where delta is 0.04."""
    told_together = 0.04 + 0.96 * 0.5**20
    assert binom.sf(19, 20, 0.5) < told_together <= Family(0.04).member(0.0).p_value(20, 20, 20)


@pytest.mark.parametrize("mu", [0.0, 0.05, 1.0, 7.0, 40.0])
def test_the_gaussian_floor_is_below_the_truth_and_close(mu: float) -> None:
    floor = gaussian_floor(mu)
    ys = [0.0, 5e-324, 1e-300, 1e-30, 1e-5, 0.3, 0.5, 0.9, 1 - 1e-9, 1 - 2**-53, 1.0]
    with mp.workdps(60):
        for y in ys[1:-1]:
            exact = mp.ncdf(_quantile(y) - mpf(mu))
            assert exact * (1 - mpf("1e-8")) - mpf("1e-300") <= floor(y) <= exact
    assert (floor(0.0), floor(1.0)) == (0.0, 1.0)
    assert all(floor(a) <= floor(b) for a, b in itertools.pairwise(ys))


def _quantile(y: float) -> mpf:
    """Phi^-1, from a start in floating point."""
    start = float(norm.ppf(y)) if y > 1e-290 else -math.sqrt(-2 * math.log(y))
    return mp.findroot(lambda x: mp.log(mp.ncdf(x)) - mp.log(mpf(y)), start)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.3, 0.2), (900.0, 1e-5)])
def test_the_approximate_floor_is_the_event_and_its_complement(epsilon: float, delta: float) -> None:
    one, many = approximate_floor(epsilon, delta), curve_floor([(epsilon, delta)])
    # Where either bound begins to be positive its terms cancel.
    ends = delta, 1.0 - (1.0 - delta) * math.exp(-epsilon)
    near = [min(1.0, end + k * 2.0**-53) for end in ends for k in range(1, 12)]
    with mp.workdps(40):
        for y in (0.0, 1e-9, 0.2, 0.5, 0.99, 1.0, *near):
            grown, d = mp.exp(mpf(epsilon)), mpf(delta)
            exact = max(0, (mpf(y) - d) / grown, 1 - d - grown * (1 - mpf(y)))
            for floor in (one, many):
                assert floor(y) <= exact
                assert exact - floor(y) <= 3e-13 * (1 - d + grown * (1 - mpf(y)))


def test_where_all_but_delta_cancels_the_floor_is_still_below_the_truth() -> None:
    """Near epsilon = 0 and y = delta both bounds are a few last digits, and rounding as large."""
    random = np.random.default_rng(2)
    for _ in range(150):
        epsilon, delta = random.choice([0.0, 1e-16, 1e-14]) * random.random(), float(random.random())
        floors = approximate_floor(epsilon, delta), curve_floor([(epsilon, delta)])
        with mp.workdps(40):
            grown, d = mp.exp(mpf(epsilon)), mpf(delta)
            for k in range(1, 5):
                y = mpf(delta + k * 2.0**-53)
                exact = max(0, (y - d) / grown, 1 - d - grown * (1 - y))
                assert max(floor(float(y)) for floor in floors) <= exact


def test_the_floor_of_a_curve_is_the_largest_of_its_points() -> None:
    points = [(0.0, 0.3), (0.7, 0.1), (2.0, 1e-3)]
    floor, singly = curve_floor(points), [approximate_floor(*point) for point in points]
    for y in np.linspace(0.0, 1.0, 41).tolist():
        assert floor(y) == pytest.approx(max(each(y) for each in singly), rel=1e-14)


def test_a_bound_refutes_only_what_all_smaller_parameters_are_refuted_with() -> None:
    for family in (Family(), Family(1e-5), Family(0.0)):
        plan = planned(family, 300, 0.05)
        bound, count = largest_parameter(family, plan, 300, lambda r: r - r // 20, 0.05)
        assert 0.3 < bound < EDGES[-1]
        below, above = bound * 0.9999, bound * 1.0001
        assert plan(below) == count
        assert family.member(below).refuted(300, count, count - count // 20, 0.05)
        assert not family.member(above).refuted(300, plan(above), plan(above) - plan(above) // 20, 0.05)
        assert largest_parameter(family, plan, 300, lambda r: r // 2, 0.05)[0] == 0.0


def test_each_parameter_is_refuted_by_its_own_number_of_guesses() -> None:
    """Up to an edge exactly, where the number changes; and in between to a part in 2^30."""
    tried: list[float] = []

    class Limited(Family):
        def member(self, parameter: float) -> Any:
            tried.append(parameter)
            refuted = parameter <= limit
            return SimpleNamespace(refuted=lambda *counts: refuted)

    def plan(parameter: float) -> int:
        return 1 + bisect_right(EDGES[:-1], parameter)

    for k in range(1, len(EDGES)):
        limit = EDGES[k]
        assert largest_parameter(Limited(), plan, 100, lambda r: r, 0.05) == (limit, 1 + k)
        limit = 0.5 * (EDGES[k - 1] + EDGES[k]) + 1e-3
        bound, count = largest_parameter(Limited(), plan, 100, lambda r: r, 0.05)
        assert bound in tried
        assert limit * (1 - 1e-8) <= bound <= limit
        assert count == 1 + k
    limit = -1.0
    assert largest_parameter(Limited(), plan, 100, lambda r: r, 0.05) == (0.0, 2)


def test_counts_are_planned_for_what_is_tested() -> None:
    """Few guesses against a strong claim, most where none would do; and never more than there are."""
    assert best_count(Family().member(30.0), 500, 0.05) == 354
    assert 20 < best_count(Family().member(0.6), 1000, 0.05) < 400
    for m in (1, 2, 3, 7):
        assert 1 <= best_count(Family().member(0.1), m, 0.05) <= m


def test_counts_that_cannot_be_are_refused() -> None:
    for counts in [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)]:
        with pytest.raises(InvalidParameter):
            beyond(*counts, gaussian_floor(1.0), 0.05)
    assert not beyond(10, 5, 0, gaussian_floor(1.0), 0.5)
