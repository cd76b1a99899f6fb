"""What a unit of privacy is exposed to: mechanisms with the number of their runs, and what those cost.

Gaussian and Laplace mechanisms are counted under their plain numbers, all others under themselves: a million
different ones take some two hundred megabytes, and their costs are computed in whole columns, by `Cost.many`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias, TypeGuard, cast, get_args

import numpy as np

from dpaudit.accountants.closed_forms.columns import Cost, times_up
from dpaudit.accountants.closed_forms.rounding import Vector, sum_up, up
from dpaudit.ledger.columnar import Kind, PlainNoise, plain_noise
from dpaudit.mechanisms import AnyMechanism

#: What runs are counted under: see the module's docstring.
Key: TypeAlias = PlainNoise | AnyMechanism

#: From so many mechanisms on, costs are computed in columns; below, setting those up takes longer.
_MANY = 64

#: Counts below it are doubles without rounding.
_EXACT = 2**53


class Columns(NamedTuple):
    """Many Gaussian or Laplace mechanisms: sensitivity, scale (or sigma) and number of runs, all [n]."""

    sensitivity: Vector
    scale: Vector
    runs: Vector


class Exposure(Mapping[AnyMechanism, int]):
    """Which mechanisms run on one unit's data, and how many times each.

    Mechanisms are made on access; `columns` has the numbers of many without making any.
    """

    def __init__(self, counts: Mapping[Key, int]) -> None:
        self._counts = counts

    def __getitem__(self, mechanism: AnyMechanism) -> int:
        key = key_of(mechanism)
        if key not in self._counts:  # a Counter would say 0
            raise KeyError(mechanism)
        return self._counts[key]

    def __iter__(self) -> Iterator[AnyMechanism]:
        return map(mechanism_of, self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def columns(self, kind: Kind) -> Columns:
        """The Gaussian or Laplace mechanisms in arrays; counts past 2^53 become the doubles above them."""
        found = [key for key in self._counts if _is_kind(key, kind)]
        return _columns(found, [self._counts[key] for key in found])

    def others(self) -> dict[AnyMechanism, int]:
        """The mechanisms that are in no `columns`."""
        return {k: n for k, n in self._counts.items() if not isinstance(k, PlainNoise)}


def key_of(mechanism: AnyMechanism) -> Key:
    """What runs of a mechanism are counted under."""
    return plain_noise(mechanism) or mechanism


def mechanism_of(key: Key) -> AnyMechanism:
    """The mechanism that is counted under a key."""
    return key.mechanism() if isinstance(key, PlainNoise) else key


def repeated(cost: float, count: int) -> float:
    """`count` times a cost, rounded up."""
    return up(Fraction(cost) * count) if math.isfinite(cost) else cost


def sums(groups: Sequence[Counter[Key]], cost: Callable[[AnyMechanism], float]) -> list[float]:
    """Each group's sum of costs, rounded up."""
    keys = [key for group in groups for key in group]
    counts = [count for group in groups for count in group.values()]
    if isinstance(cost, Cost) and len(keys) >= _MANY:
        terms = _in_columns(keys, counts, cost)
    else:
        terms = [math.nan] * len(keys)
    costs = iter(
        repeated(cost(mechanism_of(key)), count) if math.isnan(term) else term
        for key, count, term in zip(keys, counts, terms, strict=True)
    )
    return [sum_up(itertools.islice(costs, len(group))) for group in groups]


def _in_columns(keys: Sequence[Key], counts: Sequence[int], cost: Cost) -> list[float]:
    """Each key's cost times its count, rounded up; NaN for those to be computed one by one."""
    terms = np.full(len(keys), np.nan)
    for kind in get_args(Kind):
        fits = (_is_kind(key, kind) and n <= _EXACT for key, n in zip(keys, counts, strict=True))
        chosen = np.fromiter(fits, np.bool_, len(keys))
        if chosen.any():
            noise = cast("list[PlainNoise]", list(itertools.compress(keys, chosen)))
            sensitivity, scale, runs = _columns(noise, list(itertools.compress(counts, chosen)))
            terms[chosen] = times_up(cost.many(kind, sensitivity, scale), runs)
    return terms.tolist()


def _is_kind(key: Key, kind: Kind) -> TypeGuard[PlainNoise]:
    return isinstance(key, PlainNoise) and key.kind == kind


def _columns(noise: Sequence[PlainNoise], counts: Sequence[int]) -> Columns:
    """In columns, counts past 2^53 as the doubles above them; filled one by one, without rows between."""
    return Columns(
        np.fromiter((one.sensitivity for one in noise), np.float64, len(noise)),
        np.fromiter((one.scale for one in noise), np.float64, len(noise)),
        np.fromiter((float(n) if n <= _EXACT else up(Fraction(n)) for n in counts), np.float64, len(noise)),
    )
