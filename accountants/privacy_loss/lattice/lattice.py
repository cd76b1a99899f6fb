"""Randomized response of few distinct epsilons and tables: every atom of the loss, with its exact weight.

n runs at e have k yeses with P-probability C(n, k) e^(k e) / (1 + e^e)^n and loss (2 k - n) e (Kairouz, Oh
and
Viswanath 2015). All summands of delta(epsilon) = sum over L > epsilon of P(L) (1 - e^(epsilon - L)) are
positive.
Rounding: scipy's gammaln is taken to be within 16 u, relative. The losses' rounding is
allowed for by
moving every atom up, or down. Tables: `powers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from dpaudit.accountants.privacy_loss.contour.contour import Curve
from dpaudit.accountants.privacy_loss.contour.discrete import DiscreteFactor
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector
from dpaudit.accountants.privacy_loss.lattice.powers import number, power
from dpaudit.accountants.privacy_loss.solve import Bracket, verified

#: The most atoms that are listed one by one.
MOST_ATOMS = 1 << 20


@dataclass(frozen=True, eq=False)
class Lattice:
    """The atoms of the loss, largest first; each [atoms]."""

    loss: Vector
    log_weight: Vector
    loss_error: Vector
    weight_error: float
    infinite: float = 0.0  # what was lost below the smallest double

    def curve(self, epsilon: float) -> Curve:
        """Bounds on log delta(epsilon)."""
        furthest = float(self.loss_error.max()) + 4.0 * UNIT * epsilon
        above = int(np.searchsorted(-self.loss, -(epsilon - furthest), side="left"))
        if above == 0:
            return Curve(-math.inf, -math.inf, _log(self.infinite), 1.0)
        gap, logs = self.loss[:above] - epsilon, self.log_weight[:above]
        moved = self.loss_error[:above] + 4.0 * UNIT * epsilon
        scale = float(logs.max())
        weights = np.exp(logs - scale)
        error = self.weight_error + (math.log2(above) + 64.0) * UNIT
        delta = float(weights @ -np.expm1(-np.maximum(gap, 0.0)))
        upper = (
            float(weights @ -np.expm1(-np.maximum(gap + moved, 0.0))) * (1.0 + above * UNIT) * math.exp(error)
        )
        lower = (
            float(weights @ -np.expm1(-np.maximum(gap - moved, 0.0)))
            * (1.0 - above * UNIT)
            * math.exp(-error)
        )
        log_error = 4.0 * UNIT * (abs(scale) + 800.0)
        slope = float(weights @ np.exp(-np.maximum(gap, 0.0))) / delta if delta > 0.0 else 1.0
        log_upper = float(np.logaddexp(_log(upper) + scale + log_error, _log(self.infinite)))
        return Curve(_log(lower) + scale - log_error, _log(delta) + scale, log_upper, slope)

    def log_delta(self, epsilon: float) -> Bracket:
        """Bounds on log delta at epsilon."""
        bounds = self.curve(epsilon)
        return Bracket(bounds.log_lower, min(0.0, bounds.log_upper))

    def epsilon(self, log_delta: float) -> Bracket:
        """Bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta).

        Between two neighbouring atoms delta = A - e^epsilon B, with A and B summed over the atoms above;
        which two
        is found by bisection.
        """
        if self.curve(0.0).log_upper <= log_delta:
            return Bracket(0.0, 0.0)
        first, last = 0, int(np.searchsorted(-self.loss, 0.0, side="left"))  # losses[:last] > 0
        while first < last:  # the first atom at which delta exceeds the target
            middle = (first + last) // 2
            if self.curve(float(self.loss[middle])).log_estimate > log_delta:
                last = middle
            else:
                first = middle + 1
        low = float(self.loss[first]) if first < len(self.loss) else 0.0
        high = float(self.loss[first - 1]) if first else low
        epsilon = max(0.0, low)
        for _ in range(3):  # once is exact but for rounding
            here = self.curve(epsilon)
            excess = -math.expm1(log_delta - here.log_estimate) if here.log_estimate > -math.inf else 0.0
            if here.slope < 1e-200:  # the atoms above are too far for e^-gap: halve the way to them
                low, high = self._halve(low, high, log_delta)
                epsilon = low
            else:
                epsilon = min(high, max(0.0, epsilon + math.log1p(max(excess / here.slope, -0.5))))
        bracket = verified(self, epsilon, log_delta)
        if self.infinite > 0.0:
            return bracket
        return Bracket(
            bracket.lower, min(bracket.upper, max(0.0, float((self.loss + self.loss_error).max())))
        )

    def _halve(self, low: float, high: float, log_delta: float) -> tuple[float, float]:
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.curve(middle).log_estimate > log_delta else (low, middle)
        return max(0.0, low), high


def atoms(counts: Vector, tables: Sequence[DiscreteFactor]) -> float:
    """How many atoms the loss has, at most."""
    total = 1.0
    for several in counts.tolist():
        total = min(total * (several + 1.0), math.inf)
    for table in tables:
        if total > MOST_ATOMS:
            break
        total *= number(table)
    return total


def lattice(parameters: Vector, counts: Vector, tables: Sequence[DiscreteFactor]) -> Lattice:
    """List the atoms; parameters and counts of the randomized responses are [distinct], all positive."""
    loss, log_weight, loss_error = np.zeros(1), np.zeros(1), np.zeros(1)
    size = 0.0
    for e, n in zip(parameters.tolist(), counts.tolist(), strict=True):
        k = np.arange(n + 1.0)
        share = math.log1p(math.exp(-e))
        choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        loss, loss_error = _sums(loss, loss_error, (2.0 * k - n) * e, 2.0 * UNIT * np.abs(2.0 * k - n) * e)
        log_weight = np.add.outer(log_weight, choose - n * share - (n - k) * e).ravel()
        size += 3.0 * 16.0 * float(gammaln(n + 1.0)) + 16.0 * n * (share + e)
    rounding = 4.0 * (len(parameters) + 2.0) * UNIT
    weight_error, infinite = UNIT * size + rounding * size, 0.0
    for table in tables:
        more = power(table)
        loss, loss_error = _sums(loss, loss_error, more.loss, more.loss_error)
        log_weight = np.add.outer(log_weight, more.log_weight).ravel()
        weight_error += more.weight_error + 4.0 * UNIT * float(np.abs(log_weight).max())
        infinite += more.infinite
    order = np.argsort(-loss)
    return Lattice(loss[order], log_weight[order], loss_error[order], weight_error, infinite)


def _sums(some: Vector, some_error: Vector, more: Vector, more_error: Vector) -> tuple[Vector, Vector]:
    """Every sum of one loss of either kind, and what it may be off by."""
    loss = np.add.outer(some, more).ravel()
    return loss, np.add.outer(some_error, more_error).ravel() + 2.0 * UNIT * np.abs(loss)


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf
