"""Randomized response with few distinct epsilons, and tables: every atom of the loss, with its exact weight.

n runs at e have k yeses with P-probability C(n, k) e^(k e) / (1 + e^e)^n and loss (2 k - n) e (Kairouz, Oh
and Viswanath 2015). All summands of delta(epsilon) = sum over L > epsilon of P(L) (1 - e^(epsilon - L)) are
positive. Rounding: scipy's gammaln is assumed to be within 16 u, relative. Every atom moves up, or down, by
the losses' rounding.

Runs of one table whose losses lie on a common step: the probabilities are convolved with themselves. All
summands are positive, so the relative errors of two factors add up, plus one u for each summand. For other
losses: every multiset of losses, with its multinomial weight. Products below the smallest double count as an
infinite loss of 1e-290 in total.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from dpaudit.accountants.privacy_loss.contour.contour import CurvePoint
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector, safe_log
from dpaudit.accountants.privacy_loss.contour.tables import Table
from dpaudit.accountants.privacy_loss.solve import Bracket, curve_epsilon

MOST_ATOMS = 1 << 20  # limit on atoms listed one by one
_LONGEST = 1 << 15  # longest sum on a common step
_UNDERFLOWN = 1e-290


@dataclass(frozen=True, eq=False)
class Lattice:
    """The atoms of the loss, the largest first (except in `_power`), with their error bounds; [atoms]."""

    loss: Vector
    log_weight: Vector
    loss_error: Vector
    weight_error: float
    infinite: float = 0.0  # the mass lost below the smallest double

    def curve(self, epsilon: float) -> CurvePoint:
        """Return bounds on log delta(epsilon)."""
        furthest = float(self.loss_error.max()) + 4.0 * UNIT * epsilon
        above = int(np.searchsorted(-self.loss, -(epsilon - furthest), side="left"))
        if above == 0:
            return CurvePoint(-math.inf, -math.inf, safe_log(self.infinite), 1.0)
        gap, logs = self.loss[:above] - epsilon, self.log_weight[:above]
        moved = self.loss_error[:above] + 4.0 * UNIT * epsilon
        scale = float(logs.max())
        weights = np.exp(logs - scale)
        error = self.weight_error + (math.log2(above) + 64.0) * UNIT
        shifts = (-moved, 0.0, moved)
        lower, delta, upper = (float(weights @ -np.expm1(-np.maximum(gap + by, 0.0))) for by in shifts)
        upper *= (1.0 + above * UNIT) * math.exp(error)
        lower *= (1.0 - above * UNIT) * math.exp(-error)
        log_error = 4.0 * UNIT * (abs(scale) + 800.0)
        slope = float(weights @ np.exp(-np.maximum(gap, 0.0))) / delta if delta > 0.0 else 1.0
        log_upper = float(np.logaddexp(safe_log(upper) + scale + log_error, safe_log(self.infinite)))
        return CurvePoint(safe_log(lower) + scale - log_error, safe_log(delta) + scale, log_upper, slope)

    def epsilon(self, log_delta: float) -> Bracket:
        """Return bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta)."""
        largest = math.inf if self.infinite else float((self.loss + self.loss_error).max())
        return curve_epsilon(self, log_delta, max(0.0, largest))


def _log_factorial(number: Any) -> Any:
    """Return log n!, for a number or each entry of an array."""
    return scipy.special.gammaln(number + 1.0)


def atoms(counts: Vector, tables: Sequence[Table]) -> float:
    """Return an upper bound on the number of the loss's atoms; infinite if a sum is too long."""
    total = math.prod((counts + 1.0).tolist(), start=1.0)
    for table in tables:
        if total > MOST_ATOMS:
            break
        step, rows = _common_step(table), float(len(table.losses))
        more = rows - 1.0
        multisets = _log_factorial(table.count + more) - _log_factorial(table.count) - _log_factorial(more)
        total *= math.exp(min(700.0, float(multisets))) if step is None else step[1][-1] * table.count + 1.0
    return total


def lattice(parameters: Vector, counts: Vector, tables: Sequence[Table]) -> Lattice:
    """List the atoms; parameters and counts of the randomized responses are [distinct], all positive."""
    loss, log_weight, loss_error, size = np.zeros(1), np.zeros(1), np.zeros(1), 0.0
    for e, n in zip(parameters.tolist(), counts.tolist(), strict=True):
        k, share = np.arange(n + 1.0), math.log1p(math.exp(-e))
        choose = _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)
        loss, loss_error = _sums(loss, loss_error, (2.0 * k - n) * e, 2.0 * UNIT * np.abs(2.0 * k - n) * e)
        log_weight = np.add.outer(log_weight, choose - n * share - (n - k) * e).ravel()
        size += 3.0 * 16.0 * float(_log_factorial(n)) + 16.0 * n * (share + e)
    weight_error, infinite = (1.0 + 4.0 * (len(parameters) + 2.0)) * UNIT * size, 0.0
    for table in tables:
        more = _power(table)
        loss, loss_error = _sums(loss, loss_error, more.loss, more.loss_error)
        log_weight = np.add.outer(log_weight, more.log_weight).ravel()
        weight_error += more.weight_error + 4.0 * UNIT * float(np.abs(log_weight).max())
        infinite += more.infinite
    order = np.argsort(-loss)
    return Lattice(loss[order], log_weight[order], loss_error[order], weight_error, infinite)


def _sums(some: Vector, some_error: Vector, more: Vector, more_error: Vector) -> tuple[Vector, Vector]:
    """Return every sum of one loss of each kind, and its error bound."""
    loss = np.add.outer(some, more).ravel()
    return loss, np.add.outer(some_error, more_error).ravel() + 2.0 * UNIT * np.abs(loss)


def _power(table: Table) -> Lattice:
    """Return the atoms of all runs of a table, in no order."""
    losses, count = table.losses, int(table.count)
    spread, step = count * float(table.spread.max()), _common_step(table)
    # The error of sums of losses that lie near a common step, or were added one by one.
    inexact = (48.0 + 2.0 * len(losses)) * UNIT * count * float(np.abs(losses).max())
    if step is None:
        loss, log_weight = _listed(losses, np.log(table.probabilities), count)
        largest = float(np.abs(log_weight).max())
        rounding = 64.0 * float(_log_factorial(count)) + (len(losses) + 8.0) * largest
        return Lattice(loss, log_weight, np.full(len(loss), inexact), spread + rounding * UNIT)
    width, places = step
    single = np.zeros(int(places[-1]) + 1)
    single[places.astype(np.intp)] = table.probabilities
    weight, rounding = _convolved(single, count)
    some = np.flatnonzero(weight > 0.0).astype(np.float64)
    halves = 2.0 * float(losses[0]) / width if width else 0.0  # the lowest loss, in half steps
    rows = zip(losses.tolist(), places.tolist(), strict=True)
    if all(Fraction(loss) * 2 == Fraction(width) * int(halves + 2.0 * place) for loss, place in rows):
        loss = (count * halves + 2.0 * some) * (0.5 * width)
        loss_error = 2.0 * UNIT * np.abs(loss)
    else:
        loss = count * float(losses[0]) + width * some
        loss_error = np.full(len(loss), inexact)
    # Unless some product is below 1e-290, nothing can have vanished.
    vanished = count * math.log(float(table.probabilities.min())) < math.log(_UNDERFLOWN)
    log_weight = np.log(weight[some.astype(np.intp)])
    return Lattice(loss, log_weight, loss_error, spread + rounding, _UNDERFLOWN if vanished else 0.0)


def _common_step(table: Table) -> tuple[float, Vector] | None:
    """Return a step, and the differences as multiples of it up to rounding, [rows]; None if too long."""
    losses = table.losses
    if len(losses) == 1:
        return 0.0, np.zeros(1)
    from_first = losses - losses[0]
    step = float(from_first[-1] / np.rint(from_first[-1] / np.diff(losses).min()))
    places = np.rint(from_first / step)
    fits = np.abs(from_first - places * step).max() <= 32.0 * UNIT * np.abs(losses).max()
    return (step, places) if fits and places[-1] * table.count + 1.0 <= _LONGEST else None


def _convolved(single: Vector, count: int) -> tuple[Vector, float]:
    """Return the power by repeated squaring, and a bound on its relative rounding."""
    result, rounding, square, square_rounding = np.ones(1), 0.0, single, 0.0
    while True:
        if count & 1:
            rounding += square_rounding + 2.0 * UNIT * (min(len(result), len(square)) + 2.0)
            result = np.convolve(result, square)
        count >>= 1
        if not count:
            return result, rounding
        square_rounding = 2.0 * square_rounding + 2.0 * UNIT * (len(square) + 2.0)
        square = np.convolve(square, square)


def _listed(losses: Vector, logs: Vector, count: int) -> tuple[Vector, Vector]:
    """Return every multiset of `count` losses; the number of runs left gives the place of a partial one."""
    if count == 1:
        return losses, logs
    partial = {count: (np.zeros(1), np.full(1, float(_log_factorial(count))))}
    for loss, log in zip(losses[:-1].tolist(), logs[:-1].tolist(), strict=True):
        longer: dict[int, list[tuple[Vector, Vector]]] = {}
        for left, (sums, weights) in partial.items():
            for runs in range(left + 1):
                more = runs * log - float(_log_factorial(runs))
                longer.setdefault(left - runs, []).append((sums + runs * loss, weights + more))
        partial = {left: _joined(parts) for left, parts in longer.items()}
    last = [
        (sums + left * losses[-1], weights + left * logs[-1] - float(_log_factorial(left)))
        for left, (sums, weights) in partial.items()
    ]
    return _joined(last)


def _joined(parts: Sequence[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    return np.concatenate([one for one, _ in parts]), np.concatenate([other for _, other in parts])
