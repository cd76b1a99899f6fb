"""Arrays of parameters with counts: checked, and merged where they are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.accountants.privacy_loss.contour.discrete import DiscreteFactor
from dpaudit.accountants.privacy_loss.contour.factors import Vector
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm
from dpaudit.errors import CannotBound, InvalidParameter

#: More runs than this of one term are not accounted for.
MOST_COUNT = 1e12


def tables_of(tables: Iterable[tuple[DiscreteTerm, int]]) -> tuple[DiscreteFactor, ...]:
    """Equal tables once, with the sums of their counts."""
    total: Counter[DiscreteTerm] = Counter()
    for table, count in tables:
        if count > MOST_COUNT:
            raise CannotBound(f"a count exceeds {MOST_COUNT:g}", where="tables")
        total[table] += count
    return tuple(DiscreteFactor(table, float(count)) for table, count in total.items() if count)


def joined(some: tuple[ArrayLike, ...], more: tuple[ArrayLike, ...]) -> tuple[ArrayLike, ...]:
    """Columns one below the other; the last, the counts, may be one number for all."""
    if not np.size(more[0]):
        return some
    if not np.size(some[0]):
        return more
    counts = [np.broadcast_to(columns[-1], np.shape(columns[0])) for columns in (some, more)]
    pairs = zip(some[:-1], more[:-1], strict=True)
    return (*(np.concatenate([one, other]) for one, other in pairs), np.concatenate(counts))


def vectors(name: str, columns: tuple[ArrayLike, ...], *largest: float) -> tuple[Vector, ...]:
    """Columns as arrays of one length; raises as `Composed.checked` does."""
    *parameters, count = (np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in columns)
    shape = parameters[0].shape
    if len(shape) != 1 or any(p.shape != shape for p in parameters) or count.shape not in {shape, (1,)}:
        raise InvalidParameter("parameters and counts are not one-dimensional of one length", where=name)
    count = np.broadcast_to(count, shape)
    if not np.all((count >= 0.0) & (count < np.inf) & (count == np.floor(count))):
        raise InvalidParameter("a count is not an integer >= 0", where=name)
    for values, most in zip(parameters, largest, strict=True):
        if not np.all((values >= 0.0) & (values < np.inf)):
            raise InvalidParameter("a parameter is NaN, infinite or negative", where=name)
        if np.any(values > most):
            if most == 1.0:
                raise InvalidParameter("a probability exceeds 1", where=name)
            raise CannotBound(f"a parameter exceeds {most:g}", where=name, remedy="add noise")
    if np.any(count > MOST_COUNT):
        raise CannotBound(f"a count exceeds {MOST_COUNT:g}", where=name)
    return (*parameters, count)


def grouped(parameters: Vector, counts: Vector) -> tuple[Vector, Vector]:
    """Distinct positive parameters in increasing order, with the sums of their counts."""
    real = (parameters > 0.0) & (counts > 0.0)
    parameters, counts = parameters[real], counts[real]
    order = np.argsort(parameters)
    parameters, counts = parameters[order], counts[order]
    first = np.flatnonzero(np.append(True, np.diff(parameters) > 0.0)[: len(parameters)])
    if not len(first):
        return parameters, counts
    return parameters[first], np.add.reduceat(counts, first)


def rows_of(parameters: Vector, rates: Vector, counts: Vector, keep: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Rows of positive numbers, equal ones once, with the sums of their counts."""
    keep = keep & (parameters > 0.0) & (rates > 0.0) & (counts > 0.0)
    total: Counter[tuple[float, float]] = Counter()
    for parameter, rate, count in zip(
        parameters[keep].tolist(), rates[keep].tolist(), counts[keep].tolist(), strict=True
    ):
        total[parameter, rate] += int(count)
    return tuple((parameter, rate, float(count)) for (parameter, rate), count in total.items())
