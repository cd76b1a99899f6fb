"""Neighbouring tables: the changes of one row that reveal faults most often."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.clipping import require_unmasked
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array

_LOW, _HIGH = "every value at its lower bound", "every value at its upper bound"
_TURNS, _OTHER_TURNS = "values at their bounds by turns", "values at their bounds by turns, the other way"


def table_pairs(
    table: ArrayLike,
    *,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = 1.0,
    row: int = -1,
) -> Iterator[Pair]:
    """Return pairs in which one row of a table [n, d] is changed as the relation allows.

    The row is dropped and doubled, or replaced by a duplicate of another row, or set to zero. The same
    changes are made to rows of extreme values: all low, all high, alternating, and next to the bounds.

    The table is [n, d] with finite values and n of at least 1; `lower` and `upper` are the public range of a
    record's values, one number or [d] each.
    """
    require_unmasked((table, lower, upper), "table_pairs")
    data = np.asarray(table, dtype=np.float64)
    if data.ndim != 2 or data.size == 0 or not np.isfinite(data).all():
        raise InvalidParameter(f"a table of shape {data.shape}", where="table_pairs", remedy="give [n, d]")
    if not -len(data) <= row < len(data):
        raise InvalidParameter(f"row {row} of {len(data)}", where="row", remedy="name a row of the table")
    row %= len(data)
    low, high = (np.broadcast_to(np.asarray(bound, dtype=float), data.shape[1]) for bound in (lower, upper))
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        what = "bounds that are not finite, or not the lower below the upper"
        remedy = "give the public range of each column as lower and upper"
        raise InvalidParameter(what, where="table_pairs", remedy=remedy)
    even = np.arange(low.size) % 2 == 0
    extremes = {
        _LOW: low,
        _HIGH: high,
        _TURNS: np.where(even, low, high),
        _OTHER_TURNS: np.where(even, high, low),
        "every value just inside its upper bound": np.nextafter(high, -np.inf),
        "every value just inside its lower bound": np.nextafter(low, np.inf),
    }
    match Neighbouring(neighbouring):
        case Neighbouring.ADD_OR_REMOVE_ONE:
            yield Pair(data, np.delete(data, row, axis=0), "a row dropped", unit=row)
            yield Pair(data, np.vstack([data, data[row]]), "a row doubled", unit=len(data))
            for name, values in extremes.items():
                yield Pair(data, np.vstack([data, values]), f"a row added: {name}", unit=len(data))
        case Neighbouring.REPLACE_ONE:
            if len(data) > 1:
                other = _with(data, row, data[(row + 1) % len(data)])
                yield Pair(data, other, "a row replaced by another one's duplicate", unit=row)
            for name, values in extremes.items():
                yield Pair(data, _with(data, row, values), f"a row replaced: {name}", unit=row)
            for one, two in ((_LOW, _HIGH), (_TURNS, _OTHER_TURNS)):
                first, second = (_with(data, row, extremes[name]) for name in (one, two))
                yield Pair(first, second, f"{one}, replaced by {two}", unit=row)
        case Neighbouring.ZERO_OUT:
            zeros = _with(data, row, np.zeros(data.shape[1]))
            yield Pair(data, zeros, "a row set to zero", unit=row)
            for name, values in extremes.items():
                yield Pair(_with(data, row, values), zeros, f"a row set to zero: {name}", unit=row)


def _with(data: Array, row: int, values: Array) -> Array:
    changed = data.copy()
    changed[row] = values
    return changed
