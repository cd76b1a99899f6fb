"""The sensitivity of a sum to one unit, and the least noise that keeps a release within its cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L1, L2, Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Gaussian, Laplace


@dataclass(frozen=True)
class Reach:
    """The bound on one unit's contribution to all cells together.

    Attributes:
        rows: number of rows.
        cells: number of cells; None if unbounded.
        low: least value of one row, at most 0.
        high: largest value of one row, at least 0.
        single: whether a unit adds at most one row to each cell.
        one_cell: whether there is only one cell.
    """

    rows: int | None
    cells: int | None
    low: Fraction
    high: Fraction
    single: bool = False
    one_cell: bool = False

    def sensitivity(self, relation: Neighbouring, norm: Norm, where: str) -> float:
        """Return the largest difference between the sums of neighbouring tables, rounded up.

        The sums of r rows of magnitude m have L1 and L2 norm at most r m, in one cell or in many. One row in
        each of k cells gives k m and sqrt(k) m. A table of one cell differs by a difference of two numbers
        from r low to r high, which is their range where a unit is replaced.

        Raises:
            InvalidParameter: nothing bounds it.
        """
        most = max(-self.low, self.high)
        cells = 1 if self.one_cell else self.cells
        if self.single and cells is not None:
            length, width = Fraction(cells), cells
            squared = (length if norm == "l2" else length**2) * most**2
        elif self.rows is None:
            what = "no bound on the rows of a unit" if not self.single else "no bound on the groups of a unit"
            why = "one unit could move the answer by any amount"
            missing = "groups_per_unit=" if self.single else "rows_per_unit="
            remedy = f"bound the table before: .bound({missing}...)"
            raise InvalidParameter(what, where=where, why=why, remedy=remedy)
        else:
            width = self.rows
            squared = (width * most) ** 2
        bound = relation.sum_sensitivity(_root_above(squared), norm, acute=self.low >= 0 or self.high <= 0)
        if self.one_cell:
            times = 1 if self.single else width
            bound = min(bound, _root_above((times * (self.high - self.low)) ** 2))
        return bound


def _root_above(square: Fraction) -> float:
    """Return a double at or a few places above the square root of a number."""
    if square == 0:
        return 0.0
    shift = 2 * (60 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    root = math.isqrt(math.floor(square * Fraction(2) ** shift)) + 1
    scaled = Fraction(root) / Fraction(2) ** (shift // 2)
    exact = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    scaled = exact if exact**2 == square else scaled
    found = _as_double(scaled)
    return found if found == math.inf or Fraction(found) >= scaled else math.nextafter(found, math.inf)


def _as_double(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def least_noise(cost: AnyGuarantee, sensitivity: Callable[[Norm], float], where: str) -> Gaussian | Laplace:
    """Return Gaussian noise for a cost in rho or mu, Laplace noise for a pure epsilon; derive sensitivities.

    Raises:
        InvalidParameter: the cost is none of the three, or 0, or the sensitivity is 0 or too large.
    """
    match cost:
        case PureDP():
            size, given, squared = sensitivity("l1"), Fraction(cost.epsilon), False
        case GDP():
            size, given, squared = sensitivity("l2"), Fraction(cost.mu), False
        case ZCDP():
            size, given, squared = sensitivity("l2"), 2 * Fraction(cost.rho), True
        case _:
            what, why = f"a cost of {cost}", "no noise follows from it"
            remedy = (
                "give ZCDP(rho=...) or GDP(mu=...) for Gaussian noise, PureDP(epsilon=...) for Laplace noise"
            )
            raise InvalidParameter(what, where=where, why=why, remedy=remedy)
    if not given:
        remedy = "give a cost above 0"
        raise InvalidParameter(f"a cost of {cost}", where=where, why="no noise is enough", remedy=remedy)
    if not 0 < size < math.inf:
        what, remedy = f"a sensitivity of {size}", "choose bounds between which values can differ"
        raise InvalidParameter(what, where=where, why="no noise follows from it", remedy=remedy)
    scale = _root_above(Fraction(size) ** 2 / (given if squared else given**2))
    if isinstance(cost, PureDP):
        return Laplace(scale=scale, sensitivity=L1(size, "clipped"))
    return Gaussian(sigma=scale, sensitivity=L2(size, "clipped"))


def share(cost: AnyGuarantee, parts: int, where: str) -> AnyGuarantee:
    """Return one of several equal parts that compose to a cost, rounded down."""
    match cost:
        case PureDP():
            return PureDP(epsilon=_below(Fraction(cost.epsilon) / parts))
        case ZCDP():
            return ZCDP(rho=_below(Fraction(cost.rho) / parts))
        case GDP():
            return GDP(mu=math.nextafter(math.nextafter(cost.mu / math.sqrt(parts), 0.0), 0.0))
    least_noise(cost, lambda _: 1.0, where)
    raise AssertionError(cost)


def _below(number: Fraction) -> float:
    found = float(number)
    return found if Fraction(found) <= number else math.nextafter(found, 0.0)


def choice_epsilon(cost: AnyGuarantee, where: str) -> float:
    """Return the range of log weights of one choice with this cost: epsilon, or the square root of 8 rho.

    Source: Cesar and Rogers 2021, Theorem 1: bounded range epsilon is epsilon^2/8-zCDP.
    """
    if isinstance(cost, PureDP):
        epsilon = cost.epsilon
    elif isinstance(cost, ZCDP):
        epsilon = math.nextafter(math.sqrt(8.0 * cost.rho), 0.0)
        while Fraction(epsilon) ** 2 > 8 * Fraction(cost.rho):
            epsilon = math.nextafter(epsilon, 0.0)
    else:
        what, remedy = f"a cost of {cost} for choices", "give PureDP(epsilon=...) or ZCDP(rho=...)"
        raise InvalidParameter(what, where=where, why="a choice has no exact cost in mu", remedy=remedy)
    if not epsilon:
        raise InvalidParameter(f"a cost of {cost}", where=where, remedy="give a cost above 0")
    return epsilon
