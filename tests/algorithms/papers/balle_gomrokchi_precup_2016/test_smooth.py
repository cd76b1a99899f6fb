"""Smooth bounds against enumeration of all counts, the paper's own maximum, and what smooth means."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.smooth import lsl_bound, lsw_bound
from tests.sweeps import sweep

_Vector = NDArray[np.float64]


def lsw_phi(counts: _Vector, weights: _Vector) -> float:
    return float((weights / np.maximum(counts, 1.0) ** 2).sum())


def lsl_phi(counts: _Vector, weights: _Vector, factor: float, m: int) -> float:
    seen = float((weights * np.minimum(counts, m)).sum())
    return (factor * math.sqrt(seen) + float(np.sqrt((weights**2).sum()))) ** 2


def published(counts: _Vector, weights: _Vector, beta: float, factor: float, m: int) -> float:
    """The maximum over k in 0..m with the max that Lemma 9 prints."""
    rest = float(np.linalg.norm(weights))
    return max(
        math.exp(-k * beta) * (factor * math.sqrt(float(weights @ np.maximum(counts + k, m))) + rest) ** 2
        for k in range(m + 1)
    )


@sweep("beta", [0.01, 0.2, 1.0, 4.0], everyday=(0, -1))
def test_both_are_the_least_smooth_bounds_by_enumeration_of_all_counts(beta: float) -> None:
    m, weights, factor = 4, np.array([1.0, 0.3, 0.7]), 0.4
    everywhere = [np.array(v, dtype=float) for v in itertools.product(range(m + 1), repeat=3)]
    for v in everywhere:
        distances = [float(np.abs(v - u).max()) for u in everywhere]
        lsw = max(
            math.exp(-beta * d) * lsw_phi(u, weights) for d, u in zip(distances, everywhere, strict=True)
        )
        lsl = max(
            math.exp(-beta * d) * lsl_phi(u, weights, factor, m)
            for d, u in zip(distances, everywhere, strict=True)
        )
        assert lsw_bound(v, weights, beta).psi == pytest.approx(lsw, rel=1e-12)
        assert lsl_bound(v, weights, beta, factor, m).psi == pytest.approx(lsl, rel=1e-12)


COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=6)


@given(COUNTS, st.floats(1e-4, 2.0), st.floats(0.01, 10.0), st.integers(0, 2**32 - 1))
def test_the_fast_maxima_are_those_over_every_k(
    counts: list[int], beta: float, factor: float, seed: int
) -> None:
    v = np.array(counts, dtype=float)
    m = int(v.max()) + 3
    weights = np.random.default_rng(seed).random(len(v)) + 1e-3
    lsw = [
        math.exp(-k * beta) * float((weights / np.maximum(v - k, 1.0) ** 2).sum())
        for k in range(int(v.max()) + 1)
    ]
    lsl = [math.exp(-k * beta) * lsl_phi(v + k, weights, factor, m) for k in range(m + 1)]
    for found, all_k in ((lsw_bound(v, weights, beta), lsw), (lsl_bound(v, weights, beta, factor, m), lsl)):
        assert found.psi == pytest.approx(max(all_k), rel=1e-12)
        assert all_k[found.k] == pytest.approx(max(all_k), rel=1e-12)


@given(COUNTS, st.floats(1e-4, 2.0), st.floats(0.01, 10.0), st.integers(0, 2**32 - 1))
def test_neighbouring_counts_change_the_logarithm_by_at_most_beta(
    counts: list[int], beta: float, factor: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    v, m = np.array(counts, dtype=float), 61
    weights = rng.random(len(v)) + 1e-3
    other = np.clip(v + rng.integers(-1, 2, len(v)), 0, m)
    for bound in (
        lambda u: lsw_bound(u, weights, beta).psi,
        lambda u: lsl_bound(u, weights, beta, factor, m).psi,
    ):
        assert abs(math.log(bound(v) / bound(other))) <= beta * (1.0 + 1e-9) + 1e-12


def test_the_printed_maximum_is_not_smooth() -> None:
    weights, beta, factor, m = np.ones(4), 1e-3, 0.5, 20
    low, high = np.full(4, 3.0), np.full(4, 4.0)
    change = math.log(published(high, weights, beta, factor, m) / published(low, weights, beta, factor, m))
    assert change > 10 * beta
    found = [lsl_bound(v, weights, beta, factor, m).psi for v in (low, high)]
    assert abs(math.log(found[1] / found[0])) <= beta * (1.0 + 1e-9)


def test_neither_bound_is_smooth_without_smoothing() -> None:
    weights = np.ones(4)
    assert math.log(lsw_phi(np.ones(4), weights) / lsw_phi(np.full(4, 2.0), weights)) > 1.3
    assert math.log(lsl_phi(np.full(4, 2.0), weights, 1.0, 9) / lsl_phi(np.ones(4), weights, 1.0, 9)) > 0.3


def test_the_figures_of_the_worked_example() -> None:
    beta = 1.0 / (4.0 * (2.0 + math.log(20.0)))
    counts, weights = np.array([5.0, 3.0]), np.ones(2)
    lsw = lsw_bound(counts, weights, beta)
    assert (lsw.psi, lsw.k) == (pytest.approx(1.637182, abs=5e-7), 4)
    assert lsl_bound(counts, weights, beta, 1.0 / math.sqrt(20.0), 5).psi == pytest.approx(4.188854, abs=5e-7)


def test_a_hundred_thousand_different_counts_take_moments() -> None:
    counts = np.arange(2000.0) * 500.0
    found = lsw_bound(counts, np.ones(2000), 1e-5)
    assert found.psi >= lsw_phi(counts, np.ones(2000))
    assert lsl_bound(counts, np.ones(2000), 1e-7, 0.1, 1_000_000).k > 0
