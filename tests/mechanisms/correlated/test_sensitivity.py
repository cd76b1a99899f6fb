"""The reach of a strategy against every pattern of participations, in rational numbers."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.errors import CannotBound
from dpaudit.mechanisms import BufferedToeplitz, LowerTriangular, Toeplitz
from dpaudit.mechanisms.correlated.sensitivity import Reach, patterns, reach
from dpaudit.mechanisms.correlated.strategies import Strategy
from tests.sweeps import sweep

SLACK = Fraction(1, 10**12)


def matrix(strategy: Strategy, steps: int) -> list[list[Fraction]]:
    rows = [strategy.row(step).tolist() for step in range(1, steps + 1)]
    return [
        [Fraction(0)] * (step - len(row)) + [Fraction(c) for c in row] + [Fraction(0)] * (steps - step)
        for step, row in enumerate(rows, start=1)
    ]


def all_patterns(steps: int, participations: int, separation: int) -> list[tuple[int, ...]]:
    """By trying all subsets."""
    subsets = (tuple(step for step in range(steps) if subset >> step & 1) for subset in range(1, 1 << steps))
    return [
        s
        for s in subsets
        if len(s) <= participations and all(b - a >= separation for a, b in itertools.pairwise(s))
    ]


def products(strategy: Strategy, steps: int) -> list[list[Fraction]]:
    c = list(zip(*matrix(strategy, steps), strict=True))
    return [[sum(map(Fraction.__mul__, one, other), Fraction(0)) for one in c] for other in c]


def squares(x: list[list[Fraction]], participations: int, separation: int) -> tuple[Fraction, Fraction]:
    """The largest |C u|^2 over u of signs +-1 on a pattern, and the largest sum of |X_ij| over a pattern."""
    attained = bound = Fraction(0)
    for pattern in all_patterns(len(x), participations, separation):
        bound = max(bound, sum((abs(x[a][b]) for a in pattern for b in pattern), Fraction(0)))
        for signs in itertools.product((1, -1), repeat=len(pattern) - 1):
            u = dict(zip(pattern, (1, *signs), strict=True))
            attained = max(attained, sum((u[a] * u[b] * x[a][b] for a in u for b in u), Fraction(0)))
    return attained, bound


def random_rows(seed: int, steps: int, bands: int, *, signed: bool) -> LowerTriangular:
    generator = np.random.default_rng(seed)
    rows = []
    for step in range(1, steps + 1):
        row = generator.uniform(-1.0 if signed else 0.0, 1.0, min(step, bands))
        rows.append((*row[:-1].tolist(), float(generator.uniform(0.5, 1.5))))
    return LowerTriangular(rows=tuple(rows))


STRATEGIES: list[tuple[Strategy, int]] = [
    *(
        (random_rows(seed, 6, bands, signed=signed), 6)
        for seed, (bands, signed) in enumerate(itertools.product((1, 2, 3, 6), (False, True)))
    ),
    (Toeplitz(coefficients=(1.0, 0.5, 0.375, 0.3125)), 6),
    (Toeplitz(coefficients=(1.0, -0.5, 0.2)), 6),
    (Toeplitz(coefficients=(1.0, 0.2, 0.7, 0.1)), 6),
    (BufferedToeplitz(decays=(0.9, 0.3), scales=(0.3, 0.2)), 6),
    (BufferedToeplitz(decays=(0.9, 0.3), scales=(-0.1, 0.3)), 6),
]


@sweep("strategy, steps", STRATEGIES, everyday=range(0, 13, 2))
def test_it_is_never_below_what_a_unit_can_do_and_attained_where_it_is_said_to_be(
    strategy: Strategy, steps: int
) -> None:
    x = products(strategy, steps)
    for participations, separation in ((1, 1), (2, 1), (9, 1), (2, 2), (9, 2), (3, 3), (2, 4), (9, 9)):
        found = reach(strategy, steps, participations, separation)
        attained, bound = squares(x, participations, separation)
        assert Fraction(found.value) ** 2 >= attained
        if found.exact:
            assert Fraction(found.value) ** 2 <= attained * (1 + SLACK)
        elif isinstance(strategy, LowerTriangular):  # so few patterns are tried one by one
            assert Fraction(found.value) ** 2 <= bound * (1 + SLACK)


def test_the_theorems_that_make_it_exact_are_used_where_their_conditions_hold() -> None:
    falling, rising = (1.0, 0.5, 0.375), (1.0, 0.5, 0.75)
    assert reach(Toeplitz(coefficients=rising), 9, 3, 3) == (
        pytest.approx((3 * 1.8125) ** 0.5, rel=1e-14),
        True,
        "columns without a row in common",
    )
    assert reach(Toeplitz(coefficients=falling), 9, 3, 2).by == "the earliest pattern"
    raised = reach(Toeplitz(coefficients=rising), 9, 3, 2)
    assert raised.value == pytest.approx(reach(Toeplitz(coefficients=(1.0, 0.75, 0.75)), 9, 3, 2).value)
    assert not raised.exact
    assert reach(random_rows(0, 9, 4, signed=False), 9, 3, 2).by == "every pattern"
    assert not reach(random_rows(0, 9, 4, signed=True), 9, 3, 2).exact


def test_patterns_are_those_of_the_schema() -> None:
    for steps, participations, separation in itertools.product((1, 5, 8), (1, 2, 4), (1, 2, 4)):
        found = list(patterns(steps, participations, separation))
        assert sorted(found) == sorted(all_patterns(steps, participations, separation))


def test_the_bound_over_many_patterns_lies_above_each_and_below_the_crudest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where patterns are too many to be tried, on matrices small enough to try them nevertheless."""
    from dpaudit.mechanisms.correlated import sensitivity

    monkeypatch.setattr(sensitivity, "_MOST_PATTERNS", 0)
    for seed, (signed, participations, separation) in enumerate(
        itertools.product((False, True), (2, 6), (1, 2, 3))
    ):
        strategy = random_rows(100 + seed, 6, 6, signed=signed)
        found: Reach = sensitivity.reach.__wrapped__(strategy, 6, participations, separation)
        _, bound = squares(products(strategy, 6), participations, separation)
        assert not found.exact
        assert Fraction(found.value) ** 2 >= bound
        assert found.value <= 1.35 * float(bound) ** 0.5


def test_a_dense_matrix_and_its_toeplitz_form_have_one_reach() -> None:
    toeplitz = Toeplitz(coefficients=(1.0, 0.5, 0.375, 0.3125, 0.25))
    written = LowerTriangular(rows=tuple(tuple(toeplitz.row(step).tolist()) for step in range(1, 13)))
    for participations, separation in ((1, 1), (2, 6), (3, 4), (12, 1), (2, 5)):
        one, other = (reach(s, 12, participations, separation) for s in (toeplitz, written))
        assert one.exact
        assert one.value == pytest.approx(other.value, rel=1e-12)


def test_long_streams_of_few_bands_cost_nothing_and_others_are_refused() -> None:
    strategy = Toeplitz(coefficients=(1.0, 0.5))
    assert reach(strategy, 10**15, 10**12, 2).value == pytest.approx((10**12 * 1.25) ** 0.5, rel=1e-12)
    with pytest.raises(CannotBound, match="as many bands as the separation"):
        reach(strategy, 10**9, 10, 1)
    dense = LowerTriangular(rows=tuple((1.0,) * min(step, 2) for step in range(1, 5001)))
    assert reach(dense, 5000, 100, 2).exact
    with pytest.raises(CannotBound, match="takes too many sums"):
        reach(dense, 5000, 100, 1)
