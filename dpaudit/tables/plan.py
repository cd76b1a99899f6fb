"""A query on a table: bounded rows in cells, and the whole numbers summed in each cell."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.noise.grid import FINEST

#: What a column holds or is read as: text, whole numbers, yes or no, doubles, or pandas' objects of any kind.
#: A key of objects is read as its groups are given: each cell as its text (``words``), or as a number
#: (``amounts``).
Kind: TypeAlias = Literal["text", "whole", "boolean", "number", "objects", "words", "amounts"]

#: A group: one value for each key.
Key: TypeAlias = tuple[Any, ...]

#: From a cell - its group, and its bin where there are bins - to one sum for each measure.
Sums: TypeAlias = dict[Key, list[int]]

#: The largest whole number that is a double and to which no other whole number is rounded.
LARGEST_EXACT: Final = 2**53 - 1

#: Log2 of how many steps of the grid one row's value has at most: 2^32 rows of them stay below 2^62.
LOG2_STEPS: Final = 30


@dataclass(frozen=True)
class Measure:
    """A whole number of every row, which a query sums.

    ``rows`` is 1, ``units`` is 1 for one row of each unit in each group, ``known`` is 1 where the column has
    a value, ``value`` is that value in steps of a grid, and ``square`` its squared distance from `center`.

    Attributes:
        column: whose value.
        lower: smaller values are raised to it first.
        upper: larger values are lowered to it.
        center: center of the squared distances.
        exponent: exponent of the grid 2^exponent.
    """

    what: Literal["rows", "units", "known", "value", "square"]
    column: str = ""
    lower: float = 0.0
    upper: float = 0.0
    center: float = 0.0
    exponent: int = 0

    @property
    def steps(self) -> tuple[int, int]:
        """Return the least and the largest whole number of a row with a value."""
        if self.what not in {"value", "square"}:
            return 0, 1
        step = Fraction(2) ** self.exponent
        if self.what == "square":
            reach = max(self.upper - self.center, self.center - self.lower)
            return 0, int(Fraction(reach) ** 2 / step)
        high = math.floor(Fraction(self.upper) / step)
        # Between bounds closer than a step there may be none: then all values are rounded down to one below.
        return min(math.ceil(Fraction(self.lower) / step), high), high

    @property
    def most(self) -> Fraction:
        """Return the largest magnitude that one row adds."""
        return max(abs(each) for each in self.steps) * Fraction(2) ** self.exponent


def value(column: str, lower: float, upper: float) -> Measure:
    """Return a column's values between two bounds, on the grid that the bounds determine."""
    return Measure("value", column, lower, upper, exponent=_grid(max(abs(lower), abs(upper))))


def square(column: str, lower: float, upper: float, center: float) -> Measure:
    """Their squared distances from a number between the bounds."""
    reach = max(upper - center, center - lower)
    return Measure("square", column, lower, upper, center, exponent=_grid(reach * reach))


def _grid(bound: float) -> int:
    """The exponent e for which the bound lies in [2^(e+29), 2^(e+30)); 0 for a bound of 0."""
    exponent = math.frexp(bound)[1] - LOG2_STEPS if bound else 0
    if exponent < FINEST:
        what, remedy = f"a range as narrow as {bound}", "give the values in a smaller unit"
        raise InvalidParameter(what, where="upper", why="its grid would be no grid of doubles", remedy=remedy)
    return exponent


@dataclass(frozen=True)
class Bins:
    """Bins of a column's values, as part of the cell.

    Bin i holds values of edges[i-1] or more and below edges[i]. Rows without a value are left out.
    """

    column: str
    edges: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """The kept rows, their cells, and the summed measures.

    Attributes:
        unit: the column with each row's unit.
        columns: all columns whose values decide which rows are kept, with what they are read as, in order of
            their names; the unit's and the keys' are among them. All others but text and objects are read as
            doubles, yes or no included.
        keys: the columns whose values form a group.
        groups: for each key the values that count, in any order; None for all values but missing ones.
        rows_per_unit: number of rows kept per unit; None for all.
        groups_per_unit: number of groups kept per unit; None for all.
        hash_key: key of the public hash that chooses rows and groups.
        measures: the summed values.
        bins: bins that divide each group into further cells.
    """

    unit: str
    columns: tuple[tuple[str, Kind], ...]
    keys: tuple[str, ...]
    groups: tuple[tuple[Any, ...], ...] | None
    rows_per_unit: int | None
    groups_per_unit: int | None
    hash_key: str
    measures: tuple[Measure, ...] = ()
    bins: Bins | None = None
