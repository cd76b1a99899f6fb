"""delta(epsilon) and epsilon(delta) between ends proved in ball arithmetic (rigour `interval`).

Gaussian noise: the exact curve (Balle and Wang 2018, Theorem 8). Randomized response: every atom. Mixes
with Laplace noise: the contour of `dpaudit.accountants.privacy_loss.contour`. Floating point only says
where to lay the line and how many nodes it has - any line is sound; the nodes' sum, what is cut off, the
aliases and what smoothing adds are then all computed in balls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dpaudit.accountants.ball_factors import BallFactors
from dpaudit.accountants.balls import ball, flint, lower_end, upper_end
from dpaudit.accountants.privacy_loss import PrivacyLoss, Term
from dpaudit.accountants.privacy_loss.collect import collect
from dpaudit.accountants.privacy_loss.contour import lay
from dpaudit.accountants.privacy_loss.saddle import saddle_for_epsilon
from dpaudit.accountants.privacy_loss.solve import FINAL
from dpaudit.accountants.ranges import nonnegative, probability
from dpaudit.accountants.rounding import up
from dpaudit.errors import CannotBound

_PRECISION = 128
_MOST_FORMULAE = 4_000_000
_MOST_ATOMS = 200_000
_HALVINGS = 5  # beyond the guess, which is good to a few digits less than a double
_LADDER, _RUNGS = Fraction(11, 10), 240


class Enclosure(NamedTuple):
    """Doubles below and above the true value, and the method's name."""

    lower: float
    upper: float
    method: str


def enclose_delta(releases: Sequence[tuple[Term, int]], epsilon: float) -> Enclosure:
    """Enclose delta at `epsilon` >= 0, in nats, of the exact composition of the terms' pairs.

    Raises:
        InvalidParameter: epsilon is NaN, infinite or negative.
        CannotBound: a sampled release, or more work than is reasonable.
        MissingExtra: python-flint is not installed.
    """
    epsilon = nonnegative("epsilon", epsilon)
    with flint().ctx.workprec(_PRECISION):
        curve, method = _curve(releases, epsilon)
        delta = curve(epsilon)
        return Enclosure(max(0.0, lower_end(delta)), min(1.0, upper_end(delta)), method)


def enclose_epsilon(releases: Sequence[tuple[Term, int]], delta: float) -> Enclosure:
    """Enclose the least epsilon >= 0 at `delta` in (0, 1); the upper end is finite.

    Raises:
        InvalidParameter: delta is outside (0, 1).
        CannotBound: a sampled release, a delta that no epsilon reaches, or more work than is reasonable.
        MissingExtra: python-flint is not installed.
    """
    delta = probability("delta", delta)
    guess = PrivacyLoss.compose(releases).epsilon(delta)  # a guess: both ends are proved anew
    with flint().ctx.workprec(_PRECISION):
        curve, method = _curve(releases, guess.upper)
        exact = ball(delta)
        if guess.upper == 0.0 and curve(0.0).upper() <= exact:
            return Enclosure(0.0, 0.0, method)

        def proved(epsilon: float) -> bool:
            return bool(curve(epsilon).upper() <= exact)

        def excluded(epsilon: float) -> bool:
            return bool(curve(epsilon).lower() > exact)

        upper = _outwards(proved, guess.upper, 1.0)
        ceiling = BallFactors.of(releases).ceiling()
        if ceiling is not None and upper > ceiling and proved(up(ceiling)):
            upper = up(ceiling)
        upper = _inwards(proved, upper, min(guess.lower, upper))
        lower = _outwards(excluded, min(guess.lower, upper), -1.0)
        return Enclosure(_inwards(excluded, lower, upper), upper, method)


def _outwards(holds: Callable[[float], bool], start: float, sign: float) -> float:
    """The first of ever farther numbers at which it holds; 0 is the last below."""
    step = math.ulp(start) + 1e-300
    epsilon = start
    while not holds(epsilon):
        epsilon = max(0.0, start + sign * step)
        if epsilon == 0.0:
            return 0.0
        if step > 1.0 + start:
            raise CannotBound(
                f"nothing could be proved near epsilon = {start!r}",
                where="rigour interval",
                remedy="ask for a larger delta, or for rigour float-pessimistic",
            )
        step *= 8.0
    return epsilon


def _inwards(holds: Callable[[float], bool], good: float, bad: float) -> float:
    """Closer to where it ceases to hold, by bisection; the answer is one at which it holds."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (good + bad)
        if middle in {good, bad}:
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _curve(releases: Sequence[tuple[Term, int]], about: float) -> tuple[Callable[[float], Any], str]:
    """delta(epsilon) in balls, sharp near one epsilon."""
    factors = BallFactors.of(releases)
    rest: Callable[[float], Any]
    spread = bool(factors.laplace or factors.ranged or factors.tables)
    if not spread and not factors.response:
        rest, method = functools.partial(_gaussian, factors.variance), "gaussian"
    elif not spread and not factors.variance and _atoms(factors) <= _MOST_ATOMS:
        rest, method = functools.partial(_lattice, _listed(factors)), "lattice"
    else:
        rest, method = _line(factors, releases, about), "contour"
    revealing, ceiling = ball(factors.revealing), factors.ceiling()

    def delta(epsilon: float) -> Any:
        if ceiling is not None and epsilon >= ceiling:
            return revealing
        return revealing + (1 - revealing) * rest(epsilon)

    return delta, method


def _gaussian(variance: Fraction, epsilon: float) -> Any:
    """[erfc(x) - e^epsilon erfc(y)] / 2 with x, y = (epsilon / mu -+ mu / 2) / sqrt 2."""
    arb, ctx = flint().arb, flint().ctx
    if variance == 0:
        return arb(0)
    precision = _PRECISION
    while True:
        with ctx.workprec(precision):
            mu, e = ball(variance).sqrt(), ball(epsilon)
            x, y = ((e / mu + sign * mu / 2) / arb(2).sqrt() for sign in (-1, 1))
            delta = (x.erfc() - e.exp() * y.erfc()) / 2
            if delta.rel_accuracy_bits() >= 80:
                return delta
        precision *= 2
        if precision > 1 << 20:
            raise CannotBound("the Gaussian curve cancels beyond a million bits", where="rigour interval")


def _atoms(factors: BallFactors) -> int:
    return math.prod(count + 1 for _, count in factors.response)


def _listed(factors: BallFactors) -> list[tuple[Fraction, Any]]:
    """Every total loss of randomized response and its probability."""
    found: list[tuple[Fraction, Any]] = [(Fraction(0), flint().arb(1))]
    for epsilon, count in factors.response:
        p = 1 / (1 + (-ball(epsilon)).exp())
        own = [
            (Fraction(epsilon) * (2 * k - count), math.comb(count, k) * p**k * (1 - p) ** (count - k))
            for k in range(count + 1)
        ]
        found = [(loss + more, weight * share) for loss, weight in found for more, share in own]
    return found


def _lattice(atoms: list[tuple[Fraction, Any]], epsilon: float) -> Any:
    """The sum of p (1 - e^(epsilon - L)) over the losses L above epsilon."""
    total = flint().arb(0)
    for loss, weight in atoms:
        if loss > epsilon:
            total -= weight * ball(Fraction(epsilon) - loss).expm1()
    return total


@dataclass(frozen=True, eq=False)
class _Line:
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
        acb, arb = flint().acb, flint().arb
        e = ball(epsilon)
        turn = acb(0, -(self.step * e)).exp()
        direct, density, angle = arb(0), arb(0), acb(1)
        for k, node in enumerate(self.nodes):
            # Every 64th power anew: the ball would grow with each product.
            angle = acb(0, -(self.step * e) * k).exp() if k % 64 == 0 else angle * turn
            share = 1 if k == 0 else 2
            value = node * angle
            direct += share * value.real
            if self.smoothing:
                s = acb(self.c, self.step * k)
                density += share * (value * s * (s + 1)).real
        falling = (-self.c * e).exp()
        weight = self.step / (2 * arb.pi()) * falling
        cut = self.tail * falling
        upper = (direct * weight + cut).upper()
        lower = direct * weight - cut - self._aliases(e, epsilon)
        if self.smoothing:
            v = ball(self.smoothing)
            most = arb.max((density * weight + self.density_tail * falling).upper(), arb(0))
            lower -= most * v * (v / 8).exp()
        return arb.max(lower.lower(), arb(0)).union(arb.max(upper, arb(0)))

    def _aliases(self, e: Any, epsilon: float) -> Any:
        """Geometric series of Chernoff bounds over the other periods."""
        arb = flint().arb
        period = 2 * arb.pi() / self.step
        above = below = arb.pos_inf()
        for a, constant in self.anchors:
            ratio = (-abs(a - self.c) * period).exp()
            series = (constant - a * e).exp() * ratio / (1 - ratio)
            if a > self.c:
                above = arb.min(above, series.upper())
            else:
                below = arb.min(below, series.upper())
        if self.ceiling is not None and (period + ball(Fraction(epsilon) - self.ceiling)).lower() >= 0:
            above = arb(0)
        return above + below


def _line(factors: BallFactors, releases: Sequence[tuple[Term, int]], about: float) -> Callable[[float], Any]:
    """Lay a line where floating point would, and compute everything on it in balls."""
    arb, acb = flint().arb, flint().acb
    total = collect(releases)
    (family,) = total.directions()
    about = min(about, 0.999999 * total.ceiling)
    plan = lay(family, saddle_for_epsilon(family, about), about, total.ceiling, FINAL)
    smoothing, step = Fraction(plan.smoothing), Fraction(float(plan.t[1]))
    count = len(plan.t) * 5 // 4 + 8  # the tail's bound is a little looser here
    if count * factors.distinct > _MOST_FORMULAE:
        raise CannotBound(
            f"{count} nodes of {factors.distinct} formulae in balls",
            where="rigour interval",
            remedy="group equal releases, ask for a larger delta, or for rigour float-pessimistic",
        )
    c = ball(plan.c)
    nodes = []
    for k in range(count):
        s = acb(c, ball(step * k))
        nodes.append(factors.moment(s, smoothing) / (s * (s + 1)))
    moment, last = factors.moment(c, smoothing), ball(step * (count - 1))
    anchors = [(arb(0), arb(0))]
    for a in (ball(float(a)) for a in plan.anchors.a if a > 0.0):
        constant = factors.moment(a, smoothing).log() + a * a.log() - (1 + a) * (1 + a).log()
        anchors.append((a, constant))
    density_tail = arb(0)
    if smoothing:
        v = ball(smoothing + factors.variance)
        density_tail = moment * (-v * last**2 / 2).exp() / (v * last * arb.pi())
    return _Line(
        c=c,
        step=ball(step),
        nodes=nodes,
        tail=moment * _tail(factors, c, step * (count - 1), smoothing),
        anchors=anchors,
        ceiling=None if smoothing else factors.ceiling(),
        smoothing=smoothing,
        density_tail=density_tail,
    )


def _tail(factors: BallFactors, c: Any, first: Fraction, smoothing: Fraction) -> Any:
    """(1/pi) * integral over t > first of a falling bound on |M(c + it) / M(c)| / t^2."""
    arb = flint().arb
    tails = factors.tail_factors(c)
    rungs = [ball(first)]
    for _ in range(_RUNGS):
        rungs.append((rungs[-1] * ball(_LADDER)).upper())
    largest = factors.modulus(c, tails, rungs[-1], None, smoothing)
    total = largest / rungs[-1]
    for start, end in zip(rungs[-2::-1], rungs[:0:-1], strict=True):
        largest = arb.max(largest, factors.modulus(c, tails, start, end, smoothing))
        total += largest * (1 / start - 1 / end)
    return (total / arb.pi()).upper()
