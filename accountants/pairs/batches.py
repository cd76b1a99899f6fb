"""Mechanisms on a secret sample: their proved profiles, as tables of losses.

A unit is in the sample with probability q. The two outputs are (1 - q) A + q B and (1 - q) A + q C: A is the
output without the unit in the sample, B with it, C with its other value. With y' = 1 + q (y - 1), b =
y' / y and H_y the divergence whose values are the profile delta(log y), for y >= 1

    H_y'((1 - q) A + q B, (1 - q) A + q C) = q H_y(B, (1 - b) A + b C)
                                          <= q ((1 - b) H_y(B, A) + b H_y(B, C))

(Balle, Barthe and Gaboardi 2018, Theorem 2; then convexity). By convexity alone it is at most q H_y'(B, C),
which is smaller if a unit's own part is far longer than a change of it. The relation is symmetric: the bound
holds in both orders. A larger q gives no smaller bound, as part of A can be counted with B, and as much with
C.

*Poisson.* Given the others' sample, A lacks the unit: B and A differ by its own part, B and C by a change.
For an added or removed unit C = A: the pair is the mixture against A, in either order (Zhu, Dong and Wang
2022, Theorem 11).

*Fixed size.* In A another unit takes the unit's place; every unit outside the sample is equally likely. So B
and A also differ by a change (Balle et al., Theorem 9). A unit added to n others is in the sample with
probability q = size / (n + 1); otherwise the sample is unchanged. The pair is the mixture against A.

*Truncated Poisson.* The number of other drawn units does not depend on the unit. With fewer than `most` the
sample is a Poisson sample. With k >= most the unit, if drawn, has a place with probability most / (k + 1);
otherwise another unit has that place, as in a sample of fixed size. The two outputs are mixtures with the
weights of k, so their profile is at most that of revealing k (joint convexity). (Chua et al. 2024 instead add
about the weight of k >= most to delta.)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import scipy

from dpaudit.accountants.composition.costs import replaced_part
from dpaudit.accountants.pairs.profiles import Losses, gaussian_points, inner_losses, symmetric
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector
from dpaudit.accountants.privacy_loss.contour.replaced_gaussian import replaced_loss
from dpaudit.accountants.privacy_loss.contour.sampled import log_mixture
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm
from dpaudit.claims.relations import Neighbouring
from dpaudit.mechanisms import dominating

_GROUPS = 17  # groups of the numbers of drawn units past the largest sample
_MOST_ROWS = 8192  # longer tables are replaced by shorter ones
_LEAST_RATE = 1e-40  # smaller rates are raised to this one
_BINOMIAL = 1e-9  # allowed relative error of the binomial distribution's tail


@functools.lru_cache(maxsize=4096)
def batch_losses(pair: dominating.Batch, *, replaced: bool, mixture_first: bool | None) -> Losses:
    """Return a pair that dominates one run, in the named order, or in both orders (None)."""
    if replaced and mixture_first is not None:  # one pair holds in both orders
        return batch_losses(pair, replaced=True, mixture_first=None)
    change, own = inner_losses(pair.change), inner_losses(pair.own)

    def drawn(unit: Losses, rate: float) -> Losses:
        rate = max(rate, _LEAST_RATE)
        if replaced or mixture_first is None:
            return _replaced(change if replaced else unit, unit, rate)
        return _mixture(unit, rate, mixture_first=mixture_first)

    if pair.fixed:
        return drawn(change, pair.rate)
    if pair.most is None:
        return drawn(own, pair.rate)
    free = drawn(own, pair.rate)
    part = _replaced_part(pair) if replaced else None
    if part is not None:
        free = _opposite(part, pair.rate)
    tail = _full_probability(pair)
    parts, left = [(1.0 - tail, free)], tail
    if replaced:  # the number of other units is known
        for weight, rate in _full_groups(pair.most, pair.units - 1, pair.rate):
            parts.append((weight, drawn(change, rate)))
            left -= weight
    # The rest is any number of units that fill the sample or, if few are possible, do not.
    crowd = drawn(change, pair.rate * pair.most / (pair.most + 1.0))
    parts.append(
        (max(left, 0.0), crowd if _dominates(crowd, free) else drawn(_larger(change, own), pair.rate))
    )
    rows = sum(len(one.loss) for _, one in parts)
    return _averaged(parts) if replaced and rows > _MOST_ROWS else _weighted(parts)


#: The pairs of noise that is added to a sum.
_OF_SUMS = dominating.Gaussian | dominating.Laplace | dominating.DiscreteLaplace | dominating.DiscreteGaussian


def swapped(pair: dominating.Batch, relation: Neighbouring) -> bool:
    """Return whether one unit is exchanged for another or a zero, with the number of units unchanged."""
    if relation is Neighbouring.ZERO_OUT:
        # A zero in a Poisson sample equals an absent unit only if a sum is released: other outputs may show
        # the difference between a zeroed and an absent unit.
        sums = isinstance(pair.own, _OF_SUMS) and isinstance(pair.change, _OF_SUMS)
        return pair.fixed or pair.most is not None or not sums
    return relation is Neighbouring.REPLACE_ONE


def under(pair: dominating.Batch, relation: Neighbouring) -> dominating.Batch:
    """Return the pair with its inner change for a relation.

    A zeroed unit keeps its place in a sample of bounded size, and the sum lacks the unit's own part. The
    distance between a zero and any unit in that place is at most that unit's own part.
    """
    if relation is not Neighbouring.ZERO_OUT or not (pair.fixed or pair.most is not None):
        return pair
    return dataclasses.replace(pair, change=max(pair.change, pair.own, key=_moved))


def _moved(pair: dominating.Inner) -> Fraction:
    """Return the shift of noise on a sum, to compare pairs of one kind of noise; 0 for all other pairs."""
    match pair:
        case dominating.Gaussian() | dominating.Laplace():
            return pair.size
        case dominating.DiscreteLaplace():
            return pair.sensitivity
        case dominating.DiscreteGaussian():
            return pair.rho
        case _:
            return Fraction(0)


def as_poisson(pair: dominating.Batch, *, replaced: bool) -> dominating.Sampled | None:
    """Return the pair as a Poisson sample of Gaussian or Laplace noise, which has sharper bounds, or None."""
    moved = pair.change if pair.fixed or replaced else pair.own
    if not isinstance(moved, dominating.Gaussian | dominating.Laplace):
        return None
    if pair.fixed:
        return None if replaced and pair.rate < 1.0 else dominating.Sampled(moved, pair.rate)
    if pair.most is not None or (replaced and isinstance(moved, dominating.Laplace)):
        return None
    own = pair.own.mu if isinstance(pair.own, dominating.Gaussian) else None
    return dominating.Sampled(moved, pair.rate, own)


def as_batch(pair: dominating.Sampled) -> dominating.Batch:
    """Return the same Poisson sample, with the bounds on a replaced unit."""
    return dominating.Batch(pair.inner, pair.own, pair.rate)


def least_of(pair: dominating.Batch) -> dominating.Sampled | None:
    """Return a Poisson sample that costs at most as much, in either order; None if none is known.

    Both `_replaced` and `_mixture` are at least the mixture against A for the smaller of a change and a
    unit's own part; a truncated sample's rate is multiplied by the probability that it is not full without
    the unit.
    """
    noise = dominating.Gaussian | dominating.Laplace
    if not isinstance(pair.change, noise) or not isinstance(pair.own, noise):
        return None
    moved = min(pair.change, pair.change if pair.fixed else pair.own, key=lambda each: each.size)
    return dominating.Sampled(moved, pair.rate * (1.0 - _full_probability(pair)) * (1.0 - 4.0 * UNIT))


def batch_log_moment(
    pair: dominating.Batch, *, replaced: bool, mixture_first: bool | None
) -> Callable[[float], float]:
    """Return t -> an upper bound on log E_P[e^(t L)] over the finite losses, raised as in `moments`."""
    return term_log_moment(batch_losses(pair, replaced=replaced, mixture_first=mixture_first).term)


def term_log_moment(term: DiscreteTerm) -> Callable[[float], float]:
    """Return t -> an upper bound on log E_P[e^(t L)] over a table's finite losses."""
    loss, log_mass = np.array(term.losses), np.log(term.probabilities)

    def moment(t: float) -> float:
        summands = t * loss + log_mass + 8.0 * UNIT * (np.abs(t * loss) + np.abs(log_mass))
        peak = float(summands.max())
        log = math.log(float(np.exp(summands - peak).sum()))
        return max(0.0, peak + log + 64.0 * UNIT * (1.0 + abs(peak) + abs(log)))

    return moment


def _replaced(change: Losses, own: Losses, rate: float) -> Losses:
    """Return the symmetric pair of (1 - q) A + q B and (1 - q) A + q C; see the module's docstring."""
    if own is change:
        some = change.loss > 0.0
        second = change.second[some]
        loss = log_mixture(change.loss[some], rate)
        first = (1.0 - rate) * second + rate * change.first[some]
        infinite = rate * change.infinite
        rest = max(1.0 - infinite - float(first.sum() + second.sum()), 1e-300)
        return Losses(
            np.concatenate([-loss[::-1], [0.0], loss]),
            np.concatenate([second[::-1], [rest], first]),
            np.concatenate([first[::-1], [rest], second]),
            infinite,
            infinite,
        )
    points = np.unique(np.concatenate([[0.0], change.loss[change.loss > 0.0], own.loss[own.loss > 0.0]]))
    loss = log_mixture(points, rate) * (1.0 + 16.0 * UNIT)
    share = np.exp(loss - points)
    amplified = (1.0 - share) * own.delta(points) + share * change.delta(points)
    return symmetric(loss, rate * np.minimum(amplified, change.delta(loss)))


def _mixture(inner: Losses, rate: float, *, mixture_first: bool) -> Losses:
    """Return (1 - rate) Q + rate P against Q, or the other order."""
    loss = log_mixture(inner.loss, rate)
    mixed, alone = (1.0 - rate) * inner.second + rate * inner.first, inner.second
    if inner.impossible > 0.0 and rate < 1.0:
        loss = np.insert(loss, 0, math.log1p(-rate))
        mixed = np.insert(mixed, 0, (1.0 - rate) * inner.impossible)
        alone = np.insert(alone, 0, inner.impossible)
    if mixture_first:
        return Losses(loss, mixed, alone, rate * inner.infinite, 0.0)
    lost = inner.impossible if rate == 1.0 else 0.0
    return Losses(-loss[::-1], alone[::-1], mixed[::-1], lost, rate * inner.infinite)


def _opposite(mu: float, rate: float) -> Losses:
    """Return `ReplacedGaussianTerm`'s pair: at x's loss l its profile is P(beyond x) - e^l Q(beyond x)."""
    x = gaussian_points(mu)
    loss = replaced_loss(x, mu, rate)
    gained = rate * np.exp(scipy.special.log_ndtr(mu - x))
    lost = rate * np.exp(loss + scipy.special.log_ndtr(-mu - x)) - (1.0 - rate) * np.expm1(-loss) * np.exp(
        loss + scipy.special.log_ndtr(-x)
    )
    return symmetric(loss, np.maximum(gained - lost + 1e-10 * (gained + lost), 0.0))


def _weighted(parts: Sequence[tuple[float, Losses]]) -> Losses:
    """Return the mixture of pairs with public weights that add up to 1."""
    loss, place = np.unique(np.concatenate([one.loss for _, one in parts]), return_inverse=True)

    def summed(masses: list[Vector]) -> Vector:
        return np.bincount(place, np.concatenate(masses), len(loss)).astype(np.float64)

    return Losses(
        loss,
        summed([weight * one.first for weight, one in parts]),
        summed([weight * one.second for weight, one in parts]),
        math.fsum(weight * one.infinite for weight, one in parts),
        math.fsum(weight * one.impossible for weight, one in parts),
    )


def _larger(change: Losses, own: Losses) -> Losses:
    """Return a pair that dominates both, for a symmetric relation."""
    if _dominates(change, own):
        return change
    if _dominates(own, change):
        return own
    points = np.unique(np.concatenate([[0.0], *(one.loss[one.loss > 0.0] for one in (change, own))]))
    return symmetric(points, np.maximum(change.delta(points), own.delta(points)))


def _dominates(some: Losses, other: Losses) -> bool:
    """Return whether a profile is nowhere below another; both are piecewise linear in e^epsilon."""
    points = np.unique(np.concatenate([some.loss, other.loss]))
    return bool(np.all(some.delta(points) >= other.delta(points) * (1.0 - 1e-12)))


def _averaged(parts: Sequence[tuple[float, Losses]]) -> Losses:
    """Return the mixture of many symmetric pairs, on the losses of the first and the last of them."""
    ends = (parts[0][1], parts[-1][1])
    points = np.unique(np.concatenate([[0.0], *(one.loss[one.loss > 0.0] for one in ends)]))
    return symmetric(
        points, sum((weight * one.delta(points) for weight, one in parts), np.zeros(len(points)))
    )


def _replaced_part(pair: dominating.Batch) -> float | None:
    """Return `replaced_part` for Gaussian pairs, None for others."""
    if not isinstance(pair.own, dominating.Gaussian) or not isinstance(pair.change, dominating.Gaussian):
        return None
    return replaced_part(dominating.Sampled(pair.change, pair.rate, pair.own.mu))


def _full_probability(pair: dominating.Batch) -> float:
    """Return the probability, rounded up, that a truncated sample is full without a unit; 0 otherwise."""
    if pair.most is None:
        return 0.0
    return min(1.0, _tail(pair.most, pair.units - 1, pair.rate) * (1.0 + _BINOMIAL))


def _tail(least: int, trials: int, rate: float) -> float:
    """Return P(Binomial(trials, rate) >= least)."""
    if least > trials:
        return 0.0
    return float(scipy.special.betainc(least, trials - least + 1, rate)) if rate < 1.0 else 1.0


def _full_groups(most: int, others: int, rate: float) -> list[tuple[float, float]]:
    """Group the numbers k >= most of drawn units; return lower bounds on weights, and the unit's rates."""
    spread = math.sqrt(others * rate * (1.0 - rate))
    start = max(float(most), others * rate - 4.0 * spread)
    steps = (start + 0.5 * i * spread for i in range(_GROUPS))
    edges = sorted({most, *(math.ceil(edge) for edge in steps if edge <= others)})
    tails = [*(_tail(edge, others, rate) for edge in edges), 0.0]
    found = []
    for edge, here, beyond in zip(edges, tails, tails[1:], strict=False):
        weight = here * (1.0 - _BINOMIAL) - beyond * (1.0 + _BINOMIAL)
        if weight > 0.0:
            found.append((weight, rate * most / (edge + 1.0)))
    return found
