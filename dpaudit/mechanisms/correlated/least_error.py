"""Strategies with little error of prefix sums, and the size of that error.

Let A be the matrix of prefix sums. With noise of sigma = 1 on the answers, the variance of the sum after t
items is the squared norm of row t of A C^-1. A strategy's error is the root of the mean variance, times its
reach: the noise per unit of sensitivity at mu = 1.
"""

import math
from collections.abc import Callable

import numpy as np

from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms.base import Array
from dpaudit.mechanisms.correlated.strategies import LowerTriangular, Strategy, Toeplitz

_MOST_BANDS, _MOST_STEPS = 128, 1 << 14  # of `least_error_banded`, which keeps a matrix for each step
_TOLERANCE = 1e-10  # the search ends when a step lowers the error by less than this fraction
_ROUNDS = 4000


def square_root_strategy(bands: int) -> Toeplitz:
    """Return the strategy of the first coefficients of the root of A: binomial(2j, j) / 4^j.

    With as many bands as steps, C^2 = A (Fichtenberger, Henzinger and Upadhyay 2022); with fewer bands, C is
    the banded root (Kalinin and Lampert 2024). The coefficients are positive and decreasing, so the reach is
    exact.
    """
    ratios = [1.0, *((2.0 * j - 1.0) / (2.0 * j) for j in range(1, _at_least_one("bands", bands)))]
    return Toeplitz(coefficients=tuple(np.cumprod(ratios).tolist()))


def prefix_error(strategy: Strategy, steps: int) -> float:
    """Return the root mean variance of the noise on prefix sums 1, ..., steps, for sigma = 1."""
    strategy.require_steps(steps)
    if isinstance(strategy, LowerTriangular):
        square = _squares_of_rows(strategy.diagonals(steps))[0]
    else:
        square = _squares_of_toeplitz(strategy.first_column(steps), steps)[0]
    return math.sqrt(square / steps)


def least_error_banded(steps: int, bands: int) -> LowerTriangular:
    """Return the strategy with `bands` bands and columns of norm 1 that has the least mean squared error.

    If a unit's participations are at least `bands` steps apart, each then costs the same. The problem is
    convex in X = C'C, and a Cholesky factorization gives C from X, so there are no other local minima
    (Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization"). The search is L-BFGS over the
    columns, with the gradient of a linear system's covariance, in time steps * bands^2 per round.

    Raises:
        CannotBound: more than 2^14 steps or 128 bands: use `least_error_toeplitz`.
    """
    bands = min(_at_least_one("bands", bands), _at_least_one("steps", steps))
    if steps > _MOST_STEPS or bands > _MOST_BANDS:
        what = f"{steps} steps and {bands} bands"
        why = "the search for the best matrix would take too long"
        raise CannotBound(what, where="least_error_banded", why=why, remedy="use least_error_toeplitz")
    inside = np.add.outer(np.arange(1, bands), np.arange(steps)) < steps  # [bands - 1, steps]

    def normalised(free: Array) -> tuple[Array, Array]:
        diagonals = np.ones((bands, steps))
        diagonals[1:] = 0.0
        diagonals[1:][inside] = free
        return diagonals, np.sqrt(np.square(diagonals).sum(axis=0))

    def error(free: Array) -> tuple[float, Array]:
        diagonals, norms = normalised(free)
        square, by_entry = _squares_of_rows(diagonals / norms, gradient=True)
        along = (by_entry * diagonals).sum(axis=0)
        by_free = by_entry / norms - diagonals * (along / norms**3)
        return math.log(square), (by_free[1:][inside]) / square

    start = np.repeat(square_root_strategy(bands).first_column(bands)[1:, None], steps, axis=1)[inside]
    diagonals, norms = normalised(_minimised(error, start))
    found = diagonals / norms
    rows = [tuple(found[m, row - m] for m in range(min(row, bands - 1), -1, -1)) for row in range(steps)]
    return LowerTriangular(rows=tuple(tuple(map(float, row)) for row in rows))


def least_error_toeplitz(steps: int, bands: int) -> Toeplitz:
    """Return the banded Toeplitz strategy of least mean squared error over `steps` steps, by L-BFGS.

    The search covers strategies with positive decreasing coefficients that start with 1: their reach is exact
    for every participation schema, and their inverse does not grow, as no root of the polynomial lies in the
    unit disc (Enestrom and Kakeya). A round takes time steps * bands.
    """
    bands = min(_at_least_one("bands", bands), _at_least_one("steps", steps))

    def column(free: Array) -> tuple[Array, Array]:
        lost = 1.0 / (1.0 + np.exp(np.minimum(free, 50.0)))  # 1 minus the ratio of two coefficients
        return np.append(1.0, np.cumprod(1.0 - lost)), lost

    def error(free: Array) -> tuple[float, Array]:
        coefficients, lost = column(free)
        square, by_entry = _squares_of_toeplitz(coefficients, steps, gradient=True)
        norm = float(coefficients @ coefficients)
        by_each = (by_entry / square + 2.0 * coefficients / norm) * coefficients
        return math.log(square) + math.log(norm), lost * np.cumsum(by_each[:0:-1])[::-1]

    start = np.log(2.0 * np.arange(1, bands) - 1.0)  # the ratios of the square root's coefficients
    return Toeplitz(coefficients=tuple(column(_minimised(error, start))[0].tolist()))


def _squares_of_rows(diagonals: Array, *, gradient: bool = False) -> tuple[float, Array]:
    """Return the sum of the prefix sums' variances, and its derivatives by the entries [bands, steps].

    The noise w on the items' estimates solves C w = z step by step. The state v = (prefix sum of w, latest w,
    previous w, ...) has covariance F P F' + h h', where P is the previous covariance; the derivatives are
    computed backwards.
    """
    bands, steps = diagonals.shape
    size = max(bands, 2)
    inputs, transitions = np.zeros((steps, size)), np.zeros((steps, size, size))
    for m in range(1, bands):
        entries = -diagonals[m, : steps - m] / diagonals[0, m:]  # of rows m, m + 1, ...
        transitions[m:, 0, m] = transitions[m:, 1, m] = entries
    transitions[:, 0, 0] = 1.0
    later = np.arange(2, size)
    transitions[:, later, later - 1] = 1.0
    inputs[:, 0] = inputs[:, 1] = 1.0 / diagonals[0]
    covariances = np.zeros((steps + 1, size, size))
    for t in range(steps):
        moved = transitions[t] @ covariances[t] @ transitions[t].T
        covariances[t + 1] = moved + np.outer(inputs[t], inputs[t])
    square = float(covariances[1:, 0, 0].sum())
    by_entry = np.zeros_like(diagonals)
    if not gradient:
        return square, by_entry
    weight = np.zeros((size, size))
    by_row, by_input = np.zeros((steps, size)), np.zeros(steps)
    for t in range(steps - 1, -1, -1):
        weight[0, 0] += 1.0
        pulled = weight @ transitions[t]
        by_row[t] = 2.0 * ((pulled[0] + pulled[1]) @ covariances[t])
        by_input[t] = 2.0 * float((weight[0] + weight[1]) @ inputs[t])
        weight = transitions[t].T @ pulled
    diagonal = diagonals[0]
    by_entry[0] = -by_input / diagonal**2
    for m in range(1, bands):
        by_entry[m, : steps - m] = -by_row[m:, m] / diagonal[m:]
        by_entry[0, m:] += by_row[m:, m] * diagonals[m, : steps - m] / diagonal[m:] ** 2
    return square, by_entry


def _squares_of_toeplitz(column: Array, steps: int, *, gradient: bool = False) -> tuple[float, Array]:
    """Return `_squares_of_rows` for a Toeplitz C with first column [bands], with derivatives by it."""
    from scipy.signal import lfilter

    # Column 1 of A C^-1: ones, divided by the polynomial; each later column is one entry shorter.
    decoded = np.asarray(lfilter([1.0], column, np.ones(steps)))
    weights = np.arange(steps, 0, -1)
    square = float((weights * decoded**2).sum())
    by_entry = np.zeros(len(column))
    if gradient:
        # The derivative of 1/c by c_j is -1/c^2, j entries later.
        again = np.asarray(lfilter([1.0], column, decoded))
        for j in range(len(column)):
            by_entry[j] = -2.0 * float((weights[j:] * decoded[j:] * again[: steps - j]).sum())
    return square, by_entry


def _minimised(error: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    from scipy.optimize import fmin_l_bfgs_b

    if not start.size:
        return start
    factr = _TOLERANCE / np.finfo(np.float64).eps
    found = fmin_l_bfgs_b(error, start, m=30, factr=factr, pgtol=1e-9, maxfun=_ROUNDS, maxiter=_ROUNDS)
    return np.asarray(found[0])


def _at_least_one(name: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidParameter(f"{name} = {number!r}", where=name, remedy="give a whole number, 1 or more")
    return number
