"""Private group-bys of a data frame, with one unit of privacy a person."""

from __future__ import annotations

import itertools
import math
import numbers
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import ClaimMismatch, InvalidParameter
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import AnyMechanism, Array, Exponential, Gaussian, KeySelection, Laplace
from dpaudit.mechanisms.selecting.keys import Keys
from dpaudit.models import as_double, up
from dpaudit.noise.grid import OnGrid
from dpaudit.tables.asking import complete, no_such
from dpaudit.tables.cells import word
from dpaudit.tables.frames import Frame, opened, require_known_units
from dpaudit.tables.noise import Reach, choice_epsilon, least_noise, share
from dpaudit.tables.plan import LARGEST_EXACT, Bins, Key, Kind, Measure, Plan, Sums, square, value
from dpaudit.tables.quantiles import Quantiles
from dpaudit.tables.synthetic import Marginal, distance, open_pairs, require_columns

#: A number for each group, or the only number where there are no groups.
Answer: TypeAlias = Any

#: Rows of one cell whose sums stay below 2^62.
_MOST_ROWS: Final = 2**32
#: The largest bound on a value: sums of its squares stay below what a double holds.
_LARGEST: Final = 2.0**400
#: How many edges a histogram may have.
_MOST_EDGES: Final = 1000


class Releases(Protocol):
    """What a table needs of a curator."""

    ledger: Ledger
    lock: threading.RLock

    def release(
        self, value: OnGrid, mechanism: AnyMechanism, *, label: str, claimed: AnyGuarantee | None = None
    ) -> Array:
        """As `Curator.release`."""

    def release_keys(
        self, keys: Keys, units: ArrayLike, mechanism: KeySelection, *, label: str
    ) -> list[tuple[Any, ...]]:
        """As `Curator.release_keys`."""

    def select(
        self,
        scores: Array,
        mechanism: Exponential,
        *,
        label: str,
        score_sensitivity: float,
        partition: Partition | None = None,
    ) -> int:
        """As `Curator.select`."""


@dataclass(frozen=True)
class Table:
    """A data frame of which every unit contributes a bounded part; made by `Curator.table`.

    Nothing is computed before a release. Each release adds up whole numbers where the rows are, and the noise
    follows from the bounds, the ledger's relation and the cost.

    Attributes:
        rows_per_unit: how many rows of a unit count; None for all.
        groups_per_unit: in how many groups they may be; None for any number.
        keys: the columns that make groups.
        groups: the groups that are answered, one value for each key.
        hash_key: public; it decides which rows and groups of a unit with too many are kept.
    """

    curator: Releases
    frame: Frame
    unit: str
    rows_per_unit: int | None = None
    groups_per_unit: int | None = None
    keys: tuple[str, ...] = ()
    groups: tuple[Key, ...] = ((),)
    hash_key: str = ""

    def __getattr__(self, name: str) -> NoReturn:
        """Say what may have been meant by a method that there is not; raises `AttributeError`."""
        known = [own for own in vars(Table) if callable(vars(Table)[own]) and not own.startswith("_")]
        raise AttributeError(no_such(name, known), name=name, obj=self)

    def __getitem__(self, column: object) -> NoReturn:
        """Say where a column is named, and that rows are not handed out; raises `TypeError`."""
        raise TypeError(
            f"a table does not hand out {column!r}: name a column where it is released, as in "
            '`table.sum("minutes", lower=0, upper=60)`'
        )

    @complete("bound")
    def bound(self, *, rows_per_unit: int | None = None, groups_per_unit: int | None = None) -> Table:
        """Keep at most so many rows of each unit, in at most so many groups.

        Where a unit has more, a keyed public hash chooses: the same rows for any order of the rows, any split
        of them and any engine. Groups are chosen first, among those that are asked for. A bound that is not
        given stays what it was.

        Raises:
            InvalidParameter: neither is given, or one is not a whole number of at least 1.
        """
        for name, given in (("rows_per_unit", rows_per_unit), ("groups_per_unit", groups_per_unit)):
            if given is not None:
                require_kind(given, numbers.Integral, f"bound({name}=)")
                if given < 1:
                    remedy = "give a whole number of at least 1"
                    raise InvalidParameter(f"{name} = {given!r}", where=f"bound({name}=)", remedy=remedy)
        if rows_per_unit is None and groups_per_unit is None:
            what, why = "no bound is given", "one unit could be all of the table"
            remedy = "give rows_per_unit=, groups_per_unit= or both"
            raise InvalidParameter(what, where="bound", why=why, remedy=remedy)
        rows = self.rows_per_unit if rows_per_unit is None else int(rows_per_unit)
        groups = self.groups_per_unit if groups_per_unit is None else int(groups_per_unit)
        return replace(self, rows_per_unit=rows, groups_per_unit=groups)

    @complete("group_by")
    def group_by(self, by: str | Sequence[str], *, keys: Any) -> Table:
        """Answer each group by itself.

        Args:
            by: a column, or several; of text, yes and no, or whole numbers, as doubles below 2^53.
            keys: the public values whose groups are answered: a list; for several columns a dictionary with a
                list for each, for all combinations, or a list of tuples. Read off private rows they would
                reveal that a unit has them: `select_keys` chooses them privately.

        Raises:
            InvalidParameter: unknown columns, no keys, keys of mixed types or of another than the column's.
        """
        names = self._key_columns(by, "group_by", "number")
        groups = _groups(names, keys)
        for i, name in enumerate(names):
            self._require_keys(name, [group[i] for group in groups])
        return replace(self, keys=names, groups=tuple(dict.fromkeys(groups)))

    @complete("select_keys")
    def select_keys(
        self,
        by: str | Sequence[str],
        *,
        cost: ApproxDP,
        method: Literal["optimal", "laplace", "gaussian"] = "optimal",
        label: str | None = None,
    ) -> list[Any]:
        """The values of a column, or of several, that enough units have: keys for `group_by`.

        Args:
            by: a column, or several; of text, yes and no, or whole numbers, but in no type of numpy's.
            cost: what the selection may cost; its delta is what a value of one unit is released with.
            method: ``optimal`` for units in one group or few, ``gaussian`` for units in many; see
                `KeySelection`.
            label: as in `count`.

        Returns:
            Values, or tuples of them, in order of their texts; a missing value is none.

        Raises:
            InvalidParameter: as `group_by`; the cost is no `ApproxDP`, or a unit's groups are not bounded.
        """
        names = self._key_columns(by, "select_keys")
        for name in names:
            if name in self.frame.of_numpy and self.frame.kinds[name] != "objects":
                what = f"column {name!r} of numpy's type {self.frame.columns[name].lower()}"
                why = "pandas makes another type where one cell is missing, and with it others of all keys"
                remedy = "state a type where the frame is made, Int64 or boolean: read_csv(..., dtype=...)"
                raise InvalidParameter(what, where="select_keys", why=why, remedy=remedy)
        label = label or f"keys of {', '.join(names)}"
        where = f"release {label!r}"
        require_kind(cost, ApproxDP, "select_keys(cost=)")
        bounds = [each for each in (self.groups_per_unit, self.rows_per_unit) if each is not None]
        Reach(None, min(bounds, default=None), Fraction(0), Fraction(1), single=True).sensitivity(
            self._relation, "l1", where
        )
        # Where a unit is replaced, it leaves so many groups and enters as many others.
        changes = int(self._relation.sum_sensitivity(min(bounds), "l1"))
        mechanism = KeySelection(method=method, epsilon=cost.epsilon, delta=cost.delta, changes=changes)
        sums = self._sums((Measure("units"),), by=names)
        units = [each[0] for each in sums.values()]
        found = self.curator.release_keys(list(sums), units, mechanism, label=label)
        return [key[0] for key in found] if len(names) == 1 else found

    @complete("count")
    def count(self, *, cost: AnyGuarantee, label: str | None = None) -> Answer:
        """How many rows, of each group.

        Args:
            cost: what the release may cost: ZCDP or GDP for Gaussian noise, PureDP for Laplace noise.
            label: in the ledger; left out, the query in words.

        Raises:
            InvalidParameter: the bounds or the cost do not allow it.
        """
        return self._released(Measure("rows"), label or self._words("count"), cost)

    @complete("count_distinct_units")
    def count_distinct_units(self, *, cost: AnyGuarantee, label: str | None = None) -> Answer:
        """How many units, of each group; arguments as in `count`."""
        return self._released(Measure("units"), label or self._words("units"), cost)

    @complete("sum")
    def sum(
        self, column: str, *, lower: float, upper: float, cost: AnyGuarantee, label: str | None = None
    ) -> Answer:
        """The sum of a column between two public bounds, of each group; a missing value and NaN count 0.

        Each value is raised or lowered to the bounds and rounded down to a public grid, by less than 2^-29 of
        the larger bound, so that the sum is one of whole numbers.

        Raises:
            InvalidParameter: no such column, it holds no numbers, or `lower` is not below `upper`.
        """
        label = label or self._words(f"sum of {column}")
        lower, upper = self._range(column, lower, upper, "sum")
        return self._released(value(column, lower, upper), label, cost)

    @complete("mean")
    def mean(
        self, column: str, *, lower: float, upper: float, cost: AnyGuarantee, label: str | None = None
    ) -> Answer:
        """The mean of a column's values between two public bounds, of each group, from two releases.

        They are the number of values and their sum, counted from the middle of the range; each costs half.
        Raises as `sum`.
        """
        return self._moments(column, lower, upper, cost, label or self._words(f"mean of {column}"), 1)

    @complete("variance")
    def variance(
        self, column: str, *, lower: float, upper: float, cost: AnyGuarantee, label: str | None = None
    ) -> Answer:
        """The variance of a column's values between two public bounds, of each group, from three releases.

        The mean's two, and the sum of squared distances from the middle; each costs a third. Raises as `sum`.
        """
        return self._moments(column, lower, upper, cost, label or self._words(f"variance of {column}"), 2)

    @complete("histogram")
    def histogram(
        self, column: str, *, edges: Sequence[float], cost: AnyGuarantee, label: str | None = None
    ) -> Answer:
        """How many rows have a value in each bin, of each group: a list of ``len(edges) - 1`` numbers.

        Values outside are counted in the first and in the last bin, missing ones nowhere. All bins are one
        release. Raises as `sum`, and for edges that do not increase.
        """
        inner = self._edges(column, edges, "histogram")[1:-1]
        label = label or self._words(f"histogram of {column}")
        bins = Bins(column, inner)
        cells = [(*group, i) for group in self.groups for i in range(len(inner) + 1)]
        measure = Measure("rows")
        noise = self._noise(measure, label, cost, one_cell=len(cells) == 1)
        sums = self._sums((measure,), bins)
        exact = OnGrid(np.array([_of(sums, cell)[0] for cell in cells], dtype=np.int64), 0)
        noisy = self.curator.release(exact, noise, label=label, claimed=cost)
        rows = noisy.reshape(len(self.groups), len(inner) + 1)
        return self._answer([[float(each) for each in row] for row in rows])

    @complete("quantile")
    def quantile(
        self,
        column: str,
        q: float | Sequence[float],
        *,
        lower: float,
        upper: float,
        cost: AnyGuarantee,
        candidates: int = 100,
        label: str | None = None,
    ) -> Answer:
        """A quantile of a column's values, or several, of each group, by the exponential mechanism.

        It chooses among evenly spaced numbers between the bounds. Several quantiles are one choice, which
        costs what one of them would: the better, the nearer the numbers of values between them are to what
        they should be (Gillenwater, Joseph and Kulesza 2021). Each group is a choice of its own, and together
        they cost `cost`. Where a unit is in one group, each costs all of it, since a unit meets one choice,
        or half where its rows may be replaced by another group's; else each costs an equal part.

        Args:
            column: of numbers.
            q: above 0 and below 1; or several, increasing.
            lower: the least candidate.
            upper: the largest.
            cost: PureDP or ZCDP.
            candidates: how many there are, from 2 to 1000; for several quantiles fewer, so that there are at
                most 2^20 choices: 183 for three, 15 for nine.
            label: as in `count`; each group's own is added.

        Returns:
            A number, or for several quantiles a list of numbers, of each group.

        Raises:
            InvalidParameter: as `sum`, and for `q` and `candidates` out of range.
        """
        lower, upper = self._range(column, lower, upper, "quantile")
        several = isinstance(q, Iterable) and getattr(q, "ndim", 1) > 0
        given: list[Any] = list(q) if several else [q]  # type: ignore[arg-type]  # `several`: it is an Iterable
        asked = Quantiles.of(given, candidates)
        words = f"{', '.join(f'{float(each):g}' for each in given)} quantile{'s' if len(given) > 1 else ''}"
        label = label or self._words(f"{words} of {column}")
        if self.rows_per_unit is None:
            self._reach(Measure("rows")).sensitivity(self._relation, "l1", f"release {label!r}")
        moved = asked.score_sensitivity(self.rows_per_unit or 0, self._relation)
        apart = len(self.groups) > 1 and self._groups_of_a_unit() == 1
        met = self._relation.parts_touched(split_by_values=True) if apart else len(self.groups)
        cost = cost if met == 1 else share(cost, met, f"release {label!r}")
        mechanism = Exponential(epsilon=choice_epsilon(cost, f"release {label!r}"))
        points = [float(each) for each in np.linspace(lower, upper, candidates)]
        # Bins end right above each candidate and right below the next one, so that none is counted in both.
        above = [math.nextafter(point, math.inf) for point in points]
        edges = tuple(sorted({*points, *above}))
        place = {edge: i for i, edge in enumerate(edges)}
        sums = self._sums((Measure("rows"),), Bins(column, edges))
        choices = asked.choices()
        scores = []
        for group in self.groups:
            reached = np.cumsum([_of(sums, (*group, i))[0] for i in range(len(edges) + 1)])
            below, up_to = (reached[[place[edge] for edge in each]] for each in (points, above))
            below[0], up_to[-1] = 0, reached[-1]  # values beyond the bounds are moved to them
            scores.append(asked.scores(choices, below, up_to, int(reached[-1])))
        found = []
        with self.curator.lock:
            # A split of its own: of other rows, or among other groups, a unit may be in another part.
            split = f"{label}, from release {self.curator.ledger.number + 1}"
            for name, of in zip(map(_name, self.groups), scores, strict=True):
                part = Partition(part=name, split=split, by="values") if apart else None
                chosen = self.curator.select(
                    of,
                    mechanism,
                    label=f"{label}: {name}" if self.keys else label,
                    score_sensitivity=moved,
                    partition=part,
                )
                numbers_of = [points[i] for i in choices[chosen]]
                found.append(numbers_of if several else numbers_of[0])
        return self._answer(found)

    @complete("marginals")
    def marginals(
        self, columns: Mapping[str, Sequence[Any]], *, cost: AnyGuarantee, label: str = "marginals"
    ) -> list[Marginal]:
        """Noisy counts of each column's values, and of the pairs of columns that depend most on each other.

        They are what `synthetic_rows` makes rows of (MST, McKenna, Miklau and Sheldon 2021): a third of the
        cost is for columns alone, a third for choosing a tree of pairs by the exponential mechanism, and a
        third for the counts of these pairs.

        Args:
            columns: the public values of two columns or more, of text, whole numbers, or yes and no. A row
                with another value in a column is in none of that column's counts.
            cost: of all together: ZCDP or PureDP.
            label: begins the labels in the ledger.

        Raises:
            InvalidParameter: as `group_by` and `count`, and for a table with groups.
        """
        names, where = require_columns(columns, groups=bool(self.keys)), f"release {label!r}"
        third = share(cost, 3, where)
        each_pair = share(third, len(names) - 1, where)
        choice = Exponential(epsilon=choice_epsilon(each_pair, where))
        pairs = {
            (a, b): self.group_by([a, b], keys={a: columns[a], b: columns[b]})
            for a, b in itertools.combinations(names, 2)
        }
        moved = self._reach(Measure("rows"), one_cell=False).sensitivity(self._relation, "l1", where)
        found: dict[tuple[str, ...], Marginal] = {}
        for name in names:
            grouped = self.group_by(name, keys=columns[name])
            found[name,] = self._marginal(grouped, share(third, len(names), where), label)
        scores = {}
        for (a, b), grouped in pairs.items():
            sums = self._sums((Measure("rows"),), by=(a, b), groups=grouped.groups)
            exact = [_of(sums, group)[0] for group in grouped.groups]
            scores[a, b] = distance(exact, found[a,], found[b,])
        chosen: list[tuple[str, str]] = []
        while left := open_pairs(chosen, names):
            of = np.array([scores[pair] for pair in left], dtype=np.float64)
            place = self.curator.select(of, choice, label=f"{label}: a pair", score_sensitivity=moved)
            chosen.append(left[place])
            found[left[place]] = self._marginal(pairs[left[place]], each_pair, label)
        return list(found.values())

    # What follows is used by the methods above.

    def _marginal(self, grouped: Table, cost: AnyGuarantee, label: str) -> Marginal:
        label = f"{label}: {', '.join(grouped.keys)}"
        noise = self._noise(Measure("rows"), label, cost, one_cell=len(grouped.groups) == 1)
        counts = grouped.count(cost=cost, label=label)
        return {
            "columns": list(grouped.keys),
            "values": [list(dict.fromkeys(each)) for each in zip(*grouped.groups, strict=True)],
            "counts": list(counts.values()),
            "deviation": noise.sigma if isinstance(noise, Gaussian) else math.sqrt(2.0) * noise.scale,
        }

    def _key_columns(self, by: str | Sequence[str], method: str, *more: Kind) -> tuple[str, ...]:
        """The columns that make groups; of `more` kinds than those that are always keys."""
        names = (by,) if isinstance(by, str) else tuple(_listed(by, method, "by"))
        for name in names:
            self.frame.require_column(name, method)
            self.frame.require_kind(name, method, "text", "whole", "boolean", "objects", *more)
        if not names or len(set(names)) < len(names) or self.unit in names:
            what, why = f"{method}({', '.join(map(repr, names))})", "groups are of several units"
            remedy = f"name columns, each once, and not {self.unit!r}"
            raise InvalidParameter(what, where=method, why=why, remedy=remedy)
        return names

    @property
    def _relation(self) -> Neighbouring:
        return self.curator.ledger.header.neighbouring

    def _groups_of_a_unit(self) -> int | None:
        """In how many groups a unit is at most."""
        bounds = [each for each in (self.groups_per_unit, self.rows_per_unit) if each is not None]
        return min([*bounds, len(self.groups)]) if bounds else None

    def _reach(self, measure: Measure, shift: int = 0, *, one_cell: bool | None = None) -> Reach:
        """What a unit's rows add up to, each counted from `shift` steps."""
        low, high = (each - shift for each in measure.steps)
        step = Fraction(2) ** measure.exponent
        return Reach(
            self.rows_per_unit,
            self._groups_of_a_unit(),
            min(low, 0) * step,
            max(high, 0) * step,
            single=measure.what == "units",
            one_cell=len(self.groups) == 1 if one_cell is None else one_cell,
        )

    def _noise(
        self,
        measure: Measure,
        label: str,
        cost: AnyGuarantee,
        shift: int = 0,
        *,
        one_cell: bool | None = None,
    ) -> Gaussian | Laplace:
        where, reach = f"release {label!r}", self._reach(measure, shift, one_cell=one_cell)
        return least_noise(cost, lambda norm: reach.sensitivity(self._relation, norm, where), where)

    def _sums(
        self,
        measures: tuple[Measure, ...],
        bins: Bins | None = None,
        by: tuple[str, ...] = (),
        groups: tuple[Key, ...] = (),
    ) -> Sums:
        """What the rows add up to, exactly, in the table's groups, or in some or all of other columns."""
        require_known_units(self.frame, self.unit)
        keys, known = by or self.keys, None
        if listed := groups if by else self.groups if self.keys else ():
            known = tuple(tuple(dict.fromkeys(each)) for each in zip(*listed, strict=True))
        given = None if known is None else dict(zip(keys, known, strict=True))
        plan = Plan(
            unit=self.unit,
            columns=tuple((name, self._read_as(name, keys, given)) for name in sorted(self.frame.kinds)),
            keys=keys,
            groups=known,
            rows_per_unit=self.rows_per_unit,
            groups_per_unit=self.groups_per_unit if keys else None,
            hash_key=self.hash_key,
            measures=(*measures, Measure("rows")),
            bins=bins,
        )
        sums = self.frame.sums(plan)
        if any(each[-1] >= _MOST_ROWS for each in sums.values()):
            what, remedy = "2^32 rows or more in one group", "bound rows_per_unit, or make smaller groups"
            raise InvalidParameter(what, where="curator.table", why="sums are of 64 bits", remedy=remedy)
        return sums

    def _read_as(self, name: str, keys: tuple[str, ...], given: Mapping[str, Sequence[Any]] | None) -> Kind:
        """What a column is read as: the same in every type that pandas could infer.

        `given` are the keys' public values, whose type decides how objects are read; None if keys are chosen.
        """
        kind = self.frame.kinds[name]
        if kind == "objects" and name in keys:
            return "text" if given is None else "words" if isinstance(given[name][0], str) else "amounts"
        if kind == "objects":
            return "text" if name == self.unit else kind
        return kind if kind == "text" or name == self.unit or name in keys else "number"

    def _released(self, measure: Measure, label: str, cost: AnyGuarantee) -> Answer:
        noise = self._noise(measure, label, cost)
        sums = self._sums((measure,))
        exact = OnGrid(np.array([_of(sums, group)[0] for group in self.groups], np.int64), measure.exponent)
        noisy = self.curator.release(exact, noise, label=label, claimed=cost)
        return self._answer([float(each) for each in noisy])

    def _moments(
        self, column: str, lower: float, upper: float, cost: AnyGuarantee, label: str, degree: int
    ) -> Answer:
        """The mean or the variance, from noisy sums alone."""
        lower, upper = self._range(column, lower, upper, "mean" if degree == 1 else "variance")
        part = share(cost, degree + 1, f"release {label!r}")
        measures = [Measure("known", column), value(column, lower, upper)]
        middle = sum(measures[1].steps) // 2
        center = float(middle * Fraction(2) ** measures[1].exponent)
        if degree == 2:
            measures.append(square(column, lower, upper, center))
        names = ("number of values", "sum", "sum of squares")
        # Counted from the middle of what one row adds, a row adds at most half the range.
        shifts = [0, *(sum(measure.steps) // 2 for measure in measures[1:])]
        parts = list(zip(measures, names, shifts, strict=False))
        noises = [self._noise(measure, label, part, shift) for measure, _, shift in parts]
        sums = self._sums(tuple(measures))
        noisy = []
        for i, ((measure, name, shift), noise) in enumerate(zip(parts, noises, strict=True)):
            rows = [_of(sums, group) for group in self.groups]
            whole = np.array([each[i] - shift * each[0] if i else each[0] for each in rows], np.int64)
            exact = OnGrid(whole, measure.exponent)
            noisy.append(self.curator.release(exact, noise, label=f"{label}: {name}", claimed=part))
        number = np.maximum(noisy[0], 1.0)
        means = [
            sums_of / number + float(shift * Fraction(2) ** measure.exponent)
            for (measure, _, shift), sums_of in zip(parts[1:], noisy[1:], strict=True)
        ]
        mean = np.clip(means[0], lower, upper)
        if degree == 1:
            return self._answer([float(each) for each in mean])
        spread = np.clip(means[1] - (mean - center) ** 2, 0.0, ((upper - lower) / 2) ** 2)
        return self._answer([float(each) for each in spread])

    def _answer(self, found: list[Any]) -> Answer:
        """One number or list for each group, under its key; the only one where there are no groups."""
        if not self.keys:
            return found[0]
        names = (group[0] if len(self.keys) == 1 else group for group in self.groups)
        return dict(zip(names, found, strict=True))

    def _words(self, what: str) -> str:
        return f"{what} by {', '.join(self.keys)}" if self.keys else what

    def _range(self, column: str, lower: float, upper: float, method: str) -> tuple[float, float]:
        """The bounds as doubles, of a column that there is."""
        self.frame.require_column(column, method)
        self.frame.require_kind(column, method, "number", "whole", "boolean")
        for name, given in (("lower", lower), ("upper", upper)):
            require_kind(given, numbers.Real, f"{method}({name}=)")
            # As doubles: beside one of numpy's narrower floats, the largest bound would become infinite.
            if not -_LARGEST <= as_double(given, up) <= _LARGEST:
                what, where = f"{name} = {given!r}", f"{method}({name}=)"
                remedy = f"give a public number, at most {_LARGEST:.1g} in magnitude"
                raise InvalidParameter(what, where=where, remedy=remedy)
        low, high = float(lower), float(upper)
        if not low < high:
            what, why = f"lower = {lower} is not below upper = {upper}", "no double lies between them"
            remedy = "give the public range of the values, the smaller number first"
            raise InvalidParameter(what, where=f"{method}(lower=, upper=)", why=why, remedy=remedy)
        return low, high

    def _edges(self, column: str, edges: Sequence[float], method: str) -> tuple[float, ...]:
        found = _listed(edges, "histogram", "edges")
        if not 2 <= len(found) <= _MOST_EDGES:
            what, remedy = (
                f"{len(found)} edges",
                f"give 2 to {_MOST_EDGES} public numbers, in increasing order",
            )
            raise InvalidParameter(what, where=f"{method}(edges=)", remedy=remedy)
        for one, other in itertools.pairwise(found):
            self._range(column, one, other, method)
        return tuple(map(float, found))

    def _require_keys(self, name: str, values: list[Any]) -> None:
        """Raise `InvalidParameter` unless all values are such as the column holds."""
        kind = self.frame.kinds[name]
        least, most = (-(2**63), 2**63 - 1) if kind == "whole" else (-LARGEST_EXACT, LARGEST_EXACT)
        if far := [each for each in values if type(each) is int and not least <= each <= most]:
            what, why = f"a key of {far[0]!r}", "a column of whole numbers holds 64 bits"
            remedy = "leave it out: no row has it"
            if kind != "whole":
                why = "the column is read as doubles, to which other numbers of this size are rounded"
                remedy = "leave it out, or convert the column to whole numbers, in pandas to Int64"
            raise InvalidParameter(what, where="group_by(keys=)", why=why, remedy=remedy)
        wanted = {"text": str, "whole": int, "number": int, "boolean": bool}.get(kind, type(values[0]))
        wanted = wanted if wanted in {str, int, bool} else str
        strange = [each for each in values if type(each) is not wanted]
        if strange:
            types = ", ".join(sorted({type(each).__name__ for each in values}))
            what = f"keys of type {types} for column {name!r} of type {self.frame.columns[name]}"
            why = "a key of another type than the column's matches no row, or other rows in other engines"
            remedy = f"give each key as {wanted.__name__}: {strange[0]!r} is none"
            if kind == "objects":
                remedy = "give all keys as str, all as int or all as bool"
                remedy += f": as text this one is {text!r}" if (text := word(strange[0])) is not None else ""
            if strange[0] is None:
                remedy = "leave None out: rows without a value are in no group"
            raise InvalidParameter(what, where="group_by(keys=)", why=why, remedy=remedy)


def made(curator: Any, frame: Any, unit: str, hash_key: str) -> Table:
    """A table of a curator, whose ledger is about this unit.

    Raises:
        InvalidParameter: no data frame, no such column, or one that cannot say whose row it is.
        ClaimMismatch: the ledger's unit is another one, or nobody holds all rows.
    """
    found = opened(frame)
    where = f"curator.table(unit={unit!r})"
    found.require_column(unit, where)
    found.require_kind(unit, where, "text", "whole", "objects")
    header = curator.ledger.header
    if header.unit != unit:
        what = f"a table whose unit is {unit!r} in a run whose unit is {header.unit!r}"
        why = "the ledger would be about another unit than the one whose rows are bounded"
        remedy = f"claim it of that unit: Claim(..., unit={unit!r})"
        raise ClaimMismatch(what, where=where, why=why, remedy=remedy)
    if header.trust_model is not TrustModel.CENTRAL:
        what, why = f"a table under {header.trust_model} trust", "bounded sums need all rows of a unit"
        raise ClaimMismatch(what, where=where, why=why, remedy="use a claim under central trust")
    if not isinstance(hash_key, str):
        raise InvalidParameter(f"hash_key = {hash_key!r}", where=where, remedy="give a text")
    return Table(curator, found, unit, hash_key=hash_key)


def _groups(names: tuple[str, ...], keys: Any) -> tuple[Key, ...]:
    """The groups that are answered, in the order given."""
    if isinstance(keys, Mapping):
        if set(keys) != set(names):
            what, remedy = (
                f"keys for {', '.join(map(repr, keys))}",
                f"give a list for each of {', '.join(names)}",
            )
            raise InvalidParameter(what, where="group_by(keys=)", remedy=remedy)
        found = list(itertools.product(*(_listed(keys[name], "group_by", "keys") for name in names)))
    else:
        listed = [] if keys is None else _listed(keys, "group_by", "keys")
        found = [_as_group(each) if len(names) > 1 else (each,) for each in listed]
    found = [tuple(_plain(each) for each in group) for group in found]
    wrong = any(
        len(group) != len(names) or any(isinstance(each, list | tuple | set | dict) for each in group)
        for group in found
    )
    if not found or wrong:
        what = "no keys" if not found else f"keys that are not one value for each of {', '.join(names)}"
        why = "which groups exist must be public: read off private rows they reveal that a unit has them"
        remedy = "give the public values, or choose them by select_keys"
        raise InvalidParameter(what, where="group_by(keys=)", why=why, remedy=remedy)
    return tuple(found)


def _listed(given: Any, method: str, name: str) -> list[Any]:
    """What a list or a series holds; raises `InvalidParameter` for what would give something else."""
    strange = isinstance(given, str | bytes | Mapping) or hasattr(given, "columns")
    if isinstance(given, Iterable) and not strange:
        return list(given)
    what, remedy = f"a {type(given).__name__} is no list", "give a list, or one column as a series"
    why = "a frame gives the names of its columns, and a dictionary its own names"
    if isinstance(given, str | bytes):
        what, why = f"{given!r} is a text, not a list", "it would be taken letter by letter"
        remedy = f"give a list: {name}=[{given!r}]"
    raise InvalidParameter(what, where=f"{method}({name}=)", why=why, remedy=remedy)


def _as_group(group: Any) -> Key:
    return tuple(group) if isinstance(group, tuple | list) else (group,)


def _plain(key: Any) -> Any:
    """A key of numpy or PyArrow as Python's own value."""
    return key.item() if isinstance(key, np.generic) else key.as_py() if hasattr(key, "as_py") else key


def _of(sums: Sums, cell: Key) -> list[int]:
    """A cell's sums; 0 where it has no rows."""
    return sums.get(cell) or [0] * len(next(iter(sums.values()), [0] * 8))


def _name(group: Key) -> str:
    return ", ".join(map(str, group))
