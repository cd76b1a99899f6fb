"""How far one trajectory moves all statistics of one ridge regression together, whatever it holds.

The features are public and finitely many, so that this is a search over pairs of them. At one step a
trajectory with feature x adds, in units of the largest that each block can be,

    to values     (w x x', u x)         0 <= u <= w <= 1:  w = 1/sigma^2, u = w e, e what was earned;
    to variances  (x x', V^2 x, V x)    0 <= V <= 1:       V the value that was reached,

with |x| <= 1. Let g be the Gram matrices' share and 1 - g the vectors', halved where there are two. One
trajectory (x) replaced by another (y) moves the squares that are weighed so by no more than

    M = max over x, y of  g |x x' - y y'|^2 + (1 - g) max(|x - y|^2, |x|^2, |y|^2),

x = y among them - the same feature may earn all or nothing - and by max(1, M) where weights may be below 1.

**Values.** (w, u, w', u') moves by the squared length of a linear map, which is convex, so that it is largest
at corners of the two triangles, (0, 0), (1, 0) or (1, 1) each.

    (1, 1) and (1, 1):  g |x x' - y y'|^2 + (1 - g) |x - y|^2
    (1, 1) and (1, 0):  g |x x' - y y'|^2 + (1 - g) |x|^2
    (1, 1) and (0, 0):  g |x|^4 + (1 - g) |x|^2, which is 1 for the longest x

and the other corners are no further apart than these. Where all weights are 1, as at the last step, the third
line falls away.

**Variances.** The vectors move by half the sum of these, with u = V^2 and t = V'^2:

    |u x - t y|^2   = u^2 |x|^2 + t^2 |y|^2 - 2 u t <x, y>
    |V x - V' y|^2  = u |x|^2 + t |y|^2 - 2 sqrt(u t) <x, y>

If <x, y> < 0, each term grows with u and with t: the largest is at V = V' = 1. If <x, y> >= 0, each line is
convex in u and convex in t, since -sqrt is, and what is convex in each of two numbers is largest at
a corner of their square. Both 1: |x - y|^2; one 1 and the other 0: |x|^2 or |y|^2.

Where M is no less than 1, the same two trajectories move both regressions of a step most, and do so at every
step, if the values behind them are as large (and the other's as small, where it earns nothing) and all
variances as small as they can be: the sum over all releases is then reached, not only bounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_Matrix = NDArray[np.float64]

#: Entries of one block of pairs: 32 MB each of some five arrays.
_BLOCK = 2**22


class Furthest(NamedTuple):
    """The two cells that are furthest apart, how far, squared, and whether the other earns nothing there."""

    square: float
    one: int
    other: int
    alone: bool = False


def furthest(features: _Matrix, gram_weight: float, vector_weight: float, *, alone: bool = False) -> Furthest:
    """The pair x, y with the largest gram_weight |xx' - yy'|^2 + vector_weight |x - y|^2.

    Longer features come first, and the search ends where no pair of those left can be further apart.

    Args:
        features: [n, d], each row one cell.
        gram_weight: not negative.
        vector_weight: not negative.
        alone: |x|^2 or |y|^2 instead of |x - y|^2 where that is more. The longer one comes first.
    """
    _, cells = np.unique(features, axis=0, return_index=True)
    lengths = np.einsum("nd,nd->n", features[cells], features[cells])  # |x|^2
    order = np.argsort(-lengths, kind="stable")
    cells, lengths = cells[order], lengths[order]
    rows = features[cells]
    # Where no feature has a negative entry, no two of them are opposed.
    apart = 2.0 if (rows >= 0.0).all() else 4.0
    best = Furthest(-math.inf, 0, 0)
    height = max(1, _BLOCK // len(rows))
    for start in range(0, len(rows), height):
        longest = float(lengths[start])
        if 2.0 * gram_weight * longest**2 + apart * vector_weight * longest <= best.square:
            break
        block = slice(start, start + height)
        inner = rows[block] @ rows[start:].T
        x, y = lengths[block, None], lengths[None, start:]
        vectors = x + y - 2.0 * inner
        longer = np.maximum(x, y) if alone else vectors
        squares = gram_weight * (x**2 + y**2 - 2.0 * inner**2) + vector_weight * np.maximum(vectors, longer)
        i, j = np.unravel_index(int(squares.argmax()), squares.shape)
        if squares[i, j] > best.square:
            one, other = sorted((start + int(i), start + int(j)))
            best = Furthest(
                float(squares[i, j]), int(cells[one]), int(cells[other]), bool(vectors[i, j] < longer[i, j])
            )
    return best


class StepSensitivity(NamedTuple):
    """The l2 sensitivity of one regression: where all weights are 1, and where they may be less."""

    equal: float
    weighted: float


def step_sensitivity(features: _Matrix, gram_share: float) -> StepSensitivity:
    """The sensitivities of the statistics, stacked and weighed as above, rounded up.

    Each inner product of features of norm 1 is off by at most (d + 2) 2^-53, so that a pair's square of
    movement is off by less than 16 (d + 6) 2^-53; (d + 8) 2^-48 of it are added.

    Args:
        features: [n, d], of norm at most 1 up to rounding; the longest has norm 1.
        gram_share: g, in [0, 1/2].
    """
    found = furthest(features, gram_share, 1.0 - gram_share, alone=True).square
    margin = 1.0 + (features.shape[1] + 8) * 2.0**-48
    return StepSensitivity(math.sqrt(found * margin), math.sqrt(max(1.0, found) * margin))
