"""Many different tables of as many losses each, all at once on the contour; formulae as in `discrete`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpaudit.accountants.privacy_loss.contour.discrete import DiscreteFactor
from dpaudit.accountants.privacy_loss.contour.factors import (
    UNIT,
    Along,
    Cumulant,
    Factor,
    Vector,
    least_versine,
    polar,
)
from dpaudit.accountants.privacy_loss.contour.families import accumulate

#: Longer tables are better summed one by one.
_LONGEST = 12


@dataclass(frozen=True, eq=False)
class TablesFactor:
    """Tables of one length; arrays over them are [tables, rows]."""

    tables: tuple[DiscreteFactor, ...]

    @cached_property
    def losses(self) -> Vector:
        """[tables, rows]."""
        return np.array([table.losses for table in self.tables])

    @cached_property
    def probabilities(self) -> Vector:
        """[tables, rows]."""
        return np.array([table.probabilities for table in self.tables])

    @cached_property
    def spread(self) -> Vector:
        """Relative errors of the probabilities; [tables, rows]."""
        return np.array([table.spread for table in self.tables])

    @cached_property
    def counts(self) -> Vector:
        """[tables]."""
        return np.array([table.count for table in self.tables])

    def cost(self, c: float, end: float) -> float:
        """One formula for each loss."""
        del c, end
        return float(self.losses.size)

    def cumulant(self, c: float) -> Cumulant:
        """As M(c) - 1 where a table's exponents are small, else relative to its largest summand."""
        weights, errors, logs = self._tilted(c)
        exponents = c * self.losses
        small = np.abs(exponents).max(axis=1) <= 1.0
        grown = np.expm1(np.minimum(exponents, 1.0))
        excess = (self.probabilities * grown).sum(axis=1)
        with np.errstate(invalid="ignore"):
            value = np.where(small, np.log1p(np.maximum(excess, -0.999)), logs)
        sizes = (self.spread + (16.0 + grown.shape[1]) * UNIT) * np.abs(grown) + 16.0 * UNIT * np.abs(
            exponents
        )
        near = 2.0 * (self.probabilities * sizes).sum(axis=1) / (1.0 + np.maximum(excess, -0.999))
        far = 2.0 * (weights * errors).sum(axis=1) + 16.0 * UNIT
        error = np.where(small, near, far) + (16.0 + len(value)) * UNIT * np.abs(value)
        mean = (weights * self.losses).sum(axis=1)
        variance = (weights * (self.losses - mean[:, None]) ** 2).sum(axis=1)
        return Cumulant(*(float(self.counts @ each) for each in (value, mean, variance, error)))

    def along(self, c: float, t: Vector) -> Along:
        """The sum over all losses of each table, node by node."""
        weights, errors, _ = self._tilted(c)
        spread = errors + (weights * errors).sum(axis=1)[:, None] + (16.0 + weights.shape[1]) * UNIT

        def block(c: float, t: Vector, index: Vector) -> tuple[Vector, Vector, Vector]:
            del c
            rows = index[:, 0].astype(np.intp)
            x, y, error = np.zeros((3, len(rows), len(t)))
            for column in range(weights.shape[1]):
                w, angle = weights[rows, column, None], self.losses[rows, column, None] * t
                half = np.sin(0.5 * angle)
                x -= 2.0 * w * half * half
                y += w * np.sin(angle)
                size = np.abs(angle)
                error += w * (2.0 * spread[rows, column, None] * np.minimum(size, 2.0) + 16.0 * UNIT * size)
            return polar(x, y, error)

        return accumulate(block, c, t, np.arange(len(self.counts), dtype=np.float64), self.counts)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """|phi|^2 = 1 - sum over pairs of 2 w_i w_j (1 - cos(t (L_i - L_j))), table by table."""
        weights, errors, _ = self._tilted(c)
        least = np.maximum(0.0, weights * (1.0 - 2.0 * errors - 1e-9))
        total = np.zeros((len(self.counts), len(lower)))
        slack = 16.0 * UNIT * np.abs(self.losses).max(axis=1)
        for i in range(weights.shape[1]):
            for j in range(i):
                gap = self.losses[:, i] - self.losses[:, j]
                versine = least_versine(
                    np.maximum(gap - slack, 0.0)[:, None] * lower, (gap + slack)[:, None] * upper
                )
                total += (2.0 * least[:, i] * least[:, j])[:, None] * versine
        logs = np.log1p(-np.minimum(total, 1.0 - 1e-12))
        decayed: Vector = 0.5 * (1.0 - 1e-9) * (self.counts @ logs)
        return decayed

    def _tilted(self, c: float) -> tuple[Vector, Vector, Vector]:
        """Weights and bounds on their relative errors but for a common factor, [tables, rows]; log M(c)."""
        exponents, logs = c * self.losses, np.log(self.probabilities)
        peak = (logs + exponents).max(axis=1)
        sizes = np.exp(logs + exponents - peak[:, None])
        total = sizes.sum(axis=1)
        errors = self.spread + 16.0 * UNIT * (1.0 + np.abs(exponents) + np.abs(logs))
        return sizes / total[:, None], np.minimum(errors, 1.0), peak + np.log(total)


def table_factors(tables: Sequence[DiscreteFactor]) -> list[Factor]:
    """Tables of one length together, long ones and single ones each by itself."""
    lengths: dict[int, list[DiscreteFactor]] = defaultdict(list)
    for table in tables:
        lengths[len(table.losses)].append(table)
    factors: list[Factor] = []
    for length, alike in lengths.items():
        factors += [TablesFactor(tuple(alike))] if length <= _LONGEST and len(alike) > 1 else alike
    return factors
