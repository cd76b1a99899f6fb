"""How far neighbouring inputs of an OpenDP measurement lie apart."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dpaudit.accountants.bridges import opendp_trees
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import ClaimMismatch, InvalidParameter, UsageError

#: OpenDP's names of the types that count.
INTEGERS = {f"{sign}{size}" for sign in "iu" for size in ("8", "16", "32", "64", "128", "size")}

_BY_RECORDS = {"SymmetricDistance", "InsertDeleteDistance", "SymmetricIdDistance"}
_BY_CHANGES = {"ChangeOneDistance", "HammingDistance", "DiscreteDistance", "ChangeOneIdDistance"}


def distance_of_neighbours(whole: Any, relation: Neighbouring, stated: Any) -> float:
    """The distance between neighbouring inputs, of the type that the input metric counts in, rounded up.

    Args:
        whole: a measurement.
        relation: who are neighbours.
        stated: how far they lie apart; left out, as far as one record makes.

    Raises:
        UsageError: nothing stated, of a metric on aggregates.
        InvalidParameter: a distance outside its range, or smaller than one record makes.
        ClaimMismatch: the inputs have no neighbours under this relation.
    """
    metric = _base(whole.input_metric.type)
    if metric in _BY_CHANGES and relation is Neighbouring.ADD_OR_REMOVE_ONE:
        raise ClaimMismatch(
            f"a measurement under {metric} for a ledger under {str(relation)!r}",
            where="neighbouring",
            why="its inputs are as large as each other: nothing is added or removed",
            remedy=f"give {str(Neighbouring.REPLACE_ONE)!r}",
        )
    if metric in _BY_RECORDS and relation is Neighbouring.ADD_OR_REMOVE_ONE:
        _require_varying_size(whole)
    known = metric in _BY_RECORDS or metric in _BY_CHANGES
    one = 2 if metric in _BY_RECORDS and relation is not Neighbouring.ADD_OR_REMOVE_ONE else 1
    if stated is None:
        if not known:
            raise UsageError(
                f"no distance between neighbouring inputs, by {metric}",
                where="d_in",
                why="the measurement takes an aggregate, and does not say how far a unit moves it",
                remedy="state it with --d-in (Python: d_in=)",
            )
        return one
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0 < stated < math.inf:
        raise InvalidParameter(f"d_in = {stated!r}", where="d_in", remedy="give a finite positive number")
    if known and stated < one:
        raise InvalidParameter(
            f"d_in = {stated!r}",
            where="d_in",
            why=f"neighbours under {relation} lie {one} apart by {metric}",
            remedy=f"leave it out, or give {one} or more for units with several records",
        )
    if str(whole.input_distance_type) in INTEGERS:
        if stated != int(stated):
            raise InvalidParameter(
                f"d_in = {stated!r}", where="d_in", why=f"{metric} counts", remedy="give a whole number"
            )
        return int(stated)
    rounded = up(Fraction(stated))
    if str(whole.input_distance_type) == "f32":
        rounded = _up_to_single(rounded)
    if not math.isfinite(rounded):
        raise InvalidParameter(
            f"d_in = {stated!r}",
            where="d_in",
            why=f"no {whole.input_distance_type}, in which {metric} counts, is as large",
            remedy="give a smaller distance, or the measurement in another type",
        )
    return rounded


def _up_to_single(number: float) -> float:
    """The least float of single precision that is no smaller: OpenDP would round to the nearest one."""
    import numpy as np

    with np.errstate(over="ignore"):
        single = np.float32(number)
        if float(single) < number:
            single = np.nextafter(single, np.float32(np.inf))
    return float(single)


def _require_varying_size(whole: Any) -> None:
    """Refuse inputs of a size that cannot change: nothing lies at distance 1, so a map may say anything.

    Raises:
        ClaimMismatch: the domain states a size; or the map has cost 0 at distance 1 and more at 2, which by
            the triangle inequality implies that no inputs lie at distance 1.
    """
    domain = whole.input_domain
    size = getattr(domain, "size", None)
    if size is None:
        size = getattr(getattr(domain, "descriptor", None), "size", None)
    fixed = size is not None or "lengths" in str(domain).lower()  # so a frame's margins say it
    if fixed or (_promises_all(whole, 1) and not _promises_all(whole, 2)):
        raise ClaimMismatch(
            f"inputs of {'one size' if size is None else f'size {size}'} for a ledger under "
            f"{str(Neighbouring.ADD_OR_REMOVE_ONE)!r}",
            where="neighbouring",
            why="nothing can be added to them or removed, so their measurement promises nothing of it",
            remedy=f"give {str(Neighbouring.REPLACE_ONE)!r}, or measure inputs of any size",
        )


def _promises_all(whole: Any, distance: int) -> bool:
    """Whether the map's figures are all 0 at a distance; a curve is refused elsewhere."""
    with opendp_trees.answers("measurement", f"has no map at distance {distance!r}"):
        figure = whole.map(distance)
    parts = figure if isinstance(figure, tuple) else (figure,)
    return all(isinstance(part, float) and part == 0 for part in parts)


def _base(metric: Any) -> str:
    """A metric's name without its parameters and path."""
    return str(metric).partition("<")[0].rpartition("::")[2]
