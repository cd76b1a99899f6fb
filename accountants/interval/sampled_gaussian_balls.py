"""Poisson-sampled Gaussian noise in balls.

The trapezoid rule over x and its error are as in `accountants.privacy_loss.contour.sampled_gaussian`.
Left of its points 1 - q <= r <= 1; right of them r e^-v falls and r grows.

Decay: cells of the tilted law, and the line of integration moved to x + iy, 0 < mu y < pi / 2, where |M(c +
it)| <= e^(y^2 / 2) * integral of phi |r(x + iy)|^a e^(-t arg r(x + iy)). In a cell, arg r(x + iy) and |r(x +
iy)| increase with x, and the logarithm of phi |r(x + iy)|^a changes no faster than its derivative allows:
-x + a mu w with w the real part of q e^v / r, which increases with x too.
"""

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.accountants.interval.ball_arithmetic import ball, flint, gaussian_delta, upper_fraction
from dpaudit.accountants.interval.sampled_balls import DIGITS, Decay, Rule, SampledBalls, least_of, paired

_SHIFTED, _PAIRED = 128, 20  # cells


class SampledGaussianBalls(SampledBalls):
    """Gaussian noise moved by `parameter` = mu standard deviations."""

    unsampled = staticmethod(gaussian_delta)

    def ceiling(self) -> Fraction | None:
        """Return the bound -count log(1 - q) if the mixture is second; None if it is first."""
        return None if self.mixture_first else self.count * upper_fraction(-(-ball(self.rate)).log1p())

    def cost(self, c: float, end: float) -> float:
        """Return the cost of one node, in formulas; a product of matrices is fast."""
        low, high, step, _ = self._layout(c, end)
        return (high - low) / step / 32.0 + 1.0

    def rule(self, c: Any, end: float) -> Rule:
        """Return the nodes and weights of the trapezoid rule."""
        arb, a, mu = flint().arb, self.exponent(c), ball(self.parameter)
        low, high, width, half = self._layout(float(c), end)
        first, last = math.floor(low / width), math.ceil(high / width)
        self.check_points(last - first)
        h, d = ball(width), ball(half)
        scale = h / (2 * arb.pi()).sqrt()
        points = [h * j for j in range(first, last + 1)]
        log_ratio = [self._at(x) for x in points]
        weight = [scale * (a * v - x * x / 2).exp() for x, v in zip(points, log_ratio, strict=True)]

        def relative(t: Any) -> Any:
            growth = d * d / 2 + t * mu * d
            if not self.mixture_first:
                growth += a * (mu * d).cos().log()
            return 2 * growth.exp() / (2 * arb.pi() * d / h).expm1()

        left_out = self._beyond_left(a, points[0], arb(1)) + self._beyond_right(a, points[-1], log_ratio[-1])
        return Rule(log_ratio, weight, left_out, relative)

    def decay(self, c: Any) -> Decay:
        """Use cells while the modulus is near 1, a shifted line beyond."""
        rule = self.rule(c, 0.0)
        moment = rule.moment()
        return least_of(self._shifted(c, moment.lower()), self._cells(c, rule, moment.upper()))

    def _layout(self, c: float, end: float) -> tuple[float, float, float, float]:
        """Return ends, step and half width of the strip; balls prove the rule's properties from them."""
        a, mu, level = float(self.exponent(c)), self.parameter, DIGITS + math.log(self.count)
        # Below x the integrand is at most phi (1 - q)^a and, for a < 0, phi e^(a q v), as r >= e^(q v).
        tilt = max(0.0, -a * self.rate * mu)
        least = math.sqrt(2.0 * (level + max(0.0, a * math.log1p(-self.rate))))
        low = -min(least, tilt + math.sqrt(2.0 * level + tilt * (mu + tilt)))
        high = max(max(a * mu, 0.0) + math.sqrt(2.0 * level), 0.5 * mu)
        widest = min(8.0, 0.499 * math.pi / mu)
        layouts = []
        for d in (widest * share for share in (1.0, 0.7, 0.5, 0.25, 0.1, 0.03, 0.01)):
            growth = 0.5 * d * d + end * mu * d + (0.0 if a > 0.0 else a * math.log(math.cos(mu * d)))
            layouts.append((2.0 * math.pi * d / (level + 1.0 + growth), d))
        return low, high, *max(layouts)

    def _at(self, x: Any) -> Any:
        return self.log_ratio(self._loss(x))

    def _loss(self, x: Any) -> Any:
        mu = ball(self.parameter)
        return mu * (x - mu / 2)

    def _beyond_left(self, a: Any, x: Any, cosine: Any) -> Any:
        """Return a bound on the integral of phi |r|^a below x < 0, or on the sum over points below it.

        There |r| is at most 1, and at least 1 - q and e^(q v) times `cosine`, the cosine of mu Im x.
        """
        arb, mu, q, root = flint().arb, ball(self.parameter), ball(self.rate), flint().arb(2).sqrt()
        if self.mixture_first:
            return (-x / root).erfc() / 2
        crude = (a * (-q).log1p()).exp() * (-x / root).erfc() / 2
        tilt = -a * q * mu
        if not x <= -tilt:  # the bound still rises there, and may exceed the integral at single points
            return crude
        size = (tilt * (mu + tilt) / 2 + a * cosine.log()).exp()
        return arb.min(crude.upper(), (size * (-(x + tilt) / root).erfc() / 2).upper())

    def _beyond_right(self, a: Any, x: Any, log_ratio: Any) -> Any:
        """Return the same bound above x >= max(a mu, 0), where the bound falls."""
        arb, mu = flint().arb, ball(self.parameter)
        if not self.mixture_first:
            return (a * log_ratio).exp() * (x / arb(2).sqrt()).erfc() / 2
        most = a * (log_ratio - self._loss(x)) + a * (a - 1) * mu * mu / 2
        return most.exp() * ((x - a * mu) / arb(2).sqrt()).erfc() / 2

    def _cells(self, c: Any, rule: Rule, moment: Any) -> Decay:
        low, _, step, _ = self._layout(float(c), 0.0)
        share = np.array([float(weight / moment) for weight in rule.weight])
        points = step * (math.floor(low / step) + np.arange(len(share)))
        mean = float(np.average(points, weights=share))
        spread = math.sqrt(float(np.average((points - mean) ** 2, weights=share)))
        edges = [ball(x) for x in (mean + spread * np.linspace(-2.8, 2.8, _PAIRED + 1)).tolist()]
        a, ratios = self.exponent(c), [self._at(x) for x in edges]
        cells = []
        for x, y, low_ratio, high_ratio in zip(edges, edges[1:], ratios, ratios[1:], strict=False):
            # r increases, so that r^a is least at one end.
            least = (a * (low_ratio if self.mixture_first else high_ratio)).exp()
            cells.append(((_normal(x, y) * least / moment).lower(), low_ratio, high_ratio))
        return paired(cells)

    def _shifted(self, c: Any, moment: Any) -> Decay:
        a, mu, q = self.exponent(c), ball(self.parameter), ball(self.rate)
        low, high, _, _ = self._layout(float(c), 0.0)
        edges = [ball(x) for x in np.linspace(low, high, _SHIFTED + 1).tolist()]
        lines = []
        for share in (1.0, 0.45, 0.2):
            y = ball(share * min(0.45 * math.pi / self.parameter, 4.0))
            sine, cosine = (mu * y).sin(), (mu * y).cos()

            def at(x: Any, sine: Any = sine, cosine: Any = cosine) -> tuple[Any, Any, Any]:
                """Return log |r|, arg r and w at x + iy."""
                drawn = q * self._loss(x).exp()
                real, imaginary = 1 - q + drawn * cosine, drawn * sine
                square = real * real + imaginary * imaginary
                w = drawn * (drawn + (1 - q) * cosine) / square
                return square.log() / 2, flint().arb.atan2(imaginary, real), w

            ends = [at(x) for x in edges]
            scale = (y * y / 2).exp() / moment
            pieces = [(scale * self._beyond_left(a, edges[0], cosine), flint().arb(0))]
            log_modulus, turn, _ = ends[-1]
            log_modulus = self._at(edges[-1]) if self.mixture_first else log_modulus  # |r(x + iy)| <= r(x)
            pieces.append((scale * self._beyond_right(a, edges[-1], log_modulus), turn.lower()))
            cells = zip(edges, edges[1:], ends, ends[1:], strict=False)
            for left, right, (_, turn, w), (_, _, more) in cells:
                middle, width = (left + right) / 2, right - left
                log_modulus, _, _ = at(middle)
                slope = (-left).union(-right) + a * mu * w.union(more)
                # The mean of e^(g y + b |y|) over |y| <= h is at most e^(b h + (g h)^2 / 6).
                bend = slope.rad() * width / 2 + (slope.mid() * width / 2) ** 2 / 6
                most = a * log_modulus - middle * middle / 2 + bend
                area = width * most.exp() / (2 * flint().arb.pi()).sqrt()
                pieces.append((scale * area, turn.lower()))
            lines.append([(size.upper(), turn) for size, turn in pieces])

        def bound(first: Any, _last: Any | None) -> Any:  # it falls
            arb = flint().arb
            with flint().ctx.workprec(64):
                sums = [sum((size * (-first * turn).exp() for size, turn in line), arb(0)) for line in lines]
                return functools.reduce(arb.min, (one.upper() for one in sums))

        return bound


def _normal(low: Any, high: Any) -> Any:
    """Return the normal measure between two numbers; for two small tails without cancellation."""
    root = flint().arb(2).sqrt()
    low, high = (-high, -low) if low < 0 else (low, high)
    return ((low / root).erfc() - (high / root).erfc()) / 2
