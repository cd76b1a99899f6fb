"""The contour in balls: delta(epsilon) of a composition in one order of its pair.

Floating point only says where to lay the line and how dense its nodes are - any line is sound; the nodes'
sum, what is cut off, the aliases and what smoothing adds are then all computed in balls, by the formulae of
`dpaudit.accountants.privacy_loss.contour.contour`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.accountants.interval.ball_arithmetic import ball, flint
from dpaudit.accountants.interval.ball_factors import BallFactors
from dpaudit.accountants.interval.sampled_balls import Decay
from dpaudit.accountants.privacy_loss.contour.contour import Contour, lay
from dpaudit.accountants.privacy_loss.contour.factors import Factor
from dpaudit.accountants.privacy_loss.contour.planning import log_scale, saddle_for_epsilon
from dpaudit.accountants.privacy_loss.solve import FINAL
from dpaudit.errors import CannotBound

_MOST_FORMULAE = 4_000_000
_LADDER, _RUNGS = Fraction(11, 10), 240
_DIGITS = 4.0  # log of how much less is cut than in floating point, which rounds anyway
_LONGER = 8  # rungs: bounds on what is cut off are a little looser here than in floating point


@dataclass(frozen=True, eq=False)
class Line:
    """A line Re s = c with its nodes in balls."""

    c: Any
    step: Any
    nodes: list[Any]  # M(s) / (s (s + 1)) at s = c + i k step
    tail: Any  # a bound on what is cut off, but for e^(-c epsilon)
    anchors: list[tuple[Any, Any]]  # a and B(a) of delta(x) <= e^(B - a x)
    ceiling: Fraction | None
    smoothing: Fraction
    density_tail: Any

    def __call__(self, epsilon: float) -> Any:
        """delta(epsilon), epsilon >= 0; sharp near the epsilon that the line was laid for."""
        acb, arb, e = flint().acb, flint().arb, ball(epsilon)
        turn = acb(0, -(self.step * e)).exp()
        direct, density, angle = arb(0), arb(0), acb(1)
        for k, node in enumerate(self.nodes):
            # Every 64th power anew: the ball would grow with each product.
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


def line(factors: BallFactors, chosen: Sequence[Factor], about: float) -> Line:
    """Lay a line where floating point would, to be sharp near `about`, and compute everything on it in balls.

    `chosen` is the same in floating point; only choices rest on it. `CannotBound` if it takes too much work.
    """
    arb, acb, ceiling = flint().arb, flint().acb, factors.ceiling()
    highest = math.inf if ceiling is None else float(ceiling)
    plan = _plan(chosen, min(about, 0.999999 * highest), highest)
    smoothing, step, c = Fraction(plan.smoothing), Fraction(float(plan.t[1])), ball(plan.c)
    wanted = plan.cut_off / (plan.c * (plan.c + 1.0))
    count, tail = _ending(factors.decay(c, smoothing), step, len(plan.t), wanted)
    cost = factors.cost(plan.c, float(step * count))
    if count * cost > _MOST_FORMULAE:
        what = f"{count} nodes of {cost:.0f} formulae in balls"
        remedy = "group equal releases, ask for a larger delta, or for rigour float-pessimistic"
        raise CannotBound(what, where="rigour interval", remedy=remedy)
    abscissae = (acb(c, ball(step * k)) for k in range(count))
    along = factors.along(c, step, count, smoothing)
    nodes = [moment / (s * (s + 1)) for s, moment in zip(abscissae, along, strict=True)]
    moment, last = factors.moment(c, smoothing), ball(step * (count - 1))
    others = [ball(float(a)) for a in plan.anchors.a if a > 0.0]
    logs = [factors.moment(a, smoothing).log() + a * a.log() - (1 + a) * (1 + a).log() for a in others]
    anchors = [(arb(0), arb(0)), *zip(others, logs, strict=True)]
    density_tail = arb(0)
    if smoothing:
        v = ball(smoothing + factors.variance)
        density_tail = moment * (-v * last**2 / 2).exp() / (v * last * arb.pi())
    ceiling = None if smoothing else ceiling
    return Line(c, ball(step), nodes, moment * tail, anchors, ceiling, smoothing, density_tail)


def _plan(chosen: Sequence[Factor], about: float, ceiling: float) -> Contour:
    """The line that floating point would lay; where that is resolved, one that cuts less."""
    # What is cut is measured against the saddle-point approximation of delta, which may be far too large.
    point = saddle_for_epsilon(chosen, about)
    plan = lay(chosen, point, about, ceiling, FINAL)
    estimate = plan.curve(about).log_estimate
    if not plan.exact or estimate == -math.inf:
        return plan
    approximation = log_scale(chosen, point.c, about) - math.log(point.sigma * math.sqrt(2.0 * math.pi))
    longer = lay(chosen, point, about, ceiling, FINAL, max(0.0, approximation - estimate) + _DIGITS)
    return longer if longer.exact else plan


def _ending(decay: Decay, step: Fraction, nodes: int, wanted: float) -> tuple[int, Any]:
    """How many nodes to take, `nodes` or more, until what is cut off is below `wanted` or nearly."""
    # What is cut off beyond t is (1/pi) * integral of a falling bound on |M(c + it) / M(c)| / t^2.
    arb, rungs = flint().arb, [ball(step * (nodes - 1))]
    for _ in range(_RUNGS):
        rungs.append((rungs[-1] * ball(_LADDER)).upper())
    largest = decay(rungs[-1], None)
    total = largest / rungs[-1]
    tails: list[Any] = []
    for start, end in zip(rungs[-2::-1], rungs[:0:-1], strict=True):
        largest = arb.max(largest, decay(start, end))
        total += largest * (1 / start - 1 / end)
        tails.insert(0, (total / arb.pi()).upper())
    rung = next((at for at in range(_LONGER) if tails[at] <= wanted), _LONGER)
    # The last node lies on the rung or beyond it.
    return math.ceil(Fraction(nodes - 1) * _LADDER**rung * (1 + Fraction(1, 10**9))) + 1, tails[rung]
