"""Whether figure 1 of Qiao and Wang (2023) has the shape that its section 6 describes, judged from cells.

Four sentences are judged; each answer carries the numbers it follows from. With few runs a difference may be
chance: a sentence about which of two is better gets its answer only where a 95% confidence interval over the
runs excludes 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpaudit.app.figures.figure_000 import Cell
from dpaudit.app.figures.published_claims import Appears, Estimate, Sentence, estimate

#: "Slightly worse" and "converged" are read as: within this share of the optimal value; the paper names none.
CLOSE = 0.05


@dataclass(frozen=True, order=True)
class Curve:
    """One curve of the figure: an algorithm, its budget and its constant C."""

    algorithm: str
    rho: float
    bonus: float

    def __str__(self) -> str:
        """As the legend has it."""
        if self.algorithm == "dp-vapvi":
            return f"DP-VAPVI, rho={self.rho:g}"
        return f"PEVI, C={self.bonus:g}" if self.algorithm == "pevi" else "VAPVI"


class Curves:
    """Suboptimality by curve, K and run.

    Args:
        cells: finished ones, every curve at the same numbers of episodes and seeds.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.ks = sorted({cell.episodes for cell in cells})
        self.seeds = sorted({cell.seed for cell in cells})
        table: dict[Curve, NDArray[np.float64]] = {}
        for cell in cells:
            curve = Curve(cell.algorithm, cell.rho, cell.bonus)
            values = table.setdefault(curve, np.full((len(self.ks), len(self.seeds)), np.nan))
            values[self.ks.index(cell.episodes), self.seeds.index(cell.seed)] = cell.suboptimality
        self.table = table  # each [K, runs]

    def of(self, algorithm: str) -> list[Curve]:
        """An algorithm's curves, in the cells' order."""
        return [curve for curve in self.table if curve.algorithm == algorithm]

    def estimates(self, curve: Curve) -> list[Estimate]:
        """The curve's mean at each K."""
        return [estimate(row) for row in self.table[curve]]

    def gaps(self, curve: Curve) -> list[Estimate]:
        """By how much a curve lies above VAPVI's at each K, run by run on the same episodes."""
        (vapvi,) = self.of("vapvi")
        return [estimate(row) for row in self.table[curve] - self.table[vapvi]]


def sentences(curves: Curves, optimum: float) -> list[Sentence]:
    """Every sentence of section 6 on every curve it speaks of.

    Args:
        curves: of one panel.
        optimum: v*, which `CLOSE` is a share of.
    """
    close = CLOSE * optimum
    found = [_slightly_worse(curves, curve, close) for curve in curves.of("dp-vapvi")]
    found += [_converges(curves, curve, close) for curve in curves.of("dp-vapvi")]
    found += [_larger_is_better(curves, small, large) for small, large in pairwise(curves.of("dp-vapvi"))]
    found += [
        _outperforms(curves, curve, pevi) for pevi in curves.of("pevi") for curve in curves.of("dp-vapvi")
    ]
    return found


def reached(curves: Curves, curve: Curve, optimum: float) -> int | None:
    """The first K from which on the mean gap to VAPVI stays within `CLOSE`; None if it never does."""
    first = None
    for k, gap in zip(curves.ks, curves.gaps(curve), strict=True):
        if gap.mean > CLOSE * optimum:
            first = None
        elif first is None:
            first = k
    return first


def _slightly_worse(curves: Curves, curve: Curve, close: float) -> Sentence:
    gaps = dict(zip(curves.ks, curves.gaps(curve), strict=True))
    worst = max(gaps, key=lambda k: gaps[k].mean)
    best = min(gaps, key=lambda k: gaps[k].mean)
    within = sum(gap.mean <= close for gap in gaps.values())
    return Sentence(
        "DP-VAPVI performs slightly worse than VAPVI",
        str(curve),
        "yes" if within == len(gaps) else "no",
        f"above VAPVI by {gaps[worst]} at K={worst}, where it is most, and by {gaps[best]} at K={best}, "
        f"where it is least; within {close:.2f}, {CLOSE:.0%} of the optimum, "
        f"at {within} of {len(gaps)} values of K",
    )


def _converges(curves: Curves, curve: Curve, close: float) -> Sentence:
    gaps = curves.gaps(curve)
    (vapvi,) = curves.of("vapvi")
    above = curves.table[curve] - curves.table[vapvi]
    fall = estimate(above[0] - above[-1])
    return Sentence(
        "as the data set grows larger, DP-VAPVI converges to VAPVI",
        str(curve),
        "yes" if gaps[-1].mean <= close else "no",
        f"above VAPVI by {gaps[0]} at K={curves.ks[0]} and by {gaps[-1]} at K={curves.ks[-1]}: "
        + _direction(fall, "the gap closes by", "the gap widens by", "no change told apart:"),
    )


def _larger_is_better(curves: Curves, small: Curve, large: Curve) -> Sentence:
    better = estimate((curves.table[small] - curves.table[large]).mean(axis=0))
    ahead = sum(
        two.mean < one.mean for one, two in zip(curves.estimates(small), curves.estimates(large), strict=True)
    )
    return Sentence(
        "with a larger budget DP-VAPVI is closer to VAPVI",
        f"rho={large.rho:g} against rho={small.rho:g}",
        _answer(better),
        f"{_direction(better, 'better by', 'worse by', 'not told apart:')} on average over K; "
        f"better at {ahead} of {len(curves.ks)} values of K",
    )


def _outperforms(curves: Curves, curve: Curve, pevi: Curve) -> Sentence:
    differences = curves.table[pevi] - curves.table[curve]
    better = [float(row.mean()) > 0.0 for row in differences]
    behind = [k for k, is_better in zip(curves.ks, better, strict=True) if not is_better]
    where = f", not at K = {', '.join(map(str, behind))}" if behind else ""
    average = _direction(estimate(differences.mean(axis=0)), "better by", "worse by", "not told apart:")
    return Sentence(
        "in most cases DP-VAPVI outperforms PEVI",
        f"{curve} against {pevi}",
        "yes" if 2 * sum(better) > len(better) else "no",
        f"better at {sum(better)} of {len(better)} values of K{where}; {average} on average over K",
    )


def _answer(difference: Estimate) -> Appears:
    if difference.runs < 2 or abs(difference.mean) <= difference.half_width:
        return "not told apart"
    return "yes" if difference.mean > 0 else "no"


def _direction(difference: Estimate, up: str, down: str, neither: str) -> str:
    answer = _answer(difference)
    if answer == "not told apart":
        return f"{neither} {difference}"
    size = Estimate(abs(difference.mean), difference.half_width, difference.runs)
    return f"{up if answer == 'yes' else down} {size}"
