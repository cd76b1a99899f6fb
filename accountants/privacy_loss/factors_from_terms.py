"""Check and group terms or arrays of parameters, and make the factors of the moment generating function."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.accountants.closed_forms.rounding import sum_up, up
from dpaudit.accountants.privacy_loss.contour import families
from dpaudit.accountants.privacy_loss.contour.compress import compressed
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Factor, GaussianFactor, Vector
from dpaudit.accountants.privacy_loss.contour.replaced_gaussian import ReplacedGaussianFactor
from dpaudit.accountants.privacy_loss.contour.sampled import log_mixture
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import SampledGaussianFactor
from dpaudit.accountants.privacy_loss.contour.sampled_laplace import SampledLaplaceFactor
from dpaudit.accountants.privacy_loss.contour.tables import Table, table_factors
from dpaudit.accountants.privacy_loss.lattice.splitting import MOST_PARTS, MOST_TABLES, Part, resolved
from dpaudit.accountants.privacy_loss.solve import Bracket
from dpaudit.accountants.privacy_loss.terms import LARGEST_PARAMETER, DiscreteTerm, Term
from dpaudit.errors import CannotBound, InvalidParameter

SMALLEST_MU = 1e-150  # a smaller mu is raised to this one: its square must not underflow
SMALLEST_SAMPLED = 1e-40  # likewise for a rate or parameter of sampled runs, except for a single run
MOST_COUNT = 1e12  # limit on the runs of one term
_MANY_SAMPLED = 100
_EXACT_COUNT = 256  # up to this count, a sum or product is computed as a fraction

#: The largest parameters of each column; 1 for a probability.
_LARGEST: dict[str, tuple[float, ...]] = {
    "gaussian": (1e15,),
    "laplace": (LARGEST_PARAMETER,),
    "randomized_response": (LARGEST_PARAMETER,),
    "bounded_range": (LARGEST_PARAMETER,),
    "approximate": (LARGEST_PARAMETER, 1.0),
    "sampled_gaussian": (1e3, 1.0),
    "replaced_gaussian": (1e3, 1.0),
    "sampled_laplace": (500.0, 1.0),
}


@dataclass(frozen=True, eq=False)
class Composed:
    """Parameters and counts by family, arrays [distinct] (one count may serve all); tables with counts."""

    gaussian: tuple[ArrayLike, ArrayLike] = ((), ())  # mu, count
    laplace: tuple[ArrayLike, ArrayLike] = ((), ())  # epsilon, count
    randomized_response: tuple[ArrayLike, ArrayLike] = ((), ())  # epsilon, count
    bounded_range: tuple[ArrayLike, ArrayLike] = ((), ())  # epsilon, count
    approximate: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), ())  # epsilon, delta, count
    sampled_gaussian: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), ())  # mu, rate, count
    replaced_gaussian: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), ())  # mu, rate, count
    sampled_laplace: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), ())  # epsilon, rate, count
    tables: tuple[tuple[DiscreteTerm, int], ...] = ()

    def __add__(self, other: Composed) -> Composed:
        """Return the composition of both: concatenated columns."""
        columns: dict[str, Any] = {}
        for name in _LARGEST:
            some, more = getattr(self, name), getattr(other, name)
            columns[name] = some if np.size(some[0]) else more
            if np.size(some[0]) and np.size(more[0]):
                both = [(*c[:-1], np.broadcast_to(c[-1], np.shape(c[0]))) for c in (some, more)]
                columns[name] = tuple(np.concatenate(pair) for pair in zip(*both, strict=True))
        return Composed(**columns, tables=self.tables + other.tables)

    def checked(self) -> Collected:
        """Check every number and merge equal entries.

        Raises `InvalidParameter`: a number is NaN, infinite or negative, or a shape is wrong; `CannotBound`:
        a number exceeds the supported range.
        """
        columns = {name: _vectors(name, getattr(self, name), *most) for name, most in _LARGEST.items()}
        (mu, mu_count), (s_mu, s_rate, s_count) = columns["gaussian"], columns["sampled_gaussian"]
        loss, delta, loss_count = columns["approximate"]
        response, response_count = columns["randomized_response"]
        (laplace, laplace_count), (l_loss, l_rate, l_count) = columns["laplace"], columns["sampled_laplace"]
        always = s_rate == 1.0
        mu, mu_count = np.append(mu, s_mu[always]), np.append(mu_count, s_count[always])
        r_mu, r_rate, r_count = columns["replaced_gaussian"]
        always = r_rate == 1.0
        mu, mu_count = np.append(mu, 2.0 * r_mu[always]), np.append(mu_count, r_count[always])
        raised = bool(np.any((mu > 0.0) & (mu < SMALLEST_MU) & (mu_count > 0.0)))
        raised |= not all(table.enclosed for table, _ in self.tables)
        mu = np.where(mu > 0.0, np.maximum(mu, SMALLEST_MU), 0.0)
        always = l_rate == 1.0
        laplace, laplace_count = np.append(laplace, l_loss[always]), np.append(laplace_count, l_count[always])
        counted: Counter[DiscreteTerm] = Counter()
        for table, count in self.tables:
            if count > MOST_COUNT:
                raise CannotBound(f"a count exceeds {MOST_COUNT:g}", where="tables")
            counted[table] += count
        tables = tuple(Table.of(table, float(count)) for table, count in counted.items() if count)
        delta = np.append(delta, [table.infinite for table, _ in self.tables])
        pure = _grouped(np.append(response, loss), np.append(response_count, loss_count))
        return Collected(
            float(np.sum(mu_count * mu * mu)),
            families.LaplaceFactor(*_grouped(laplace, laplace_count)),
            families.ResponseFactor(*pure),
            _rows_of(s_mu, s_rate, s_count),
            _rows_of(r_mu, r_rate, r_count),
            _rows_of(l_loss, l_rate, l_count),
            families.BoundedRangeFactor(*_grouped(*columns["bounded_range"])),
            tables,
            _any_of(delta, np.append(loss_count, [float(count) for _, count in self.tables])),
            raised,
        )


@dataclass(frozen=True, eq=False)
class Collected:
    """A composition after merging: one Gaussian, distinct parameters with counts, sampled releases."""

    variance: float
    laplace: families.LaplaceFactor
    response: families.ResponseFactor
    sampled_gaussian: tuple[tuple[float, float, float], ...]  # mu, rate, count
    replaced_gaussian: tuple[tuple[float, float, float], ...]  # mu, rate, count
    sampled_laplace: tuple[tuple[float, float, float], ...]  # epsilon, rate, count
    bounded_range: families.BoundedRangeFactor
    tables: tuple[Table, ...]
    least_delta: Bracket
    raised: bool  # some parameter was raised: upper bounds only

    @property
    def only_gaussian(self) -> bool:
        """Whether there are only Gaussians, or no releases."""
        return not (self._pure or self._sampled or self.replaced_gaussian)

    @property
    def only_atoms(self) -> bool:
        """Whether there are only randomized response and tables."""
        continuous = len(self.laplace.counts) or len(self.bounded_range.counts)
        return not (self.variance or continuous or self._sampled or self.replaced_gaussian)

    @property
    def _pure(self) -> bool:
        pure = (self.laplace, self.response, self.bounded_range)
        return bool(self.tables or any(len(family.counts) for family in pure))

    @property
    def orders(self) -> tuple[bool, ...]:
        """The orders of the pair that may differ: whether the sampled mixture is first."""
        return (True, False) if self._sampled else (True,)

    @property
    def ceiling(self) -> float:
        """An upper bound on the loss in every order of the pair: the sum of the pure epsilons."""
        return max(self.ceilings)

    @property
    def both_ways_pure(self) -> bool:
        """Whether no loss lies below -ceiling either; a table's losses have no known lower bound."""
        return self.ceiling < math.inf and not self.tables

    @cached_property
    def ceilings(self) -> tuple[float, ...]:
        """An upper bound on the loss for each of `orders`.

        The loss of the mixture is at most log(1 - q + q e^epsilon). With the mixture second it is at most
        -log(1 - q + q e^-epsilon), which is finite for Gaussian noise too (epsilon infinite).
        """
        totals: list[float] = []
        pure: tuple[families.ParameterFamily, ...] = (self.laplace, self.response, self.bounded_range)
        tables = [t.count * max(0.0, float(t.losses[-1])) * (1.0 + 4.0 * UNIT) for t in self.tables]
        gaussian = [(math.inf, rate, count) for _, rate, count in self.sampled_gaussian]
        for mixture_first in self.orders:
            unbounded = self.variance > 0.0 or self.replaced_gaussian or (mixture_first and gaussian)
            total = math.inf if unbounded else sum_up([*map(_weighted_sum_up, pure), *tables])
            sign = 1.0 if mixture_first else -1.0
            for epsilon, rate, count in () if unbounded else (*gaussian, *self.sampled_laplace):
                most = sign * float(log_mixture(np.array(sign * epsilon), rate))
                most = math.nextafter(most, math.inf)  # a rate's product with a loss may underflow
                total = (total + count * min(epsilon, most) * (1.0 + 1e-14)) * (1.0 + 1e-15)
            totals.append(total)
        return tuple(totals)

    @cached_property
    def most_delta(self) -> float:
        """An upper bound on every delta, not counting `least_delta`.

        An e-DP mechanism has delta(0) <= tanh(e / 2) < e / 2. A table's losses, which may be larger in the
        other order, have 1 - e^-e < e. If everything is sampled, the pair differs only if some run draws the
        unit.
        """
        most = min(1.0, math.nextafter((1.0 if self.tables else 0.5) * self.ceiling, math.inf))
        if self.variance > 0.0 or self._pure or self.replaced_gaussian:
            return most
        return min(most, sum_up(part.count * part.rate for part in self._sampled) * (1.0 + 1e-15))

    @property
    def whole_variance(self) -> float | None:
        """The variance without sampling, if all noise is Gaussian: that dominates (convexity)."""
        if self._pure or self.sampled_laplace:
            return None
        replaced = ((2.0 * mu, rate, count) for mu, rate, count in self.replaced_gaussian)
        moved = (*self.sampled_gaussian, *replaced)
        return self.variance + sum_up(count * mu * mu * (1.0 + 1e-14) for mu, _, count in moved)

    @property
    def _sampled(self) -> list[Part]:
        gaussian = [Part("gaussian", *row) for row in self.sampled_gaussian]
        return gaussian + [Part("laplace", *row) for row in self.sampled_laplace]

    @property
    def single_run(self) -> Part | None:
        """The sampled run, if it is the only release."""
        others = self.variance > 0.0 or self._pure or self.replaced_gaussian
        alone = not others and [part.count for part in self._sampled] == [1.0]
        return self._sampled[0] if alone else None

    def lifted(self) -> Collected:
        """Raise sampled parameters and rates to `SMALLEST_SAMPLED`: every delta grows with both."""
        least = SMALLEST_SAMPLED
        gaussian, laplace = (
            tuple((max(parameter, least), max(rate, least), count) for parameter, rate, count in rows)
            for rows in (self.sampled_gaussian, self.sampled_laplace)
        )
        if (gaussian, laplace) == (self.sampled_gaussian, self.sampled_laplace):
            return self
        return replace(self, sampled_gaussian=gaussian, sampled_laplace=laplace, raised=True)

    def parts(self) -> tuple[Part, ...]:
        """Return samples, tables and other releases as a lattice's parts; none if it cannot resolve them."""
        parts, few = self._sampled, slice(MOST_PARTS + 1)
        parts += [Part("replaced", mu, 1.0, n, replaced=q) for mu, q, n in self.replaced_gaussian]
        parts += [Part("table", float(t.losses[-1]), 1.0, t.count, t) for t in self.tables[: MOST_TABLES + 1]]
        if not parts or len(self.bounded_range.counts):
            return ()
        for e, count in zip(self.laplace.parameters[few], self.laplace.counts[few], strict=True):
            parts.append(Part("laplace", float(e), 1.0, float(count)))
        for e, count in zip(self.response.parameters[few], self.response.counts[few], strict=True):
            parts.append(Part("response", float(e), 1.0, float(count)))
        if self.variance > 0.0:
            parts.append(Part("gaussian", math.sqrt(self.variance) * (1.0 + 64.0 * UNIT), 1.0, 1.0))
        return tuple(parts) if resolved(parts) else ()

    def directions(self) -> tuple[tuple[Factor, ...], ...]:
        """Return the factors for each of `orders`."""
        shared: list[Factor] = [GaussianFactor(self.variance)] if self.variance > 0.0 else []
        shared += compressed(self.laplace) + compressed(self.response)
        shared += [self.bounded_range] if len(self.bounded_range.counts) else []
        shared += table_factors(self.tables)
        shared += [ReplacedGaussianFactor(*row, mixture_first=True) for row in self.replaced_gaussian]
        found = []
        for order in self.orders:
            light = len(self.sampled_gaussian) > _MANY_SAMPLED
            gaussian = [SampledGaussianFactor(*row, order, light) for row in self.sampled_gaussian]
            laplace = [SampledLaplaceFactor(*row, order) for row in self.sampled_laplace]
            found.append((*shared, *gaussian, *laplace))
        return tuple(found)


def collect(releases: Iterable[tuple[Term, int]]) -> Collected:
    """Check and group terms; raises as `columns_of` and `Composed.checked` do."""
    return columns_of(releases).checked()


def columns_of(releases: Iterable[tuple[Term, int]]) -> Composed:
    """Return the parameters of terms in columns, equal terms once; a count is an integer in [0, 1.8e308]."""
    counted: Counter[Term] = Counter()
    for term, count in releases:
        given: object = count  # callers without a type checker may pass any object
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
            raise InvalidParameter(f"count = {count!r} is not an integer >= 0", where=repr(term))
        counted[term] += int(count)
        if counted[term] > sys.float_info.max:
            raise CannotBound("a count is too large: past 1.8e308", where=repr(term))
    rows: dict[str, list[tuple[float, ...]]] = {}
    tables: list[tuple[DiscreteTerm, int]] = []
    for term, total in counted.items():
        if isinstance(term, DiscreteTerm):
            tables.append((term, total))
        else:
            parameters = (getattr(term, name) for name in term.__match_args__)
            rows.setdefault(term.column, []).append((*parameters, total))
    columns: dict[str, Any] = {kind: tuple(zip(*entries, strict=True)) for kind, entries in rows.items()}
    return Composed(**columns, tables=tuple(tables))


def _vectors(name: str, columns: tuple[ArrayLike, ...], *largest: float) -> tuple[Vector, ...]:
    """Return columns as arrays of one length; raises as `Composed.checked` does."""
    *parameters, count = (np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in columns)
    shape = parameters[0].shape
    if len(shape) != 1 or any(p.shape != shape for p in parameters) or count.shape not in {shape, (1,)}:
        raise InvalidParameter("parameters and counts are not vectors of equal length", where=name)
    if not count.size:  # most families are empty
        return (*parameters, count)
    count = np.broadcast_to(count, shape)
    if not np.all((count >= 0.0) & (count < np.inf) & (count == np.floor(count))):
        raise InvalidParameter("a count is not an integer >= 0", where=name)
    for values, most in zip(parameters, largest, strict=True):
        if not np.all((values >= 0.0) & (values < np.inf)):
            raise InvalidParameter("a parameter is NaN, infinite or negative", where=name)
        if np.any(values > most) and most == 1.0:
            raise InvalidParameter("a probability exceeds 1", where=name)
        if np.any(values > most):
            raise CannotBound(f"a parameter exceeds {most:g}", where=name, remedy="add noise")
    if np.any(count > MOST_COUNT):
        raise CannotBound(f"a count exceeds {MOST_COUNT:g}", where=name)
    return (*parameters, count)


def _grouped(parameters: Vector, counts: Vector) -> tuple[Vector, Vector]:
    """Return distinct positive parameters in increasing order, with the sums of their counts."""
    real = (parameters > 0.0) & (counts > 0.0)
    distinct, place = np.unique(parameters[real], return_inverse=True)
    return distinct, np.bincount(place, counts[real], len(distinct)).astype(np.float64)


def _rows_of(parameters: Vector, rates: Vector, counts: Vector) -> tuple[tuple[float, float, float], ...]:
    """Return distinct rows of positive numbers with rates below 1, with the sums of their counts."""
    keep = (parameters > 0.0) & (rates > 0.0) & (rates < 1.0) & (counts > 0.0)
    total: Counter[tuple[float, float]] = Counter()
    for parameter, rate, count in np.stack([parameters, rates, counts], axis=1)[keep].tolist():
        total[parameter, rate] += int(count)
    return tuple((parameter, rate, float(count)) for (parameter, rate), count in total.items())


def _any_of(delta: Vector, counts: Vector) -> Bracket:
    """Return bounds on 1 - product of (1 - delta)^count, exact to the last place for few releases."""
    real = (delta > 0.0) & (counts > 0.0)
    delta, counts = delta[real], counts[real]
    if np.any(delta == 1.0):
        return Bracket(1.0, 1.0)
    if counts.sum() <= _EXACT_COUNT:
        pairs = zip(delta.tolist(), counts.tolist(), strict=True)
        lost = 1 - math.prod((1 - Fraction(d)) ** int(n) for d, n in pairs)
        exact = up(Fraction(lost))
        return Bracket(exact if Fraction(exact) == lost else math.nextafter(exact, 0.0), exact)
    total = -math.expm1(math.fsum((counts * np.log1p(-delta)).tolist()))
    return Bracket(total * (1.0 - 1e-14), min(1.0, total * (1.0 + 1e-14)))


def _weighted_sum_up(family: families.ParameterFamily) -> float:
    """Return the sum of a family's parameters times their counts, rounded up."""
    if len(family.parameters) > _EXACT_COUNT:
        return float(np.sum(family.parameters * family.counts)) * (1.0 + 1e-14)
    pairs = zip(family.parameters.tolist(), family.counts.tolist(), strict=True)
    return up(sum((Fraction(value) * int(count) for value, count in pairs), Fraction(0)))
