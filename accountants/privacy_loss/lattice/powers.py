"""Many runs of one table of losses: every atom of their sum, with its probability.

Losses on a common step: the probabilities convolved with themselves; all summands are positive, so that the
relative errors of two factors and one of u a summand add up. Other losses: every multiset of them, with its
multinomial weight. Products below the smallest double are counted as an infinite loss of 1e-290 in all.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dpaudit.accountants.privacy_loss.contour.discrete import DiscreteFactor
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector

#: The longest sum on a common step.
_LONGEST = 1 << 15
_UNDERFLOWN = 1e-290


class Atoms(NamedTuple):
    """Losses with the logarithms of their probabilities, and how far off each may be; [atoms]."""

    loss: Vector
    log_weight: Vector
    loss_error: Vector
    weight_error: float
    infinite: float


def number(factor: DiscreteFactor) -> float:
    """How many atoms the runs have, at most; infinite where the sum is too long."""
    step = _common_step(factor.losses)
    several = _multisets(len(factor.losses), factor.count)
    if step is None:
        return several
    points = step[1][-1] * factor.count + 1.0
    return float(points) if points <= _LONGEST else several


def power(factor: DiscreteFactor) -> Atoms:
    """The atoms of all runs."""
    losses, count = factor.losses, int(factor.count)
    spread = count * float(factor.spread.max())
    step = _common_step(losses)
    if step is None or step[1][-1] * factor.count + 1.0 > _LONGEST:
        loss, log_weight = _listed(losses, np.log(factor.probabilities), count)
        rounding = 64.0 * float(gammaln(count + 1.0)) + (len(losses) + 8.0) * float(np.abs(log_weight).max())
        return Atoms(loss, log_weight, _inexact(losses, loss, count), spread + rounding * UNIT, 0.0)
    width, places = step
    single = np.zeros(int(places[-1]) + 1)
    single[places.astype(np.intp)] = factor.probabilities
    weight, rounding = _convolved(single, count)
    some = np.flatnonzero(weight > 0.0).astype(np.float64)
    halves = 2.0 * float(losses[0]) / width if width else 0.0  # the lowest loss, in half steps
    if all(
        Fraction(loss) * 2 == Fraction(width) * int(halves + 2.0 * place)
        for loss, place in zip(losses.tolist(), places.tolist(), strict=True)
    ):
        loss = (count * halves + 2.0 * some) * (0.5 * width)
        loss_error = 2.0 * UNIT * np.abs(loss)
    else:
        loss = count * float(losses[0]) + width * some
        loss_error = _inexact(losses, loss, count)
    # Without any product below 1e-290 nothing can have vanished.
    vanished = count * math.log(float(factor.probabilities.min())) < math.log(_UNDERFLOWN)
    log_weight = np.log(weight[some.astype(np.intp)])
    return Atoms(loss, log_weight, loss_error, spread + rounding, _UNDERFLOWN if vanished else 0.0)


def _inexact(losses: Vector, sums: Vector, count: int) -> Vector:
    """What sums may be off by whose losses lie near a common step, or were added one by one."""
    return np.full(len(sums), (48.0 + 2.0 * len(losses)) * UNIT * count * float(np.abs(losses).max()))


def _common_step(losses: Vector) -> tuple[float, Vector] | None:
    """A step of which all differences are multiples, but for rounding, and the multiples; [rows]."""
    if len(losses) == 1:
        return 0.0, np.zeros(1)
    from_first = losses - losses[0]
    step = float(from_first[-1] / np.rint(from_first[-1] / np.diff(losses).min()))
    places = np.rint(from_first / step)
    fits = np.abs(from_first - places * step).max() <= 32.0 * UNIT * np.abs(losses).max()
    return (step, places) if fits else None


def _convolved(single: Vector, count: int) -> tuple[Vector, float]:
    """The power by repeated squaring, and a bound on its relative rounding."""
    result, rounding = np.ones(1), 0.0
    square, square_rounding = single, 0.0
    while count:
        if count & 1:
            rounding += square_rounding + 2.0 * UNIT * (min(len(result), len(square)) + 2.0)
            result = np.convolve(result, square)
        count >>= 1
        if count:
            square_rounding = 2.0 * square_rounding + 2.0 * UNIT * (len(square) + 2.0)
            square = np.convolve(square, square)
    return result, rounding


def _multisets(rows: int, count: float) -> float:
    """How many multisets of so many rows there are."""
    return math.exp(min(700.0, float(gammaln(count + rows) - gammaln(count + 1.0) - gammaln(float(rows)))))


def _listed(losses: Vector, logs: Vector, count: int) -> tuple[Vector, Vector]:
    """Every multiset of `count` losses: how many runs are left says where each partial one stands."""
    if count == 1:
        return losses, logs
    partial = {count: (np.zeros(1), np.full(1, float(gammaln(count + 1.0))))}
    for loss, log in zip(losses[:-1].tolist(), logs[:-1].tolist(), strict=True):
        longer: dict[int, list[tuple[Vector, Vector]]] = {}
        for left, (sums, weights) in partial.items():
            for runs in range(left + 1):
                more = runs * log - float(gammaln(runs + 1.0))
                longer.setdefault(left - runs, []).append((sums + runs * loss, weights + more))
        partial = {
            left: (np.concatenate([one for one, _ in parts]), np.concatenate([other for _, other in parts]))
            for left, parts in longer.items()
        }
    ends = [
        (sums + left * losses[-1], weights + left * logs[-1] - float(gammaln(left + 1.0)))
        for left, (sums, weights) in partial.items()
    ]
    return np.concatenate([one for one, _ in ends]), np.concatenate([other for _, other in ends])
