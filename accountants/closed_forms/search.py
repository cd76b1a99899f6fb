"""Find the root or the minimum of a function of one number, by Brent's two methods (Brent 1973).

They follow scipy.optimize's `brentq` and bounded `minimize_scalar` step by step. Importing scipy.optimize
takes longer than most searches. No bound relies on these results: each is put into a bound afterwards.
"""

import math
from collections.abc import Callable

_NEAR = math.sqrt(2.2e-16)


def root(
    function: Callable[[float], float], low: float, high: float, absolute: float, relative: float = 2.0**-50
) -> float:
    """Return a point near the root, between two points where the function has opposite signs.

    Except for rounding, it is within `absolute` + `relative` times itself, after at most 4000 steps.
    """
    before, here, opposite = low, high, low
    f_before, f_here, f_opposite = function(before), function(here), 0.0
    if f_before == 0.0:
        return before
    step_before = step = 0.0
    for _ in range(4000):
        if f_here == 0.0:
            break
        if f_before != 0.0 and (f_before < 0.0) != (f_here < 0.0):
            opposite, f_opposite = before, f_before
            step_before = step = here - before
        if abs(f_opposite) < abs(f_here):
            before, here, opposite = here, opposite, here
            f_before, f_here, f_opposite = f_here, f_opposite, f_here
        least, half = 0.5 * (absolute + relative * abs(here)), 0.5 * (opposite - here)
        if f_here == 0.0 or abs(half) < least:
            break
        proposal = math.inf
        if abs(step_before) > least and abs(f_here) < abs(f_before):
            if before == opposite:
                proposal = -f_here * (here - before) / (f_here - f_before)
            else:
                near, far = (f_before - f_here) / (before - here), (f_opposite - f_here) / (opposite - here)
                scale = far * near * (f_opposite - f_before)
                if scale != 0.0:
                    proposal = -f_here * (f_opposite * far - f_before * near) / scale
        if 2.0 * abs(proposal) < min(abs(step_before), 3.0 * abs(half) - least):
            step_before, step = step, proposal
        else:
            step_before = step = half
        before, f_before = here, f_here
        here += step if abs(step) > least else math.copysign(least, half)
        f_here = function(here)
    return here


def minimum(function: Callable[[float], float], low: float, high: float, absolute: float) -> float:
    """Return the point in [low, high] where a function with one minimum is least, within about `absolute`."""
    golden = 0.5 * (3.0 - math.sqrt(5.0))
    best = second = third = low + golden * (high - low)
    f_best = f_second = f_third = function(best)
    step = step_before = 0.0
    for _ in range(500):
        middle, near = 0.5 * (low + high), _NEAR * abs(best) + absolute / 3.0
        if abs(best - middle) <= 2.0 * near - 0.5 * (high - low):
            break
        by_parabola = False
        if abs(step_before) > near:
            r, q = (best - second) * (f_best - f_third), (best - third) * (f_best - f_second)
            p, q = (best - third) * q - (best - second) * r, 2.0 * (q - r)
            p, q = (-p if q > 0.0 else p), abs(q)
            r, step_before = step_before, step
            by_parabola = abs(p) < abs(0.5 * q * r) and q * (low - best) < p < q * (high - best)
            if by_parabola:
                step = p / q
                if best + step - low < 2.0 * near or high - best - step < 2.0 * near:
                    step = math.copysign(near, middle - best)
        if not by_parabola:
            step_before = (low if best >= middle else high) - best
            step = golden * step_before
        place = best + (step if abs(step) >= near else math.copysign(near, step))
        f_place = function(place)
        if f_place <= f_best:
            low, high = (best, high) if place >= best else (low, best)
            third, f_third, second, f_second, best, f_best = second, f_second, best, f_best, place, f_place
        else:
            low, high = (place, high) if place < best else (low, place)
            if f_place <= f_second or second == best:
                third, f_third, second, f_second = second, f_second, place, f_place
            elif f_place <= f_third or third in {best, second}:
                third, f_third = place, f_place
    return best
