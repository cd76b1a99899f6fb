"""An exact test of two proportions against a ceiling p <= F(q): no Bonferroni, no approximation.

Clopper-Pearson intervals bound each proportion on its own, which costs half of the error each. Here the
pair of counts is tested as one. The counts are ordered by how strong evidence against the claim they are;
the p-value is the largest probability, over all (p, q) that the claim allows, of counts at least as strong
as the observed ones (Barnard 1945). The search over q is confined to an interval that misses the true q
with a small probability, which is added to the p-value (Berger and Boos 1994). The region of stronger counts
grows with x and shrinks with y, so its probability on a cell [q_low, q_high] is at most that of x drawn with
F(q_high) and y with q_low: finitely many cells bound the supremum from above, with nothing left out.

References:
    G. A. Barnard. A new test for 2x2 tables. Nature 156, 1945.
    R. L. Berger, D. D. Boos. P values maximized over a confidence set for the nuisance parameter.
    Journal of the American Statistical Association 89, 1994.
    I. S. F. Chan, Z. Zhang. Test-based exact confidence intervals for the difference of two binomial
    proportions. Biometrics 55, 1999.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy

from dpaudit.auditors.statistics.clopper_pearson import largest_refuted, proportion_lower, proportion_upper
from dpaudit.mechanisms import Array

#: F, nondecreasing: the largest p that a claim allows beside each q; may exceed 1.
Ceiling: TypeAlias = Callable[[Array], Array]
#: The strength of counts (x, y) as evidence against the claim; nondecreasing in x.
Ordering: TypeAlias = Callable[[Array, Array], Array]

_CELLS = 128
_GROUPS = 256
#: Share of the error that the interval for q may spend.
_NUISANCE = 1e-3


@dataclass(frozen=True)
class Region:
    """The counts at least as strong as the observed ones, as the staircase x >= start of y's group."""

    trials: int
    edges: Array  # [cells + 1] of q
    mass: Array  # [cells, groups], the probability of y's group at each cell's lower edge
    starts: Array  # [groups], the least x in the region, of x in 0..trials
    nuisance: float  # the probability with which q lies outside the cells

    def p_value(self, ceiling: Ceiling) -> float:
        """The largest probability of the region under any q and any p <= ceiling(q)."""
        return float(np.max(self._p_values(ceiling, slice(None))))

    def _p_values(self, ceiling: Ceiling, cells: slice) -> Array:
        """The same with q in each of some cells."""
        p = np.clip(ceiling(self.edges[1:][cells]), 0.0, 1.0)[:, None]  # [cells, 1]
        beyond = scipy.special.bdtrc(np.maximum(self.starts - 1, 0), self.trials, p)  # [cells, groups]
        tail = np.where(self.starts > self.trials, 0.0, np.where(self.starts > 0, beyond, 1.0))
        largest = np.sum(self.mass[cells] * tail, axis=1) * (1 + 1e-9) + self.nuisance
        return np.asarray(np.minimum(1.0, largest))

    def largest_refuted(self, family: Callable[[float], Ceiling], highest: float, error: float) -> float:
        """The largest theta in [0, highest] with p-value at most `error` for all smaller theta.

        Each ceiling of the family lies above the ones of smaller theta. The result is a lower bound on theta
        that fails with probability at most `error`; 0 if none is refuted.
        """
        worst = len(self.mass) // 2
        while True:  # the largest theta that one cell refutes, until no other cell refutes less
            cell = slice(worst, worst + 1)
            most = largest_refuted(lambda t: bool(self._p_values(family(t), cell)[0] <= error), highest, 22)  # noqa: B023
            found = self._p_values(family(most), slice(None))
            if most == 0.0 or np.max(found) <= error:
                return most
            worst = int(np.argmax(found))


def region(x: int, y: int, trials: int, ordering: Ordering, error: float) -> Region:
    """The region of counts at least as strong as (x, y), out of `trials` on either side.

    `InvalidParameter` is raised for a count outside 0..trials or an error outside (0, 1).
    """
    nuisance = error * _NUISANCE
    q_low, q_high = proportion_lower(y, trials, nuisance / 2), proportion_upper(y, trials, nuisance / 2)
    # Equal steps of arcsin sqrt(q) are equal parts of a standard deviation, wherever q lies.
    angles = np.linspace(np.arcsin(np.sqrt(q_low)), np.arcsin(np.sqrt(q_high)), _CELLS + 1)
    edges = np.sin(angles) ** 2
    edges[0], edges[-1] = q_low, q_high
    # The first y of each group: 0, then a fine grid where y is likely, the rest in the last.
    reach = [7.0 * math.sqrt(trials * q * (1 - q)) + 12.0 for q in (q_low, q_high)]
    grid = np.linspace(max(0.0, trials * q_low - reach[0]), min(trials, trials * q_high + reach[1]), _GROUPS)
    first = np.unique(np.concatenate([[0.0], np.floor(grid)]))
    # Made monotone in y: the strength of (x, y) is its least over all smaller y.
    strength = float(np.min(ordering(np.full(y + 1, float(x)), np.arange(y + 1.0))))
    starts = np.maximum.accumulate(_staircase(first, trials, ordering, strength))
    # P(Y < first), [cells, groups]
    below = scipy.special.bdtr(np.maximum(first - 1, 0), trials, edges[:-1, None])
    below = np.where(first > 0, below, 0.0)
    mass = np.diff(below, axis=1, append=1.0)
    return Region(trials, edges, np.maximum(mass, 0.0), starts, nuisance)


def _staircase(y: Array, trials: int, ordering: Ordering, strength: float) -> Array:
    """The least x in 0..trials at least as strong, for each y; trials + 1 where there is none."""
    low, high = np.zeros(len(y)), np.full(len(y), trials + 1.0)
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        enough = ordering(middle, y) >= strength
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    return low


def by_epsilon(trials: int, delta: float, error: float) -> Ordering:
    """Counts ordered by an approximate lower bound on log((p - delta) / q)."""
    width = float(-scipy.special.ndtri(error))

    def order(x: Array, y: Array) -> Array:
        excess = x - trials * delta
        above = np.maximum(excess, 1e-9)
        share = (1 / np.maximum(x, 1.0) - 1 / (trials + 1.0)) * (x / above) ** 2
        variance = share + 1 / (y + 1) - 1 / (trials + 2.0)
        bound = np.log(above / (y + 1)) - width * np.sqrt(variance)
        return np.where(excess > 0, bound, -np.inf)

    return order


def by_mu(trials: int) -> Ordering:
    """Counts ordered by the distance between the normal quantiles of p and q."""

    def order(x: Array, y: Array) -> Array:
        p, q = np.minimum(x + 0.5, trials + 0.75) / (trials + 1), (y + 0.5) / (trials + 1)
        return np.asarray(scipy.special.ndtri(p) - scipy.special.ndtri(q))

    return order
