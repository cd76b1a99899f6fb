"""Bounded range and tables of losses in balls; formulae as in `dpaudit.accountants.privacy_loss`."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

from dpaudit.accountants.interval.ball_arithmetic import ball, flint
from dpaudit.accountants.interval.sampled_balls import Decay
from dpaudit.accountants.privacy_loss import DiscreteTerm

_UNIT = Fraction(1, 2**53)


def range_moment(s: Any, e: Any) -> Any:
    """M(s) = (sinh z / z) / (sinh(e / 2) / (e / 2)), z = (s + 1/2) e, of a `BoundedRangeTerm`."""
    return ((s + ball(0.5)) * e).sinh() / (2 * s + 1) / (e / 2).sinh()


def range_decay(c: Any, e: Any) -> Decay:
    """A bound on |M(c + it)| / M(c) for all t >= first, as |sinh(a + ib)| <= cosh a."""
    half = c + ball(0.5)
    most = (half * e).coth() * half

    def bound(first: Any, last: Any | None) -> Any:
        del last  # it falls
        return most / (half**2 + first**2).sqrt()

    return bound


def table_moment(s: Any, term: DiscreteTerm) -> Any:
    """M(s) of a table, for all numbers that its own may be the roundings of."""
    rows = _rows(term)
    moment = sum((probability * (s * loss).exp() for loss, probability in rows), flint().arb(0))
    return moment / sum((probability for _, probability in rows), flint().arb(0))


@functools.lru_cache(maxsize=256)
def _rows(term: DiscreteTerm) -> list[tuple[Any, Any]]:
    """Losses and probabilities, these widened by what they are allowed to be off by."""
    return [
        (
            ball(loss),
            ball(p) * (1 + _blur(16 * _UNIT * (2 + math.ceil(abs(math.log(p)))))),
        )
        for loss, p in zip(term.losses, term.probabilities, strict=True)
        if p > 0.0
    ]


def table_ceiling(term: DiscreteTerm) -> Fraction:
    """A bound on the loss."""
    return max(Fraction(0), Fraction(max(term.losses)))


def _blur(size: Fraction) -> Any:
    """All real numbers of at most that size."""
    return flint().arb(0, ball(size).upper())
