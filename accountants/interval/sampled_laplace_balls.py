"""Poisson-sampled Laplace noise in balls.

The rule and the bounds are those of `dpaudit.accountants.privacy_loss.contour.sampled_laplace`: the modulus
on the ellipse is at most e^((2 |a| + 1) (2 w + g) + 2 y t) (cos 2 y)^min(a, 0) times the least one on the
panel.
"""

import functools
import math
from fractions import Fraction
from typing import Any

from dpaudit.accountants.interval.ball_arithmetic import ball, flint, laplace_delta, upper_fraction
from dpaudit.accountants.interval.sampled_balls import DIGITS, Decay, Rule, SampledBalls, least_of, paired
from dpaudit.accountants.privacy_loss.contour.sampled_laplace import layout


class SampledLaplaceBalls(SampledBalls):
    """Laplace noise of scale 1, moved by `parameter`."""

    unsampled = staticmethod(laplace_delta)

    def ceiling(self) -> Fraction | None:
        """Return the loss at the upper atom, for all runs."""
        low, high = self._atoms()
        return self.count * upper_fraction(high if self.mixture_first else -low)

    def cost(self, c: float, end: float) -> float:
        """Return the cost of one node, in formulas; a product of matrices is fast."""
        panels, points, _ = self._layout(c, end)
        return panels * points / 32.0 + 1.0

    def rule(self, c: Any, end: float) -> Rule:
        """Return Gauss and Legendre's rule between the atoms."""
        arb, a, e = flint().arb, self.exponent(c), ball(self.parameter)
        panels, points, stretch = self._layout(float(c), end)
        self.check_points(panels * points)
        w, r = e / (2 * panels), ball(stretch)
        log_ratio, base = list(self._atoms()), [arb(1) / 2, (-e).exp() / 2]
        for panel in range(panels):
            for node, weight in _legendre(points, flint().ctx.prec):
                x = w * (2 * panel + 1 + node)
                log_ratio.append(self.log_ratio(2 * x - e))
                base.append(w * weight * (-x).exp() / 2)
        y, g = w * (r - 1 / r) / 2, w * ((r + 1 / r) / 2 - 1)

        def relative(t: Any) -> Any:
            growth = (2 * abs(a) + 1) * (2 * w + g) + 2 * y * t
            if not self.mixture_first:
                growth += a * (2 * y).cos().log()
            return ball(Fraction(32, 15)) * growth.exp() / ((1 - r**-2) * r ** (2 * points - 2))

        weight = [one * (a * ratio).exp() for one, ratio in zip(base, log_ratio, strict=True)]
        return Rule(log_ratio, weight, arb(0), relative)

    def decay(self, c: Any) -> Decay:
        """Bound the decay: the integral decays, and the atoms rotate against each other."""
        a, e, (low, high) = self.exponent(c), ball(self.parameter), self._atoms()
        moment = self.rule(c, 0.0).moment()
        first, second = (a * low).exp() / (2 * moment), (a * high - e).exp() / (2 * moment)
        ends = ((a + 1) * low + e).exp() + ((a + 1) * high - 2 * e).exp()
        variation = (ends / (2 * ball(self.rate) * moment)).upper()
        atoms = (first + second).upper()

        near = paired([(first.lower(), low, low), (second.lower(), high, high)])
        return least_of(lambda start, _last: atoms + variation / start, near)  # the first bound falls

    def _atoms(self) -> tuple[Any, Any]:
        e = ball(self.parameter)
        return self.log_ratio(-e), self.log_ratio(e)

    def _layout(self, c: float, end: float) -> tuple[int, int, float]:
        return layout(self.parameter, float(self.exponent(c)), end, DIGITS + 1.0 + math.log(self.count))


@functools.cache
def _legendre(points: int, precision: int) -> list[tuple[Any, Any]]:
    del precision  # a key only
    return [flint().arb.legendre_p_root(points, k, weight=True) for k in range(points)]
