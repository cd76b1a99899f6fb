"""Least-error strategies: their error by dense algebra, their optimality by duality, others beside them."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy

from dpaudit import L2
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import Array, BufferedToeplitz, LowerTriangular, MatrixMechanism, TreeAggregation
from dpaudit.mechanisms.correlated.least_error import (
    least_error_banded,
    least_error_toeplitz,
    prefix_error,
    square_root_strategy,
)
from dpaudit.mechanisms.correlated.sensitivity import reach
from dpaudit.mechanisms.correlated.strategies import Strategy


def dense(strategy: Strategy, steps: int) -> Array:
    found = np.zeros((steps, steps))
    for step in range(1, steps + 1):
        row = strategy.row(step)
        found[step - 1, step - len(row) : step] = row
    return found


def prefix_sums(steps: int) -> Array:
    return np.tril(np.ones((steps, steps)))


def total(strategy: Strategy, steps: int, participations: int = 1, separation: int = 1) -> float:
    return prefix_error(strategy, steps) * reach(strategy, steps, participations, separation).value


@pytest.mark.parametrize(
    "strategy",
    [
        square_root_strategy(40),
        square_root_strategy(1),
        square_root_strategy(5),
        BufferedToeplitz(decays=(0.9, 0.5), scales=(0.2, 0.1)),
        LowerTriangular(rows=tuple((0.3, 1.5 + 0.1 * i)[-(i + 1) :] for i in range(40))),
    ],
)
def test_the_error_is_that_of_dense_algebra(strategy: Strategy) -> None:
    decoded = prefix_sums(40) @ np.linalg.inv(dense(strategy, 40))
    assert prefix_error(strategy, 40) == pytest.approx(math.sqrt(np.square(decoded).sum() / 40), rel=1e-10)


def test_the_square_root_is_one() -> None:
    root = dense(square_root_strategy(30), 30)
    assert root @ root == pytest.approx(prefix_sums(30), abs=1e-12)


def dual_bound(strategy: Strategy, steps: int, bands: int) -> float:
    """A lower bound on tr(M X^-1) over all banded X with a diagonal of ones, M = A'A.

    For L positive semi-definite, 0 on the band but for its diagonal, tr(M X^-1) + tr(L X) is at least twice
    the trace of the root of L^(1/2) M L^(1/2), and tr(L X) = tr(L). At the optimum L = X^-1 M X^-1.
    """
    a = prefix_sums(steps)
    c = dense(strategy, steps)
    m, inverse = a.T @ a, np.linalg.inv(c.T @ c)
    multiplier = inverse @ m @ inverse
    apart = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    multiplier[(apart > 0) & (apart < bands)] = 0.0
    values, vectors = np.linalg.eigh(multiplier)
    assert values[0] > -1e-6 * values[-1]
    multiplier = (vectors * np.maximum(values, 0.0)) @ vectors.T
    # What was cut off below 0 is put back to the diagonal: the multiplier stays on the allowed pattern.
    off = np.where((apart > 0) & (apart < bands), multiplier, 0.0)
    multiplier = multiplier - off + np.diag(np.abs(off).sum(axis=1))
    root = np.asarray(scipy.linalg.sqrtm(multiplier)).real
    inner = np.linalg.eigvalsh(root @ m @ root)
    return 2.0 * float(np.sqrt(np.maximum(inner, 0.0)).sum()) - float(np.trace(multiplier))


@pytest.mark.parametrize(("steps", "bands"), [(1, 1), (9, 1), (20, 2), (20, 5), (20, 20), (48, 8)])
def test_the_banded_strategy_is_optimal_by_duality(steps: int, bands: int) -> None:
    found = least_error_banded(steps, bands)
    norms = np.linalg.norm(dense(found, steps), axis=0)
    assert norms == pytest.approx(np.ones(steps), rel=1e-12)
    square = prefix_error(found, steps) ** 2 * steps
    least = dual_bound(found, steps, bands)
    assert least <= square * (1.0 + 1e-9)
    assert square <= least * (1.0 + 1e-4)


def test_each_is_at_least_as_good_as_what_is_known_in_closed_form(nightly: bool) -> None:
    steps, bands = (256, 16) if nightly else (64, 4)
    tree = TreeAggregation(sigma=1.0, steps=steps, sensitivity=L2(1.0))
    nodes = sum(step.bit_count() for step in range(1, steps + 1))
    of_tree = math.sqrt(nodes / steps * tree.levels)
    root, banded_root = square_root_strategy(steps), square_root_strategy(bands)
    toeplitz, banded = least_error_toeplitz(steps, bands), least_error_banded(steps, bands)
    errors = [total(s, steps) for s in (banded, toeplitz, banded_root)]
    assert errors == sorted(errors)
    assert errors[-1] < of_tree
    assert total(root, steps) < 0.5 * of_tree
    assert total(least_error_toeplitz(steps, steps), steps) < total(root, steps)
    # Where each unit takes part eight times, an eighth of the steps apart, as many bands are the best.
    apart = steps // 8
    eight = [total(s, steps, 8, apart) for s in (least_error_banded(steps, apart), banded, toeplitz, root)]
    assert eight == sorted(eight)


def test_toeplitz_strategies_scale_to_long_streams() -> None:
    steps = 100_000
    errors = [total(least_error_toeplitz(steps, bands), steps) for bands in (1, 8, 32)]
    assert errors[0] == pytest.approx(math.sqrt((steps + 1) / 2), rel=1e-9)
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 0.25 * errors[0]
    assert list(least_error_toeplitz(steps, 8).coefficients) == sorted(
        least_error_toeplitz(steps, 8).coefficients, reverse=True
    )


def test_a_found_strategy_runs() -> None:
    found = least_error_banded(12, 4)
    noise = MatrixMechanism(
        sigma=1.0, steps=12, strategy=found, participations=3, separation=4, sensitivity=L2(1.0)
    )
    assert noise.reach.exact
    assert noise.reach.value == pytest.approx(math.sqrt(3.0), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: least_error_banded(1 << 15, 4), CannotBound),
        (lambda: least_error_banded(1000, 200), CannotBound),
        *(
            (lambda make=make, wrong=wrong: make(*wrong), InvalidParameter)
            for make, wrong in itertools.product(
                (least_error_banded, least_error_toeplitz), ((0, 1), (4, 0), (4, 1.5), (True, 1), ("4", 1))
            )
        ),
        (lambda: square_root_strategy(0), InvalidParameter),
        (lambda: prefix_error(LowerTriangular(rows=((1.0,),)), 2), InvalidParameter),
    ],
)
def test_bad_sizes_are_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
