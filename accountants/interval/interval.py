"""delta(epsilon) and epsilon(delta) between ends proved in ball arithmetic (rigour `interval`).

Computed by a closed form if there is one, otherwise on the contour (`Line`). Closed forms: Gaussian noise
(Balle and Wang 2018, Theorem 8), every atom of randomized response, one Laplace release, one Poisson-sampled
release. If releases are Poisson-sampled, both orders of the pair are composed, and the larger result counts.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpaudit.accountants.closed_forms.ranges import above_one, nonnegative, probability
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.interval import ball_arithmetic as balls
from dpaudit.accountants.interval.ball_arithmetic import ball, flint, lower_end, upper_end
from dpaudit.accountants.interval.ball_factors import BallFactors
from dpaudit.accountants.interval.sampled_balls import Decay
from dpaudit.accountants.privacy_loss import PrivacyLoss, Term
from dpaudit.accountants.privacy_loss.contour.contour import Contour, lay
from dpaudit.accountants.privacy_loss.contour.factors import Factor
from dpaudit.accountants.privacy_loss.contour.planning import log_scale, saddle_for_epsilon
from dpaudit.accountants.privacy_loss.factors_from_terms import collect
from dpaudit.accountants.privacy_loss.solve import FINAL
from dpaudit.errors import CannotBound

MOST_FORMULAE = 4_000_000
_LADDER, _FLIGHT, _RUNGS = Fraction(11, 10), 20, 240
_LEAST = 1e-3  # share of the allowed tail; the ladder ends once less lies beyond a flight of rungs
_DIGITS = 4.0  # log of the extra factor by which the tail is reduced, compared with floating point
_LONGER = 8  # extra rungs: bounds on the tail are slightly looser here than in floating point


@dataclass(frozen=True, eq=False)
class Line:
    """A line Re s = c of the contour with its nodes in balls: delta(epsilon) in one order of the pair.

    Floating point only chooses the line and the density of its nodes; any line is sound. The nodes' sum, the
    tail, the aliases and the effect of smoothing are then computed in balls, by the formulas of
    `dpaudit.accountants.privacy_loss.contour.contour`.
    """

    c: Any
    step: Any
    nodes: list[Any]  # M(s) / (s (s + 1)) at s = c + i k step
    tail: Any  # a bound on the part cut off, without its factor e^(-c epsilon)
    anchors: list[tuple[Any, Any]]  # a and B(a) of delta(x) <= e^(B - a x)
    ceiling: Fraction | None
    smoothing: Fraction
    density_tail: Any

    def __call__(self, epsilon: float) -> Any:
        """Return delta(epsilon) for epsilon >= 0; it is sharp near the epsilon that the line was laid for."""
        acb, arb, e = flint().acb, flint().arb, ball(epsilon)
        turn = acb(0, -(self.step * e)).exp()
        direct, density, angle = arb(0), arb(0), acb(1)
        for k, node in enumerate(self.nodes):
            # Every 64th power is computed directly, because the ball grows with each product.
            angle = acb(0, -(self.step * e) * k).exp() if k % 64 == 0 else angle * turn
            share, value = 1 if k == 0 else 2, node * angle
            direct += share * value.real
            if self.smoothing:
                s = acb(self.c, self.step * k)
                density += share * (value * s * (s + 1)).real
        falling = (-self.c * e).exp()
        weight, cut = self.step / (2 * arb.pi()) * falling, self.tail * falling
        upper = (direct * weight + cut).upper()
        # The aliases: geometric series of Chernoff bounds over the other periods.
        period, above, below = 2 * arb.pi() / self.step, arb.pos_inf(), arb.pos_inf()
        for a, constant in self.anchors:
            ratio = (-abs(a - self.c) * period).exp()
            series = ((constant - a * e).exp() * ratio / (1 - ratio)).upper()
            if a > self.c:
                above = arb.min(above, series)
            else:
                below = arb.min(below, series)
        if self.ceiling is not None and (period + ball(Fraction(epsilon) - self.ceiling)).lower() >= 0:
            above = arb(0)
        lower = direct * weight - cut - above - below
        if self.smoothing:
            v = ball(self.smoothing)
            most = arb.max((density * weight + self.density_tail * falling).upper(), arb(0))
            lower -= most * v * (v / 8).exp()
        return arb.max(lower.lower(), arb(0)).union(arb.max(upper, arb(0)))


def line(factors: BallFactors, chosen: Sequence[Factor], about: float, most: int = MOST_FORMULAE) -> Line:
    """Choose a line in floating point, sharp near `about`, and compute everything on it in balls.

    `chosen` holds the same factors in floating point; only choices depend on it. Raises `CannotBound` if more
    than `most` formulas are needed.
    """
    arb, acb, ceiling = flint().arb, flint().acb, factors.ceiling()
    highest = math.inf if ceiling is None else float(ceiling)
    plan = _plan(chosen, min(about, 0.999999 * highest), highest)
    smoothing, step, c = Fraction(plan.smoothing), Fraction(float(plan.t[1])), ball(plan.c)
    wanted = plan.cut_off / (plan.c * (plan.c + 1.0))
    count, tail = _ending(factors.decay(c, smoothing), step, len(plan.t), wanted)
    cost = factors.cost(plan.c, float(step * count))
    if count * cost > most:
        what = f"{count} nodes of {cost:.0f} formulas in balls"
        remedy = "group equal releases, ask for a larger delta, or for rigour float-pessimistic"
        raise CannotBound(what, where="rigour interval", remedy=remedy)
    abscissae = (acb(c, ball(step * k)) for k in range(count))
    along = factors.along(c, step, count, smoothing)
    nodes = [moment / (s * (s + 1)) for s, moment in zip(abscissae, along, strict=True)]
    moment, last = factors.moment(c, smoothing), ball(step * (count - 1))
    others = [ball(float(a)) for a in _nearest(plan, about)]
    logs = [factors.moment(a, smoothing).log() + a * a.log() - (1 + a) * (1 + a).log() for a in others]
    anchors = [(arb(0), arb(0)), *zip(others, logs, strict=True)]
    density_tail = arb(0)
    if smoothing:
        v = ball(smoothing + factors.variance)
        density_tail = moment * (-v * last**2 / 2).exp() / (v * last * arb.pi())
    ceiling = None if smoothing else ceiling
    return Line(c, ball(step), nodes, moment * tail, anchors, ceiling, smoothing, density_tail)


def _plan(chosen: Sequence[Factor], about: float, ceiling: float) -> Contour:
    """Return the line that floating point would choose, or one with a smaller tail if that is accurate."""
    # The tail is measured against the saddle-point approximation of delta, which may be far too large.
    point = saddle_for_epsilon(chosen, about)
    plan = lay(chosen, point, about, ceiling, FINAL)
    estimate = plan.curve(about).log_estimate
    if not plan.exact or estimate == -math.inf:
        return plan
    approximation = log_scale(chosen, point.c, about) - math.log(point.sigma * math.sqrt(2.0 * math.pi))
    longer = lay(chosen, point, about, ceiling, FINAL, max(0.0, approximation - estimate) + _DIGITS)
    return longer if longer.exact else plan


def _nearest(plan: Contour, about: float) -> list[float]:
    """Return, on each side of the line, the anchor with the best alias bound at `about`; any is sound."""
    a, constant = plan.anchors
    least = constant - a * about - np.abs(a - plan.c) * plan.period
    sides = [np.flatnonzero((a > plan.c) & (a > 0.0)), np.flatnonzero((a < plan.c) & (a > 0.0))]
    return [float(a[side[np.argmin(least[side])]]) for side in sides if len(side)]


def _ending(decay: Decay, step: Fraction, nodes: int, wanted: float) -> tuple[int, Any]:
    """Return a number of nodes, at least `nodes`, whose tail is below `wanted` or nearly, and that tail."""
    # The tail beyond t is (1/pi) * integral of a falling bound on |M(c + it) / M(c)| / t^2.
    arb, rungs = flint().arb, [ball(step * (nodes - 1))]
    while True:
        for _ in range(_FLIGHT):
            rungs.append((rungs[-1] * ball(_LADDER)).upper())
        largest = decay(rungs[-1], None)
        total = largest / rungs[-1]
        if total <= _LEAST * wanted or len(rungs) > _RUNGS:
            break
    tails: list[Any] = []
    for start, end in zip(rungs[-2::-1], rungs[:0:-1], strict=True):
        largest = arb.max(largest, decay(start, end))
        total += largest * (1 / start - 1 / end)
        tails.insert(0, (total / arb.pi()).upper())
    rung = next((at for at in range(_LONGER) if tails[at] <= wanted), _LONGER)
    # The last node lies on the rung or beyond it.
    return math.ceil(Fraction(nodes - 1) * _LADDER**rung * (1 + Fraction(1, 10**9))) + 1, tails[rung]


_PRECISION = 128
_PROVED, _EXCLUDED = 1, -1  # the side of the truth that an epsilon is on; 0 if it is unknown
_SHARE = 1 / 16  # allowed error of each end, as a share of the undecided range
_MOST_ATOMS = 200_000

_BallCurve = Callable[[float], Any]  # delta(epsilon) in balls


class Enclosure(NamedTuple):
    """Doubles below and above the true value, and the method's name."""

    lower: float
    upper: float
    method: str


def enclose_delta(
    releases: Sequence[tuple[Term, int]], epsilon: float, most: int = MOST_FORMULAE
) -> Enclosure:
    """Enclose delta at `epsilon` >= 0 (nats) of the composition; `CannotBound` beyond `most` formulas."""
    epsilon = nonnegative("epsilon", epsilon)
    with flint().ctx.workprec(_PRECISION):
        curve, method = _curve(releases, epsilon, most)
        delta = curve(epsilon)
        return Enclosure(max(0.0, lower_end(delta)), min(1.0, upper_end(delta)), method)


def enclose_epsilon(releases: Sequence[tuple[Term, int]], delta: float) -> Enclosure:
    """Enclose the least epsilon >= 0 at `delta` in (0, 1), ends finite; `CannotBound` if none reaches it."""
    delta = probability("delta", delta)
    guess = PrivacyLoss.compose(releases).epsilon(delta)  # only a guess: both ends are proved below
    with flint().ctx.workprec(_PRECISION):
        curve, method = _curve(releases, guess.upper, MOST_FORMULAE)
        exact = ball(delta)

        def side(epsilon: float) -> int:
            found = curve(epsilon)
            return _PROVED if found.upper() <= exact else _EXCLUDED if found.lower() > exact else 0

        if guess.upper == 0.0 and side(0.0) == _PROVED:
            return Enclosure(0.0, 0.0, method)
        upper = _outwards(side, guess.upper, _PROVED)
        ceilings = [factors.ceiling() for factors in BallFactors.orders(releases)]
        known = [up(ceiling) for ceiling in ceilings if ceiling is not None]
        if len(known) == len(ceilings) and upper > max(known) and side(max(known)) == _PROVED:
            upper = max(known)
        lower = _outwards(side, min(guess.lower, upper), _EXCLUDED)
        return Enclosure(*_narrowed(side, lower, upper), method)


def enclose_divergence(releases: Sequence[tuple[Term, int]], alpha: float) -> Enclosure:
    """Enclose the Renyi divergence of order `alpha` > 1, in nats, of the exact composition of the pairs.

    It is log M(alpha - 1) / (alpha - 1), the larger of both orders; `CannotBound` if it is infinite.
    """
    t = Fraction(above_one("alpha", alpha)) - 1
    with flint().ctx.workprec(_PRECISION):
        most = flint().arb(0)
        for factors in BallFactors.orders(releases):
            if factors.revealing:
                what = "a release that may reveal everything has no finite Renyi divergence"
                raise CannotBound(what, where="composition", remedy="claim (epsilon, delta)-DP")
            most = flint().arb.max(most, factors.moment(ball(t), Fraction(0)).log() / ball(t))
        return Enclosure(max(0.0, lower_end(most)), upper_end(most), "rdp")


def _outwards(side: Callable[[float], int], start: float, wanted: int) -> float:
    """Return the first number, in growing steps from `start`, on the wanted side; 0 is the last below."""
    step, epsilon = math.ulp(start) + 1e-300, start
    while side(epsilon) != wanted:
        epsilon = max(0.0, start + wanted * step)
        if epsilon == 0.0:
            break
        if step > 1.0 + start:
            what = f"nothing could be proved near epsilon = {start!r}"
            remedy = "ask for a larger delta, or for rigour float-pessimistic"
            raise CannotBound(what, where="rigour interval", remedy=remedy)
        step *= 8.0
    return epsilon


def _narrowed(side: Callable[[float], int], lower: float, upper: float) -> tuple[float, float]:
    """Bisect while every middle is decided; then move both ends towards the undecided middle."""
    while (middle := 0.5 * (lower + upper)) not in {lower, upper}:
        found = side(middle)
        if found == 0:
            return _inwards(side, lower, middle, _EXCLUDED), _inwards(side, upper, middle, _PROVED)
        lower, upper = (middle, upper) if found == _EXCLUDED else (lower, middle)
    return lower, upper


def _inwards(side: Callable[[float], int], good: float, centre: float, wanted: int) -> float:
    """Move closer to an undecided `centre`; the answer is on the wanted side."""
    bad = centre
    while abs(good - bad) > _SHARE * abs(bad - centre) and (middle := 0.5 * (good + bad)) not in {good, bad}:
        good, bad = (middle, bad) if side(middle) == wanted else (good, middle)
    return good


def _curve(releases: Sequence[tuple[Term, int]], about: float, most: int) -> tuple[_BallCurve, str]:
    """Return delta(epsilon) in balls, sharp near one epsilon, and the method's name."""
    orders = BallFactors.orders(releases)
    closed = [found for factors in orders if (found := _closed_form(factors)) is not None]
    if len(closed) == len(orders):
        method, rests = closed[0][0], [rest for _, rest in closed]
    else:
        directions = collect(releases).directions()
        method = "contour"
        rests = [_line_curve(*order, about, most) for order in zip(orders, directions, strict=True)]
    revealing, ceilings = ball(orders[0].revealing), [factors.ceiling() for factors in orders]

    def delta(epsilon: float) -> Any:
        largest = flint().arb(0)
        for rest, ceiling in zip(rests, ceilings, strict=True):
            if ceiling is None or epsilon < ceiling:
                largest = flint().arb.max(largest, rest(epsilon))
        return revealing + (1 - revealing) * largest

    return delta, method


def _line_curve(factors: BallFactors, chosen: Sequence[Factor], about: float, most: int) -> _BallCurve:
    """Return the curve of a line that is laid at its first call."""
    laid = functools.cache(functools.partial(line, factors, chosen, about, most))

    def delta(epsilon: float) -> Any:
        return laid()(epsilon)

    return delta


def _closed_form(factors: BallFactors) -> tuple[str, _BallCurve] | None:
    """Return the method's name and the closed form of one order without `revealing`, or None."""
    pure, sampled, v = factors.pure, factors.sampled, factors.variance
    if factors.tables or (v and (pure or sampled)):
        return None
    if v:
        return "gaussian", lambda e: balls.precise(lambda: balls.gaussian_delta(ball(v).sqrt(), ball(e)))
    if not (pure or sampled):
        return "gaussian", lambda _: flint().arb(0)
    if not sampled and {family for family, _, _ in pure} == {"randomized_response"}:
        if math.prod(count + 1 for _, _, count in pure) > _MOST_ATOMS:
            return None
        return "lattice", _lattice(factors)
    if len(pure) + len(sampled) > 1:
        return None
    if sampled and sampled[0].count == 1:
        return "single", lambda epsilon: balls.precise(lambda: sampled[0].alone(ball(epsilon)))
    if pure and pure[0][0] == "laplace" and pure[0][2] == 1:
        return "single", lambda epsilon: balls.laplace_delta(ball(pure[0][1]), ball(epsilon))
    return None


def _lattice(factors: BallFactors) -> _BallCurve:
    """Return the sum of p (1 - e^(epsilon - L)) over all losses L of randomized response above epsilon."""
    atoms: list[tuple[Fraction, Any]] = [(Fraction(0), flint().arb(1))]
    for _, e, n in factors.pure:
        p = 1 / (1 + (-ball(e)).exp())
        own = [(Fraction(e) * (2 * k - n), math.comb(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]
        atoms = [(loss + more, weight * share) for loss, weight in atoms for more, share in own]

    def delta(epsilon: float) -> Any:
        above = (weight * -ball(Fraction(epsilon) - loss).expm1() for loss, weight in atoms if loss > epsilon)
        return sum(above, flint().arb(0))

    return delta
