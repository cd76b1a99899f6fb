"""Composition: the mechanisms that a ledger's releases run on one unit of privacy, with their counts.

Only this module handles count, sequential and parallel composition, so no mechanism's formula ever sees a
count. Sequential: every release without a partition counts for every unit. Parallel (McSherry 2009): a unit
touches one part of each split. It touches two if the split depends on values, because a replaced record may
leave one part and enter another. Different splits are independent, so their parts add up. For a group of k
units, releases without a partition count with the mechanism for k units (`for_group`). The group touches up
to k times as many parts of a split; each part counts with the mechanism for the units that are in it.
Releases that name one `sample` become one mechanism (`on_one_sample`) before they are counted: a thousand
steps with the same two releases on one sample are a thousand runs of one mechanism.

The key of a Gaussian or Laplace mechanism is its plain numbers; other mechanisms are their own keys. A
million different ones take about two hundred megabytes. `Cost.many` computes their costs as whole columns.
"""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeAlias, TypeGuard, cast, get_args

import numpy as np

from dpaudit.accountants.closed_forms.columns import Cost, times_up
from dpaudit.accountants.closed_forms.rounding import sum_up, up
from dpaudit.accountants.composition.one_sample import Runs, on_one_sample
from dpaudit.accountants.composition.plain_columns import FEW, Columns, PlainCounts
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.columns import Kind, PlainNoise, PlainReleases, plain_noise
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Draw, Partition, Release
from dpaudit.mechanisms import AnyMechanism, AnySampledSum, HiddenSample, OnSample, SampledSum

#: The key of a mechanism's count: see the module's docstring.
Key: TypeAlias = PlainNoise | AnyMechanism

_MANY = 64  # from this number of mechanisms on, costs are computed in columns, whose setup takes time
_EXACT = 2**53  # counts below it are doubles without rounding


class Exposure(Mapping[AnyMechanism, int]):
    """The mechanisms on one unit's data, with the number of runs of each; mechanisms are made on access."""

    def __init__(self, counts: Counter[Key], plain: PlainCounts | None = None) -> None:
        self._counts = counts
        self._plain = PlainCounts() if plain is None else plain

    @cached_property
    def _all(self) -> Counter[Key]:
        return _with(self._counts, self._plain) if self._plain else self._counts

    def __getitem__(self, mechanism: AnyMechanism) -> int:
        key = key_of(mechanism)
        if key not in self._all:  # a Counter would return 0
            raise KeyError(mechanism)
        return self._all[key]

    def __iter__(self) -> Iterator[AnyMechanism]:
        return map(mechanism_of, self._all)

    def __len__(self) -> int:
        return len(self._all)

    def columns(self, kind: Kind) -> Columns:
        """Return the Gaussian or Laplace mechanisms in arrays; counts past 2^53 are rounded up to doubles."""
        found = [key for key in self._counts if _is_kind(key, kind)]
        singly = _columns(found, [self._counts[key] for key in found])
        together = zip(singly, *self._plain.columns(kind), strict=True)
        return Columns(*map(np.concatenate, together)) if self._plain else singly

    def others(self) -> dict[AnyMechanism, int]:
        """Return the mechanisms that are in no `columns`."""
        return {k: n for k, n in self._counts.items() if not isinstance(k, PlainNoise)}


def _with(counts: Counter[Key], plain: PlainCounts) -> Counter[Key]:
    """Return the sum of both counts."""
    together = counts.copy()
    for key, count in plain.items():
        together[key] += count
    return together


def key_of(mechanism: AnyMechanism) -> Key:
    """Return the key that counts a mechanism's runs."""
    return plain_noise(mechanism) or mechanism


def mechanism_of(key: Key) -> AnyMechanism:
    """Return the mechanism of a key."""
    return key.mechanism() if isinstance(key, PlainNoise) else key


def repeated(cost: float, count: int) -> float:
    """Return `count` times a cost, rounded up."""
    return up(Fraction(cost) * count) if math.isfinite(cost) else cost


def _sums(
    groups: Sequence[Counter[Key]], cost: Callable[[AnyMechanism], float], more: Iterable[float] = ()
) -> list[float]:
    """Return each group's sum of costs, rounded up; `more` are extra costs of the first group."""
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
    shares = [itertools.islice(costs, len(group)) for group in groups]
    return [sum_up(itertools.chain(share, () if i else more)) for i, share in enumerate(shares)]


def _in_columns(keys: Sequence[Key], counts: Sequence[int], cost: Cost) -> list[float]:
    """Return each key's cost times its count, rounded up; NaN if it must be computed alone."""
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
    """Return the columns, filled entry by entry to save memory; counts past 2^53 are rounded up."""
    runs = (float(n) if n <= _EXACT else up(Fraction(n)) for n in counts)
    columns = ((one.sensitivity for one in noise), (one.scale for one in noise), runs)
    return Columns(*(np.fromiter(column, np.float64, len(noise)) for column in columns))


#: One part of a split, or None for the releases that include all units.
_Place: TypeAlias = tuple[str, str] | None

_MOST_EXPOSURES = 4096


class _OnDraw:
    """The mechanisms on one draw, and the key that counts them; None until they are counted."""

    __slots__ = ("counted", "draw", "mechanisms")

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.mechanisms: list[AnySampledSum] = []
        self.counted: AnySampledSum | None = None

    def together(self, neighbouring: Neighbouring) -> AnySampledSum | None:
        """Return all of them as one mechanism; None if all have been removed."""
        if not self.mechanisms:
            return None
        moves = self.draw.partition is not None and self.draw.partition.by == "values"
        if moves and neighbouring is Neighbouring.ZERO_OUT:  # see `Composition.sampling_relation`
            neighbouring = Neighbouring.REPLACE_ONE
        runs: Runs = frozenset(Counter(self.mechanisms).items())
        return on_one_sample(runs, neighbouring)


class Composition:
    """The releases of a run, grouped by mechanism and by their part of a split.

    The relation decides how many parts of a split one unit can touch; the two data sets may differ in
    `group_size` units. `running` is a cost whose total is needed after each release. For single units it is
    updated with each release.
    """

    def __init__(
        self,
        neighbouring: Neighbouring,
        group_size: int = 1,
        *,
        running: Callable[[AnyMechanism], float] | None = None,
    ) -> None:
        self.neighbouring = neighbouring
        self.group_size = group_size
        self._common: Counter[Key] = Counter()
        self._plain = PlainCounts()  # further plain mechanisms, in columns once there are many
        self._splits: dict[str, dict[str, Counter[Key]]] = {}
        self._by_values: Counter[str] = Counter()  # for each split, the number of releases on parts by values
        # A group's costs are not the sums of its releases' costs for single units.
        self._running = running if group_size == 1 else None
        self._sums: dict[_Place, Fraction] = {}  # exact sums of the running cost, for `remove`
        self._draws: dict[str, _OnDraw] = {}  # by sample name
        self._changed: dict[str, None] = {}  # samples whose count is out of date
        self._alike: dict[
            AnySampledSum, AnySampledSum
        ] = {}  # one representative for equal mechanisms on draws

    @property
    def shared(self) -> bool:
        """Whether several releases share one sample."""
        return any(len(on.mechanisms) > 1 for on in self._draws.values())

    def has_draw(self, sample: str | None) -> bool:
        """Return whether an earlier release names this sample."""
        return sample in self._draws

    @property
    def distinct(self) -> int:
        """The number of different mechanisms, counted separately for each part."""
        self._gather()
        self._settle()
        parts = (part for split in self._splits.values() for part in split.values())
        return len(self._common) + len(self._plain) + sum(map(len, parts))

    @property
    def split(self) -> bool:
        """Whether some release was on a part of a split."""
        self._gather()
        return bool(self._splits)

    def add(self, release: Release | PlainReleases) -> None:
        """Add one release (`count` runs of its mechanism on all units or on one part), or a block.

        Raises `InvalidParameter`: an earlier release on this sample states another draw.
        """
        if isinstance(release, PlainReleases):
            self._add_block(release)
        elif isinstance(release.mechanism, SampledSum) and release.draw and release.sample is not None:
            self._put_on_draw(release.mechanism, release.draw, release.sample, release.label)
        else:
            self._put(key_of(release.mechanism), release.count, release.partition)

    def _add_block(self, block: PlainReleases) -> None:
        parts = any(form.partition for form in block.forms)
        if parts or self._running is not None or self.group_size > 1 or not self._plain.add(block):
            for noise, form in block.noises():
                self._put(noise, form.count, form.partition)

    def _settle(self, *, fully: bool = False) -> None:
        """Move plain mechanisms into columns if there are many; move all of them out if few or `fully`."""
        if not self._plain:
            return
        loose = [(key, count) for key, count in self._common.items() if isinstance(key, PlainNoise)]
        if fully or self._splits or len(self._plain) + len(loose) < FEW or not self._plain.add_counts(loose):
            self._common, self._plain = _with(self._common, self._plain), PlainCounts()
        else:
            for key, _ in loose:
                del self._common[key]

    def remove(self, release: Release) -> None:
        """Remove a release that was added earlier."""
        if isinstance(release.mechanism, SampledSum) and release.sample is not None:
            self._draws[release.sample].mechanisms.remove(release.mechanism)
            self._changed[release.sample] = None
            self._gather()
            return
        self._put(key_of(release.mechanism), -release.count, release.partition)

    def _put_on_draw(self, mechanism: AnySampledSum, draw: Draw, sample: str, label: str) -> None:
        on = self._draws.get(sample) or _OnDraw(draw)
        on.draw.require_same(draw, sample, label)
        self._draws[sample] = on
        on.mechanisms.append(self._alike.setdefault(mechanism, mechanism))
        self._changed[sample] = None

    def _gather(self) -> None:
        """Count the releases of each changed sample as one mechanism.

        Raises `CannotBound`: no bound is known for the mechanisms on a sample.
        """
        for sample in tuple(self._changed):
            on = self._draws[sample]
            together, place = on.together(self.neighbouring), on.draw.partition
            if on.counted is not None:
                self._put(on.counted, -on.draw.runs, place)
                on.counted = None
            if together is not None:
                self._put(together, on.draw.runs, place)
                on.counted = together
            else:
                del self._draws[sample]
            del self._changed[sample]

    @property
    def sampling_relation(self) -> Neighbouring:
        """The relation under which sampled mechanisms are bounded.

        A zeroed record leaves one part of a split by values and may enter another. One sample then loses a
        row and another gains one, so their pairs have opposite orders, and composing all pairs in one order
        gives no bound. As for replaced records, a pair that holds in both orders is used instead.
        """
        self._gather()
        if self.neighbouring is not Neighbouring.ZERO_OUT:
            return self.neighbouring
        by_values = (parts for split, parts in self._splits.items() if self._by_values[split])
        keys = (key for parts in by_values for part in parts.values() for key in part)
        sampled = any(isinstance(key, HiddenSample) for key in keys)
        return Neighbouring.REPLACE_ONE if sampled else self.neighbouring

    def exposures(self) -> tuple[Exposure, ...]:
        """Return every distinct multiset of mechanisms that one unit or group can be exposed to.

        The worst one counts. Raises `CannotBound` if there are too many to try.
        """
        self._gather()
        self._settle()
        if self._plain:  # in columns only without splits
            return (Exposure(self._common, self._plain),)
        exposures = [_seen_by(self._common, self.group_size)]
        for split in self._splits:
            # Duplicates are dropped after each split, which limits the number of products.
            products = itertools.product(exposures, self._choices(split))
            exposures = _distinct(so_far + choice for so_far, choice in products)
        return tuple(map(Exposure, exposures))

    def mechanisms(self) -> frozenset[AnyMechanism]:
        """Return every mechanism that occurs in some exposure."""
        self._gather()
        self._settle(fully=True)
        return frozenset(map(mechanism_of, self._keys()))

    def others(self) -> frozenset[AnyMechanism]:
        """Return the `mechanisms` that are in no `columns`."""
        self._gather()
        return frozenset(key for key in self._keys() if not isinstance(key, PlainNoise))

    def _keys(self) -> set[Key]:
        seen = set(_seen_by(self._common, self.group_size))
        for parts in self._splits.values():
            for part, units in itertools.product(parts.values(), range(1, self.group_size + 1)):
                seen |= set(_seen_by(part, units))
        return seen

    def total(self, cost: Callable[[AnyMechanism], float]) -> float:
        """Return the largest sum of an additive cost over all exposures, rounded up.

        The costliest parts of each split are found without trying all exposures.
        """
        self._gather()
        self._settle(fully=not isinstance(cost, Cost))
        costliest = self._sums_of([None], cost, self.group_size)
        for split, parts in self._splits.items():
            places = [(split, part) for part in parts]
            touched = self._parts_touched(split)
            if self.group_size == 1:
                costliest += heapq.nlargest(touched, self._sums_of(places, cost, 1))
                continue
            by_units = [self._sums_of(places, cost, units) for units in range(1, self.group_size + 1)]
            costliest.append(_costliest(zip(*by_units, strict=True), touched))
        return sum_up(costliest)

    def _put(self, key: Key, count: int, partition: Partition | None) -> None:
        if self._running is not None:
            place = None if partition is None else (partition.split, partition.part)
            change = Fraction(self._running(mechanism_of(key))) * count
            self._sums[place] = self._sums.get(place, Fraction(0)) + change
        if count < 0 and isinstance(key, PlainNoise):
            self._settle(fully=True)  # the mechanism to remove may be in a column
        group = self._common
        if partition is not None:
            group = self._splits.setdefault(partition.split, {}).setdefault(partition.part, Counter())
            if partition.by == "values":
                self._refuse_known_sizes(key)
                self._by_values[partition.split] += 1 if count > 0 else -1
        group[key] += count
        if not group[key]:
            del group[key]

    def _refuse_known_sizes(self, key: Key) -> None:
        """Raise `CannotBound` if a record may change parts and a part's sample depends on the part's size."""
        relation = self.neighbouring
        if relation is not Neighbouring.ADD_OR_REMOVE_ONE and isinstance(key, OnSample) and key.swaps:
            what = f"a {key.kind} mechanism on a part of a split by values"
            why = "the sample depends on the number of units, which a record that changes its part changes"
            remedy = "split by position, or draw a Poisson sample"
            raise CannotBound(what, where="partition", why=why, remedy=remedy)

    def _sums_of(
        self, places: Sequence[_Place], cost: Callable[[AnyMechanism], float], units: int
    ) -> list[float]:
        """Return, for each place, the cost of its releases for `units` units."""
        if cost is self._running:
            return [up(self._sums.get(place, Fraction(0))) for place in places]
        groups = [self._common if at is None else self._splits[at[0]][at[1]] for at in places]
        more: Iterable[float] = ()
        if isinstance(cost, Cost) and None in places and self._plain:
            more = self._plain.costs(cost, lambda key, n: repeated(cost(key.mechanism()), n))
        return _sums([_seen_by(group, units) for group in groups], cost, more)

    def _parts_touched(self, split: str) -> int:
        """Return the largest number of parts that a group's units touch, counted once for each unit."""
        one = self.neighbouring.parts_touched(split_by_values=self._by_values[split] > 0)
        return self.group_size * one

    def _choices(self, split: str) -> list[Counter[Key]]:
        touched = self._parts_touched(split)
        # Parts with equal contents count separately only as often as a group can touch them.
        seen: Counter[frozenset[tuple[Key, int]]] = Counter()
        parts = []
        for part in self._splits[split].values():
            key = frozenset(part.items())
            seen[key] += 1
            if seen[key] <= touched:
                parts.append(part)
        many = min(touched, self.group_size * len(parts))
        met = map(Counter, itertools.combinations_with_replacement(range(len(parts)), many))
        return _distinct(
            sum((_seen_by(parts[place], units) for place, units in places.items()), Counter())
            for places in met
            if max(places.values()) <= self.group_size
        )


def compose(releases: Iterable[Release], neighbouring: Neighbouring, group_size: int = 1) -> Composition:
    """Compose releases, for single units or for groups of them."""
    composition = Composition(neighbouring, group_size)
    for release in releases:
        composition.add(release)
    return composition


def compose_ledger(ledger: Ledger) -> Composition:
    """Compose a ledger; under local trust it describes one user, so the number of users does not matter."""
    return compose(ledger, ledger.header.neighbouring, ledger.header.group_size)


def _distinct(exposures: Iterable[Counter[Key]]) -> list[Counter[Key]]:
    """Return the distinct exposures, or raise `CannotBound` if there are too many to try."""
    found: dict[frozenset[tuple[Key, int]], Counter[Key]] = {}
    for exposure in exposures:
        found[frozenset(exposure.items())] = exposure
        if len(found) > _MOST_EXPOSURES:
            what = f"more than {_MOST_EXPOSURES} ways to meet the parts of the splits"
            raise CannotBound(what, where="composition", remedy="claim zCDP, which adds up part by part")
    return list(found.values())


@lru_cache(maxsize=1 << 16)
def for_group(mechanism: AnyMechanism, size: int) -> tuple[AnyMechanism, int]:
    """Return the mechanism for data sets that differ in `size` units, and its number of runs.

    A chain of `size` neighbouring pairs connects the two data sets, so each distance that the mechanism
    bounds grows at most `size` times (triangle inequality). The result is that of the mechanism's own
    `for_group`, rounded up. Raises `CannotBound`: no bound for groups is known, or it exceeds the largest
    double.
    """
    if size == 1:
        return mechanism, 1
    found = mechanism.for_group(size, _times)
    if found is None:
        what = f"no bound for groups of {size} is known for a {mechanism.kind} mechanism"
        remedy = "claim for single units, or account for the mechanism inside without sampling"
        raise CannotBound(what, where="header.group_size", remedy=remedy)
    return found


def _times(figure: float, factor: int) -> float:
    product = up(Fraction(figure) * factor)
    if not math.isfinite(product):
        raise CannotBound(f"{factor} times {figure} exceeds every double", where="header.group_size")
    return product


def _seen_by(mechanisms: Counter[Key], units: int) -> Counter[Key]:
    """Return the mechanisms and counts for data sets that differ in `units` units (`for_group`)."""
    if units == 1:
        return mechanisms
    seen: Counter[Key] = Counter()
    for key, count in mechanisms.items():
        grouped, times = for_group(mechanism_of(key), units)
        seen[key_of(grouped)] += count * times
    return seen


def _costliest(parts: Iterable[Sequence[float]], touched: int) -> float:
    """Return the largest total cost of `touched` units; each part lists its cost for 1, 2, ... units."""
    best = [0.0] * (touched + 1)  # [units placed]
    for costs in parts:
        for placed in range(touched, 0, -1):
            ways = enumerate(costs[:placed], start=1)
            best[placed] = max(best[placed], *(sum_up([best[placed - units], cost]) for units, cost in ways))
    return max(best)
