"""Each unit's contribution to a sum, clipped exactly to a bound and rounded to integers on a grid."""

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.noise.grid import Array, OnGrid
from dpaudit.noise.sums import total


def holding_whole(bound: float) -> float:
    """Return the bound, or the next double if it is a rounded-down root of a whole number.

    A unit with three increments has norm sqrt(3); the double `math.sqrt(3)` may be slightly smaller.
    """
    square = Fraction(bound) ** 2 if math.isfinite(bound) else Fraction(0)
    return math.nextafter(bound, math.inf) if 0 < round(square) - square <= square / 2**52 else bound


def square_above(bound: float) -> float:
    """Return the bound's square, rounded up: the norm of the outer product of a vector at the bound."""
    square = bound * abs(bound)  # a negative bound is refused
    low = math.isfinite(square) and Fraction(square) < Fraction(bound) ** 2
    return math.nextafter(square, math.inf) if low else square


def clip_rows(
    contributions: Array, bound: float, norm: str, exponent: int, *, nonnegative: bool = False
) -> OnGrid:
    """Scale each row down to at most `bound` in `norm`, and round its entries towards zero to a grid.

    The norm of every resulting row is at most the bound, exactly: rows are scaled in doubles, and the norms
    of the resulting integers are compared as integers. A row with a NaN or an infinity becomes zero: an error
    would reveal that such a record exists.

    Args:
        contributions: [n, ...], one row per unit.
        bound: the largest norm of a clipped row, below 2^40 steps.
        norm: ``"l1"`` or a Euclidean norm, over all entries of a row.
        exponent: the exponent of the grid.
        nonnegative: set negative entries to 0 first.

    Returns:
        [n, ...], on the grid.
    """
    if contributions.ndim == 0:
        what = "contributions of shape ()"
        raise InvalidParameter(what, where="release_sum", remedy="give one row per unit of privacy: [n, ...]")
    rows = contributions.reshape(contributions.shape[0], math.prod(contributions.shape[1:]))
    finite = np.isfinite(rows).all(axis=1, keepdims=True)
    if not finite.all():
        rows = np.where(finite, rows, 0.0)
    if nonnegative:
        rows = np.maximum(rows, 0.0)
    # Divide by the largest entry first, so that squares neither overflow nor underflow.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    shrunk = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = (
        np.abs(shrunk).sum(axis=1, keepdims=True)
        if norm == "l1"
        else np.linalg.norm(shrunk, axis=1, keepdims=True)
    )
    # A row is too long if largest * length > bound; this form cannot overflow.
    most = np.divide(bound, length, out=np.full_like(length, bound), where=length > 0)
    clipped = np.where(largest > most, shrunk * most, rows)
    # A power of two changes no digit, and the conversion rounds towards zero.
    steps = (clipped * 2.0**-exponent).astype(np.int64)
    limit = _limit(bound, norm, exponent)
    for i in np.flatnonzero(_too_long(steps, limit, norm)).tolist():
        steps[i] = _shortened([int(m) for m in steps[i]], limit, norm)
    return OnGrid(steps.reshape(contributions.shape), exponent)


def _shortened(row: list[int], limit: int, norm: str) -> list[int]:
    """Return a row above the limit, scaled down to it, with each entry rounded towards zero."""
    # `size` is at least the row's norm and `radius` at most the bound, so the scaled row fits.
    size = sum(map(abs, row)) if norm == "l1" else math.isqrt(sum(m * m for m in row)) + 1
    radius = limit if norm == "l1" else math.isqrt(limit)
    return [abs(m) * radius // size * (1 if m > 0 else -1) for m in row]


def _limit(bound: float, norm: str, exponent: int) -> int:
    """Return the largest sum of magnitudes (L1) or of squares of a row within the bound, in grid steps."""
    steps = Fraction(bound) / Fraction(2) ** exponent
    return math.floor(steps if norm == "l1" else steps**2)


def _too_long(rows: NDArray[np.int64], limit: int, norm: str) -> NDArray[np.bool_]:
    """Return a mask [n] of the rows [n, d] above the limit, exactly; the rows' norms are at most 2^41."""
    if norm == "l1":
        return np.asarray(np.abs(rows).sum(axis=1) > limit)
    doubles = rows.astype(np.float64)
    # Each of d squares and d sums is rounded once, with relative error at most 2^-53.
    found: NDArray[np.bool_] = np.einsum("ij,ij->i", doubles, doubles) >= limit * (
        1 - (rows.shape[1] + 4) * 2.0**-52
    )
    if found.any():
        # |x| = 2^14 a + b: the sums of a^2, a b and b^2 fit in int64 for rows of up to 2^33 entries.
        x = np.abs(rows[found])
        a, b = x >> 14, x & (2**14 - 1)
        mixed = (a * b).sum(axis=1)
        low = (b * b).sum(axis=1) + ((mixed & (2**13 - 1)) << 15)
        high = (a * a).sum(axis=1) + (mixed >> 13) + (low >> 28)
        low &= 2**28 - 1
        most = limit >> 28
        found[found] = (high > most) | ((high == most) & (low > limit & (2**28 - 1)))
    return found


def count_cells(
    cells: NDArray[np.integer], shape: tuple[int, ...], bound: float, norm: str, exponent: int
) -> OnGrid:
    """Return a table of counts; each unit's increments are scaled down to `bound` in `norm`.

    For a unit above the bound, every increment is reduced to the largest number of grid steps that keeps the
    norm of its own table within the bound, exactly. On the grid of whole numbers that is 0.

    Args:
        cells: [n, m] flat indices into the table; a cell that a unit lists r times counts r.
        shape: the table's shape.
        bound: the largest norm of one unit's own table.
        norm: ``"l1"`` or a Euclidean norm.
        exponent: the exponent of the grid, at most 0.

    Returns:
        The table, of `shape`.

    Raises:
        InvalidParameter: `cells` is not [n, m] whole numbers inside the table.
    """
    size = int(np.prod(shape))
    if cells.ndim != 2 or not np.issubdtype(cells.dtype, np.integer):
        what = f"cells of shape {cells.shape} and type {cells.dtype}"
        remedy = "give whole numbers [n, m]: row i lists unit i's increments"
        raise InvalidParameter(what, where="release_counts", remedy=remedy)
    if cells.size and (cells.min() < 0 or cells.max() >= size):
        what = f"a cell outside a table of {size}"
        raise InvalidParameter(what, where="release_counts", remedy="check the records before the run")
    if not cells.size:
        return OnGrid(np.zeros(shape, dtype=np.int64), 0)
    norms = np.full(len(cells), cells.shape[1]) if norm == "l1" else _squared_multiplicities(cells)
    if int(norms.max()) <= _limit(bound, norm, 0):
        return OnGrid(np.bincount(cells.ravel(), minlength=size).reshape(shape), 0)
    limit, sizes, of_row = _limit(bound, norm, exponent), *np.unique(norms, return_inverse=True)
    most = [limit // n if norm == "l1" else math.isqrt(limit // n) for n in map(int, sizes)]
    weights = np.array([min(2**-exponent, steps) for steps in most])[of_row]
    # Exact sums in doubles: no partial sum reaches 2^53.
    high, low = (
        np.bincount(cells.ravel(), weights=np.repeat(part, cells.shape[1]), minlength=size)
        for part in (weights >> 20, weights & (2**20 - 1))
    )
    fits = int(high.max()) < 2**41
    kind = np.int64 if fits else object
    table = (high.astype(np.int64).astype(kind) << 20) + low.astype(np.int64)
    return OnGrid(table.reshape(shape), exponent)


def _squared_multiplicities(cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return each row's sum over its distinct cells of (number of occurrences)^2: [n]."""
    ordered = np.sort(cells, axis=1)
    total = np.full(cells.shape[0], cells.shape[1], dtype=np.int64)
    # r^2 = r + 2 * (number of equal pairs); equal entries are adjacent in a sorted row.
    run = np.zeros(cells.shape[0], dtype=np.int64)
    for column in range(1, cells.shape[1]):
        run = np.where(ordered[:, column] == ordered[:, column - 1], run + 1, 0)
        total += 2 * run
    return total


#: The number of entries that are clipped and added at once; they fit into the processor's cache.
_TOGETHER: Final = 2**20
#: int64 can add fewer rows than this without overflow.
MOST_ROWS: Final = 2**22
#: The number of rows of integers below 2^40 that doubles add without rounding.
_ADDED: Final = 2**12
#: Between these sums of squares, no square overflowed and no relevant square underflowed.
_TINY: Final = 1e-200
_HUGE: Final = 1e200


def clipped_sum(contributions: NDArray[Any], bound: float, norm: str, exponent: int) -> OnGrid:
    """Return the exact sum of clipped rows, clipped in blocks; the bound holds as for `clip_rows`.

    A row far above the bound is scaled to slightly below it, with a margin larger than all rounding errors:
    the computed sum of squares of d entries has relative error at most (d + 2) 2^-53, the root, the quotient
    and the products are each rounded once, and truncation shortens the row. So no row's norm exceeds the
    bound, and its integers need no second comparison. A row near the bound, or with extreme entries, goes
    through `clip_rows`.

    Args:
        contributions: [n, ...], one row per unit, in single or double precision.
        bound: as in `clip_rows`.
        norm: as in `clip_rows`.
        exponent: as in `clip_rows`.

    Returns:
        [...], on the grid.
    """
    count, shape = len(contributions), contributions.shape[1:]
    size = math.prod(shape)
    rows = contributions.reshape(count, size)
    slack = (size + 16) * 2.0**-51
    shortest, longest = bound * (1.0 - slack), bound * (1.0 + slack)
    whole = np.zeros(size, dtype=np.int64 if count < MOST_ROWS else object)
    together = min(max(1, _TOGETHER // max(size, 1)), _ADDED)
    memory = np.empty((min(together, count), size))
    for first in range(0, count, together):
        block = memory[: min(together, count - first)]
        np.copyto(block, rows[first : first + together])
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", block, block)
        length = np.sqrt(squares)
        fast = (norm != "l1") & (squares > _TINY) & (squares < _HUGE)
        fast &= (length < shortest) | (length > longest)
        if not fast.all():
            whole += total(clip_rows(block[~fast], bound, norm, exponent)).integers
            block, length = block[fast], length[fast]
        scale = np.where(length > shortest, shortest / length, 1.0) * 2.0**-exponent
        np.multiply(block, scale[:, None], out=block)
        np.trunc(block, out=block)
        # No sum is rounded; see `_ADDED`.
        whole += block.sum(axis=0).astype(np.int64)
    return OnGrid(whole.reshape(shape), exponent)
