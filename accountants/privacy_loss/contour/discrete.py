"""Finitely many losses on the contour: one `DiscreteTerm` with its count.

Under the law tilted by e^(c L) the losses L_i have weights w_i proportional to p_i e^(c L_i), and

    phi(t) - 1 = sum of w_i (e^(i t L_i) - 1),    M(c) - 1 = sum of p_i (e^(c L_i) - 1),

exactly, because weights and probabilities add up to 1: what a weight is off by moves either sum by that share
of its own summand. So both keep their accuracy where they are small, and many runs may be composed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import (
    UNIT,
    Along,
    Cumulant,
    Vector,
    least_versine,
    polar,
)
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm

_CELLS = 1 << 18
_PAIRED = 12  # losses whose pairs bound the characteristic function


@dataclass(frozen=True, eq=False)
class DiscreteFactor:
    """One table of losses, as often as its count says."""

    term: DiscreteTerm
    count: float

    @cached_property
    def losses(self) -> Vector:
        """Those that have a probability, increasing; [rows]."""
        return np.asarray(self.term.losses)[np.asarray(self.term.probabilities) > 0.0]

    @cached_property
    def probabilities(self) -> Vector:
        """Of the finite losses, adding up to 1; [rows]."""
        given = np.asarray(self.term.probabilities)
        return np.asarray(given[given > 0.0] / given.sum())

    @property
    def ceiling(self) -> float:
        """The largest loss of one run."""
        return max(0.0, float(self.losses[-1]))

    @cached_property
    def spread(self) -> Vector:
        """Relative error of each probability: 16 u (1 + |log p|) and the rounding of the division; [rows]."""
        logs = np.abs(np.log(self.probabilities))
        return (40.0 + 24.0 * logs + len(self.losses)) * UNIT

    def cost(self, c: float, end: float) -> float:
        """One formula for each loss."""
        del c, end
        return float(len(self.losses))

    def cumulant(self, c: float) -> Cumulant:
        """As M(c) - 1 where the exponents are small, else relative to the largest summand."""
        weights, errors, log_moment = self._tilted(c)
        mean = float(weights @ self.losses)
        centred = self.losses - mean
        exponents = c * self.losses
        if float(np.abs(exponents).max()) <= 1.0:
            grown = np.expm1(exponents)
            excess = float(self.probabilities @ grown)
            value = float(np.log1p(max(excess, -0.999)))
            # M(c) may lie below 1 where Q is more than a probability under this law.
            sizes = (self.spread + 16.0 * UNIT + len(grown) * UNIT) * np.abs(grown)
            sizes = sizes + 16.0 * UNIT * np.abs(exponents)
            error = 2.0 * float(self.probabilities @ sizes) / (1.0 + excess) + 16.0 * UNIT * abs(value)
        else:
            value = log_moment
            error = 2.0 * float(weights @ errors) + 16.0 * UNIT * (1.0 + abs(value))
        variance = float(weights @ (centred * centred))
        return Cumulant(self.count * value, self.count * mean, self.count * variance, self.count * error)

    def along(self, c: float, t: Vector) -> Along:
        """The sum over all losses, node by node."""
        weights, errors, _ = self._tilted(c)
        spread = errors + float(weights @ errors) + (16.0 + len(weights)) * UNIT
        x, y, error = np.zeros((3, len(t)))
        nodes = max(1, _CELLS // len(weights))
        for start in range(0, len(t), nodes):
            here = slice(start, start + nodes)
            angle = np.outer(self.losses, t[here])
            half = np.sin(0.5 * angle)
            x[here] = -2.0 * (weights @ (half * half))
            y[here] = weights @ np.sin(angle)
            size = np.abs(angle)
            error[here] = (2.0 * weights * spread) @ np.minimum(size, 2.0) + 16.0 * UNIT * (weights @ size)
        log_modulus, phase, loss = polar(x, y, error)
        return Along(self.count * log_modulus, self.count * phase, self.count * loss)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """|phi|^2 = E cos(t (L - L')) <= 1 - sum over pairs of 2 w_i w_j (1 - cos(t (L_i - L_j)))."""
        weights, errors, _ = self._tilted(c)
        largest = np.sort(np.argsort(weights)[-_PAIRED:])
        least = weights[largest] * (1.0 - 2.0 * errors[largest] - 1e-9)
        total = np.zeros(len(lower))
        for i, one in enumerate(largest):
            for j in range(i):
                gap = float(self.losses[one] - self.losses[largest[j]])
                slack = 16.0 * UNIT * float(np.abs(self.losses[[one, largest[j]]]).max())
                versine = least_versine(max(gap - slack, 0.0) * lower, (gap + slack) * upper)
                total += 2.0 * max(0.0, float(least[i] * least[j])) * versine
        decayed: Vector = 0.5 * self.count * (1.0 - 1e-10) * np.log1p(-np.minimum(total, 1.0 - 1e-12))
        return decayed

    def _tilted(self, c: float) -> tuple[Vector, Vector, float]:
        """The tilted weights, bounds on their relative errors but for a common factor, and log M(c)."""
        exponents = c * self.losses
        logs = np.log(self.probabilities) + exponents
        peak = float(logs.max())
        sizes = np.exp(logs - peak)
        total = float(sizes.sum())
        errors = self.spread + 16.0 * UNIT * (1.0 + np.abs(exponents) + np.abs(np.log(self.probabilities)))
        return sizes / total, np.minimum(errors, 1.0), peak + float(np.log(total))
