"""Gaussian noise on a random shift against the same noise alone: proved tables of its losses.

One of t answers, each as likely, is moved by one of several shifts c_i with weights p_i. Under Q, without the
shift, the likelihood ratio is S / t with S the sum of t independent R(z) = sum of p_i e^(c_i z - c_i^2 / 2),
z standard normal, and

    delta(epsilon) = E_Q (S / t - e^epsilon)_+,    with the mixture second: E_Q (1 - e^epsilon S / t)_+.

Both are means of convex functions of S. So they can only grow where a value of S is replaced by two values
around it with the same mean, and that is all that is done here (Jensen's inequality; as tables, this is the
comparison of experiments of Blackwell 1953): each law is held on a grid, every value between two points goes
to both, and laws on grids are added, grid by grid, in about 2 log2 t additions. No sample is drawn.

Why these pairs dominate. Shifts are vectors x_i no longer than c_i in general, and S is the sum of p_i X_i,
X_i = e^(<x_i, z> - |x_i|^2 / 2). A longer x_i + w, w orthogonal to all, has the conditional mean X_i: nothing
falls. At given lengths the cross derivatives of a convex function of S in the exponents are not negative, so
that the mean grows with each <x_i, x_j> (Price's theorem): it is largest where all point one way, with |x_i|
= c_i. (For users with many records: Choquette-Choo, Ganesh, Haque, Steinke and Thakurta 2024. One of t
answers, items chosen after earlier outputs included: the balls-in-bins sampling of Chua et al. 2024, whose
pair this is; Feldman and Shenfeld 2025, 2026 call it random allocation.)

Rounding: values are multiplied by 1 + 1e-13 in every step where a larger S is no loss, or by 1 - 1e-13 where
a smaller one is none; masses are raised by what all sums may have taken, at the expense of the least loss.
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

_POINTS = 1500  # of a grid
_APART = 1e-13  # so far apart, at least, are the first grid's losses
_CELLS = 20_000  # of the line from which a grid is chosen
_REACH = 14.0  # standard deviations beyond the shifts
_OFF = 1e-13  # by which values are moved, relative: more than their rounding
_NEVER = 1e-45
_LOWEST, _MOST_ERROR = 1e-7, 1e-5  # the probability that is joined at the least loss; of masses, relative
_LEAST_SHIFT, _LARGEST_SHIFT, _LEAST_WEIGHT = 1e-6, 20.0, 1e-9
_LEAST_SHARE = 1e-300  # of one shift: less has no logarithm as a double
_MOST_STEPS = 10**5


class _Law(NamedTuple):
    """Values of S, increasing from 0 on, Q's masses there; what was lost past the last value; rounding."""

    at: Vector
    mass: Vector
    lost: float  # E_Q of S past the last value
    error: float  # relative, of every mass


@functools.lru_cache(maxsize=256)
def mixture_losses(pair: dominating.Mixture, *, mixture_first: bool | None) -> Losses:
    """A pair that dominates one run, in the order that is named, or (None) in both orders.

    Raises `CannotBound`: a shift of more than 20 standard deviations, or more than 10^5 answers.
    """
    if mixture_first is None:
        orders = [mixture_losses(pair, mixture_first=order) for order in (True, False)]
        points = np.unique(np.concatenate([[0.0], *(one.loss[one.loss > 0.0] for one in orders)]))
        return symmetric(points, np.maximum(*(one.delta(points) for one in orders)))
    largest = up_to_double(max(pair.shifts))
    if largest > _LARGEST_SHIFT or pair.steps > _MOST_STEPS:
        what = f"a shift of {largest:g} standard deviations, of one of {pair.steps} answers"
        remedy = f"add noise, or allocate to fewer answers: at most {_LARGEST_SHIFT:g} and {_MOST_STEPS}"
        raise CannotBound(what, where="mixture", remedy=remedy)
    law = one = _one(*_lifted(pair), up=mixture_first)
    for digit in f"{pair.steps:b}"[1:]:
        law = _added(law, law, up=mixture_first)
        law = _added(law, one, up=mixture_first) if digit == "1" else law
    return _table(law, pair.steps, mixture_first=mixture_first)


def mixture_term(
    pair: dominating.Mixture, where: str, relation: Neighbouring, *, mixture_first: bool | None
) -> DiscreteTerm | GaussianTerm:
    """One run as a term; raises `CannotBound` where a unit is replaced: no theorem here is about that."""
    if relation is Neighbouring.REPLACE_ONE:
        what = f"a {where} mechanism of which a unit is replaced"
        why = "the theorems on mixtures and on random allocation are about units that are added or removed"
        remedy = "state the relation add-or-remove-one, or zero-out"
        raise CannotBound(what, where=f"mechanism {where}", why=why, remedy=remedy)
    largest = max(pair.shifts)
    if largest == 0 or (pair.steps == 1 and len(pair.shifts) == 1):
        return GaussianTerm(up_to_double(largest))
    return mixture_losses(pair, mixture_first=mixture_first).term


def _lifted(pair: dominating.Mixture) -> tuple[Vector, Vector]:
    """Shifts and weights, none too small to be told from none: larger ones only cost more."""
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


def _one(shifts: Vector, weights: Vector, *, up: bool) -> _Law:
    """The law of R(z): cells of z between points, each at its own mean, and what lies past the last one."""
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
    # Below the first point the ratio lies between 0 and it.
    at, cell = np.append(0.0, ratio), np.flatnonzero(alone[:-1] > 0.0)
    mean = np.clip(mixed[cell] / alone[cell], at[cell], at[cell + 1])
    error = off[cell] / alone[cell]
    slack = error + np.divide(mixed_off[cell], mixed[cell], where=mixed[cell] > 0.0, out=np.zeros(len(cell)))
    mass = _halved(at, cell, mean, alone[cell], up=up, slack=slack)
    mass[-1] += alone[-1]
    lost = max(0.0, float((mixed + mixed_off)[-1]) - float(ratio[-1] * (alone - off)[-1]))
    return _Law(at, mass, lost, float(error.max()) + 64.0 * UNIT)


def _log_ratio(z: Vector, shifts: Vector, weights: Vector) -> Vector:
    """The logarithm of the likelihood ratio R(z)."""
    exponents = np.log(weights) + np.outer(z, shifts) - 0.5 * shifts**2
    return np.asarray(np.logaddexp.reduce(exponents, axis=1))


def _cells(x: Vector) -> tuple[Vector, Vector]:
    """The normal law's masses below the first point, between points and above the last; and their errors.

    From the nearer tail, good to 2^-47; a point that is off by its last place takes x^2 of those.
    """
    below, above = scipy.special.ndtr(x), scipy.special.ndtr(-x)
    left = x[1:] < 0.0
    inner = np.where(left, np.diff(below), -np.diff(above))
    tail = np.where(left, below[1:], above[:-1])
    mass = np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])
    furthest = np.abs(np.concatenate([x[:1], x])) + np.abs(np.concatenate([x, x[-1:]]))
    share = 2.0**-46 + 8.0 * UNIT * (1.0 + furthest * furthest)
    return mass, share * np.concatenate([below[:1], tail, above[-1:]])


def _halved(
    at: Vector, cell: NDArray[np.intp], value: Vector, mass: Vector, *, up: bool, slack: Vector | float = 0.0
) -> Vector:
    """Masses at points: each value's, which lies between points cell and cell + 1, to both."""
    off = _OFF + slack
    moved = value * (1.0 + off if up else 1.0 - off)
    share = np.clip((moved - at[cell]) / np.diff(at)[cell], 0.0, 1.0)
    found = np.bincount(cell, mass * (1.0 - share), len(at)).astype(np.float64)
    found[1:] += np.bincount(cell, mass * share, len(at) - 1)
    return found


def _added(one: _Law, other: _Law, *, up: bool) -> _Law:
    """The law of the sum of two independent ones, on a grid of its own."""
    value = np.add.outer(one.at, other.at).ravel()
    mass = np.multiply.outer(one.mass, other.mass).ravel()
    at = _grid(value, mass)
    cell = np.clip(np.searchsorted(at, value, side="right") - 1, 0, len(at) - 2)
    terms = int(np.bincount(cell).max())
    error = one.error + other.error + 2.0 * (terms + 16) * UNIT
    return _Law(at, _halved(at, cell, value, mass, up=up), one.lost + other.lost, error)


def _grid(value: Vector, mass: Vector) -> Vector:
    """Points from 0 to the largest value: by Q's masses, by P's, and twice as many by logarithms.

    Where less than 1e-45 of Q lies below, or of P above, a few points suffice.
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
    """The losses log(S / t) of the mixture against Q, or their negatives."""
    ratio = law.at / steps
    kept = (law.mass > 0.0) & (ratio > 0.0)
    alone, mixed, loss = law.mass[kept], law.mass[kept] * ratio[kept], np.log(ratio[kept])
    none = float(law.mass[ratio <= 0.0].sum())
    if mixture_first:
        return _raised(loss, mixed, law.lost / steps, none, law.error)
    return _raised(-loss[::-1], alone[::-1], none, law.lost / steps, law.error)


def _raised(loss: Vector, first: Vector, infinite: float, impossible: float, error: float) -> Losses:
    """The table with its masses raised by their error, relative, at the expense of the least loss.

    Small losses are joined at the largest of them, so that what is left for it is positive.
    """
    share = 4.0 * error + 1e-11
    least = int(np.searchsorted(np.cumsum(first), max(_LOWEST, 64.0 * share), side="left"))
    loss, first = loss[least:], first[least:] * (1.0 + share)
    infinite = infinite * (1.0 + share)
    first[0] = 1.0 - infinite - math.fsum(first[1:].tolist())
    if not (first[0] > 0.0 and share < _MOST_ERROR):
        what = "a mixture whose losses rounding makes uncertain"
        raise CannotBound(what, where="mixture", remedy="add noise")
    return Losses(loss, first, first * np.exp(-loss), infinite, impossible)
