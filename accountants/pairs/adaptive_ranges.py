"""Many adaptive choices of bounded range: one table that dominates all of them.

The pair of `BoundedRangeTerm` dominates every choice at once, but an adversary makes only one choice at a
time. Take a pair of losses h, h - e with probabilities p = (E - e^h) / (E - 1) and 1 - p, E = e^e; by
convexity it is the worst pair for any h. The largest delta over all strategies is V_n,

    V_0(y) = (1 - y)_+,    V_(j+1)(y) = max over 0 <= h <= e of p V_j(y e^-h) + (1 - p) V_j(y e^(e - h)),

at y = e^epsilon (after Dong, Durfee and Rogers 2020). Each V_j is convex in y, hence the curve of a pair that
dominates j adaptive choices. Other mechanisms may run in between: domination of interactive mechanisms
survives concurrent composition (Vadhan and Zhang 2023).

V_j is stored at y = e^(k e / K): the chord between two neighbours lies above a convex function. Between two
neighbouring h of the lattice both arguments stay on one chord each, and the sum is a - b z - c / z in z =
y e^-h with b, c >= 0, concave: its largest value is at most the height where the tangents at both ends
meet. An allowance of 1e-12 covers rounding of a few u per step.
"""

import functools
import math

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import Vector
from dpaudit.accountants.privacy_loss.terms import BoundedRangeTerm, DiscreteTerm

LONGEST = 64  # the longest block; several blocks compose like different mechanisms
_POINTS = 2048  # lattice points on either side
_SMALLEST, _LARGEST = 1e-4, 8.0  # choices with an epsilon outside are composed one by one
_SHARE = 1e-10  # raise of probabilities, so that no rounding lowers the curve
_LOST = 1e-290


def adaptive_terms(epsilon: float, count: int) -> list[tuple[BoundedRangeTerm | DiscreteTerm, int]]:
    """Return terms, in equal blocks, that dominate `count` >= 1 adaptive choices of range epsilon > 0."""
    blocks = -(-count // LONGEST)
    some, more = divmod(count, blocks)  # `more` blocks are longer by one
    terms: list[tuple[BoundedRangeTerm | DiscreteTerm, int]] = []
    for runs, times in ((some, blocks - more), (some + 1, more)):
        term = block_term(epsilon, runs) if runs > 1 and times else None
        if term is not None:
            terms.append((term, times))
        elif times:
            terms.append((BoundedRangeTerm(epsilon), times * runs))
    return terms


@functools.lru_cache(maxsize=256)
def block_term(epsilon: float, runs: int) -> DiscreteTerm | None:
    """Return a term that dominates a block of adaptive choices; None if rounding prevents it."""
    if not _SMALLEST <= epsilon <= _LARGEST:
        return None
    loss, curve = _largest_delta(epsilon, runs, max(8, _POINTS // runs))
    y = np.exp(loss)
    slope = np.append(np.diff(curve) / np.diff(y), 0.0)
    # Losses up to this one are raised to it, so that its probability exceeds rounding errors.
    least = int(np.flatnonzero(y * slope - curve + 1.0 >= 1e-6)[0])
    rest = np.maximum(y[least + 1 :] * np.diff(slope[least:]), 0.0) * (1.0 + _SHARE)
    probabilities = np.append(1.0 - rest.sum(), rest)
    kept, wanted = loss[least:], curve[least:]
    above = np.cumsum(probabilities[::-1])[::-1]
    neighbour = np.cumsum((probabilities * np.exp(-kept))[::-1])[::-1]
    reached = above - y[least:] * neighbour
    some = wanted > 1e-200
    if probabilities[0] <= 0.0 or np.any(reached[some] < wanted[some]):
        return None
    positive = probabilities > 0.0
    masses = tuple(probabilities[positive].tolist())
    return DiscreteTerm(tuple(kept[positive].tolist()), masses, _LOST, pessimistic=True)


def _largest_delta(epsilon: float, runs: int, cells: int) -> tuple[Vector, Vector]:
    """Return upper bounds on V at loss k epsilon / cells, for |loss| <= (runs + 1) epsilon."""
    zero, odds = (runs + 1) * cells, math.expm1(epsilon)
    loss: Vector = np.arange(-zero, zero + 1, dtype=np.float64) * (epsilon / cells)
    y = np.exp(loss)
    curve = np.maximum(-np.expm1(loss), 0.0)
    for run in range(1, runs + 1):
        inside = slice(zero - run * cells + 1, zero + run * cells)
        widths = np.diff(y)
        slope = np.diff(curve) / widths
        best = np.zeros(inside.stop - inside.start)
        ends: list[tuple[float, Vector, Vector]] = []
        for step in range(cells + 1):
            # At h = step epsilon / cells: the share, the value, and the value's slope.
            low, high = (slice(inside.start - by, inside.stop - by) for by in (step, step - cells))
            share = -math.expm1((step - cells) * (epsilon / cells)) * math.exp(epsilon) / odds
            one, other = curve[low], curve[high]  # at `high` the loss is h - epsilon
            turn = np.exp(loss[inside] - 2.0 * loss[low]) / odds
            ends = [(share, share * one + (1.0 - share) * other, turn * (one - other)), *ends[:1]]
            if step == 0:
                continue
            left, right = (
                turns + part * slope[low] + (1.0 - part) * math.exp(epsilon) * slope[high]
                for part, _, turns in ends
            )
            meets = (left > 0.0) & (right < 0.0)
            bend = np.where(meets, left - right, 1.0)
            (_, first, _), (_, last, _) = ends
            peak = first + left * (last - first - right * widths[low]) / bend
            best = np.maximum(best, np.maximum(first, last))
            best = np.where(meets, np.maximum(best, peak), best)
        curve = curve.copy()
        curve[inside] = np.minimum(best * (1.0 + 1e-12), 1.0)
    return loss, np.asarray(curve)
