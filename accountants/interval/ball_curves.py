"""Curves delta(epsilon) that have a closed form, in balls.

Gaussian noise: Balle and Wang 2018, Theorem 8. Randomized response: every atom. One Laplace release, or one
Poisson-sampled one: `SampledBalls.alone`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from dpaudit.accountants.interval.ball_arithmetic import ball, flint, gaussian_delta, laplace_delta, precise
from dpaudit.accountants.interval.ball_factors import BallFactors

_MOST_ATOMS = 200_000


class ClosedForm(NamedTuple):
    """The method's name, and delta(epsilon) but for `revealing`."""

    method: str
    delta: Callable[[float], Any]


def closed_form(factors: BallFactors) -> ClosedForm | None:
    """The closed form of a composition in one order of its pair, if it has one."""
    families = {family for family, releases in vars(factors).items() if releases} - {"revealing"}
    if families <= {"variance"}:
        return ClosedForm("gaussian", functools.partial(_gaussian, factors.variance))
    if families == {"response"} and _atoms(factors) <= _MOST_ATOMS:
        return ClosedForm("lattice", functools.partial(_lattice, _listed(factors)))
    match sorted(families), factors:
        case ["laplace"], BallFactors(laplace=((loss, 1),)):
            return ClosedForm("single", lambda epsilon: laplace_delta(ball(loss), ball(epsilon)))
        case ["sampled"], BallFactors(sampled=(one,)) if one.count == 1:
            return ClosedForm("single", lambda epsilon: precise(lambda: one.alone(ball(epsilon))))
        case _:
            return None


def _gaussian(variance: Fraction, epsilon: float) -> Any:
    if variance == 0:
        return flint().arb(0)
    return precise(lambda: gaussian_delta(ball(variance).sqrt(), ball(epsilon)))


def _atoms(factors: BallFactors) -> int:
    return math.prod(count + 1 for _, count in factors.response)


def _listed(factors: BallFactors) -> list[tuple[Fraction, Any]]:
    """Every total loss of randomized response and its probability."""
    found: list[tuple[Fraction, Any]] = [(Fraction(0), flint().arb(1))]
    for epsilon, count in factors.response:
        p = 1 / (1 + (-ball(epsilon)).exp())
        own = [
            (Fraction(epsilon) * (2 * k - count), math.comb(count, k) * p**k * (1 - p) ** (count - k))
            for k in range(count + 1)
        ]
        found = [(loss + more, weight * share) for loss, weight in found for more, share in own]
    return found


def _lattice(atoms: list[tuple[Fraction, Any]], epsilon: float) -> Any:
    """The sum of p (1 - e^(epsilon - L)) over the losses L above epsilon."""
    total = flint().arb(0)
    for loss, weight in atoms:
        if loss > epsilon:
            total -= weight * ball(Fraction(epsilon) - loss).expm1()
    return total
