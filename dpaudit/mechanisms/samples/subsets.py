"""Noisy sums over a secret sample: their density as a mixture over all samples, and the change of rows.

The adversary does not know which units were sampled, so the density is a mixture over all samples. Equal rows
are enumerated once with their number, and zero rows affect only the size of the sample.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpaudit.claims.sensitivity import Norm
from dpaudit.mechanisms.additive import Gaussian
from dpaudit.mechanisms.base import Array, ValueMechanism, distance

#: The largest number of different sums that are enumerated.
MOST_SUMS = 4096
#: The largest error of a log density by cancellation; beyond it, sums are subtracted one by one.
_CANCELLED = 1e-8
#: The largest number of participation schedules of a stream that are enumerated.
MOST_TURNS = 512
#: The rows of an unchanged record may differ by this fraction of the sensitivity, from rounding in jointly
#: computed rows.
ROUNDED = 1e-6


def log_binomial(count: int, rate: float) -> Array:
    """Return the log probability of each number of heads among `count` coins: [count + 1]."""
    heads = np.arange(count + 1.0)
    if rate >= 1.0:
        return np.where(heads == count, 0.0, -np.inf)
    return _log_choices(count) + heads * math.log(rate) + (count - heads) * math.log1p(-rate)


def log_densities(mechanism: ValueMechanism, outputs: Array, rows: Array, sizes: Array) -> Array | None:
    """Return the log densities [k] of noisy sums [k, ...] over a sample of the rows [n, ...].

    `sizes` [n + 1] holds the log probability of each sample size; samples of one size are equally likely.
    Returns None for more than `MOST_SUMS` different sums.
    """
    flat = _flat(rows)
    kept = flat[flat.any(axis=1)]
    distinct, numbers = _distinct(kept)
    if math.prod(int(number) + 1 for number in numbers) > MOST_SUMS:
        return None
    counts, alike = _counts(tuple(numbers.tolist()))
    weights = alike + _log_weights(len(rows), len(kept), sizes)[counts.sum(axis=1)]
    possible = weights > -np.inf
    densities = _log_densities(mechanism, outputs, distinct, counts[possible])
    return np.asarray(np.logaddexp.reduce(weights[possible] + densities, axis=1))


def log_sum(
    densities: Callable[[Array], float], units: Sequence[Sequence[tuple[float, Array]]], items: Array
) -> float | None:
    """Return the log of the mixture over all participation schedules of the units in a stream.

    `units` holds, for each unit, its possible schedules [steps] with their log probabilities; `items`
    [steps, n, ...] are the units' rows; `densities` maps the sums [steps, ...] of participating units to a
    log density. Returns None for more than `MOST_TURNS` schedules.
    """
    if math.prod(map(len, units)) > MOST_TURNS:
        return None
    found: list[tuple[float, Array]] = [(0.0, np.zeros(items.shape[:1] + items.shape[2:]))]
    for place, parts in enumerate(units):
        rows = items[:, place]
        scaled = [(log, part.reshape(-1, *[1] * (rows.ndim - 1)) * rows) for log, part in parts]
        found = [(log + more, total + added) for log, total in found for more, added in scaled]
    return float(np.logaddexp.reduce([log + densities(total) for log, total in found]))


def parts(steps: int, turns: int, rate: float) -> list[tuple[float, Array]] | None:
    """Return a unit's possible participation schedules, [steps] of 0 and 1, with their log probabilities.

    The unit is scheduled every `turns` steps, from a uniform one of the first `turns` steps on; in each of
    these steps it takes part with probability `rate`. Returns None for more than `MOST_TURNS` schedules.
    """
    found: dict[bytes, tuple[float, Array]] = {}
    for first in range(turns):
        own = np.arange(first, steps, turns)
        if (2 ** len(own) if rate < 1.0 else 1) + len(found) > MOST_TURNS:
            return None
        for coins in itertools.product((0.0, 1.0) if rate < 1.0 else (1.0,), repeat=len(own)):
            part = np.zeros(steps)
            part[own] = coins
            log = sum(math.log(rate if coin else 1.0 - rate) for coin in coins) - math.log(turns)
            before = found.get(part.tobytes(), (-math.inf, part))[0]
            found[part.tobytes()] = float(np.logaddexp(before, log)), part
    return list(found.values())


def others_moved(one: Array, other: Array, norm: Norm, own: int, rounded: float = 0.0) -> float:
    """Return the total change of rows between two data sets, except the `own` rows that change most.

    Changes of at most `rounded` are ignored. Rows that both data sets have do not change, in any order. The
    others are aligned in their order or by size, whichever gives the smaller total. A row without a
    counterpart changes by its norm.
    """
    left, right = _flat(one), _flat(other)
    left, right = _without(left, right), _without(right, left)
    if max(len(left), len(right)) <= own:
        return 0.0
    found = []
    for first, second in ((left, right), (_in_order(left), _in_order(right))):
        long, short = (first, second) if len(first) >= len(second) else (second, first)
        gap = len(long) - len(short)
        # Align the longer side with the shorter one, with a gap at the place of least cost.
        ahead, behind = (_distances(long[shift : shift + len(short)], short, norm) for shift in (0, gap))
        place = int(np.argmin(np.append(0.0, ahead.cumsum()) - np.append(0.0, behind.cumsum())))
        alone = _distances(long[place : place + gap], np.zeros_like(long[:gap]), norm)
        moves = np.sort(np.concatenate([ahead[:place], alone, behind[place:]]))
        others = moves[: len(moves) - own]
        found.append(float(others[others > rounded].sum()))
    return min(found)


def moved_rows(one: Array, other: Array) -> tuple[Array, Array]:
    """Return the rows that only `one` has, and the rows that only `other` has: [n, ...] each."""
    flat, twin = _flat(one), _flat(other)
    left, right = _without(flat, twin), _without(twin, flat)
    return left.reshape(len(left), *one.shape[1:]), right.reshape(len(right), *other.shape[1:])


def _flat(rows: Array) -> Array:
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _without(rows: Array, others: Array) -> Array:
    """Return the multiset difference of rows, in the order of the first."""
    left: dict[bytes, int] = {}
    for row in others:
        left[row.tobytes()] = left.get(row.tobytes(), 0) + 1
    kept = np.ones(len(rows), dtype=np.bool_)
    for place, row in enumerate(rows):
        if left.get(row.tobytes(), 0):
            left[row.tobytes()] -= 1
            kept[place] = False
    return rows[kept]


def _in_order(rows: Array) -> Array:
    return rows[np.lexsort(rows.T[::-1])] if rows.size else rows


def _distances(rows: Array, others: Array, norm: Norm) -> Array:
    pairs: Iterable[tuple[Array, Array]] = zip(rows, others, strict=True)
    return np.array([distance(norm, a - b) for a, b in pairs], dtype=np.float64)


def _distinct(rows: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the distinct rows, and the number of occurrences of each."""
    first: dict[bytes, int] = {}
    numbers: list[int] = []
    places: list[int] = []
    for place, row in enumerate(rows + 0.0):  # turns -0.0 into 0.0
        at = first.setdefault(row.tobytes(), len(numbers))
        if at == len(numbers):
            numbers.append(0)
            places.append(place)
        numbers[at] += 1
    return rows[places], np.array(numbers, dtype=np.int64)


@lru_cache(maxsize=64)
def _counts(numbers: tuple[int, ...]) -> tuple[NDArray[np.int64], Array]:
    """Return all counts of the distinct rows in a sample [k, rows], and the log numbers of samples [k]."""
    shape = [number + 1 for number in numbers]
    counts = np.indices(shape).reshape(len(shape), math.prod(shape)).T
    alike = np.zeros(len(counts))
    for place, number in enumerate(numbers):
        alike += _log_choices(number)[counts[:, place]]
    return counts, alike


def _log_weights(count: int, kept: int, sizes: Array) -> Array:
    """Return the log probability of a sample's nonzero rows, by their number: [kept + 1]."""
    one = sizes - _log_choices(count)  # log probability of a single sample of each size
    zeros = _log_choices(count - kept)
    return np.array([np.logaddexp.reduce(one[size : size + len(zeros)] + zeros) for size in range(kept + 1)])


@lru_cache(maxsize=256)
def _log_choices(count: int) -> Array:
    """Return the log of the number of subsets of each size: [count + 1]."""
    whole = math.lgamma(count + 1)
    found = np.array([whole - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(count + 1)])
    found.setflags(write=False)
    return found


def _log_densities(
    mechanism: ValueMechanism, outputs: Array, distinct: Array, counts: NDArray[np.int64]
) -> Array:
    """Return the log density of each output for each combination of the distinct rows: [outputs, k]."""
    if isinstance(mechanism, Gaussian):
        # Compute |output - counts rows|^2 by inner products, because there are many samples and long rows.
        noisy = _flat(outputs) / mechanism.sigma
        products = (distinct / mechanism.sigma) @ np.concatenate([distinct / mechanism.sigma, noisy]).T
        lengths = np.einsum("ki,ij,kj->k", counts, products[:, : len(distinct)], counts, optimize=True)
        sizes = (noisy**2).sum(axis=1)[:, np.newaxis] + lengths
        # For sums far longer than the noise this form cancels; these are subtracted one by one below.
        if float(sizes.max(initial=0.0)) * (noisy.shape[1] + 16) * 2.0**-52 <= _CANCELLED:
            squares = np.maximum(sizes - 2.0 * products[:, len(distinct) :].T @ counts.T, 0.0)
            constant = noisy.shape[1] * (0.5 * math.log(2.0 * math.pi) + math.log(mechanism.sigma))
            return np.asarray(-0.5 * squares - constant)
    sums = (counts @ distinct).reshape(len(counts), *outputs.shape[1:])
    return np.array([[mechanism.log_density(one, total) for total in sums] for one in outputs])
