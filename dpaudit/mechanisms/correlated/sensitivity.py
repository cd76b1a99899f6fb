"""The sensitivity of a strategy matrix C: sup |C u| over one unit's changes u in a participation schema.

u has a vector of norm at most 1 at each step with the unit and 0 elsewhere. A schema allows at most k steps,
any two at least b apart. With X = C'C and such a pattern S of steps, |C u|^2 is the sum over i, j in S of
X_ij <u_i, u_j>. It is at most the sum of |X_ij|, which is attained if these X_ij are not negative
(Choquette-Choo, McMahan, Rush and Thakurta 2023, "Multi-epoch matrix factorization"). Hence

- one participation: the largest norm of a column, exactly;
- at most b bands: columns b apart have no row in common, and |C u|^2 adds up over them: the largest sum of
  squared norms over all patterns, exactly (Choquette-Choo et al. 2023, "(Amplified) Banded Matrix
  Factorization", Algorithm 3);
- Toeplitz, c_0 >= c_1 >= ... >= 0: the earliest pattern 1, 1 + b, ... is the worst, exactly (Kalinin and
  Lampert 2024, "Banded square root matrix factorization", Theorem 2); other coefficients c_i are replaced by
  the largest |c_j| over j >= i, which bounds them from above;
- few patterns: all are enumerated; this is exact if no X_ij of two steps in one pattern is negative;
- otherwise an upper bound: let u_i be the largest sum of |X_ij| over the patterns that contain i, relaxed to
  k - 1 further steps b apart; the bound is the largest sum of u_i over all patterns (Algorithm 4 of the same
  paper, for matrices without bands, with fewer pairs in it).

Everything is computed in doubles and increased by a bound on the rounding errors.
"""

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpaudit.errors import CannotBound
from dpaudit.mechanisms.base import Array
from dpaudit.mechanisms.correlated.strategies import MOST_ENTRIES, LowerTriangular, Strategy

_UNIT = 2.0**-53
_MOST_PATTERNS = 20_000
_MOST_SUMS = 1 << 31  # additions of the bound over all patterns


class Reach(NamedTuple):
    """A bound on |C u|, rounded up; `exact` says that some u attains it, up to rounding."""

    value: float
    exact: bool
    by: str


@lru_cache(maxsize=64)
def reach(strategy: Strategy, steps: int, participations: int, separation: int) -> Reach:
    """Return the bound for a strategy's first `steps` steps and a participation schema.

    A unit takes part in at most `participations` steps, any two at least `separation` apart.

    Raises:
        CannotBound: the bound takes too many sums.
    """
    times = min(participations, -(-steps // separation))
    if isinstance(strategy, LowerTriangular):
        return _of_rows(strategy.diagonals(steps), times, separation)
    return _of_toeplitz(strategy.first_column(steps), steps, times, separation)


def _of_toeplitz(column: Array, steps: int, times: int, separation: int) -> Reach:
    bands = len(column)
    if times == 1:
        return Reach(_root(math.fsum(column**2), 4), exact=True, by="the largest column")
    if bands <= separation:
        # Only the last column of the earliest pattern can be cut at the end.
        last = column[: steps - (times - 1) * separation]
        square = (times - 1) * math.fsum(column**2) + math.fsum(last**2)
        return Reach(_root(square, 8), exact=True, by="columns without a row in common")
    hull = np.maximum.accumulate(np.abs(column)[::-1])[::-1]
    if steps > MOST_ENTRIES or times * bands > _MOST_SUMS:
        raise _too_many(steps)
    sums = np.zeros(steps)
    for first in range(0, times * separation, separation):
        sums[first : first + bands] += hull[: steps - first]
    same = bool(np.array_equal(hull, column))
    by = "the earliest pattern" if same else "the earliest pattern, of raised coefficients"
    return Reach(_root(math.fsum(sums**2), 2 * times + 8), exact=same, by=by)


def _of_rows(diagonals: Array, times: int, separation: int) -> Reach:
    bands, steps = diagonals.shape
    squares = np.square(diagonals).sum(axis=0)
    if times == 1:
        return Reach(_root(float(squares.max()), bands + 4), exact=True, by="the largest column")
    if bands <= separation:
        total = float(_largest_sums(squares[None], times, separation)[0])
        return Reach(_root(total, bands + times + 8), exact=True, by="columns without a row in common")
    if steps**2 * times > _MOST_SUMS or steps**2 > MOST_ENTRIES:
        raise _too_many(steps)
    products, signed = _products(diagonals, squares, separation)
    if _are_few(steps, times, separation):
        total = max(float(products[np.ix_(p, p)].sum()) for p in patterns(steps, times, separation))
        by = "every pattern" if not signed else "every pattern, of the products' magnitudes"
        return Reach(_root(total, bands + times**2 + 8), exact=not signed, by=by)
    others = products.copy()
    np.fill_diagonal(others, 0.0)
    largest = squares + _largest_sums(others, times - 1, separation)
    total = float(_largest_sums(largest[None], times, separation)[0])
    return Reach(_root(total, bands + 2 * times + 8), exact=False, by="the largest sums of rows of products")


def _products(diagonals: Array, squares: Array, separation: int) -> tuple[Array, bool]:
    """Return |X| [steps, steps], rounded up, for pairs of steps in one pattern, and whether one is negative.

    A product with a sign that rounding leaves undecided counts as negative.
    """
    bands, steps = diagonals.shape
    products, signed = np.diag(squares), False
    for apart in range(separation, bands):
        upper, lower = diagonals[apart:, : steps - apart], diagonals[: bands - apart, apart:]
        each = upper * lower
        found = each.sum(axis=0)
        slack = 4.0 * (bands + 2) * _UNIT * np.abs(each).sum(axis=0)
        signed |= bool(((found < slack) & (each < 0.0).any(axis=0)).any())
        line = np.arange(steps - apart)
        products[line, line + apart] = products[line + apart, line] = np.abs(found) + slack
    return products, signed


def _largest_sums(weights: Array, times: int, separation: int) -> Array:
    """Return, for each row of weights >= 0 [n, steps], the largest sum over `times` separate steps.

    Any two of these steps are at least `separation` apart.
    """
    best = np.zeros((len(weights), weights.shape[1] + 1))
    before = np.maximum(np.arange(weights.shape[1]) - separation + 1, 0)
    for _ in range(times):
        best[:, 1:] = np.maximum.accumulate(weights + best[:, before], axis=1)
    return np.asarray(best[:, -1])


def patterns(steps: int, times: int, separation: int) -> Iterator[tuple[int, ...]]:
    """Yield all patterns of 1 to `times` steps, numbered from 0, any two at least `separation` apart."""
    for size in range(1, times + 1):
        gaps = (size - 1) * (separation - 1)
        for chosen in itertools.combinations(range(steps - gaps), size):
            yield tuple(place + index * (separation - 1) for index, place in enumerate(chosen))


def _are_few(steps: int, times: int, separation: int) -> bool:
    """Return whether there are at most `_MOST_PATTERNS` patterns."""
    number = 0
    for size in range(1, times + 1):
        number += math.comb(max(0, steps - (size - 1) * (separation - 1)), size)
        if number > _MOST_PATTERNS:
            return False
    return True


def _root(square: float, roundings: int) -> float:
    """Return the root of a sum of numbers >= 0, increased by the error of `roundings` roundings."""
    return math.sqrt(square) * (1.0 + 2.0 * (roundings + 4) * _UNIT)


def _too_many(steps: int) -> CannotBound:
    what = f"a strategy of {steps} steps with more bands than steps between two participations"
    why = "the bound over all patterns takes too many sums"
    return CannotBound(what, where="strategy", why=why, remedy="use at most as many bands as the separation")
