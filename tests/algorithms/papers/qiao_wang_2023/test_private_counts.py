import math
from itertools import product
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from dpaudit.algorithms.papers.qiao_wang_2023.private_counts import (
    gaussian_error_bound,
    laplace_error_bound,
    private_counts,
)
from dpaudit.errors import InvalidParameter

COUNT = st.floats(-500.0, 1000.0) | st.integers(-20, 50).map(float)
CELL = st.tuples(
    COUNT, st.lists(COUNT, min_size=1, max_size=8), st.floats(0.0, 400.0) | st.just(0.0) | st.just(math.inf)
)


def limits(noisy_sa: float, error_bound: float) -> tuple[float, float]:
    return max(0.0, noisy_sa - error_bound / 2.0), max(0.0, noisy_sa + error_bound / 2.0)


def private_counts_lp(noisy_sa: float, noisy_sas: np.ndarray, error_bound: float) -> np.ndarray:
    """A minimiser of (3) for one cell, by linear programming (HiGHS) as the paper has it in (4)."""
    size = len(noisy_sas)
    least, most = limits(noisy_sa, error_bound)
    ones = np.ones((size, 1))
    # Variables x_1..x_S, t:  x - t <= c  and  -x - t <= -c.
    rows = np.block([[np.eye(size), -ones], [-np.eye(size), -ones]])
    bounds = np.concatenate([noisy_sas, -np.asarray(noisy_sas)])
    total = np.append(np.ones(size), 0.0)
    if math.isfinite(most):
        rows = np.vstack([rows, total, -total])
        bounds = np.concatenate([bounds, [most, -least]])
    solution = linprog(np.eye(size + 1)[-1], A_ub=rows, b_ub=bounds, method="highs")
    assert solution.x is not None, solution.message
    return solution.x[:size]


def check_against_lp(noisy_sa: float, noisy_sas: np.ndarray, error_bound: float) -> None:
    closed = private_counts(noisy_sa, noisy_sas, error_bound)
    solved = private_counts_lp(noisy_sa, noisy_sas, error_bound)
    least, most = limits(noisy_sa, error_bound)
    tolerance = 1e-7 * (1.0 + np.abs(noisy_sas).sum() + abs(noisy_sa))
    assert (closed >= 0.0).all()
    assert least - tolerance <= closed.sum() <= most + tolerance
    deviation = np.abs(closed - noisy_sas).max()
    assert deviation == pytest.approx(np.abs(solved - noisy_sas).max(), abs=10.0 * tolerance)


@given(CELL)
def test_closed_form_is_as_good_as_the_linear_programme(cell: tuple[float, list[float], float]) -> None:
    noisy_sa, noisy_sas, error_bound = cell
    check_against_lp(noisy_sa, np.array(noisy_sas), error_bound)


def test_closed_form_is_as_good_as_the_linear_programme_on_thousands_of_noisy_counts(nightly: bool) -> None:
    rng = np.random.default_rng(0)
    negative = infeasible = 0
    cells = 2_000 if nightly else 300
    for _ in range(cells):
        size = int(rng.integers(1, 9))
        true = rng.integers(0, 40, size) * rng.integers(0, 2, size)
        sigma = float(rng.choice([0.5, 5.0, 30.0]))
        noisy_sa = true.sum() + sigma * rng.normal()
        noisy_sas = true + sigma * rng.normal(size=size)
        error_bound = float(rng.choice([0.0, 0.3, 1.0, 4.0, 10.0]) * sigma)
        negative += bool((noisy_sas < 0.0).any())
        infeasible += bool(noisy_sa < -error_bound / 2.0)
        check_against_lp(noisy_sa, noisy_sas, error_bound)
    assert negative > cells / 4
    assert infeasible > cells / 40


def test_closed_form_on_a_grid_of_cells_by_enumeration() -> None:
    """Exact optimum of small integer cells: no grid point of the feasible set deviates less."""
    for noisy_sa, first, second, error_bound in product((-3, 0, 2, 5), (-2, 0, 1, 4), (-1, 0, 3), (0, 2, 4)):
        centre = np.array([first, second], dtype=float)
        least, most = limits(noisy_sa, error_bound)
        closed = private_counts(noisy_sa, centre, error_bound)
        grid = np.array([p for p in product(np.arange(0.0, 12.0, 0.5), repeat=2) if least <= sum(p) <= most])
        best = np.abs(grid - centre).max(axis=1).min()  # attained on multiples of 1/2: S = 2, integer data
        assert np.abs(closed - centre).max() == pytest.approx(best, abs=1e-12)


def test_the_canonical_minimiser_is_the_nearest() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        centre, noisy_sa, error_bound = rng.normal(size=3) * 5.0, rng.normal() * 10.0, rng.random() * 8.0
        closed = private_counts(noisy_sa, centre, error_bound)
        least, most = limits(noisy_sa, error_bound)
        points = rng.random((500, 3)) * 8.0
        totals = points.sum(axis=1)
        points *= (np.clip(totals, least, most) / totals)[:, None]
        # A projection on a convex set: no feasible direction makes an acute angle with what is left.
        assert ((points - closed) @ (centre - closed)).max() <= 1e-9


@pytest.mark.parametrize("error_bound", [0.0, 1e-9, 3.0, math.inf])
def test_counts_without_noise_come_back_exactly(error_bound: float) -> None:
    counts = np.random.default_rng(2).integers(0, 1000, (4, 3, 2, 3)).astype(float)
    assert np.array_equal(private_counts(counts.sum(axis=-1), counts, error_bound), counts)


def test_infinity_drops_the_constraint_and_an_infeasible_cell_is_empty() -> None:
    assert private_counts(100.0, [-1.0, 2.0, 3.0], math.inf).tolist() == [0.0, 2.0, 3.0]
    assert private_counts(-10.0, [5.0, 7.0], 4.0).tolist() == [0.0, 0.0]
    assert private_counts_lp(-10.0, np.array([5.0, 7.0]), 4.0) == pytest.approx([0.0, 0.0])


def test_all_cells_at_once_are_each_cell_alone() -> None:
    rng = np.random.default_rng(3)
    noisy_sa, noisy_sas = rng.normal(size=(3, 4)) * 20.0, rng.normal(size=(3, 4, 5)) * 10.0
    together = private_counts(noisy_sa, noisy_sas, 3.0)
    for cell in np.ndindex(3, 4):
        assert np.array_equal(together[cell], private_counts(noisy_sa[cell], noisy_sas[cell], 3.0))


@pytest.mark.parametrize("seed", range(5))
def test_lemma_c3_holds_whenever_every_noise_is_within_half_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 60, (5, 4, 3, 4)).astype(float)
    error_bound = 20.0
    noisy_sa = counts.sum(axis=-1) + rng.uniform(-10.0, 10.0, counts.shape[:-1])
    noisy_sas = counts + rng.uniform(-10.0, 10.0, counts.shape)
    private = private_counts(noisy_sa, noisy_sas, error_bound)
    assert np.abs(private - counts).max() <= error_bound + 1e-9
    assert np.abs(private.sum(axis=-1) - counts.sum(axis=-1)).max() <= error_bound + 1e-9


def test_tables_are_solved_in_arrays(python_calls: Any) -> None:
    rng = np.random.default_rng(4)
    noisy_sas = rng.normal(size=(20, 10, 10, 10)) * 30.0 + 10.0
    assert python_calls(lambda: private_counts(noisy_sas.sum(axis=-1), noisy_sas, 50.0)) < 1_000


@pytest.mark.parametrize(
    ("noisy_sa", "noisy_sas", "error_bound"),
    [
        (1.0, [1.0], -1.0),
        (1.0, [1.0], math.nan),
        (math.nan, [1.0], 1.0),
        (1.0, [math.inf], 1.0),
        ([1.0], [1.0], 1.0),
        (1.0, [], 1.0),
        (1.0, 1.0, 1.0),
    ],
)
def test_refused(noisy_sa: float, noisy_sas: list[float], error_bound: float) -> None:
    with pytest.raises(InvalidParameter):
        private_counts(noisy_sa, noisy_sas, error_bound)


def test_error_bounds_against_the_paper_and_the_exact_tails() -> None:
    # H = 3, S = A = 2, rho = 1/2, delta = 0.1: sigma^2 = 12.
    bound = gaussian_error_bound(math.sqrt(12.0), 48, 0.1)
    assert bound == pytest.approx(25.67539, abs=5e-6)
    counts = 3 * 2 * 2 + 3 * 2 * 2 * 2
    with mpmath.workdps(60):
        gaussian_tail = mpmath.erfc(mpmath.mpf(bound) / 2 / mpmath.sqrt(24))
        assert counts * gaussian_tail < 0.1
        laplace = laplace_error_bound(12.0, 48, 0.1)
        laplace_tail = mpmath.exp(-mpmath.mpf(laplace) / 2 / 12)
        assert counts * laplace_tail < 0.1
        # The union is over 2 H S^2 A = 48 counts where 36 are meant: no looser than that.
        assert 48 * laplace_tail == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize("function", [gaussian_error_bound, laplace_error_bound])
@pytest.mark.parametrize(
    "change",
    [
        {"failure_probability": 0.0},
        {"failure_probability": 1.0},
        {"failure_probability": math.nan},
        {"counts": 0},
    ],
)
def test_error_bounds_refuse(function: object, change: dict[str, float]) -> None:
    good = {"counts": 48, "failure_probability": 0.1}
    assert callable(function)
    assert function(0.0, **good) == 0.0
    with pytest.raises(InvalidParameter):
        function(1.0, **(good | change))
    for noise in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter):
            function(noise, **good)
