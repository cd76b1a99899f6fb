"""The factors of each family of releases on the contour, enclosed in balls.

The formulas are those of `dpaudit.accountants.privacy_loss.contour`. Every number here is a ball that holds
the true number, so no separate error analysis is needed. Parameters are the exact doubles.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaudit.accountants.interval.ball_arithmetic import ball, flint
from dpaudit.accountants.interval.sampled_balls import Decay, SampledBalls, least_of, paired
from dpaudit.accountants.interval.sampled_gaussian_balls import SampledGaussianBalls
from dpaudit.accountants.interval.sampled_laplace_balls import SampledLaplaceBalls
from dpaudit.accountants.privacy_loss import DiscreteTerm, Term
from dpaudit.accountants.privacy_loss.factors_from_terms import columns_of
from dpaudit.errors import CannotBound

_NEGLIGIBLE = 2.0**-300
_UNIT = Fraction(1, 2**53)


@dataclass(frozen=True)
class BallFactors:
    """A composition in one order of its pair, with exact parameters."""

    variance: Fraction  # the sum of mu^2
    pure: tuple[tuple[str, float, int], ...]  # family (a column of `Composed`), epsilon and count
    tables: tuple[tuple[DiscreteTerm, int], ...]  # each with its count
    sampled: tuple[SampledBalls, ...]  # the only family whose two orders differ
    revealing: Fraction  # the probability that an approximate release reveals everything

    @classmethod
    def orders(cls, releases: Sequence[tuple[Term, int]]) -> tuple[BallFactors, ...]:
        """Sort terms by family, for each order of the pair as in `Collected.directions`."""
        columns = columns_of(releases)

        def rows(column: str) -> list[tuple[Any, ...]]:
            return list(zip(*getattr(columns, column), strict=True))

        if rows("replaced_gaussian"):
            what = "no enclosure is known for a sample with a replaced unit"
            raise CannotBound(what, where="rigour interval", remedy="ask for rigour float-pessimistic")
        approximate, gaussian, laplace = map(rows, ("approximate", "sampled_gaussian", "sampled_laplace"))
        certain = [(mu, count) for mu, rate, count in gaussian if rate == 1.0]
        variance = sum((count * Fraction(mu) ** 2 for mu, count in rows("gaussian") + certain), Fraction(0))
        described = [(family, *row) for family in _MOMENTS for row in rows(family)]
        described += [("randomized_response", epsilon, count) for epsilon, _, count in approximate]
        described += [("laplace", epsilon, count) for epsilon, rate, count in laplace if rate == 1.0]
        pure: Counter[tuple[str, float]] = Counter()
        for family, epsilon, count in described:
            pure[family, epsilon] += count
        kept = Fraction(1)
        revealing = [(delta, count) for _, delta, count in approximate]
        for delta, count in revealing + [(table.infinite, count) for table, count in columns.tables]:
            if count > 4096 and delta > 0.0:
                raise CannotBound(f"{count} approximate releases in ball arithmetic", where="rigour interval")
            kept *= (1 - Fraction(delta)) ** count
        first = cls(
            variance=variance,
            pure=tuple((*key, count) for key, count in sorted(pure.items()) if key[1] > 0.0 and count > 0),
            tables=tuple((table, count) for table, count in columns.tables if count > 0),
            sampled=tuple(
                kind(parameter, rate, count, mixture_first=True)
                for kind, column in ((SampledGaussianBalls, gaussian), (SampledLaplaceBalls, laplace))
                for parameter, rate, count in column
                if min(parameter, rate, count) > 0.0 and rate < 1.0
            ),
            revealing=1 - kept,
        )
        second = replace(first, sampled=tuple(replace(one, mixture_first=False) for one in first.sampled))
        return (first, second) if first.sampled else (first,)

    def ceiling(self) -> Fraction | None:
        """Return the largest loss, rounded up; None if it is unbounded."""
        sampled = [one.ceiling() for one in self.sampled]
        known = [one for one in sampled if one is not None]
        if self.variance or len(known) < len(sampled):
            return None
        tables = (max(Fraction(0), Fraction(table.losses[-1])) * count for table, count in self.tables)
        pure = (Fraction(epsilon) * count for _, epsilon, count in self.pure)
        return sum((*known, *tables, *pure), Fraction(0))

    def cost(self, c: float, end: float) -> float:
        """Return the number of formulas for one node, if the last node is at `end`."""
        rows = sum(len(table.losses) for table, _ in self.tables)
        return len(self.pure) + rows + 1 + sum(one.cost(c, end) for one in self.sampled)

    def moment(self, c: Any, smoothing: Fraction) -> Any:
        """Return M(c) for a real c > 0, times the M of a Gaussian of variance `smoothing`."""
        return math.prod((one.moment(c) for one in self.sampled), start=self._unsampled(c, smoothing))

    def along(self, c: Any, step: Fraction, nodes: int, smoothing: Fraction) -> list[Any]:
        """Return M(c + i k step) for 0 <= k < nodes, times the M of a Gaussian of variance `smoothing`."""
        found = [self._unsampled(flint().acb(c, ball(step * k)), smoothing) for k in range(nodes)]
        for one in self.sampled:
            found = [x * y for x, y in zip(found, one.along(c, step, nodes), strict=True)]
        return found

    def decay(self, c: Any, smoothing: Fraction) -> Decay:
        """Return a bound on |M(c + it)| / M(c) for first <= t <= last, or all t >= first; 1 for a table."""
        arb = flint().arb
        bounds = [(_DECAYS[family](c, ball(epsilon)), count) for family, epsilon, count in self.pure]
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
        for family, epsilon, count in self.pure:
            total *= _MOMENTS[family](s, ball(epsilon)) ** count
        for table, count in self.tables:
            rows, zero = _rows(table), flint().arb(0)
            moment = sum((p * (s * loss).exp() for loss, p in rows), zero) / sum((p for _, p in rows), zero)
            total *= moment**count
        return total


#: M(s) of each family at a parameter e.
_MOMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "laplace": lambda s, e: ((s + 1) * (s * e).exp() + s * (-(s + 1) * e).exp()) / (2 * s + 1),
    "randomized_response": lambda s, e: ((s + ball(0.5)) * e).cosh() / (e / 2).cosh(),
    "bounded_range": lambda s, e: ((s + ball(0.5)) * e).sinh() / (2 * s + 1) / (e / 2).sinh(),
}


@functools.lru_cache(maxsize=256)
def _rows(term: DiscreteTerm) -> list[tuple[Any, Any]]:
    """Return losses and probabilities, widened to hold all numbers that may round to them."""

    def widened(p: float) -> Any:
        error = ball(16 * _UNIT * (2 + math.ceil(abs(math.log(p)))))
        return ball(p) * (1 + flint().arb(0, error.upper()))

    rows = zip(term.losses, term.probabilities, strict=True)
    return [(ball(loss), widened(p)) for loss, p in rows if p > 0.0]


def _laplace_decay(c: Any, e: Any) -> Decay:
    rise, fall, width = (c * e).exp(), (-(c + 1) * e).exp(), 2 * c + 1
    total = 2 * _MOMENTS["laplace"](c, e)

    def far(first: Any, _last: Any | None) -> Any:
        return (rise + fall) / total * (1 + 1 / (width**2 + 4 * first**2).sqrt())

    return least_of(far, paired([(fall / total, -e, -e), (rise / total, e, e)]))


def _response_decay(c: Any, e: Any) -> Decay:
    tilt = (c + ball(0.5)) * e
    return paired([(size.exp() / (2 * tilt.cosh()), at, at) for size, at in ((-tilt, -e), (tilt, e))])


def _range_decay(c: Any, e: Any) -> Decay:
    """Return the decay that follows from |sinh(a + ib)| <= cosh a."""
    half = c + ball(0.5)
    return lambda first, _last: (half * e).coth() * half / (half**2 + first**2).sqrt()


#: The bound on |M(c + it)| / M(c) of each family; a bound that ignores the interval's end falls.
_DECAYS = {"laplace": _laplace_decay, "randomized_response": _response_decay, "bounded_range": _range_decay}
