"""What the contour needs of each family of releases, enclosed in balls.

The formulae are those of `dpaudit.accountants.privacy_loss.families`; here every number is a ball that holds
the true one, so that no error analysis of ours is needed. Of a release's parameters the exact doubles are
taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

from dpaudit.accountants.balls import ball, flint
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
from dpaudit.accountants.table_balls import range_modulus, range_moment, table_ceiling, table_moment
from dpaudit.errors import CannotBound


@dataclass(frozen=True)
class BallFactors:
    """A composition of Gaussian, Laplace and response releases, ranges and tables, with exact parameters.

    Attributes:
        variance: the sum of mu^2.
        laplace: epsilon and count of each.
        response: epsilon and count of each randomized response, which stands for any pure release too.
        revealing: the probability that an approximate release reveals everything.
        ranged: epsilon and count of each choice of bounded range.
        tables: each table of losses and its count.
    """

    variance: Fraction
    laplace: tuple[tuple[float, int], ...]
    response: tuple[tuple[float, int], ...]
    revealing: Fraction
    ranged: tuple[tuple[float, int], ...] = ()
    tables: tuple[tuple[DiscreteTerm, int], ...] = ()

    @classmethod
    def of(cls, releases: Sequence[tuple[Term, int]]) -> BallFactors:
        """Sort terms by family.

        Raises:
            CannotBound: a sampled release, for which no enclosure is known here.
        """
        variance, kept = Fraction(0), Fraction(1)
        laplace: dict[float, int] = {}
        response: dict[float, int] = {}
        ranged: dict[float, int] = {}
        tables: dict[DiscreteTerm, int] = {}
        for term, count in releases:
            match term:
                case GaussianTerm(mu):
                    variance += count * Fraction(mu) ** 2
                case LaplaceTerm(epsilon):
                    laplace[epsilon] = laplace.get(epsilon, 0) + count
                case RandomizedResponseTerm(epsilon) | PureTerm(epsilon):
                    response[epsilon] = response.get(epsilon, 0) + count
                case BoundedRangeTerm(epsilon):
                    ranged[epsilon] = ranged.get(epsilon, 0) + count
                case DiscreteTerm(_, _, delta) | ApproxTerm(_, delta):
                    if isinstance(term, DiscreteTerm):
                        tables[term] = tables.get(term, 0) + count
                    else:
                        response[term.epsilon] = response.get(term.epsilon, 0) + count
                    kept *= (1 - Fraction(delta)) ** min(count, 4096)
                    if count > 4096 and delta > 0.0:
                        raise CannotBound(f"{count} approximate releases in balls", where="rigour interval")
                case SampledGaussianTerm() | SampledLaplaceTerm():
                    raise CannotBound(
                        "no enclosure of a Poisson-sampled release",
                        where="rigour interval",
                        remedy="ask for rigour float-pessimistic",
                    )
                case _:
                    assert_never(term)
        listed = tuple((table, count) for table, count in tables.items() if count > 0)
        return cls(variance, _positive(laplace), _positive(response), 1 - kept, _positive(ranged), listed)

    def ceiling(self) -> Fraction | None:
        """The largest loss; None if there is none."""
        if self.variance:
            return None
        pure = self.laplace + self.response + self.ranged
        tables = sum((table_ceiling(table) * n for table, n in self.tables), Fraction(0))
        return sum((Fraction(e) * n for e, n in pure), tables)

    @property
    def distinct(self) -> int:
        """How many formulae one node takes."""
        rows = sum(len(table.losses) for table, _ in self.tables)
        return len(self.laplace) + len(self.response) + len(self.ranged) + rows + 1

    def moment(self, s: Any, smoothing: Fraction) -> Any:
        """M(s) for a ball s with Re s > 0, times that of a Gaussian of variance `smoothing`."""
        total = (ball((self.variance + smoothing) / 2) * s * (s + 1)).exp()
        for epsilon, count in self.laplace:
            e = ball(epsilon)
            total *= (((s + 1) * (s * e).exp() + s * (-(s + 1) * e).exp()) / (2 * s + 1)) ** count
        for epsilon, count in self.response:
            e = ball(epsilon)
            total *= (((s + ball(0.5)) * e).cosh() / (e / 2).cosh()) ** count
        for epsilon, count in self.ranged:
            total *= range_moment(s, epsilon) ** count
        for table, count in self.tables:
            total *= table_moment(s, table) ** count
        return total

    def tail_factors(self, c: Any) -> list[tuple[Any, Any, Any, Any, int]]:
        """What `modulus` needs of each release at abscissa c, computed once.

        Each is e, twice the product of the atoms' tilted weights, the continuous part's bound A / M(c), or
        None, 2 c + 1, and the count.
        """
        found = []
        for epsilon, count in self.laplace:
            e = ball(epsilon)
            rise, fall = (c * e).exp(), (-(c + 1) * e).exp()
            moment = ((c + 1) * rise + c * fall) / (2 * c + 1)
            found.append((e, (-e).exp() / (2 * moment**2), (rise + fall) / (2 * moment), 2 * c + 1, count))
        for epsilon, count in self.response:
            e = ball(epsilon)
            found.append((e, 1 / (2 * ((c + ball(0.5)) * e).cosh() ** 2), None, 2 * c + 1, count))
        return found

    def modulus(
        self,
        c: Any,
        tails: list[tuple[Any, Any, Any, Any, int]],
        first: Any,
        last: Any | None,
        smoothing: Fraction,
    ) -> Any:
        """A bound on |M(c + it)| / M(c) for first <= t <= last, or for all t >= first.

        Gaussian: it falls. Laplace and response: `privacy_loss.families`, `decay`. Bounded range: its own
        bound. A table is bounded by 1.
        """
        arb = flint().arb
        total = (-ball((self.variance + smoothing) / 2) * first**2).exp()
        one = arb(1)
        for epsilon, count in self.ranged:
            total *= arb.min(range_modulus(c, epsilon, first).upper(), one) ** count
        for e, weight, uniform, width, count in tails:
            bound = one
            if last is not None:
                middle, radius = (first + last) / 2, (last - first) / 2
                angle = arb((2 * e * middle).mid(), (2 * e * radius).upper() + (2 * e * middle).rad())
                bound = _least(bound, (one - weight * (one - angle.cos())).upper().max(arb(0)).sqrt())
            if uniform is not None:
                bound = _least(bound, uniform * (1 + 1 / (width**2 + 4 * first**2).sqrt()))
            total *= bound.upper() ** count
        return arb.min(total.upper(), one)


def _least(one: Any, other: Any) -> Any:
    return flint().arb.min(one.upper(), other.upper())


def _positive(counts: dict[float, int]) -> tuple[tuple[float, int], ...]:
    return tuple(sorted((epsilon, count) for epsilon, count in counts.items() if epsilon > 0.0 and count > 0))
