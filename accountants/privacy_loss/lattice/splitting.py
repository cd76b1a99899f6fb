"""Few releases with slowly falling transforms: their losses are split onto a lattice and convolved there.

Quadrature. Losses are l = log(1 - q + q e^u), or -l, with u = mu x - mu^2 / 2 of a normal x, or of the
Laplace or the randomized-response pair. On each interval between lattice points, cut to a width of at most
1/16 (and 1/16 mu), six Gauss-Legendre nodes - three at a 32nd of that width - integrate densities that are
analytic within several times that width: relative errors below 1e-12. Weights are raised by 1e-11.

Splitting. A loss L between two neighbouring lattice points a < b = a + h is moved to b with probability theta
= (1 - e^(a - L)) / (1 - e^-h), otherwise to a. Both P and Q are kept (Q has e^-L of P), so merging turns the
split pair back into the true one: it dominates. Moving more mass to b, or raising a loss to a higher one or
to infinity, only increases every delta, so all rounding goes that way.

Lower bounds. None of n runs moves by more than h: delta(epsilon) is at least delta(epsilon + n h) there.
Also, splitting one loss L in [a, b] adds to its delta(x), for x in [a, b] only, at most theta (1 - e^(L -
b)). Let g(x) be the sum of these in the cell of x. If k others were split before, and m = n - 1 - k not yet,
these m are within m h of their split values, so the whole delta(epsilon) gains at most E g*(epsilon - S): S
is the sum of all n - 1 split losses, g* the largest g of the cells within m. Over all runs that is of second
order in h.

Convolution. By the fast Fourier transform of the laws tilted by e^(c L), c > 0: their errors are then
relative to e^(K(c) - c epsilon). With |phi| <= 1 and n runs, the l2 error of the tilted law is below
(n + 1) (10 log2 N + 40) u (after Higham 2002, Theorem 24.2, with a margin for the powers). The transform is
cyclic: mass above the window is bounded by Chernoff's inequality and added. Mass below it reappears at the
top, where it only increases delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.accountants.privacy_loss.contour.contour import CurvePoint
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector, safe_log
from dpaudit.accountants.privacy_loss.contour.replaced_gaussian import replaced_loss, replaced_point
from dpaudit.accountants.privacy_loss.contour.sampled import log_mixture
from dpaudit.accountants.privacy_loss.contour.sampled_laplace import legendre
from dpaudit.accountants.privacy_loss.contour.tables import Table
from dpaudit.accountants.privacy_loss.solve import Bracket

_POINTS, _COARSE, _FEWEST = 1 << 18, 1 << 16, 1 << 10  # lattice points of the window, and of coarser laws
MOST_RUNS, MOST_PARTS = 16384, 8  # with more runs, or more kinds of runs, the contour is used
MOST_TABLES = 1024  # limit on different tables: on the contour each of their losses costs a formula
FEW_RUNS = 64  # up to this number of runs the lattice is used before the contour, which is longest there
MOST_SHIFT = 100.0  # largest parameter of a release whose density the nodes resolve
LEAST_LOG_DELTA = -400.0  # for a smaller delta the contour is used
Spectrum: TypeAlias = NDArray[np.complex128]


@dataclass(frozen=True)
class Part:
    """`count` runs of one release: its family and parameter, sampled at `rate` (1: always), or its table."""

    family: Literal["gaussian", "laplace", "response", "table", "replaced"]
    parameter: float
    rate: float
    count: float  # a whole number
    table: Table | None = None
    replaced: float | None = None  # the rate of a sample with a replaced unit; `rate` is then 1


def resolved(parts: Sequence[Part]) -> bool:
    """Return whether the lattice and its nodes resolve these parts, in about a second."""
    runs = sum(part.count for part in parts)
    shifts = (part.parameter for part in parts if part.table is None)
    tables = sum(part.table is not None for part in parts)
    few = len(parts) > 0 and len(parts) - tables <= MOST_PARTS and tables <= MOST_TABLES
    return few and runs <= MOST_RUNS and all(1e-6 < e <= MOST_SHIFT for e in shifts)


@dataclass(frozen=True, eq=False)
class Split:
    """The sum of split losses on the window: loss (lowest + i) h, tilted weight; [points]."""

    tilt: float
    step: float
    lowest: int
    weight: Vector
    added: Vector  # tilted like the weights: the increase of delta by splitting in each cell; [points]
    log_total: float  # log of the sum of untilted weights times e^(tilt loss)
    total_error: float  # the possible excess of `log_total`
    runs: int
    infinite: float  # delta of losses made infinite or above the window
    stray: float  # tilted, relative: mass that reappears at the top; its delta is at most 1 / (e tilt) of it
    raised: float  # probability that a loss was raised to the least distinguished one
    rounding: float  # of the tilted law: its l2 norm, relative
    added_rounding: float  # of each of `added`

    def curve(self, epsilon: float) -> CurvePoint:
        """Return bounds on log delta(epsilon), epsilon >= 0."""
        if epsilon < self.lowest * self.step:  # sums over the whole window would leave the doubles' range
            inside = self.curve(self.lowest * self.step)
            return CurvePoint(inside.log_lower, inside.log_estimate, 0.0, inside.slope)
        slack = self.runs * 64.0 * UNIT * (1.0 + abs(epsilon) + len(self.weight) * self.step)
        estimate, slope = self._sum(epsilon)
        high = self._sum(epsilon - slack)[0]
        steps = min(float(len(self.weight)), 80.0 / (self.tilt * self.step))
        summing = 16.0 * UNIT * (steps + 16.0)
        high = high * (1.0 + summing) + self.rounding * self._norm + math.exp(-80.0)
        scale = self.log_total - self.tilt * epsilon
        upper = float(np.logaddexp(safe_log(high) + scale + self.tilt * slack, safe_log(self.infinite)))
        # Every run's weights were raised by 1e-11 and their total by `total_error`.
        lowest, summing = -math.inf, summing + 2e-11 * self.runs + 2.0 * self.total_error
        for moved, added in ((slack, self._added(epsilon, slack)), (self.runs * self.step + slack, 0.0)):
            low = self._sum(epsilon + moved)[0] * (1.0 - summing) - self.rounding * self._norm - self.stray
            lowest = max(lowest, safe_log(low * math.exp(-self.tilt * moved) - added) + scale)
        lower = safe_log(math.exp(min(lowest, 0.0)) - self.raised)
        # If rounding hides the sum, as at the left end of the window, its upper bound is the estimate.
        middle = safe_log(estimate) + scale if lower > -math.inf else upper
        return CurvePoint(lower, middle, min(0.0, upper), max(slope, 1.0))

    def _added(self, epsilon: float, slack: float) -> float:
        """Return the largest increase of delta(epsilon) by splitting, over e^(log_total - tilt epsilon)."""
        first, last = (math.floor((epsilon + by) / self.step) - self.lowest for by in (-slack, slack))
        if first < 0 or last >= len(self.added):
            return math.inf
        largest = max(float(self.added[first : last + 1].max()), 0.0) + self.added_rounding
        return largest * math.exp(self.tilt * (self.step + 2.0 * slack)) * (1.0 + 1e-9)

    def _sum(self, epsilon: float) -> tuple[float, float]:
        """Return delta(epsilon) over e^(log_total - tilt epsilon), and its slope."""
        place = epsilon / self.step - self.lowest
        first = 0 if place < 0.0 else math.floor(min(place, 1e15)) + 1
        if first >= len(self.weight):
            return 0.0, 1.0
        gap = max(0.0, (self.lowest + first) * self.step - epsilon)
        at, above = self._sums
        decay = math.exp(-self.tilt * gap)
        delta = decay * (float(above[first]) - math.expm1(-gap) * float(at[first]))
        return delta, self.tilt + decay * math.exp(-gap) * float(at[first]) / max(delta, 1e-300)

    @cached_property
    def _norm(self) -> float:
        """The l2 norm of e^(-tilt g) (1 - e^-g) over all lattice gaps g >= 0, from above."""
        cubic = 0.25 / (self.tilt**3 * self.step) + 1.0 / self.tilt**2
        return math.sqrt(min(cubic, 0.5 / (self.tilt * self.step) + 1.0))

    @cached_property
    def _sums(self) -> tuple[Vector, Vector]:
        """Sum weights e^(-(c + 1) g) and e^(-c g) (1 - e^-g) from every lattice point on, at gaps g."""
        at = _running((self.tilt + 1.0) * self.step, self.weight[::-1])
        # When gaps grow by h, the second is e^(-c h) times (itself plus (1 - e^-h) times the first).
        fall = self.tilt * self.step
        fresh = -math.exp(-fall) * math.expm1(-self.step) * np.concatenate([[0.0], at[:-1]])
        return at[::-1], _running(fall, fresh)[::-1]


def split_log_delta(parts: Sequence[Part], epsilon: float, *, mixture_first: bool) -> Bracket:
    """Return bounds on log delta at epsilon >= 0: one lattice estimates it, the next is laid for that."""
    found, log_delta = Bracket(-math.inf, 0.0), math.log(1e-6)
    for _ in range(2):
        law = split(parts, log_delta, mixture_first=mixture_first, epsilon=epsilon)
        if law is None:
            break
        curve = law.curve(epsilon)
        found = Bracket(max(found.lower, curve.log_lower), min(found.upper, curve.log_upper))
        log_delta = max(LEAST_LOG_DELTA, curve.log_estimate, 1.5 * curve.log_upper)
        if log_delta > -0.1:
            break
    return found


def split(
    parts: Sequence[Part], log_delta: float, *, mixture_first: bool, epsilon: float | None = None
) -> Split | None:
    """Split every release on one lattice and convolve; None if no lattice of this length resolves the sum.

    The result is sharp at `epsilon`, where delta is about exp(log_delta), or wherever delta is that small.
    """
    runs, negligible = int(sum(part.count for part in parts)), log_delta + math.log(1e-10)
    ends = [_ends(part, negligible - math.log(runs), mixture_first=mixture_first) for part in parts]
    # Further left, losses are negligible after any tilting.
    inner = [(max(low, -100.0 * high), high) for low, high in ends]
    if any(high - near <= 1e-9 * abs(high) for near, high in inner):
        return None  # a nearly constant loss
    least, most, near = (
        math.fsum(part.count * end for part, end in zip(parts, each, strict=True))
        for each in ([low for low, _ in ends], [high for _, high in ends], [near for near, _ in inner])
    )
    # The reach of the sum and the tilt come from coarser laws: choices, not bounds.
    wide = (most - near) / (_COARSE * math.sqrt(runs))
    coarse = [
        _law(part, min(wide, (high - near) / _FEWEST), (near, high), mixture_first=mixture_first)
        for part, (near, high) in zip(parts, inner, strict=True)
    ]
    tilts = np.geomspace(1e-2, 1e9, 120) / max(most, 1e-300)
    cumulants = np.array([_total(coarse, c) for c in tilts.tolist()])
    chernoff = (cumulants - log_delta - tilts * np.log1p(1.0 / tilts) - np.log1p(tilts)) / tilts
    reach = min(most, float(((cumulants - negligible) / tilts).min()))
    if epsilon is not None:
        chernoff = cumulants - tilts * epsilon - np.log(tilts) - np.log1p(tilts)
    best = int(np.argmin(chernoff))
    while True:
        tilt, cumulant = float(tilts[best]), float(cumulants[best])
        lowest = max(least, min((cumulant - 27.0) / tilt, reach - 27.0 / tilt))
        # Above the window both the law and the tilted law have a negligible probability.
        steeper = slice(best + 1, None)
        tilted = (cumulants[steeper] - cumulant + 27.0) / (tilts[steeper] - tilt)
        highest = max(reach, min(most, float(tilted.min(initial=math.inf))))
        if tilt * (highest - lowest) < 3000.0 or best == 0:  # the window resolves the tilted law
            break
        best -= 1
    step = (highest - lowest) / (_POINTS - 4.0 * runs - 8.0)
    if not 1e-12 * (most - least) / _POINTS < step < math.inf:
        return None

    laws, log_total, first, last, left, most_gained = [], 0.0, 0, 0, runs, 0.0
    gained: Spectrum = np.zeros(_POINTS // 2 + 1, dtype=np.complex128)
    total: Spectrum = gained + 1.0
    for part, (low, high), rough in zip(parts, ends, coarse, strict=True):
        # Losses that are negligible after tilting are raised to a common one, which shortens the lattice.
        negligible_loss = min(rough.cumulant(tilt) - 33.0 - math.log(runs), tilt * high - 33.0) / tilt
        law = _law(part, step, (max(low, negligible_loss), high), mixture_first=mixture_first)
        single, count, size = law.cumulant(tilt), int(part.count), int(np.flatnonzero(law.weight)[-1]) + 1
        own, more = np.exp(law.logs(tilt) - single), np.exp(law.largest_gains(left - 1, tilt) - single)
        # The largest increase of delta from splitting these runs, tilted, beside all others; then the next.
        one, others = _transform(own, 0), total
        rest = one ** (count - 1)
        gained, total = (gained * one + _transform(more, left - 1) * others) * rest, total * one * rest
        most_gained, left = most_gained + float(more.sum()), left - count
        first, last = first + law.first * count, last + (law.first + size) * count
        log_total += part.count * single
        laws.append(law)
    begin = math.floor(lowest / step) - 2 * runs  # each run's least loss is rounded down once
    above, end = 0.0, begin + _POINTS  # mass above the window: zero, or Chernoff's bound
    if last > end:
        top = end * step
        steepest = int(np.argmin(cumulants - tilts * top))
        logs = [_total(laws, c) - c * top for c in tilts[max(0, steepest - 1) : steepest + 2].tolist()]
        above = math.exp(min(0.0, min(logs) + 1e-9))
    total_error = runs * 1e-12 * (1.0 + tilt * (highest - lowest))
    rounding = (runs + 1.0) * (10.0 * math.log2(_POINTS) + 40.0) * UNIT
    stray = 0.0 if lowest == least else math.exp(min(0.0, tilt * begin * step - log_total))
    return Split(
        tilt=tilt,
        step=step,
        lowest=begin,
        weight=np.roll(np.fft.irfft(total, _POINTS), first - begin),
        added=np.roll(np.fft.irfft(gained, _POINTS), first - begin),
        log_total=log_total + total_error,
        total_error=total_error,
        runs=runs,
        infinite=above + sum(law.count * law.infinite for law in laws),
        stray=(math.exp(-32.0) + stray) * min(1.0, 0.37 / tilt),
        raised=math.exp(negligible),
        rounding=rounding,
        added_rounding=rounding * most_gained,
    )


def _transform(weight: Vector, before: int) -> Spectrum:
    """Return the discrete transform of weights that begin `before` points before the first, cyclically."""
    place = (np.arange(len(weight)) - before) % _POINTS
    return np.fft.rfft(np.bincount(place, weight, _POINTS))


@dataclass(frozen=True, eq=False)
class _Law:
    """Split losses of one run, untilted: losses (first + i) step with weights; [points]."""

    count: float  # of runs
    step: float
    first: int
    weight: Vector
    gains: Vector  # g of the cells from each point to the next
    infinite: float  # the weight of losses made infinite

    def logs(self, tilt: float) -> Vector:
        """Return log weights times e^(tilt L)."""
        logs = tilt * self.step * self._places
        logs += self._log_weight
        return logs

    @cached_property
    def _places(self) -> Vector:
        return np.arange(self.first, self.first + len(self.weight), dtype=np.float64)

    @cached_property
    def _log_weight(self) -> Vector:
        with np.errstate(divide="ignore"):
            return np.log(self.weight)

    def cumulant(self, tilt: float) -> float:
        """Return the cumulant log E e^(tilt L)."""
        logs = self.logs(tilt)
        peak = float(logs.max())
        logs -= peak
        return peak + math.log(float(np.exp(logs, out=logs).sum()))

    def largest_gains(self, reach: int, tilt: float) -> Vector:
        """Return log of all runs' g* for m = `reach`, tilted, from cell first - reach; [points + 2 reach]."""
        with np.errstate(divide="ignore"):
            logs: Vector = np.log(self.count * _sliding_maximum(self.gains, reach))
        return logs + tilt * self.step * (self.first - reach + np.arange(len(logs)))


def _sliding_maximum(values: Vector, reach: int) -> Vector:
    """Return the largest of all values within `reach`, beyond either end too."""
    largest, width, wanted = np.pad(values, 2 * reach), 1, 2 * reach + 1
    while width < wanted:
        by = min(width, wanted - width)
        largest, width = np.maximum(largest[:-by], largest[by:]), width + by
    return largest


def _total(laws: Sequence[_Law], tilt: float) -> float:
    return math.fsum(law.count * law.cumulant(tilt) for law in laws)


def _ends(part: Part, log_share: float, *, mixture_first: bool) -> tuple[float, float]:
    """Return the least and the largest loss, or losses past which P has a probability of exp(log_share)."""
    e, rate = part.parameter, part.rate
    first = mixture_first or rate == 1.0
    low, high = -e, e
    if part.table is not None:
        losses, p, share = part.table.losses, part.table.probabilities, math.exp(log_share)
        low = float(losses[np.argmax(np.cumsum(p) > share)])
        high = float(losses[::-1][np.argmax(np.cumsum(p[::-1]) > share)])
    if part.replaced is not None:
        x = math.sqrt(2.0 * max(1.0, -log_share))
        likely = e + math.sqrt(2.0 * max(1.0, math.log(part.replaced) - log_share))
        low, high = replaced_loss(np.array([-x, max(x, likely)]), e, part.replaced).tolist()
    if part.family == "gaussian":
        # A standard normal has mass below e^(-x^2 / 2) beyond x; under P it has moved by e at most.
        x = math.sqrt(2.0 * max(1.0, -log_share))
        low, high = -e * x - 0.5 * e * e, e * x - 0.5 * e * e
        if first:  # the mixture's moved part has probability `rate`
            likely = math.sqrt(2.0 * max(1.0, math.log(rate) - log_share))
            high = max(high, e * (likely + e) - 0.5 * e * e)
    least, largest = log_mixture(np.array([low, high]), rate).tolist()
    return (least, largest) if first else (-largest, -least)


def _law(part: Part, step: float, ends: tuple[float, float], *, mixture_first: bool) -> _Law:
    """Split one run's losses onto the lattice of this step between `ends`: raised below, infinite above."""
    first_order = mixture_first or part.rate == 1.0
    u, log_base = _nodes(part, step, ends, mixture_first=first_order)
    ratio = log_mixture(u, part.rate)
    weight = np.exp(log_base + 1e-11 + (ratio if first_order else 0.0))
    loss = ratio if first_order else -ratio
    first, last = math.floor(ends[0] / step) - 1, math.ceil(ends[1] / step) + 1
    beyond = loss > last * step
    infinite = float(weight[beyond].sum()) + 1e-290
    loss, weight = np.maximum(loss[~beyond], first * step), weight[~beyond]
    cell = np.clip(np.floor(loss / step), first, last - 1.0)
    share = np.expm1(cell * step - loss) / math.expm1(-step) + 8.0 * UNIT * (1.0 + np.abs(loss) / step)
    share, index, size = np.clip(share, 0.0, 1.0), (cell - first).astype(np.intp), last - first + 1
    split_up = np.bincount(index, weight * (1.0 - share), size).astype(np.float64)
    split_up += np.bincount(index + 1, weight * share, size)
    gain = weight * share * (8.0 * UNIT * (1.0 + np.abs(loss)) - np.expm1(loss - (cell + 1.0) * step))
    gains = np.bincount(index, gain, size).astype(np.float64)
    return _Law(part.count, step, first, split_up, gains, infinite)


def _nodes(
    part: Part, step: float, ends: tuple[float, float], *, mixture_first: bool
) -> tuple[Vector, Vector]:
    """Return points u, and the logarithms of their weights under the pair's second distribution."""
    e = part.parameter
    if part.table is not None:
        return part.table.losses, np.log(part.table.probabilities) - part.table.losses
    if part.family == "response":
        u = np.array([-e, e])
        return u, -np.logaddexp(0.0, u)
    inner, outer = ends if mixture_first else (-ends[1], -ends[0])
    edges: Vector = step * np.arange(math.floor(inner / step), math.ceil(outer / step) + 1, dtype=np.float64)
    if part.rate < 1.0:
        # The u at which `log_mixture` is each lattice point: log(1 + (e^l - 1) / q), if there is one.
        odds, far = 1.0 + np.expm1(edges[edges < 30.0]) / part.rate, edges[edges >= 30.0]
        far = far - math.log(part.rate) + np.log1p((part.rate - 1.0) * np.exp(-far))
        edges = np.concatenate([np.log(odds[odds > 0.0]), far])
    if part.family == "laplace":
        cuts = np.linspace(-e, e, math.ceil(32.0 * e) + 2)
        u, log_length = _legendre(np.concatenate([edges, cuts]), e, 0.0625)
        atoms = [-math.log(2.0), -math.log(2.0) - e]
        return np.append(u, [-e, e]), np.append(log_length - 0.5 * (u + e) - math.log(4.0), atoms)
    furthest = 38.0 + e  # less than 1e-300 lies beyond 38 standard deviations
    steepness = max(1.0, e)
    cuts = np.linspace(-furthest, furthest, math.ceil(32.0 * furthest * steepness) + 1)
    at = edges / e + 0.5 * e if part.replaced is None else replaced_point(edges, e, part.replaced)
    x, log_length = _legendre(np.concatenate([at, cuts]), furthest, 0.0625 / steepness)
    if part.replaced is not None:
        u = replaced_loss(x, e, part.replaced)
        mixed = log_mixture(e * x - 0.5 * e * e, part.replaced)
        return u, log_length - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi) + mixed - u
    return e * x - 0.5 * e * e, log_length - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def _legendre(edges: Vector, furthest: float, widest: float) -> tuple[Vector, Vector]:
    """Return nodes in every interval between neighbouring edges within +-furthest, and their log weights.

    An interval at most a 32nd as wide as the density allows has three nodes, a wider one six.
    """
    edges = np.unique(edges[np.abs(edges) <= furthest])
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    narrow, nodes, logs = half[:, 0] <= widest / 64.0, [], []
    for points, some in ((6, ~narrow), (3, narrow)):
        node, weight = legendre(points)
        nodes.append((middle[some] + half[some] * node).ravel())
        logs.append((np.log(half[some]) + np.log(weight)).ravel())
    return np.concatenate(nodes), np.concatenate(logs)


def _running(fall: float, values: Vector) -> Vector:
    """Return x[i] = values[i] + e^-fall x[i - 1]: sums of 1, 2, 4, ... values, each from two earlier sums."""
    summed, length = values.copy(), 1
    while length < len(values) and fall * length < 745.0:
        summed[length:] += math.exp(-fall * length) * summed[:-length]
        length *= 2
    return summed
