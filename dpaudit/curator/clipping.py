"""Sums to which every unit contributes a bounded amount, whatever its record holds."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter, SensitivityTooSmall
from dpaudit.mechanisms import AnyMechanism, Array, Calibrated, PoissonSampled


def bounded(
    mechanism: AnyMechanism, bound: float, neighbouring: Neighbouring, *, acute: bool, label: str
) -> tuple[AnyMechanism, Norm]:
    """The mechanism with a sensitivity that rests on clipping each contribution to `bound`, and its norm.

    `acute` says whether any two contributions have a non-negative inner product.

    Raises:
        SensitivityTooSmall: the declared sensitivity is below what the bound implies.
        InvalidParameter: the bound is not positive, or the mechanism has no sensitivity.
    """
    where = f"release {label!r}"
    if not isinstance(mechanism, Calibrated | PoissonSampled):
        why = "it is not calibrated to a sensitivity, so clipping contributions bounds nothing"
        remedy = "use a mechanism that carries a sensitivity"
        raise InvalidParameter(f"a {mechanism.kind} mechanism for a sum", where=where, why=why, remedy=remedy)
    declared = mechanism.sensitivity
    if not np.isfinite(bound) or bound <= 0:
        raise InvalidParameter(f"contribution bound {bound}", where=where)
    implied = neighbouring.sum_sensitivity(bound, declared.norm, acute=acute)
    if declared.value < implied * (1 - 1e-12):
        raise SensitivityTooSmall(
            f"sensitivity {declared.value} declared, {implied} follows from the bound {bound} "
            f"under {neighbouring}",
            where=where,
            remedy=f"declare a sensitivity of {implied}, and calibrate the noise to it",
        )
    clipped = declared.model_copy(update={"basis": "clipped", "value": max(declared.value, implied)})
    held = mechanism.with_sensitivity(clipped)
    if isinstance(held, PoissonSampled):
        held = held.model_copy(update={"contribution": bound})
    return held, declared.norm


def doubles(value: ArrayLike, where: str) -> Array:
    """A copy of `value` as doubles; raises `InvalidParameter` for what is not an array of real numbers."""
    try:
        given = np.asarray(value)
        if given.dtype == np.float64:
            return given.copy(order="K")
        with np.errstate(over="ignore"):  # what exceeds every double becomes an infinity, dealt with as one
            numbers = np.array(given, dtype=np.float64) if given.dtype.kind != "c" else None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"a value that is not an array of numbers: {error}", where=where) from None
    if numbers is None:
        raise InvalidParameter("complex numbers", where=where, remedy="release real and imaginary parts")
    return numbers


def clip_rows(
    contributions: Array, bound: float, norm: Norm, *, nonnegative: bool = False, whole: bool = False
) -> Array:
    """Scale each row down to at most `bound` in `norm`.

    A row with a NaN or an infinity becomes zero: an abort would reveal that such a record exists.

    Args:
        contributions: [n, ...], one row per unit.
        bound: the largest norm of a clipped row.
        norm: ``"l1"`` or a Euclidean one, over all of a row's entries.
        nonnegative: clip entries at 0 from below first.
        whole: round every entry towards zero last, which never lengthens a row.
    """
    if contributions.ndim == 0:
        what = "contributions of shape ()"
        raise InvalidParameter(what, where="release_sum", remedy="give one row per unit of privacy: [n, ...]")
    rows = contributions.reshape(contributions.shape[0], math.prod(contributions.shape[1:]))
    finite = np.isfinite(rows).all(axis=1, keepdims=True)
    rows = np.where(finite, rows, 0.0)
    if nonnegative:
        rows = np.maximum(rows, 0.0)
    # Scaled to the largest entry first, so that squares neither overflow nor vanish.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    shrunk = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = (
        np.abs(shrunk).sum(axis=1, keepdims=True)
        if norm == "l1"
        else np.linalg.norm(shrunk, axis=1, keepdims=True)
    )
    # A row is too long if largest * length > bound, asked without a product that could overflow.
    most = np.divide(bound, length, out=np.full_like(length, bound), where=length > 0)
    clipped = np.where(largest > most, shrunk * most, rows)
    if whole:
        clipped = np.trunc(clipped)
    return clipped.reshape(contributions.shape)


def count_cells(
    cells: NDArray[np.integer], shape: tuple[int, ...], bound: float, norm: Norm, *, whole: bool = False
) -> Array:
    """A table of counts, to which each unit adds its increments, scaled down to `bound` in `norm`.

    Args:
        cells: [n, m] flat indices into the table; a cell listed r times by one unit counts r.
        shape: the table's shape.
        bound: the largest norm of one unit's own table.
        norm: ``"l1"`` or a Euclidean one.
        whole: leave out a unit past the bound instead of scaling it down, so that counts stay whole.

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
        return np.zeros(shape)
    if norm == "l1":
        norms = np.full(cells.shape[0], float(cells.shape[1]))
    else:
        norms = np.sqrt(_squared_multiplicities(cells))
    weights = np.minimum(1.0, bound / norms) if bound < norms.max() else None
    if whole and weights is not None:
        weights = np.floor(weights)
    spread = None if weights is None else np.repeat(weights, cells.shape[1])
    return np.bincount(cells.ravel(), weights=spread, minlength=size).astype(np.float64).reshape(shape)


def _squared_multiplicities(cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """Each row's sum over its distinct cells of (times listed)^2: [n]."""
    ordered = np.sort(cells, axis=1)
    total = np.full(cells.shape[0], cells.shape[1], dtype=np.int64)
    # Pairs of equal entries: r^2 = r + 2 * (pairs); equal entries are neighbours in a sorted row.
    run = np.zeros(cells.shape[0], dtype=np.int64)
    for column in range(1, cells.shape[1]):
        run = np.where(ordered[:, column] == ordered[:, column - 1], run + 1, 0)
        total += 2 * run
    return total
