"""Private group-bys of a data frame, with a person as the unit of privacy."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, NoReturn

import numpy as np

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.claims.relations import TrustModel
from dpaudit.curator.calls import complete
from dpaudit.errors import ClaimMismatch, InvalidParameter
from dpaudit.mechanisms import KeySelection
from dpaudit.noise.grid import OnGrid
from dpaudit.tables.arguments import bin_edges, key_columns, value_range
from dpaudit.tables.asking import no_such
from dpaudit.tables.bounded import (
    Answer,
    Bounded,
    by_group,
    cell_sums,
    exact_sums,
    in_groups,
    query_words,
    release_measure,
    release_noise,
)
from dpaudit.tables.frames import opened
from dpaudit.tables.moments import moments
from dpaudit.tables.noise import Reach
from dpaudit.tables.plan import Bins, Measure, value
from dpaudit.tables.quantiles import quantiles
from dpaudit.tables.synthetic import Marginal, marginals


@dataclass(frozen=True)
class Table(Bounded):
    """A data frame with bounded contributions per unit; made by `Curator.table`.

    Nothing is computed before a release. Each release sums whole numbers in the data's engine, and the noise
    follows from the bounds, the ledger's relation and the cost.

    Attributes:
        rows_per_unit: number of rows counted per unit; None for all.
        groups_per_unit: number of groups per unit; None for any number.
        keys: the columns that form groups.
        groups: the released groups, one value for each key.
        hash_key: public; it decides which rows and groups of a unit with too many are kept.
    """

    def __getattr__(self, name: str) -> NoReturn:
        """Suggest a method for one that does not exist; raise `AttributeError`."""
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
        """Limit the rows and the groups of each unit.

        Where a unit has more, a keyed public hash chooses: the same rows for any order of the rows, any split
        of them and any engine. Groups are chosen first, among those that are asked for. A bound that is not
        given stays unchanged.

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
        return in_groups(self, by, keys)

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
        names = key_columns(self.frame, self.unit, by, "select_keys")
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
            self.relation, "l1", where
        )
        # Where a unit is replaced, it leaves so many groups and enters as many others.
        changes = int(self.relation.sum_sensitivity(min(bounds), "l1"))
        mechanism = KeySelection(method=method, epsilon=cost.epsilon, delta=cost.delta, changes=changes)
        sums = exact_sums(self, (Measure("units"),), by=names)
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
        return release_measure(self, Measure("rows"), label or query_words(self, "count"), cost)

    @complete("count_distinct_units")
    def count_distinct_units(self, *, cost: AnyGuarantee, label: str | None = None) -> Answer:
        """How many units, of each group; arguments as in `count`."""
        return release_measure(self, Measure("units"), label or query_words(self, "units"), cost)

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
        label = label or query_words(self, f"sum of {column}")
        lower, upper = value_range(self.frame, column, lower, upper, "sum")
        return release_measure(self, value(column, lower, upper), label, cost)

    @complete("mean")
    def mean(
        self, column: str, *, lower: float, upper: float, cost: AnyGuarantee, label: str | None = None
    ) -> Answer:
        """The mean of a column's values between two public bounds, of each group, from two releases.

        They are the number of values and their sum, counted from the middle of the range; each costs half.
        Raises as `sum`.
        """
        return moments(self, column, lower, upper, cost, label or query_words(self, f"mean of {column}"), 1)

    @complete("variance")
    def variance(
        self, column: str, *, lower: float, upper: float, cost: AnyGuarantee, label: str | None = None
    ) -> Answer:
        """The variance of a column's values between two public bounds, of each group, from three releases.

        The mean's two, and the sum of squared distances from the middle; each costs a third. Raises as `sum`.
        """
        return moments(
            self, column, lower, upper, cost, label or query_words(self, f"variance of {column}"), 2
        )

    @complete("histogram")
    def histogram(
        self, column: str, *, edges: Sequence[float], cost: AnyGuarantee, label: str | None = None
    ) -> Answer:
        """How many rows have a value in each bin, of each group: a list of ``len(edges) - 1`` numbers.

        Values outside are counted in the first and in the last bin, missing ones nowhere. All bins are one
        release. Raises as `sum`, and for edges that do not increase.
        """
        inner = bin_edges(self.frame, column, edges)[1:-1]
        label = label or query_words(self, f"histogram of {column}")
        bins = Bins(column, inner)
        cells = [(*group, i) for group in self.groups for i in range(len(inner) + 1)]
        measure = Measure("rows")
        noise = release_noise(self, measure, label, cost, one_cell=len(cells) == 1)
        sums = exact_sums(self, (measure,), bins)
        exact = OnGrid(np.array([cell_sums(sums, cell)[0] for cell in cells], dtype=np.int64), 0)
        noisy = self.curator.release(exact, noise, label=label, claimed=cost)
        rows = noisy.reshape(len(self.groups), len(inner) + 1)
        return by_group(self, [[float(each) for each in row] for row in rows])

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
        return quantiles(
            self,
            column,
            q,
            value_range(self.frame, column, lower, upper, "quantile"),
            cost,
            candidates,
            label,
        )

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
        return marginals(self, columns, cost, label)


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
