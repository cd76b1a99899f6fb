"""What the contour needs of each family of releases, enclosed in balls.

The formulae are those of `dpaudit.accountants.privacy_loss.contour.families`; here every number is a ball
that holds the true one, so that no error analysis of ours is needed. Of a release's parameters the exact
doubles are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, assert_never

from dpaudit.accountants.interval.ball_arithmetic import ball, flint, least_versine
from dpaudit.accountants.interval.sampled_balls import Decay, SampledBalls
from dpaudit.accountants.interval.sampled_gaussian_balls import SampledGaussianBalls
from dpaudit.accountants.interval.sampled_laplace_balls import SampledLaplaceBalls
from dpaudit.accountants.interval.table_balls import range_decay, range_moment, table_ceiling, table_moment
from dpaudit.accountants.privacy_loss import (
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
from dpaudit.errors import CannotBound

_NEGLIGIBLE = 2.0**-300


@dataclass(frozen=True)
class BallFactors:
    """A composition in one order of its pair, with exact parameters.

    Attributes:
        variance: the sum of mu^2.
        laplace: epsilon and count of each.
        response: epsilon and count of each randomized response, which stands for any pure release too.
        ranged: epsilon and count of each choice of bounded range.
        tables: each table of losses and its count.
        sampled: the Poisson-sampled releases, which alone tell the orders apart.
        revealing: the probability that an approximate release reveals everything.
    """

    variance: Fraction
    laplace: tuple[tuple[float, int], ...]
    response: tuple[tuple[float, int], ...]
    ranged: tuple[tuple[float, int], ...]
    tables: tuple[tuple[DiscreteTerm, int], ...]
    sampled: tuple[SampledBalls, ...]
    revealing: Fraction

    @classmethod
    def orders(cls, releases: Sequence[tuple[Term, int]]) -> tuple[BallFactors, ...]:
        """Sort terms by family, for each order of the pair as `Collected.directions` has them.

        Raises:
            CannotBound: more than 4096 approximate releases of one kind.
        """
        variance, kept = Fraction(0), Fraction(1)
        laplace: Counter[float] = Counter()
        response: Counter[float] = Counter()
        ranged: Counter[float] = Counter()
        tables: Counter[DiscreteTerm] = Counter()
        sampled: Counter[SampledGaussianTerm | SampledLaplaceTerm] = Counter()
        for term, count in releases:
            match term:
                case GaussianTerm(mu) | SampledGaussianTerm(mu, 1.0):
                    variance += count * Fraction(mu) ** 2
                case LaplaceTerm(epsilon) | SampledLaplaceTerm(epsilon, 1.0):
                    laplace[epsilon] += count
                case RandomizedResponseTerm(epsilon) | PureTerm(epsilon):
                    response[epsilon] += count
                case BoundedRangeTerm(epsilon):
                    ranged[epsilon] += count
                case DiscreteTerm(_, _, delta) | ApproxTerm(_, delta):
                    if isinstance(term, DiscreteTerm):
                        tables[term] += count
                    else:
                        response[term.epsilon] += count
                    kept *= (1 - Fraction(delta)) ** min(count, 4096)
                    if count > 4096 and delta > 0.0:
                        raise CannotBound(f"{count} approximate releases in balls", where="rigour interval")
                case SampledGaussianTerm() | SampledLaplaceTerm():
                    sampled[term] += count
                case _:
                    assert_never(term)
        listed = tuple((table, int(count)) for table, count in tables.items() if count > 0)
        rest = cls(
            variance=variance,
            laplace=_positive(laplace),
            response=_positive(response),
            ranged=_positive(ranged),
            tables=listed,
            sampled=(),
            revealing=1 - kept,
        )
        first = replace(rest, sampled=_sampled(sampled, mixture_first=True))
        second = replace(rest, sampled=_sampled(sampled, mixture_first=False))
        return (first, second) if first.sampled else (first,)

    def ceiling(self) -> Fraction | None:
        """A bound on the loss; the largest one but for rounding up; None if there is none."""
        ceilings = [one.ceiling() for one in self.sampled]
        if self.variance or None in ceilings:
            return None
        known = sum((one for one in ceilings if one is not None), Fraction(0))
        known += sum((table_ceiling(table) * n for table, n in self.tables), Fraction(0))
        pure = self.laplace + self.response + self.ranged
        return known + sum((Fraction(e) * n for e, n in pure), Fraction(0))

    def cost(self, c: float, end: float) -> float:
        """How many formulae one node takes, where the last is at `end`."""
        rows = sum(len(table.losses) for table, _ in self.tables)
        listed = len(self.laplace) + len(self.response) + len(self.ranged) + rows + 1
        return listed + sum(one.cost(c, end) for one in self.sampled)

    def moment(self, c: Any, smoothing: Fraction) -> Any:
        """M(c) for a real c > 0, times that of a Gaussian of variance `smoothing`."""
        total = self._unsampled(c, smoothing)
        for one in self.sampled:
            total *= one.moment(c)
        return total

    def along(self, c: Any, step: Fraction, nodes: int, smoothing: Fraction) -> list[Any]:
        """M(c + i k step) for 0 <= k < nodes, times that of a Gaussian of variance `smoothing`."""
        acb = flint().acb
        found = [self._unsampled(acb(c, ball(step * k)), smoothing) for k in range(nodes)]
        for one in self.sampled:
            found = [x * y for x, y in zip(found, one.along(c, step, nodes), strict=True)]
        return found

    def decay(self, c: Any, smoothing: Fraction) -> Decay:
        """A bound on |M(c + it)| / M(c) for first <= t <= last, or for all t >= first.

        Gaussian: it falls. Laplace and response: `privacy_loss.families`, `decay`. A table: 1.
        """
        arb = flint().arb
        bounds = [(_laplace_decay(c, ball(e)), n) for e, n in self.laplace]
        bounds += [(_response_decay(c, ball(e)), n) for e, n in self.response]
        bounds += [(range_decay(c, ball(e)), n) for e, n in self.ranged]
        bounds += [(one.decay(c), one.count) for one in self.sampled]
        half = ball((self.variance + smoothing) / 2)

        def bound(first: Any, last: Any | None) -> Any:
            total = (-half * first**2).exp()
            for factor, count in bounds:
                if total < _NEGLIGIBLE:
                    break
                total *= arb.min(factor(first, last).upper(), arb(1)) ** count
            return arb.min(total.upper(), arb(1))

        return bound

    def _unsampled(self, s: Any, smoothing: Fraction) -> Any:
        total = (ball((self.variance + smoothing) / 2) * s * (s + 1)).exp()
        for epsilon, count in self.laplace:
            e = ball(epsilon)
            total *= (((s + 1) * (s * e).exp() + s * (-(s + 1) * e).exp()) / (2 * s + 1)) ** count
        for epsilon, count in self.response:
            e = ball(epsilon)
            total *= (((s + ball(0.5)) * e).cosh() / (e / 2).cosh()) ** count
        for epsilon, count in self.ranged:
            total *= range_moment(s, ball(epsilon)) ** count
        for table, count in self.tables:
            total *= table_moment(s, table) ** count
        return total


def _laplace_decay(c: Any, e: Any) -> Decay:
    arb = flint().arb
    rise, fall, width = (c * e).exp(), (-(c + 1) * e).exp(), 2 * c + 1
    moment = ((c + 1) * rise + c * fall) / width
    weight, uniform = (-e).exp() / (2 * moment**2), (rise + fall) / (2 * moment)

    def bound(first: Any, last: Any | None) -> Any:
        found = uniform * (1 + 1 / (width**2 + 4 * first**2).sqrt())
        return found if last is None else arb.min(found.upper(), _turning(weight, e, first, last))

    return bound


def _response_decay(c: Any, e: Any) -> Decay:
    weight = 1 / (2 * ((c + ball(0.5)) * e).cosh() ** 2)

    def bound(first: Any, last: Any | None) -> Any:
        return flint().arb(1) if last is None else _turning(weight, e, first, last)

    return bound


def _turning(weight: Any, e: Any, first: Any, last: Any) -> Any:
    """Two atoms at +-e, twice the product of whose weights is `weight`."""
    gained = weight * least_versine(2 * e * first, 2 * e * last)
    return flint().arb.max((1 - gained).upper(), flint().arb(0)).sqrt().upper()


def _sampled(
    counts: Counter[SampledGaussianTerm | SampledLaplaceTerm], *, mixture_first: bool
) -> tuple[SampledBalls, ...]:
    found: list[SampledBalls] = []
    for term, count in counts.items():
        match term:
            case SampledGaussianTerm(mu, rate):
                if min(mu, rate, count) > 0:
                    found.append(SampledGaussianBalls(rate, int(count), mixture_first, mu))
            case SampledLaplaceTerm(epsilon, rate):
                if min(epsilon, rate, count) > 0:
                    found.append(SampledLaplaceBalls(rate, int(count), mixture_first, epsilon))
    return tuple(found)


def _positive(counts: Counter[float]) -> tuple[tuple[float, int], ...]:
    return tuple(sorted((loss, int(count)) for loss, count in counts.items() if loss > 0 and count > 0))
