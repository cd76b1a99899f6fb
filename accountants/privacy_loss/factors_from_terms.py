"""From terms or arrays of parameters to factors of the moment generating function: checked and grouped."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, assert_never

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.accountants.closed_forms.rounding import sum_up
from dpaudit.accountants.privacy_loss.checks import grouped, joined, rows_of, tables_of, vectors
from dpaudit.accountants.privacy_loss.contour.bounded_range import BoundedRangeFactor
from dpaudit.accountants.privacy_loss.contour.compress import laplace_factors, response_factors
from dpaudit.accountants.privacy_loss.contour.discrete import DiscreteFactor
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Factor, GaussianFactor
from dpaudit.accountants.privacy_loss.contour.families import LaplaceFactor, ResponseFactor
from dpaudit.accountants.privacy_loss.contour.many_tables import table_factors
from dpaudit.accountants.privacy_loss.contour.sampled import SampledGaussianFactor
from dpaudit.accountants.privacy_loss.contour.sampled_laplace import SampledLaplaceFactor
from dpaudit.accountants.privacy_loss.lattice.split_losses import Family, Part
from dpaudit.accountants.privacy_loss.lattice.splitting import MOST_PARTS, resolved
from dpaudit.accountants.privacy_loss.solve import Bracket
from dpaudit.accountants.privacy_loss.sums import any_of, weighted_sum_up
from dpaudit.accountants.privacy_loss.terms import (
    LARGEST_PARAMETER,
    ApproxTerm,
    BoundedRangeTerm,
    DiscreteTerm,
    GaussianTerm,
    LaplaceTerm,
    PureTerm,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
    Term,
)
from dpaudit.errors import CannotBound, InvalidParameter

#: A smaller mu counts as this one: its square must not underflow.
SMALLEST_MU = 1e-150


@dataclass(frozen=True, eq=False)
class Composed:
    """Parameters and counts, family by family; each pair or triple of arrays has one shape, [distinct].

    A count may be one number for all. Tables stand beside the arrays, each with its count.
    """

    gaussian: tuple[ArrayLike, ArrayLike] = ((), 1)  # mu, count
    laplace: tuple[ArrayLike, ArrayLike] = ((), 1)  # epsilon, count
    randomized_response: tuple[ArrayLike, ArrayLike] = ((), 1)  # epsilon, count
    bounded_range: tuple[ArrayLike, ArrayLike] = ((), 1)  # epsilon, count
    approximate: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), 1)  # epsilon, delta, count
    sampled_gaussian: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), 1)  # mu, rate, count
    sampled_laplace: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), 1)  # epsilon, rate, count
    tables: tuple[tuple[DiscreteTerm, int], ...] = ()

    def __add__(self, other: Composed) -> Composed:
        """The composition of both."""
        names = [each.name for each in fields(Composed) if each.name != "tables"]
        columns: dict[str, Any] = {name: joined(getattr(self, name), getattr(other, name)) for name in names}
        return Composed(**columns, tables=self.tables + other.tables)

    def checked(self) -> Collected:
        """Check every number and merge what can be merged.

        Raises:
            InvalidParameter: a parameter or count is NaN, infinite, negative or not of its array's shape.
            CannotBound: a parameter or count past the range in which anything is computed.
        """
        mu, mu_count = vectors("gaussian", self.gaussian, 1e15)
        laplace, laplace_count = vectors("laplace", self.laplace, LARGEST_PARAMETER)
        response, response_count = vectors("randomized_response", self.randomized_response, LARGEST_PARAMETER)
        ranged, range_count = vectors("bounded_range", self.bounded_range, LARGEST_PARAMETER)
        loss, delta, loss_count = vectors("approximate", self.approximate, LARGEST_PARAMETER, 1.0)
        s_mu, s_rate, s_count = vectors("sampled_gaussian", self.sampled_gaussian, 1e3, 1.0)
        l_loss, l_rate, l_count = vectors("sampled_laplace", self.sampled_laplace, 500.0, 1.0)
        tables = tables_of(self.tables)
        certain, l_certain = s_rate == 1.0, l_rate == 1.0
        raised = bool(np.any((mu > 0.0) & (mu < SMALLEST_MU) & (mu_count > 0.0)))
        mu = np.where(mu > 0.0, np.maximum(mu, SMALLEST_MU), 0.0)
        variance = float(np.sum(mu_count * mu * mu)) + float(
            np.sum(
                s_count[certain]
                * np.maximum(s_mu[certain], np.where(s_mu[certain] > 0.0, SMALLEST_MU, 0.0)) ** 2
            )
        )
        return Collected(
            variance,
            LaplaceFactor(
                *grouped(np.append(laplace, l_loss[l_certain]), np.append(laplace_count, l_count[l_certain]))
            ),
            ResponseFactor(*grouped(np.append(response, loss), np.append(response_count, loss_count))),
            rows_of(s_mu, s_rate, s_count, ~certain),
            rows_of(l_loss, l_rate, l_count, ~l_certain),
            BoundedRangeFactor(*grouped(ranged, range_count)),
            tables,
            any_of(
                np.append(delta, [table.infinite for table, _ in self.tables]),
                np.append(loss_count, [float(count) for _, count in self.tables]),
            ),
            raised,
        )


@dataclass(frozen=True, eq=False)
class Collected:
    """What is left of a composition: a Gaussian, distinct parameters with counts, sampled releases."""

    variance: float
    laplace: LaplaceFactor
    response: ResponseFactor
    sampled_gaussian: tuple[tuple[float, float, float], ...]  # mu, rate, count
    sampled_laplace: tuple[tuple[float, float, float], ...]  # epsilon, rate, count
    bounded_range: BoundedRangeFactor
    tables: tuple[DiscreteFactor, ...]
    least_delta: Bracket
    raised: bool  # some mu was raised to `SMALLEST_MU`: upper bounds only

    @property
    def only_gaussian(self) -> bool:
        """Nothing but Gaussians, or nothing at all."""
        return not (self._continuous or len(self.response.counts) or self.tables or self._sampled)

    @property
    def only_atoms(self) -> bool:
        """Nothing but randomized response and tables."""
        return self.variance == 0.0 and not self._continuous and not self._sampled

    @property
    def _continuous(self) -> bool:
        return bool(len(self.laplace.counts) or len(self.bounded_range.counts))

    @property
    def _sampled(self) -> bool:
        return bool(self.sampled_gaussian or self.sampled_laplace)

    @property
    def ceiling(self) -> float:
        """An upper bound on the loss in every order of the pair: the sum of the pure epsilons."""
        return max(self.ceilings)

    @property
    def ceilings(self) -> tuple[float, ...]:
        """An upper bound on the loss for each order of the pair, as `directions` has them.

        The loss of the mixture is at most log(1 - q + q e^epsilon); with the mixture second it is at most
        -log(1 - q + q e^-epsilon), which is finite for Gaussian noise too (epsilon infinite).
        """
        if self.variance > 0.0:
            return (math.inf,) * len(self._orders)
        return tuple(self._ceiling(mixture_first=order) for order in self._orders)

    @property
    def _orders(self) -> tuple[bool, ...]:
        return (True, False) if self._sampled else (True,)

    def _ceiling(self, *, mixture_first: bool) -> float:
        if mixture_first and self.sampled_gaussian:
            return math.inf
        total = sum_up(
            [
                weighted_sum_up(self.laplace.parameters, self.laplace.counts),
                weighted_sum_up(self.response.parameters, self.response.counts),
                weighted_sum_up(self.bounded_range.parameters, self.bounded_range.counts),
                *(table.count * table.ceiling * (1.0 + 4.0 * UNIT) for table in self.tables),
            ]
        )
        gaussian = ((math.inf, rate, count) for _, rate, count in self.sampled_gaussian)
        for epsilon, rate, count in (*gaussian, *self.sampled_laplace):
            if mixture_first:  # never more than epsilon
                most = epsilon if epsilon > 30.0 else min(epsilon, math.log1p(rate * math.expm1(epsilon)))
            else:
                most = min(epsilon, -math.log1p(rate * math.expm1(-epsilon)))
            total = (total + count * most * (1.0 + 1e-14)) * (1.0 + 1e-15)
        return total

    @property
    def most_delta(self) -> float:
        """An upper bound on every delta but `least_delta`.

        An e-DP mechanism has delta(0) <= tanh(e / 2) < e / 2; a table's losses, which need not be as small
        in the other order, have 1 - e^-e < e; where all is sampled, nothing is told apart unless something
        is drawn.
        """
        most = min(1.0, math.nextafter((1.0 if self.tables else 0.5) * self.ceiling, math.inf))
        if self.variance > 0.0 or self._continuous or len(self.response.counts) or self.tables:
            return most
        drawn = (count * rate for _, rate, count in (*self.sampled_gaussian, *self.sampled_laplace))
        return min(most, sum_up(drawn) * (1.0 + 1e-15))

    @property
    def whole_variance(self) -> float | None:
        """The variance if nothing were sampled, where all noise is Gaussian: that dominates (convexity)."""
        if self._continuous or len(self.response.counts) or self.tables or self.sampled_laplace:
            return None
        return self.variance + sum_up(
            [count * mu * mu * (1.0 + 1e-14) for mu, _, count in self.sampled_gaussian]
        )

    def parts(self) -> tuple[Part, ...]:
        """What sampled releases and their company are on a lattice; empty where the contour has to do."""
        if not self._sampled or len(self.bounded_range.counts) or self.tables:
            return ()
        parts = [Part("gaussian", *row) for row in self.sampled_gaussian]
        parts += [Part("laplace", *row) for row in self.sampled_laplace]
        families: tuple[tuple[Family, LaplaceFactor | ResponseFactor], ...] = (
            ("laplace", self.laplace),
            ("response", self.response),
        )
        for family, all_of in families:
            pairs = zip(all_of.parameters[: MOST_PARTS + 1].tolist(), all_of.counts.tolist(), strict=False)
            parts += [Part(family, parameter, 1.0, count) for parameter, count in pairs]
        if self.variance > 0.0:
            parts.append(Part("gaussian", math.sqrt(self.variance) * (1.0 + 64.0 * UNIT), 1.0, 1.0))
        return tuple(parts) if resolved(parts) else ()

    def directions(self) -> tuple[tuple[Factor, ...], ...]:
        """The factors for each order of the pair; only sampled releases tell the orders apart."""
        shared: list[Factor] = [GaussianFactor(self.variance)] if self.variance > 0.0 else []
        shared += laplace_factors(self.laplace) + response_factors(self.response)
        shared += [self.bounded_range] if len(self.bounded_range.counts) else []
        shared += table_factors(self.tables)
        orders = []
        for mixture_first in self._orders:
            gaussian = [SampledGaussianFactor(*row, mixture_first) for row in self.sampled_gaussian]
            laplace = [SampledLaplaceFactor(*row, mixture_first) for row in self.sampled_laplace]
            orders.append((*shared, *gaussian, *laplace))
        return tuple(orders)


def collect(releases: Iterable[tuple[Term, int]]) -> Collected:
    """Check and group terms; raises as `columns_of` and `Composed.checked` do."""
    return columns_of(releases).checked()


def columns_of(releases: Iterable[tuple[Term, int]]) -> Composed:
    """The parameters of terms, in columns; equal terms are counted once.

    Raises:
        InvalidParameter, CannotBound: a count is not an integer >= 0, or past every double.
    """
    counted: Counter[Term] = Counter()
    for term, count in releases:
        given: object = count  # the annotation is a promise that nobody checks
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
            raise InvalidParameter(f"count = {count!r} is not an integer >= 0", where=repr(term))
        counted[term] += int(count)
        if counted[term] > sys.float_info.max:
            raise CannotBound("a count is too large: past 1.8e308", where=repr(term))
    rows: dict[str, list[tuple[float, ...]]] = {}
    tables: list[tuple[DiscreteTerm, int]] = []
    for term, total in counted.items():
        match term:
            case GaussianTerm(mu):
                rows.setdefault("gaussian", []).append((mu, total))
            case LaplaceTerm(epsilon):
                rows.setdefault("laplace", []).append((epsilon, total))
            case RandomizedResponseTerm(epsilon) | PureTerm(epsilon):
                rows.setdefault("randomized_response", []).append((epsilon, total))
            case BoundedRangeTerm(epsilon):
                rows.setdefault("bounded_range", []).append((epsilon, total))
            case DiscreteTerm():
                tables.append((term, total))
            case ApproxTerm(epsilon, delta):
                rows.setdefault("approximate", []).append((epsilon, delta, total))
            case SampledGaussianTerm(mu, rate):
                rows.setdefault("sampled_gaussian", []).append((mu, rate, total))
            case SampledLaplaceTerm(epsilon, rate):
                rows.setdefault("sampled_laplace", []).append((epsilon, rate, total))
            case _:
                assert_never(term)
    columns: dict[str, Any] = {kind: tuple(zip(*entries, strict=True)) for kind, entries in rows.items()}
    return Composed(**columns, tables=tuple(tables))
