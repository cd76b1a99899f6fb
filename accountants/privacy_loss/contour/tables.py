"""Finitely many losses on the contour: tables of one length together, each with its count.

Under the law tilted by e^(c L) the losses L_i of a `DiscreteTerm` have weights w_i proportional to p_i e^(c
L_i), and

    phi(t) - 1 = sum of w_i (e^(i t L_i) - 1),    M(c) - 1 = sum of p_i (e^(c L_i) - 1),

exactly, because weights and probabilities add up to 1: a relative error of a weight moves either sum by that
share of its own summand. So both keep their accuracy where they are small, and many runs can be composed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.accountants.privacy_loss.contour import factors
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Along, Cumulant, Factor, Vector
from dpaudit.accountants.privacy_loss.contour.families import accumulate
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm

_PAIRED = 12  # losses of a table whose pairs bound the characteristic function


@dataclass(frozen=True, eq=False)
class Table:
    """One table of losses and its count; arrays are [rows]."""

    count: float
    losses: Vector  # losses with positive probability, increasing
    probabilities: Vector  # of the finite losses, adding up to 1
    spread: Vector  # relative error of each probability: 16 u (1 + |log p|) and the division's rounding

    @classmethod
    def of(cls, term: DiscreteTerm, count: float) -> Table:
        """Return the table of a term, without the losses that have no probability."""
        given = np.asarray(term.probabilities)
        losses, p = np.asarray(term.losses)[given > 0.0], np.asarray(given[given > 0.0] / given.sum())
        return cls(count, losses, p, (40.0 + 24.0 * np.abs(np.log(p)) + len(losses)) * UNIT)


class TablesFactor:
    """Tables of one length; arrays over them are [tables, rows]."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.losses: Vector = np.array([table.losses for table in tables])
        self.probabilities: Vector = np.array([table.probabilities for table in tables])
        self.spread: Vector = np.array([table.spread for table in tables])
        self.counts: Vector = np.array([table.count for table in tables])  # [tables]

    def cost(self, _c: float, _end: float) -> float:
        """Return the cost of a node: one formula for each loss."""
        return float(self.losses.size)

    def cumulant(self, c: float) -> Cumulant:
        """Compute M(c) - 1 if a table's exponents are small, otherwise relative to its largest summand."""
        weights, errors, logs = self._tilted(c)
        exponents = c * self.losses
        small = np.abs(exponents).max(axis=1) <= 1.0
        grown = np.expm1(np.minimum(exponents, 1.0))
        # M(c) may be below 1 if Q's mass exceeds 1 under this law.
        excess = np.maximum((self.probabilities * grown).sum(axis=1), -0.999)
        value = np.where(small, np.log1p(excess), logs)
        sizes = (self.spread + (16.0 + grown.shape[1]) * UNIT) * np.abs(grown)
        sizes += 16.0 * UNIT * np.abs(exponents)
        near = 2.0 * (self.probabilities * sizes).sum(axis=1) / (1.0 + excess)
        far = 2.0 * (weights * errors).sum(axis=1) + 16.0 * UNIT
        error = np.where(small, near, far) + (16.0 + len(value)) * UNIT * np.abs(value)
        mean = (weights * self.losses).sum(axis=1)
        variance = (weights * (self.losses - mean[:, None]) ** 2).sum(axis=1)
        return Cumulant(*(float(self.counts @ each) for each in (value, mean, variance, error)))

    def along(self, c: float, t: Vector) -> Along:
        """Return the sum over all losses of each table, node by node."""
        weights, errors, _ = self._tilted(c)
        width = weights.shape[1]
        spread = errors + (weights * errors).sum(axis=1)[:, None] + (16.0 + width) * UNIT

        def block(rows: slice, t: Vector) -> tuple[Vector, Vector, Vector]:
            angle = self.losses[rows, :, None] * t  # [tables, rows, nodes]
            w, half, size = weights[rows, None, :], np.sin(0.5 * angle), np.abs(angle)
            error = (2.0 * w * spread[rows, None, :]) @ np.minimum(size, 2.0) + 16.0 * UNIT * (w @ size)
            return factors.polar(-2.0 * (w @ (half * half))[:, 0], (w @ np.sin(angle))[:, 0], error[:, 0])

        return accumulate(block, self.counts, t, width)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """Bound |phi|^2 = E cos(t (L - L')) <= 1 - sum over pairs of 2 w_i w_j (1 - cos(t (L_i - L_j)))."""
        weights, errors, _ = self._tilted(c)
        largest = np.sort(np.argsort(weights, axis=1)[:, -_PAIRED:], axis=1)  # [tables, paired]
        given = (self.losses, weights, errors)
        losses, weights, errors = (np.take_along_axis(each, largest, axis=1) for each in given)
        least = np.maximum(0.0, weights * (1.0 - 2.0 * errors - 1e-9))
        total = np.zeros((len(self.counts), len(lower)))
        slack = 16.0 * UNIT * np.abs(losses).max(axis=1)
        for i, j in itertools.combinations(range(losses.shape[1]), 2):
            gap = losses[:, j] - losses[:, i]
            shortest, longest = np.maximum(gap - slack, 0.0)[:, None], (gap + slack)[:, None]
            versine = factors.least_versine(shortest * lower, longest * upper)
            total += (2.0 * least[:, i] * least[:, j])[:, None] * versine
        return (1.0 - 1e-9) * (self.counts @ factors.log_rest(total))

    def _tilted(self, c: float) -> tuple[Vector, Vector, Vector]:
        """Return weights, bounds on their relative errors up to a common factor, [tables, rows]; log M(c)."""
        exponents, logs = c * self.losses, np.log(self.probabilities)
        peak = (logs + exponents).max(axis=1)
        sizes = np.exp(logs + exponents - peak[:, None])
        total = sizes.sum(axis=1)
        errors = self.spread + 16.0 * UNIT * (1.0 + np.abs(exponents) + np.abs(logs))
        return sizes / total[:, None], np.minimum(errors, 1.0), peak + np.log(total)


def table_factors(tables: Sequence[Table]) -> list[Factor]:
    """Return one factor for all tables of one length."""
    lengths = dict.fromkeys(len(table.losses) for table in tables)
    return [TablesFactor([table for table in tables if len(table.losses) == rows]) for rows in lengths]
