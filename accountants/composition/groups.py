"""Groups of units: what a mechanism is to data sets that differ in several units at once.

Two data sets that differ in k units are the ends of a chain of k neighbouring pairs, so every distance
that the mechanism's obligation bounds grows at most k times (the triangle inequality): each mechanism's own
`for_group`, rounded up here.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism


@lru_cache(maxsize=1 << 16)
def for_group(mechanism: AnyMechanism, size: int) -> tuple[AnyMechanism, int]:
    """The mechanism as data sets that differ in `size` units see it, and how many times.

    Raises:
        CannotBound: no bound for groups is known, or it is past the largest double.
    """
    if size == 1:
        return mechanism, 1
    found = mechanism.for_group(size, _times)
    if found is None:
        raise CannotBound(
            f"no bound for groups of {size} is known for a {mechanism.kind} mechanism",
            where="header.group_size",
            remedy="claim for single units, or account for the mechanism inside without sampling",
        )
    return found


def _times(figure: float, factor: int) -> float:
    product = up(Fraction(figure) * factor)
    if not math.isfinite(product):
        raise CannotBound(f"{factor} times {figure} exceeds every double", where="header.group_size")
    return product
