"""Poisson-sampled releases in balls: the common part of their two families.

The notation is that of `dpaudit.accountants.privacy_loss.contour.sampled`, with v the loss of the noise
itself. A quadrature rule turns M(s) into a sum of W_j r_j^p. Its points are chosen in floating point; its
sum, its proved error and its tails are computed in balls.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpaudit.accountants.interval.ball_arithmetic import ball, flint, least_versine
from dpaudit.errors import CannotBound

#: A bound on |M(c + it)| / M(c) of one run, for t between two numbers or, with None, beyond the first.
Decay = Callable[[Any, Any | None], Any]

DIGITS = 60.0  # a rule is off by less than e^-DIGITS / count, relative to M(c)
_MOST_POINTS = 1 << 17
_FAINT = 0.05  # a bound below this needs no sharper second one


@dataclass(frozen=True, eq=False)
class Rule:
    """A quadrature rule, tilted to Re p = a."""

    log_ratio: list[Any]  # log r_j, [points]
    weight: list[Any]  # W_j r_j^a, [points]
    left_out: Any  # a bound on the part of the sum of |W_j r_j^p| missing at both ends
    relative: Callable[[Any], Any]  # bounds the rule's own error at t, relative to M(c); grows with t

    def moment(self) -> Any:
        """Return M(c): the whole sum S is within relative(0) M(c) of it."""
        arb = flint().arb
        total = sum(self.weight, arb(0)) + arb(0, self.left_out.upper())
        return total / arb(1, self.relative(arb(0)).upper())


@dataclass(frozen=True)
class SampledBalls(ABC):
    """`count` runs of a release sampled at `rate` < 1; `mixture_first` if the sampled distribution is P."""

    unsampled: ClassVar[staticmethod[[Any, Any], Any]]  # delta by parameter and epsilon, if never sampled
    parameter: float  # mu of Gaussian noise, epsilon of Laplace noise
    rate: float
    count: int
    mixture_first: bool

    @abstractmethod
    def rule(self, c: Any, end: float) -> Rule:
        """Return a rule at abscissa c, fine enough for |t| <= end."""

    @abstractmethod
    def decay(self, c: Any) -> Decay:
        """Return a bound on |M(c + it)| / M(c) of one run."""

    @abstractmethod
    def ceiling(self) -> Fraction | None:
        """Return the largest loss of all runs, rounded up; None if there is none."""

    @abstractmethod
    def cost(self, c: float, end: float) -> float:
        """Return the cost of one node, in formulas."""

    def alone(self, epsilon: Any) -> Any:
        """Return delta(epsilon) of one run, as in `SampledRun`: w delta1 at log(1 + (e^epsilon - 1) / w)."""
        arb, q, grown = flint().arb, ball(self.rate), epsilon.expm1()
        share = q if self.mixture_first else q - (1 - q) * grown
        if share > 0:
            return share * self.unsampled(ball(self.parameter), (grown / share).log1p())
        return arb(0).union(arb.max(share.upper(), arb(0)))

    def moment(self, c: Any) -> Any:
        """Return M(c) of all runs at a real c > 0."""
        return self.rule(c, 0.0).moment() ** self.count

    def along(self, c: Any, step: Fraction, nodes: int) -> list[Any]:
        """Return M(c + i k step) of all runs for 0 <= k < nodes: one product of matrices.

        With k = b K + j, e^(i k step l) = e^(i b K step l) e^(i j step l).
        """
        acb, acb_mat, last = flint().acb, flint().acb_mat, step * (nodes - 1)
        rule, pace = self.rule(c, float(last)), ball(step if self.mixture_first else -step)
        width, points = math.isqrt(nodes) + 1, len(rule.weight)
        height = -(-nodes // width)
        coarse = [_powers(pace * width, log_ratio, height) for log_ratio in rule.log_ratio]
        left = [w * row[b] for b in range(height) for w, row in zip(rule.weight, coarse, strict=True)]
        right = [entry for log_ratio in rule.log_ratio for entry in _powers(pace, log_ratio, width)]
        product = acb_mat(height, points, left) * acb_mat(points, width, right)
        error = flint().arb(0, (rule.left_out + rule.relative(ball(last)) * rule.moment()).upper())
        return [(entry + acb(error, error)) ** self.count for entry in product.entries()[:nodes]]

    def exponent(self, c: Any) -> Any:
        """Return the real part a of p at Re s = c."""
        return c + 1 if self.mixture_first else -c

    def log_ratio(self, loss: Any) -> Any:
        """Return log of 1 - q + q e^v; the number added to 1 is at least -1/2."""
        q = ball(self.rate)
        if self.rate <= 0.5:
            return (q * loss.expm1()).log1p()
        return loss + ((1 - q) * (-loss).expm1()).log1p()

    def check_points(self, points: int) -> None:
        """Raise `CannotBound` if a rule has too many points."""
        if points > _MOST_POINTS:
            remedy = "ask for rigour float-pessimistic, or for a larger delta"
            what = f"a quadrature of {points:.3g} points in balls"
            raise CannotBound(what, where="rigour interval", remedy=remedy)


def _powers(step: Any, log_ratio: Any, many: int) -> list[Any]:
    """Return e^(i k step l) for k < many; every 16th is computed anew, as balls grow with each product."""
    acb = flint().acb
    turn = acb(0, step * log_ratio).exp()
    found: list[Any] = []
    for k in range(many):
        found.append(acb(0, k * step * log_ratio).exp() if k % 16 == 0 else found[-1] * turn)
    return found


def paired(cells: Sequence[tuple[Any, Any, Any]]) -> Decay:
    """Bound the decay by two independent copies of the loss: |M(c + it) / M(c)|^2 = E cos t (L - L').

    The copies are in different cells. The cells come in increasing order of loss. Each has a mass at most
    that of the tilted law, and the least and the largest |log r| in the cell, which has one sign.
    """
    arb, pairs = flint().arb, []
    for at, (mass, _, highest) in enumerate(cells):
        for other, lowest, farthest in cells[at + 1 :]:
            shortest = (lowest - highest).lower()
            if shortest > 0:
                pairs.append((2 * mass * other, shortest, (farthest - cells[at][1]).upper()))

    def bound(first: Any, last: Any | None) -> Any:
        if last is None:
            return arb(1)
        with flint().ctx.workprec(64):
            gained = sum((w * least_versine(low * first, high * last) for w, low, high in pairs), arb(0))
            return arb.max((1 - gained).upper(), arb(0)).sqrt().upper()

    return bound


def least_of(far: Decay, near: Decay) -> Decay:
    """Return the smaller of two bounds; the costlier second is used only if the first is weak."""

    def bound(first: Any, last: Any | None) -> Any:
        arb = flint().arb
        found = arb.min(far(first, last).upper(), arb(1))
        return found if found < _FAINT else arb.min(found, near(first, last))

    return bound
