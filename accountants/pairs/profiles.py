"""Proved privacy profiles as tables of losses, which compose like other tables.

A profile f(y) >= delta(log y) is convex in y = e^epsilon and belongs to a pair that dominates (Zhu, Dong and
Wang 2022, Proposition 10). Given bounds f(y_j) <= d_j at points y_0 < ... < y_n, the greatest convex function
below the points bounds f in between, since f is convex. Beyond y_n f falls, so d_n bounds it. The result is
again a profile: its slope rises at its corners. A rise of s at y is Q's mass s and P's mass y s at the loss
log y; d_n is P's mass at the infinite loss. (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022.)

A symmetric relation has f(y) = 1 - y + y f(1 / y), so y >= 1 determines the profile: Q has P's masses at the
opposite losses, and the remaining mass has loss 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from dpaudit.accountants.closed_forms import conversions
from dpaudit.accountants.closed_forms.gaussian import gaussian_log_delta
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.pairs.discrete_gaussian import discrete_gaussian_term
from dpaudit.accountants.pairs.smooth import smooth_delta
from dpaudit.accountants.pairs.tables import discrete_laplace_term, response_term, table_term
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector
from dpaudit.accountants.privacy_loss.terms import (
    LARGEST_PARAMETER,
    ApproxTerm,
    DiscreteTerm,
    PureTerm,
    RandomizedResponseTerm,
)
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import dominating

_FINE, _COARSE = 1024, 160  # points of a curve in its bulk, and in its tail
_RAISED = 1e-12  # relative raise of a curve's values, larger than their rounding
_LEAST = 1e-300  # least mass; smaller ones are raised to it


@dataclass(frozen=True, eq=False)
class Losses:
    """A pair: its finite losses, increasing, with the masses of both distributions; [rows]."""

    loss: Vector
    first: Vector  # the masses of P
    second: Vector  # the masses of Q
    infinite: float  # P's mass where Q has none
    impossible: float  # Q's mass where P has none

    def delta(self, epsilon: Vector) -> Vector:
        """Return the profile at increasing epsilons, from sums of positive numbers only; [points]."""
        place = np.unique(np.concatenate([self.loss, epsilon]))
        mass, moved = np.zeros(len(place)), np.zeros(len(place))
        at = np.searchsorted(place, self.loss)
        mass[at] = self.first
        found, above, total = self.infinite, 0.0, 0.0
        for i in range(len(place) - 1, -1, -1):
            moved[i] = found = found + total
            above = above + mass[i]
            if i:  # at the next lower point, e^(epsilon - loss) falls for all mass above
                gap = float(place[i] - place[i - 1])
                total, above = -math.expm1(-gap) * above, math.exp(-gap) * above
        return moved[np.searchsorted(place, epsilon)]

    @functools.cached_property
    def term(self) -> DiscreteTerm:
        """The table for composition; losses are raised by their rounding, which reduces only Q."""
        some = self.first > 0.0
        # Losses that rounding makes equal or unordered are counted as the largest of them.
        raised = np.maximum.accumulate(self.loss[some] + 16.0 * UNIT * np.abs(self.loss[some]))
        if not (len(raised) and float(np.abs(raised).max()) <= LARGEST_PARAMETER):
            raise CannotBound("a sampled run's privacy loss exceeds 1e6", where="losses", remedy="add noise")
        loss, place = np.unique(raised, return_inverse=True)
        masses = np.maximum(np.bincount(place, self.first[some], len(loss)), _LEAST)
        infinite = min(1.0, self.infinite * (1.0 + _RAISED))
        return DiscreteTerm(
            tuple(loss.tolist()), tuple(masses.tolist()), infinite, pessimistic=True, enclosed=False
        )


def symmetric(epsilon: Vector, delta: Vector) -> Losses:
    """Return the least pair of a symmetric relation with profile at most `delta` [points] at `epsilon`.

    `epsilon` increases from 0. Raises `CannotBound`: rounding makes the profile impossible.
    """
    delta = np.minimum.accumulate(np.minimum(delta * (1.0 + _RAISED), 1.0))
    apart = np.append(np.diff(epsilon), 1.0) > 0.0
    epsilon, delta = epsilon[apart], delta[apart]
    corners, slopes = _convex(epsilon, delta)
    # The piece from -loss to loss has the slope (1 - delta) / (1 + e^loss); later pieces are not steeper.
    log_middle = np.log1p(-delta[corners]) - np.logaddexp(0.0, epsilon[corners])
    start = int(np.argmax(np.append(slopes, -math.inf) <= log_middle))
    loss, wanted = epsilon[corners][start:], delta[corners][start:]
    log_second = np.append(slopes[start:], -math.inf)
    if start:  # no mass has loss 0
        loss, wanted = np.append(0.0, loss), np.append(0.0, wanted)
        log_second = np.append(log_middle[start], log_second)
    with np.errstate(divide="ignore", invalid="ignore"):
        fallen = -np.expm1(log_second[1:] - log_second[:-1])
    first = np.exp(loss[1:] + log_second[:-1]) * np.where(np.isfinite(log_second[:-1]), fallen, 0.0)
    for share in (0.0, 1e-13, 1e-11, 1e-9):
        raised = first * (1.0 + share)
        second = raised * np.exp(-loss[1:])
        infinite = float(wanted[-1])
        rest = 1.0 - infinite - float(raised.sum() + second.sum())
        if rest < -1e-13:
            break
        found = Losses(
            np.concatenate([-loss[:0:-1], [0.0], loss[1:]]),
            np.concatenate([second[::-1], [max(rest, _LEAST)], raised]),
            np.concatenate([raised[::-1], [max(rest, _LEAST)], second]),
            infinite,
            infinite,
        )
        if np.all(found.delta(loss) >= wanted * (1.0 - 0.5 * _RAISED)):
            return found
    raise CannotBound("a profile that rounding makes invalid", where="losses")


def _convex(epsilon: Vector, delta: Vector) -> tuple[list[int], list[float]]:
    """Return the corners of the greatest convex function below the points, and the log slopes after them."""
    at, value = epsilon.tolist(), delta.tolist()

    def log_slope(i: int, j: int) -> float:
        fall = value[i] - value[j]
        if fall <= 0.0:
            return -math.inf
        gap = float(at[j] - at[i])
        return math.log(fall) - float(at[i]) - gap - math.log(-math.expm1(-gap))

    corners, slopes = [0], list[float]()
    for j in range(1, len(at)):
        slope = log_slope(corners[-1], j)
        while slopes and slope >= slopes[-1]:
            corners.pop()
            slopes.pop()
            slope = log_slope(corners[-1], j)
        corners.append(j)
        slopes.append(slope)
    return corners, slopes


@functools.lru_cache(maxsize=256)
def inner_losses(pair: dominating.Inner) -> Losses:
    """Return the losses of a mechanism to be sampled, for a symmetric relation.

    Raises `CannotBound`: no known bound gives a profile.
    """
    match pair:
        case dominating.Gaussian():
            return _gaussian(up(pair.mu) * math.sqrt(pair.times) * (1.0 + 4.0 * UNIT))
        case dominating.Laplace():
            e = _finite(up(pair.epsilon))
            return _from_curve(np.linspace(0.0, e, _FINE), lambda x: -math.expm1(0.5 * (x - e)))
        case dominating.BoundedRange(epsilon=e):
            return _from_curve(np.linspace(0.0, e, _FINE), lambda x: _bounded_range(e, x))
        case dominating.Pure(epsilon=e):
            return _response(e, 0.0)
        case dominating.Approx(epsilon=e, delta=delta):
            return _response(e, delta)
        case dominating.Smooth():
            return _response(pair.epsilon, smooth_delta(pair.epsilon, pair.alpha, pair.beta, pair.dimension))
        case dominating.Response():
            return _of_term(response_term(pair))
        case dominating.DiscreteLaplace():
            return _of_term(next(iter(discrete_laplace_term(pair)), PureTerm(0.0)))
        case dominating.DiscreteGaussian(squared=1):
            return _of_term(discrete_gaussian_term(pair))
        case dominating.ZCDP(rho=rho) | dominating.DiscreteGaussian(rho=rho):
            cost = _finite(up(rho))
            reach = cost + 2.0 * math.sqrt(cost * 690.0)
            return _from_curve(
                np.linspace(0.0, reach, 2 * _COARSE), lambda x: conversions.zcdp_delta(cost, x)
            )
        case dominating.Table():
            return _of_term(table_term(pair))
        case _:
            assert_never(pair)


def _from_curve(points: Vector, delta: Callable[[float], float]) -> Losses:
    if not points[-1] > 0.0:
        return _response(0.0, 0.0)
    return symmetric(points, np.array([delta(x) for x in points.tolist()]))


def gaussian_points(mu: float) -> Vector:
    """Return epsilons, densest where most losses lie (mu / 2 and 8 deviations more), until 1e-300 is left."""
    bulk = 0.5 * mu + 8.0
    return np.append(np.linspace(0.0, bulk, _FINE), np.linspace(bulk, mu + 38.0, _COARSE)[1:])


def _gaussian(mu: float) -> Losses:
    if mu == 0.0:
        return _response(0.0, 0.0)
    if mu > 1e3:
        raise CannotBound(f"mu = {mu!r} is above 1000 under sampling", where="mu", remedy="add noise")
    return _from_curve(mu * gaussian_points(mu), lambda epsilon: math.exp(gaussian_log_delta(epsilon, mu)))


def _response(epsilon: float, delta: float) -> Losses:
    """Return randomized response with delta for revealing everything: its profile has no other corners."""
    likely = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    losses, masses = np.array([-epsilon, epsilon]), np.array([likely * math.exp(-epsilon), likely])
    if epsilon == 0.0:
        losses, masses = np.zeros(1), np.array([1.0 - delta])
    return Losses(losses, masses, masses[::-1], delta, delta)


def _of_term(term: DiscreteTerm | ApproxTerm | PureTerm | RandomizedResponseTerm) -> Losses:
    """Return a table for both orders of every pair: its profile for epsilon >= 0, made symmetric."""
    if not isinstance(term, DiscreteTerm):
        return _response(term.epsilon, term.delta if isinstance(term, ApproxTerm) else 0.0)
    given = np.array(term.probabilities)
    masses, loss = given / math.fsum(given.tolist()) * (1.0 - term.infinite), np.array(term.losses)
    own = Losses(loss, masses, masses, term.infinite, 0.0)
    points = np.unique(np.append(loss[loss > 0.0], 0.0))
    return symmetric(points, own.delta(points))


def _bounded_range(range_: float, x: float) -> float:
    """Return the delta at epsilon x of a `BoundedRangeTerm`."""
    return math.expm1(0.5 * (range_ - x)) ** 2 * math.exp(x) / math.expm1(range_)


def _finite(figure: float) -> float:
    if not figure <= LARGEST_PARAMETER:
        raise CannotBound(f"a privacy loss of {figure!r} under sampling", where="losses", remedy="add noise")
    return figure
