"""What exact sums cost: each beside the same sum in doubles, in one run. The bar: at most 3 times as long.

`pytest benchmarks/bench_sums.py -n 0 -s` prints both times and their ratio.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit.noise.contributions import clip_rows, count_cells
from dpaudit.noise.grid import grid_of_bound
from dpaudit.noise.sums import gram, total

RNG = np.random.default_rng(0)
BOUND, NOISE = 1.0, -32  # the grid of noise of scale 1
MOST = 3.0


def clipped_in_doubles(rows: Any, norm: str) -> Any:
    """As clipping was before it was exact."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    shrunk = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = (
        np.abs(shrunk).sum(axis=1, keepdims=True)
        if norm == "l1"
        else np.linalg.norm(shrunk, axis=1, keepdims=True)
    )
    most = np.divide(BOUND, length, out=np.full_like(length, BOUND), where=length > 0)
    return np.where(largest > most, shrunk * most, rows)


def gram_in_doubles(rows: Any) -> Any:
    clipped = clipped_in_doubles(rows, "l2")
    product = clipped.T @ clipped
    return (product + product.T) / 2


def counts_in_doubles(cells: Any, size: int) -> Any:
    ordered = np.sort(cells, axis=1)
    squares, run = np.full(len(cells), cells.shape[1]), np.zeros(len(cells), dtype=np.int64)
    for column in range(1, cells.shape[1]):
        run = np.where(ordered[:, column] == ordered[:, column - 1], run + 1, 0)
        squares += 2 * run
    weights = np.repeat(np.minimum(1.0, BOUND / np.sqrt(squares)), cells.shape[1])
    return np.bincount(cells.ravel(), weights=weights, minlength=size)


def exactly(rows: Any, norm: Any) -> Any:
    return clip_rows(rows, BOUND, norm, grid_of_bound(BOUND, NOISE))


def rows_of(kind: str, n: int, d: int) -> Any:
    if kind == "binary":  # every row is as long as the bound
        return np.eye(d)[RNG.integers(0, d, n)]
    return RNG.normal(size=(n, d)) * (1.0 if kind == "long" else 0.1 / d)


def ratio(name: str, exact: Callable[[], Any], doubles: Callable[[], Any]) -> float:
    """The least of five times of each, taken in turn."""
    times: dict[Callable[[], Any], list[float]] = {exact: [], doubles: []}
    for _ in range(5):
        for call, taken in times.items():
            started = time.process_time()
            call()
            taken.append(time.process_time() - started)
    one, other = min(times[exact]), min(times[doubles])
    sys.stdout.write(
        f"{name}: {1e3 * one:.1f} ms exactly, {1e3 * other:.1f} ms in doubles, ratio {one / other:.2f}\n"
    )
    return one / other


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kind", ["long", "short", "binary"])
@pytest.mark.parametrize(("n", "d"), [(1_000_000, 1), (100_000, 20), (1000, 2000)])
def test_sum(n: int, d: int, kind: str, norm: str) -> None:
    rows = rows_of(kind, n, d)
    found = ratio(
        f"sum of {n} {kind} rows of {d} in {norm}",
        lambda: total(exactly(rows, norm)).to_doubles(),
        lambda: clipped_in_doubles(rows, norm).sum(axis=0),
    )
    assert found <= MOST


@pytest.mark.parametrize("kind", ["long", "binary"])
@pytest.mark.parametrize(("n", "d"), [(100_000, 10), (50_000, 50), (20_000, 200)])
def test_gram(n: int, d: int, kind: str) -> None:
    rows = rows_of(kind, n, d)
    found = ratio(
        f"Gram matrix of {n} {kind} rows of {d}",
        lambda: gram(exactly(rows, "l2")).to_doubles(),
        lambda: gram_in_doubles(rows),
    )
    assert found <= MOST


@pytest.mark.parametrize(("n", "m"), [(300_000, 1), (100_000, 10)])
def test_counts(n: int, m: int) -> None:
    cells = RNG.integers(0, 500, (n, m))
    found = ratio(
        f"counts of {n} units with {m} increments each",
        lambda: count_cells(cells, (500,), BOUND, "l2", grid_of_bound(BOUND, NOISE)).to_doubles(),
        lambda: counts_in_doubles(cells, 500),
    )
    assert found <= MOST
