"""Gaussian noise with a random shift against the same noise without it: proved tables of its losses.

One of t answers, each equally likely, is moved by one of several shifts c_i with weights p_i. Under Q,
without the shift, the likelihood ratio is S / t. S is the sum of t independent R(z) = sum of p_i e^(c_i z -
c_i^2 / 2), z standard normal, and

    delta(epsilon) = E_Q (S / t - e^epsilon)_+,    with the mixture second: E_Q (1 - e^epsilon S / t)_+.

Both are means of convex functions of S. So they can only grow if a value of S is replaced by two values
around it with the same mean (Jensen's inequality), and this module makes no other change. (For tables, this
is the comparison of experiments of Blackwell 1953.) Each law is held on a grid. Every value between two
points is split between both, and laws on grids are added, grid by grid, in about 2 log2 t additions. No
sample is drawn.

Why these pairs dominate. In general, shifts are vectors x_i no longer than c_i, and S is the sum of p_i X_i,
X_i = e^(<x_i, z> - |x_i|^2 / 2). A longer x_i + w, w orthogonal to all, has the conditional mean X_i, so
nothing falls. At given lengths the cross derivatives of a convex function of S in the exponents are
nonnegative, so the mean grows with each <x_i, x_j> (Price's theorem). It is largest if all point in one
direction, with |x_i| = c_i. (For users with many records: Choquette-Choo, Ganesh, Haque, Steinke and Thakurta
2024. For one of t answers, including items chosen after earlier outputs: this is the pair of balls-in-bins
sampling, Chua et al. 2024; Feldman and Shenfeld 2025, 2026 call it random allocation.)

Rounding: in every step values are multiplied by 1 + 1e-13 where a larger S is safe, or by 1 - 1e-13 where a
smaller one is safe. Masses are raised by the largest possible loss of all sums; the least loss gives way.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dpaudit.accountants.closed_forms.rounding import up as up_to_double
from dpaudit.accountants.pairs.profiles import Losses, symmetric
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm, GaussianTerm
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import dominating

_POINTS = 1500  # points of a grid
_APART = 1e-13  # least distance of the first grid's losses
_CELLS = 20_000  # cells of the line from which a grid is chosen
_REACH = 14.0  # standard deviations beyond the shifts
_OFF = 1e-13  # relative change of values, larger than their rounding
_NEVER = 1e-45
_LOWEST, _MOST_ERROR = 1e-7, 1e-5  # probability joined at the least loss; largest relative error of masses
_LEAST_SHIFT, _LARGEST_SHIFT, _LEAST_WEIGHT = 1e-6, 20.0, 1e-9
_LEAST_SHARE = 1e-300  # least weight of one shift, so that its logarithm is a double
_MOST_STEPS = 10**5


class _Law(NamedTuple):
    """Values of S, increasing from 0, with Q's masses there, the loss past the last value, and rounding."""

    at: Vector
    mass: Vector
    lost: float  # E_Q of S past the last value
    error: float  # relative, of every mass


@functools.lru_cache(maxsize=256)
def mixture_losses(pair: dominating.Mixture, *, mixture_first: bool | None) -> Losses:
    """Return a pair that dominates one run, in the named order, or in both orders (None).

    Raises `CannotBound`: a shift of more than 20 standard deviations, or more than 10^5 answers.
    """
    if mixture_first is None:
        orders = [mixture_losses(pair, mixture_first=order) for order in (True, False)]
        points = np.unique(np.concatenate([[0.0], *(one.loss[one.loss > 0.0] for one in orders)]))
        return symmetric(points, np.maximum(*(one.delta(points) for one in orders)))
    largest = up_to_double(max(pair.shifts))
    if largest > _LARGEST_SHIFT or pair.steps > _MOST_STEPS:
        what = f"a shift of {largest:g} standard deviations in one of {pair.steps} answers"
        remedy = f"add noise, or allocate to fewer answers: at most {_LARGEST_SHIFT:g} and {_MOST_STEPS}"
        raise CannotBound(what, where="mixture", remedy=remedy)
    law = one = _law_of_one(*_raised_shifts(pair), up=mixture_first)
    for digit in f"{pair.steps:b}"[1:]:
        law = _added(law, law, up=mixture_first)
        law = _added(law, one, up=mixture_first) if digit == "1" else law
    return _table(law, pair.steps, mixture_first=mixture_first)


def mixture_term(
    pair: dominating.Mixture, where: str, relation: Neighbouring, *, mixture_first: bool | None
) -> DiscreteTerm | GaussianTerm:
    """Return one run as a term; raises `CannotBound` for a replaced unit, which no theorem here covers."""
    if relation is Neighbouring.REPLACE_ONE:
        what = f"a {where} mechanism with a replaced unit"
        why = "the theorems on mixtures and on random allocation are about units that are added or removed"
        remedy = "state the relation add-or-remove-one, or zero-out"
        raise CannotBound(what, where=f"mechanism {where}", why=why, remedy=remedy)
    largest = max(pair.shifts)
    if largest == 0 or (pair.steps == 1 and len(pair.shifts) == 1):
        return GaussianTerm(up_to_double(largest))
    return mixture_losses(pair, mixture_first=mixture_first).term


def _raised_shifts(pair: dominating.Mixture) -> tuple[Vector, Vector]:
    """Return shifts and weights, with tiny ones raised so that they do not vanish; larger ones cost more."""
    moved = sum((p for c, p in zip(pair.shifts, pair.weights, strict=True) if c > 0), Fraction(0))
    lift = max(Fraction(1), Fraction(_LEAST_WEIGHT) / moved)
    kept: dict[float, float] = {}
    for shift, weight in zip(pair.shifts, pair.weights, strict=True):
        if shift > 0 and weight > 0:
            at = max(up_to_double(shift), _LEAST_SHIFT)
            kept[at] = kept.get(at, 0.0) + max(float(weight * lift), _LEAST_SHARE)
    rest = 1 - min(Fraction(1), moved * lift)
    if rest > 0:
        kept[0.0] = float(rest)
    shifts = sorted(kept)
    return np.array(shifts), np.array([kept[shift] for shift in shifts])


def _law_of_one(shifts: Vector, weights: Vector, *, up: bool) -> _Law:
    """Return the law of R(z): cells of z between points, each at its own mean, and the rest past the last."""
    line = np.linspace(-_REACH, shifts[-1] + _REACH, _CELLS + 1)
    spread = np.abs(np.diff(_log_ratio(line, shifts, weights), prepend=math.nan))
    spread[0] = 0.0
    important = np.cumsum(spread / float(spread.sum()) + 1.0 / len(line))
    z = np.interp(np.linspace(important[0], important[-1], _POINTS), important, line)
    loss = _log_ratio(z, shifts, weights)
    apart = [0]
    for place in range(1, len(z)):
        if loss[place] > loss[apart[-1]] + _APART:
            apart.append(place)
    z, ratio = z[apart], np.exp(loss[apart])
    alone, off = _cells(z)
    shifted = [_cells(z - shift) for shift in shifts]
    mixed = weights @ np.array([mass for mass, _ in shifted])
    mixed_off = weights @ np.array([slack for _, slack in shifted])
    # Below the first point the ratio lies between 0 and its value there.
    at, cell = np.append(0.0, ratio), np.flatnonzero(alone[:-1] > 0.0)
    mean = np.clip(mixed[cell] / alone[cell], at[cell], at[cell + 1])
    error = off[cell] / alone[cell]
    slack = error + np.divide(mixed_off[cell], mixed[cell], where=mixed[cell] > 0.0, out=np.zeros(len(cell)))
    mass = _split_masses(at, cell, mean, alone[cell], up=up, slack=slack)
    mass[-1] += alone[-1]
    lost = max(0.0, float((mixed + mixed_off)[-1]) - float(ratio[-1] * (alone - off)[-1]))
    return _Law(at, mass, lost, float(error.max()) + 64.0 * UNIT)


def _log_ratio(z: Vector, shifts: Vector, weights: Vector) -> Vector:
    """Return the logarithm of the likelihood ratio R(z)."""
    exponents = np.log(weights) + np.outer(z, shifts) - 0.5 * shifts**2
    return np.asarray(np.logaddexp.reduce(exponents, axis=1))


def _cells(x: Vector) -> tuple[Vector, Vector]:
    """Return the normal law's masses below the first point, between points, above the last; and their errors.

    They are computed from the nearer tail, accurate to 2^-47; a point off by its last place adds x^2 times
    that.
    """
    below, above = scipy.special.ndtr(x), scipy.special.ndtr(-x)
    left = x[1:] < 0.0
    inner = np.where(left, np.diff(below), -np.diff(above))
    tail = np.where(left, below[1:], above[:-1])
    mass = np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])
    furthest = np.abs(np.concatenate([x[:1], x])) + np.abs(np.concatenate([x, x[-1:]]))
    share = 2.0**-46 + 8.0 * UNIT * (1.0 + furthest * furthest)
    return mass, share * np.concatenate([below[:1], tail, above[-1:]])


def _split_masses(
    at: Vector, cell: NDArray[np.intp], value: Vector, mass: Vector, *, up: bool, slack: Vector | float = 0.0
) -> Vector:
    """Return masses at points: each value between points cell and cell + 1 is split between both."""
    off = _OFF + slack
    moved = value * (1.0 + off if up else 1.0 - off)
    share = np.clip((moved - at[cell]) / np.diff(at)[cell], 0.0, 1.0)
    found = np.bincount(cell, mass * (1.0 - share), len(at)).astype(np.float64)
    found[1:] += np.bincount(cell, mass * share, len(at) - 1)
    return found


def _added(one: _Law, other: _Law, *, up: bool) -> _Law:
    """Return the law of the sum of two independent variables, on a grid of its own."""
    value = np.add.outer(one.at, other.at).ravel()
    mass = np.multiply.outer(one.mass, other.mass).ravel()
    at = _grid(value, mass)
    cell = np.clip(np.searchsorted(at, value, side="right") - 1, 0, len(at) - 2)
    terms = int(np.bincount(cell).max())
    error = one.error + other.error + 2.0 * (terms + 16) * UNIT
    return _Law(at, _split_masses(at, cell, value, mass, up=up), one.lost + other.lost, error)


def _grid(value: Vector, mass: Vector) -> Vector:
    """Return points from 0 to the largest value: by Q's masses, by P's, and twice as many by logarithms.

    A few points suffice where less than 1e-45 of Q lies below, or of P above.
    """
    positive = value > 0.0
    value, mass = value[positive], mass[positive]
    log = np.log(value)
    low, high = float(log.min()), float(log.max())
    bins = np.minimum(((log - low) * (_CELLS / (high - low))).astype(np.int64), _CELLS - 1)
    alone = np.bincount(bins, mass, _CELLS)
    mixed = np.bincount(bins, mass * value, _CELLS)
    alone, mixed = alone / alone.sum(), mixed / mixed.sum()
    likely = (np.cumsum(alone) > _NEVER) & (np.cumsum(mixed[::-1])[::-1] > _NEVER)
    each = alone + mixed + np.where(likely, 2.0 / likely.sum(), 0.01 / _CELLS)
    important = np.append(0.0, np.cumsum(each))
    edges = np.linspace(low, high, _CELLS + 1)
    chosen = np.interp(np.linspace(0.0, important[-1], _POINTS), important, edges)
    return np.concatenate([[0.0], np.unique(np.exp(chosen[:-1])), [float(value.max())]])


def _table(law: _Law, steps: int, *, mixture_first: bool) -> Losses:
    """Return the losses log(S / t) of the mixture against Q, or their negatives."""
    ratio = law.at / steps
    kept = (law.mass > 0.0) & (ratio > 0.0)
    alone, mixed, loss = law.mass[kept], law.mass[kept] * ratio[kept], np.log(ratio[kept])
    none = float(law.mass[ratio <= 0.0].sum())
    if mixture_first:
        return _raised(loss, mixed, law.lost / steps, none, law.error)
    return _raised(-loss[::-1], alone[::-1], none, law.lost / steps, law.error)


def _raised(loss: Vector, first: Vector, infinite: float, impossible: float, error: float) -> Losses:
    """Return the table with its masses raised by their relative error; the least loss gives way.

    Small losses are joined at the largest of them, so that the least loss keeps a positive mass.
    """
    share = 4.0 * error + 1e-11
    least = int(np.searchsorted(np.cumsum(first), max(_LOWEST, 64.0 * share), side="left"))
    loss, first = loss[least:], first[least:] * (1.0 + share)
    infinite = infinite * (1.0 + share)
    first[0] = 1.0 - infinite - math.fsum(first[1:].tolist())
    if not (first[0] > 0.0 and share < _MOST_ERROR):
        what = "a mixture whose losses have too large rounding errors"
        raise CannotBound(what, where="mixture", remedy="add noise")
    return Losses(loss, first, first * np.exp(-loss), infinite, impossible)
