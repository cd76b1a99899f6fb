"""epsilon(delta): a bracket whose ends the curve's own bounds verify."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dpaudit.accountants.closed_forms.search import minimum, root
from dpaudit.accountants.privacy_loss.contour import planning
from dpaudit.accountants.privacy_loss.contour.contour import Contour, CurvePoint, lay
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Factor
from dpaudit.accountants.privacy_loss.contour.planning import Saddle

#: Limits on a line's elementary formulas: during the search, and for the returned bounds.
SEARCH, FINAL = 1 << 15, 1 << 21
NEAR = 1e-10  # within this relative distance of the ceiling, the ceiling itself is returned


class Bracket(NamedTuple):
    """A lower and an upper bound on a number."""

    lower: float
    upper: float


class HasCurve(Protocol):
    """Bounds on log delta at every epsilon >= 0."""

    def curve(self, epsilon: float) -> CurvePoint:
        """Return bounds on log delta(epsilon), an estimate and the slope."""


def contour_log_delta(
    factors: Sequence[Factor], epsilon: float, ceiling: float, most: int = FINAL
) -> Bracket:
    """Return bounds on log delta at 0 <= epsilon < ceiling."""
    point = planning.saddle_for_epsilon(factors, epsilon)
    bounds = lay(factors, point, epsilon, ceiling, most).curve(epsilon)
    crude = planning.chernoff(factors, point.c) - point.c * epsilon
    return Bracket(bounds.log_lower, min(bounds.log_upper, crude, 0.0))


def contour_epsilon(
    factors: Sequence[Factor], log_delta: float, ceiling: float, efforts: Sequence[int] = (SEARCH, FINAL)
) -> Bracket:
    """Return bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta).

    The saddle-point approximation chooses the first line. Newton's method moves along it, as the nodes'
    moments do not depend on epsilon. A new line is laid at the saddle whenever epsilon has moved by more than
    the line's own scale. The ends of the bracket are then verified.
    """
    point = planning.saddle_for_delta(factors, log_delta)
    crude = (planning.chernoff(factors, point.c) - log_delta) / point.c * (1.0 + 1e-14)
    fallback = min(ceiling, max(0.0, crude))
    line, epsilon = _search(factors, point, log_delta, ceiling, efforts)
    bracket = Bracket(0.0, fallback) if line is None else verified(line, epsilon, log_delta)
    upper, lower = min(bracket.upper, fallback), bracket.lower
    # Close to the ceiling no line resolves the distance: try a lower end slightly below it.
    for share in (1e-9, 1e-6, 1e-3):
        if lower == 0.0 < upper and math.isfinite(ceiling) and efforts[-1] == FINAL:
            below = (1.0 - share) * upper
            proved = contour_log_delta(factors, below, ceiling).lower >= log_delta * (1.0 - 1e-14)
            lower = below if proved else 0.0
    return Bracket(lower, upper)


def chernoff_log_delta(factors: Sequence[Factor], epsilon: float) -> float:
    """Return Chernoff's bound on log delta at the best abscissa: the bound by Renyi divergences."""

    def at(c: float) -> float:
        constant = planning.chernoff(factors, c)
        return constant - c * epsilon + 4.0 * UNIT * (abs(constant) + c * epsilon)

    return min(0.0, _least(at, planning.saddle_for_epsilon(factors, epsilon).c))


def chernoff_epsilon(factors: Sequence[Factor], log_delta: float) -> float:
    """Return the least epsilon by Chernoff's bound at any abscissa."""

    def at(c: float) -> float:
        constant = planning.chernoff(factors, c)
        return (constant - log_delta + 8.0 * UNIT * (abs(constant) - log_delta)) / c

    return max(0.0, _least(at, planning.saddle_for_delta(factors, log_delta).c))


def _least(function: Callable[[float], float], start: float) -> float:
    """Return the least value found near a positive number; each value is a bound, so any is sound."""

    def at(log_c: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            value = function(math.exp(max(-80.0, min(80.0, log_c))))
        return value if math.isfinite(value) else 1e300

    middle = math.log(start)
    return at(minimum(at, middle - 3.0, middle + 3.0, 1e-6))


def curve_epsilon(line: HasCurve, log_delta: float, highest: float) -> Bracket:
    """Return bounds like those of `contour_epsilon`, for any curve whose answer is at most `highest`."""

    def excess(epsilon: float) -> float:
        return max(line.curve(epsilon).log_estimate - log_delta, -50.0)

    if line.curve(0.0).log_upper <= log_delta or excess(0.0) <= 0.0:
        guess = 0.0
    else:
        top = min(highest, 1.0)
        while top < highest and excess(top) > 0.0:
            top = min(highest, 2.0 * top)
        # Bisection reaches the least doubles in about a thousand steps.
        missed = excess(top) >= 0.0
        guess = top if missed else root(excess, 0.0, top, 1e-300, 1e-13)
    lower, upper = verified(line, guess, log_delta)
    return Bracket(lower, min(upper, highest))


def verified(line: HasCurve, epsilon: float, log_delta: float) -> Bracket:
    """Widen a guess until the curve proves both ends; a side that cannot be proved is 0 or infinity."""
    slack, here = 8.0 * UNIT * abs(log_delta), line.curve(epsilon)
    upper, lower, slope = epsilon, 0.0, max(here.slope, 1e-300)
    if not here.log_upper <= log_delta - slack:
        first = (here.log_upper - log_delta + slack) / slope
        upper = _widened(lambda at: line.curve(at).log_upper <= log_delta - slack, epsilon, 1.0, first)
    if epsilon > 0.0:
        first = (log_delta - here.log_lower + slack) / slope
        lower = _widened(lambda at: line.curve(at).log_lower >= log_delta + slack, epsilon, -1.0, first)
    return Bracket(lower, upper)


def _widened(proved: Callable[[float], bool], epsilon: float, sign: float, first: float) -> float:
    """Return the first proved number, in growing steps from a first step on, in the sign's direction."""
    smallest = 4.0 * UNIT * epsilon + 1e-300
    margin = max(1.05 * first if math.isfinite(first) else 1e-9 * epsilon, smallest)
    for _ in range(60):
        end = epsilon + sign * margin
        if end <= 0.0:
            return 0.0
        if proved(end):
            return end
        margin *= 1.5
    return math.inf if sign > 0.0 else 0.0


def _search(
    factors: Sequence[Factor], point: Saddle, log_delta: float, ceiling: float, efforts: Sequence[int]
) -> tuple[Contour | None, float]:
    """Return the line whose estimate of log delta meets the target, and the epsilon there."""
    epsilon, highest = point.epsilon, (1.0 - NEAR) * ceiling
    if epsilon < 0.0:
        epsilon, point = 0.0, planning.saddle_for_epsilon(factors, 0.0)
    line = None
    for most in efforts:
        left, right, sharpness = 0.0, ceiling, 0.0
        for _ in range(24):
            if not epsilon < highest:
                return None, ceiling
            line = lay(factors, point, epsilon, ceiling, most, sharpness)
            epsilon, left, right, settled = _newton(line, epsilon, log_delta, left, right)
            here = line.curve(epsilon)
            gap = here.log_upper - here.log_lower
            # Where the saddle-point approximation is far too high, too much was cut: repeat with a smaller
            # cut.
            loose = not gap <= (1e-8 if line.exact else 0.01)
            sharpen = sharpness == 0.0 and loose and (line.exact or most == efforts[-1])
            if settled and not sharpen:
                break
            sharpness = math.log(min(max(gap, 1e-8), 1e6)) + 23.0 if sharpen else 0.0
            point = planning.saddle_for_epsilon(factors, epsilon)
        if line is not None and line.exact:
            break
    return line, epsilon


def _newton(
    line: Contour, epsilon: float, log_delta: float, left: float, right: float
) -> tuple[float, float, float, bool]:
    """Run Newton on log delta along one line, in a bracket; unsettled if epsilon leaves the line's range."""
    start, reach = epsilon, 1.0 / line.c
    for _ in range(60):
        here = line.curve(epsilon)
        error = here.log_estimate - log_delta if here.slope > 0.0 else math.nan
        if not math.isfinite(error):
            # The estimate is below its error: delta is small here.
            return max(0.5 * (left + epsilon), epsilon - reach), left, epsilon, False
        if abs(error) <= 1e-12:
            return epsilon, left, right, True
        left, right = (epsilon, right) if error > 0.0 else (left, epsilon)
        moved = epsilon + max(-reach, min(reach, error / here.slope))
        if abs(moved - epsilon) <= 4.0 * UNIT * epsilon or (epsilon == 0.0 and moved <= 0.0):
            return epsilon, left, right, True
        if not left < moved < right:  # a kink sent Newton's method too far
            moved = 0.0 if left == 0.0 and moved <= 0.0 else 0.5 * (left + right)
        epsilon = moved
        if abs(epsilon - start) > reach:
            return epsilon, left, right, False
    return epsilon, left, right, True
