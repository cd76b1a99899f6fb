"""A second opinion on a composition of privacy losses: tilted, laid on a lattice and convolved.

It shares with the contour accountant no formula of a moment generating function: every release is a list of
losses with their probabilities, read off its two densities, and tilted by e^(c L) so that a small delta is
not lost in rounding. Each loss is spread over four points of a lattice so that three moments stay what they
are, and the lattice sums are convolved by the fast Fourier transform (Koskela, Jalko and Honkela 2020, with
another lattice rule). The difference that halving the step makes says how far the figure can be trusted.

Rigour: `float`. It refutes figures and proves none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, assert_never

import numpy as np
from scipy.special import logsumexp

from dpaudit.accountants.closed_forms.ranges import nonnegative
from dpaudit.accountants.privacy_loss.contour.factors import Vector
from dpaudit.accountants.privacy_loss.contour.planning import saddle_for_epsilon, total_cumulant
from dpaudit.accountants.privacy_loss.factors_from_terms import collect
from dpaudit.accountants.privacy_loss.terms import (
    ApproxTerm,
    BoundedRangeTerm,
    DiscreteTerm,
    GaussianTerm,
    LaplaceTerm,
    PureTerm,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
    Term,
)
from dpaudit.errors import CannotBound

_POINTS = 1 << 18
_WORK = 1 << 23  # nodes of all releases together
_RESOLVED = 1e-3
_NEGLIGIBLE = 48.0  # e^-48 of the tilted law is left out


class Opinion(NamedTuple):
    """An estimate of delta and its resolution, relative: the truth is within a few times it."""

    delta: float
    resolution: float


@dataclass(frozen=True, eq=False)
class _Losses:
    """The losses of one release, the logarithms of their tilted probabilities, and how often it runs."""

    loss: Vector
    log_weight: Vector
    count: int

    def cumulant(self, tilt: float) -> float:
        return self.count * float(logsumexp(self.log_weight + tilt * self.loss))


def grid_delta(releases: Sequence[tuple[Term, int]], epsilon: float) -> Opinion:
    """Estimate delta at `epsilon` >= 0, in nats, for the exact composition of the terms' pairs.

    Raises:
        InvalidParameter: epsilon is NaN, infinite or negative.
        CannotBound: too many distinct terms.
    """
    epsilon = nonnegative("epsilon", epsilon)
    rest, revealing = _parts(releases)
    collected = collect(rest)
    found = Opinion(0.0, 0.0)
    if epsilon < collected.ceiling:
        orders = (True, False) if any(_is_sampled(term) for term, _ in rest) else (True,)
        for mixture_first, factors in zip(orders, collected.directions(), strict=True):
            # A choice: any c > 0 gives the same figure. Past a hundred deviations no lattice follows.
            spread = math.sqrt(total_cumulant(factors, 1e-6).curvature)
            c = min(saddle_for_epsilon(factors, epsilon).c, 100.0 / spread)
            found = max(found, _resolved(rest, epsilon, c, mixture_first=mixture_first))
    return found._replace(delta=revealing + (1.0 - revealing) * found.delta)


def _resolved(
    releases: Sequence[tuple[Term, int]], epsilon: float, c: float, *, mixture_first: bool
) -> Opinion:
    nodes = min(1 << 17, _WORK // len(releases))
    if nodes < 1 << 12:
        raise CannotBound(
            f"{len(releases)} distinct releases on a lattice", where="grid", remedy="merge some"
        )
    losses = [_losses(term, count, c, nodes, mixture_first=mixture_first) for term, count in releases]
    coarse, fine = _delta(losses, epsilon, c, _POINTS // 2), _delta(losses, epsilon, c, _POINTS)
    if abs(coarse - fine) > _RESOLVED * fine:
        coarse, fine = (_delta(losses, epsilon, c, points) for points in (2 * _POINTS, 4 * _POINTS))
    return Opinion(fine, abs(coarse - fine) / fine if fine > 0.0 else math.inf)


def _parts(releases: Sequence[tuple[Term, int]]) -> tuple[list[tuple[Term, int]], float]:
    """Gaussians merged into one, what costs nothing left out; and the probability that all is revealed."""
    square, kept, counted = 0.0, 0.0, Counter[Term]()
    for term, count in releases:
        match term:
            case GaussianTerm(mu):
                square += count * mu * mu
            case ApproxTerm(epsilon, delta):
                kept += count * (math.log1p(-delta) if delta < 1.0 else -math.inf)
                counted[PureTerm(epsilon)] += count
            case DiscreteTerm(losses, probabilities, infinite):
                kept += count * (math.log1p(-infinite) if infinite < 1.0 else -math.inf)
                counted[DiscreteTerm(losses, probabilities)] += count
            case _:
                counted[term] += count
    if square > 0.0:
        counted[GaussianTerm(math.sqrt(square))] += 1
    return [(term, count) for term, count in counted.items() if count and _moves(term)], -math.expm1(kept)


def _is_sampled(term: Term) -> bool:
    return isinstance(term, SampledGaussianTerm | SampledLaplaceTerm) and 0.0 < term.rate < 1.0


def _moves(term: Term) -> bool:
    if isinstance(term, DiscreteTerm):
        return term.losses[-1] > 0.0
    return (term.mu if isinstance(term, GaussianTerm | SampledGaussianTerm) else term.epsilon) > 0.0 and (
        not isinstance(term, SampledGaussianTerm | SampledLaplaceTerm) or term.rate > 0.0
    )


def _losses(term: Term, count: int, c: float, nodes: int, *, mixture_first: bool) -> _Losses:
    match term:
        case GaussianTerm(mu):
            z = np.linspace(-10.0, 10.0, nodes)
            loss, log_p = mu * (mu * (0.5 + c) + z), -0.5 * z * z
            return _Losses(loss, log_p - logsumexp(log_p) + 0.5 * mu * mu * c * (c + 1.0), count)
        case LaplaceTerm(epsilon):
            loss, log_p, _ = _laplace(epsilon, nodes)
        case RandomizedResponseTerm(epsilon) | PureTerm(epsilon) | ApproxTerm(epsilon, _):
            loss = np.array([epsilon, -epsilon])
            log_p = -np.logaddexp(0.0, -loss)
        case BoundedRangeTerm(epsilon):
            edges = np.linspace(-epsilon, epsilon, nodes)
            loss = 0.5 * (edges[1:] + edges[:-1])
            # The density e^(L / 2) / (4 sinh(epsilon / 2)) over each cell.
            scale = math.log(math.sinh(0.5 * epsilon / (nodes - 1))) - 0.5 * epsilon
            log_p = 0.5 * loss + scale - math.log(-math.expm1(-epsilon)) + math.log(2.0)
        case DiscreteTerm(losses, probabilities, _):
            some = np.asarray(probabilities) > 0.0
            loss = np.asarray(losses)[some]
            log_p = np.log(np.asarray(probabilities)[some]) - math.log(math.fsum(probabilities))
        case SampledLaplaceTerm(epsilon, rate):
            base, log_p, log_q = _laplace(epsilon, nodes)
            loss, log_p = _mixed(base, log_q, rate, mixture_first=mixture_first)
        case SampledGaussianTerm(mu, rate):
            ends = -40.0 - mu * c, mu * (1.0 + c) + 40.0
            x, weight, loss = _sampled_normal(
                mu, rate, c, np.linspace(*ends, 1 << 13), mixture_first=mixture_first
            )
            kept = x[weight > weight.max() - _NEGLIGIBLE]
            if len(kept) < 2:
                raise CannotBound("a sampled release between two points of the lattice", where="grid")
            x, weight, loss = _sampled_normal(
                mu, rate, c, np.linspace(kept[0], kept[-1], nodes), mixture_first=mixture_first
            )
            return _Losses(loss, weight - 0.5 * math.log(2.0 * math.pi) + math.log(x[1] - x[0]), count)
        case _:
            assert_never(term)
    return _Losses(loss, log_p + c * loss, count)


def _sampled_normal(
    mu: float, rate: float, c: float, x: Vector, *, mixture_first: bool
) -> tuple[Vector, Vector, Vector]:
    """The points x, the logarithm of the tilted density there without its constant, and the loss."""
    loss, log_p = _mixed(mu * x - 0.5 * mu * mu, -0.5 * x * x, rate, mixture_first=mixture_first)
    return x, log_p + c * loss, loss


def _laplace(epsilon: float, nodes: int) -> tuple[Vector, Vector, Vector]:
    """Loss, log P and log Q of Laplace noise moved by epsilon: an atom at either end, a density between."""
    edges = np.linspace(0.0, epsilon, nodes)
    width = epsilon / (nodes - 1)
    middle = 0.5 * (edges[1:] + edges[:-1])
    between = -middle + math.log(0.5 * 2.0 * math.sinh(0.5 * width))
    loss = np.concatenate([[epsilon], epsilon - 2.0 * middle, [-epsilon]])
    log_p = np.concatenate([[-math.log(2.0)], between, [-math.log(2.0) - epsilon]])
    return loss, log_p, log_p - loss


def _mixed(base: Vector, log_q: Vector, rate: float, *, mixture_first: bool) -> tuple[Vector, Vector]:
    """Loss and log P of (1 - rate) Q + rate P against Q, where log P / Q = `base`; or of the other order."""
    if rate == 1.0:
        loss = base
    else:
        loss = np.where(
            base < 30.0,
            np.log1p(rate * np.expm1(np.minimum(base, 30.0))),
            np.logaddexp(math.log1p(-rate), math.log(rate) + base),
        )
    return (loss, log_q + loss) if mixture_first else (-loss, log_q)


def _delta(losses: Sequence[_Losses], epsilon: float, c: float, points: int) -> float:
    cumulant = math.fsum(one.cumulant(0.0) for one in losses)
    low, high = _window(losses, cumulant)
    step = (high - low) / points
    logarithm = np.zeros(points // 2 + 1, dtype=np.complex128)
    for one in losses:
        index = np.floor(one.loss / step)
        f = one.loss / step - index
        weight = np.exp(one.log_weight - one.cumulant(0.0) / one.count)
        shares = (
            f * (f - 1.0) * (2.0 - f) / 6.0,
            (f + 1.0) * (f - 1.0) * (f - 2.0) / 2.0,
            (f + 1.0) * f * (2.0 - f) / 2.0,
            (f + 1.0) * f * (f - 1.0) / 6.0,
        )  # of Lagrange's cubic through the lattice points -1, 0, 1, 2
        atoms = np.zeros(points)
        for offset, share in enumerate(shares, start=-1):
            atoms += np.bincount((index.astype(np.int64) + offset) % points, weight * share, points)
        total = float(atoms.sum())
        cumulant += one.count * math.log(total)
        with np.errstate(divide="ignore"):
            logarithm += one.count * np.log(np.fft.rfft(atoms / total))
    with np.errstate(invalid="ignore"):
        transform = np.where(np.isfinite(logarithm), np.exp(logarithm), 0.0)
    mass = np.fft.irfft(transform, points)
    first = math.floor(low / step)
    total_loss = step * (first + (np.arange(points) - first) % points)
    beyond = total_loss > epsilon
    gap = total_loss[beyond] - epsilon
    relative = float(np.sum(mass[beyond] * np.exp(-c * gap) * -np.expm1(-gap)))
    return min(1.0, math.exp(min(cumulant - c * epsilon, 700.0)) * max(relative, 0.0))


def _window(losses: Sequence[_Losses], cumulant: float) -> tuple[float, float]:
    """Where the tilted total lies, but for e^-48 of it on either side (Chernoff)."""
    variance = math.fsum(one.count * _variance(one) for one in losses)
    low = math.fsum(one.count * float(one.loss.min()) for one in losses)
    high = math.fsum(one.count * float(one.loss.max()) for one in losses)
    for scale in 2.0 ** np.arange(-4.0, 6.0):
        tilt = float(scale) / math.sqrt(max(variance, 1e-300))
        up, down = (math.fsum(one.cumulant(sign * tilt) for one in losses) - cumulant for sign in (1.0, -1.0))
        high, low = min(high, (up + _NEGLIGIBLE) / tilt), max(low, -(down + _NEGLIGIBLE) / tilt)
    widest = max(float(np.ptp(one.loss)) for one in losses)
    margin = 1e-3 * (high - low) + 1e-6 * widest
    return low - margin, high + margin


def _variance(losses: _Losses) -> float:
    weight = np.exp(losses.log_weight - logsumexp(losses.log_weight))
    mean = float(weight @ losses.loss)
    return float(weight @ (losses.loss - mean) ** 2)
