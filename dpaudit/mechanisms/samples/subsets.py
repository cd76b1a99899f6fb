"""Noisy sums over a secret sample: their density, summed over all samples, and how far rows move.

The loss of such a sum is that of an adversary who does not know who was sampled, neither of the changed unit
nor of the others: the density is a mixture over all samples. Equal rows count once, with their number, and
rows of zeros change nothing but the size of the sample.
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

#: Sums that differ, and turns of all units together: more of them are not enumerated.
MOST_SUMS = 4096
#: What a log density may be off by before sums are subtracted one by one.
_CANCELLED = 1e-8
#: The same of streams, of which each density takes a whole run's items.
MOST_TURNS = 512
#: Rows of one record on both sides may differ by this much of the sensitivity: rounding, where many rows are
#: computed together.
ROUNDED = 1e-6


def log_binomial(count: int, rate: float) -> Array:
    """Log probability of each number of heads of so many coins: [count + 1]."""
    heads = np.arange(count + 1.0)
    if rate >= 1.0:
        return np.where(heads == count, 0.0, -np.inf)
    return _log_choices(count) + heads * math.log(rate) + (count - heads) * math.log1p(-rate)


def log_densities(mechanism: ValueMechanism, outputs: Array, rows: Array, sizes: Array) -> Array | None:
    """Log densities of noisy sums [k, ...] of a sample of the rows [n, ...]: [k].

    `sizes` [n + 1] has the log probability of each size of the sample, and all samples of one size are
    equally likely. None: there are more than `MOST_SUMS` different sums.
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
    """Log of the mixture over all units' parts in the items of a stream.

    For each unit, its possible parts [steps] with their log probabilities; `items` [steps, n, ...] are the
    units' rows. `densities` is the log density given the sums [steps, ...] of those who take part.
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
    """In which steps a unit takes part, [steps] of 0 and 1, each with its log probability.

    Its turn is every `turns` steps, from one of the first `turns` on, all equally likely; in each of them it
    takes part with the probability `rate`. None: there are more than `MOST_TURNS`.
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
    """How far all rows together move between two sides, but for the `own` ones that move most.

    A row that moves by at most `rounded` does not.

    Rows that both sides have do not move, in whatever order they come; the others are aligned in order, or by
    their size, whichever is less. A row that has no counterpart moves as far as it is long.
    """
    left, right = _flat(one), _flat(other)
    left, right = _without(left, right), _without(right, left)
    if max(len(left), len(right)) <= own:
        return 0.0
    found = []
    for first, second in ((left, right), (_in_order(left), _in_order(right))):
        long, short = (first, second) if len(first) >= len(second) else (second, first)
        gap = len(long) - len(short)
        # The counterparts of the long side's rows: the short side's, with a gap where that costs least.
        ahead, behind = (_distances(long[shift : shift + len(short)], short, norm) for shift in (0, gap))
        place = int(np.argmin(np.append(0.0, ahead.cumsum()) - np.append(0.0, behind.cumsum())))
        alone = _distances(long[place : place + gap], np.zeros_like(long[:gap]), norm)
        moves = np.sort(np.concatenate([ahead[:place], alone, behind[place:]]))
        others = moves[: len(moves) - own]
        found.append(float(others[others > rounded].sum()))
    return min(found)


def moved_rows(one: Array, other: Array) -> tuple[Array, Array]:
    """The rows that only one side has, and those that only the other has: [n, ...] each."""
    flat, twin = _flat(one), _flat(other)
    left, right = _without(flat, twin), _without(twin, flat)
    return left.reshape(len(left), *one.shape[1:]), right.reshape(len(right), *other.shape[1:])


def _flat(rows: Array) -> Array:
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _without(rows: Array, others: Array) -> Array:
    """The rows but for those that the others have too, as often as they have them; in their order."""
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
    """The different rows, and how often each is there."""
    first: dict[bytes, int] = {}
    numbers: list[int] = []
    places: list[int] = []
    for place, row in enumerate(rows + 0.0):  # no zero of its own sign
        at = first.setdefault(row.tobytes(), len(numbers))
        if at == len(numbers):
            numbers.append(0)
            places.append(place)
        numbers[at] += 1
    return rows[places], np.array(numbers, dtype=np.int64)


@lru_cache(maxsize=64)
def _counts(numbers: tuple[int, ...]) -> tuple[NDArray[np.int64], Array]:
    """How many of each different row a sample has [k, rows], and log of the number of such samples [k]."""
    shape = [number + 1 for number in numbers]
    counts = np.indices(shape).reshape(len(shape), math.prod(shape)).T
    alike = np.zeros(len(counts))
    for place, number in enumerate(numbers):
        alike += _log_choices(number)[counts[:, place]]
    return counts, alike


def _log_weights(count: int, kept: int, sizes: Array) -> Array:
    """Log probability of each sample of so many kept rows, whatever zeros it has: [kept + 1]."""
    one = sizes - _log_choices(count)  # of one sample of each size
    zeros = _log_choices(count - kept)
    return np.array([np.logaddexp.reduce(one[size : size + len(zeros)] + zeros) for size in range(kept + 1)])


@lru_cache(maxsize=256)
def _log_choices(count: int) -> Array:
    """Log of the number of subsets of each size: [count + 1]."""
    whole = math.lgamma(count + 1)
    found = np.array([whole - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(count + 1)])
    found.setflags(write=False)
    return found


def _log_densities(
    mechanism: ValueMechanism, outputs: Array, distinct: Array, counts: NDArray[np.int64]
) -> Array:
    """Log density of each output for each sum of so many of the different rows: [outputs, k]."""
    if isinstance(mechanism, Gaussian):
        # |output - counts rows|^2 by inner products: samples are many, and rows long.
        noisy = _flat(outputs) / mechanism.sigma
        products = (distinct / mechanism.sigma) @ np.concatenate([distinct / mechanism.sigma, noisy]).T
        lengths = np.einsum("ki,ij,kj->k", counts, products[:, : len(distinct)], counts, optimize=True)
        sizes = (noisy**2).sum(axis=1)[:, np.newaxis] + lengths
        # Sums that are far longer than the noise cancel; those are subtracted from the outputs one by one.
        if float(sizes.max(initial=0.0)) * (noisy.shape[1] + 16) * 2.0**-52 <= _CANCELLED:
            squares = np.maximum(sizes - 2.0 * products[:, len(distinct) :].T @ counts.T, 0.0)
            constant = noisy.shape[1] * (0.5 * math.log(2.0 * math.pi) + math.log(mechanism.sigma))
            return np.asarray(-0.5 * squares - constant)
    sums = (counts @ distinct).reshape(len(counts), *outputs.shape[1:])
    return np.array([[mechanism.log_density(one, total) for total in sums] for one in outputs])
