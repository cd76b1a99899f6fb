"""How far one trajectory moves all statistics of one ridge regression together, whatever it holds.

The features are public and finitely many, so that this is a search over pairs of them. At one step a
trajectory with feature x adds, in units of the largest that each block can be,

    to values     (w x x', u x)         m <= w <= 1, 0 <= u <= w:  w = 1/sigma^2, u = w e, e what was earned;
    to variances  (x x', V^2 x, V x)    0 <= V <= 1:               V the value that was reached,

with |x| <= 1, and m = 1/cap^2 the least weight that a variance clipped to cap^2 leaves. Let g be the Gram
matrices' share and 1 - g the vectors', halved where there are two. One trajectory (x) replaced by another (y)
with |x| >= |y| moves the squares that are weighed so by no more than

    values     g |x x' - w yy'|^2 + (1 - g) max(|x - w y|^2, |x|^2)    over w = 1 and w = m,
    variances  the same over w = 1,

and both are reached by some V, w and e. Equal features share one weight, in either trajectory, so that for
y = x only w = 1 counts: the same feature may earn all or nothing, (1 - g) |x|^2.

**Values, x not y.** A record's (w, u) lies in the hull of (m, 0), (m, m), (1, 0) and (1, 1). The movement's
squared length is convex in both records' (w, u) together, so that it is largest at corners:

    g (w^2 |x|^4 + w'^2 |y|^4 - 2 w w' <x, y>^2) + (1 - g) (u^2 |x|^2 + u'^2 |y|^2 - 2 u u' <x, y>).

Both weights m is m^2 times the same with both 1. Weights 1 and m cost more on the longer's side than the
other way about: the first bracket by (1 - m^2) (|x|^4 - |y|^4), and the second's largest too, of u = 1 and
u' in {0, m} against u in {0, m} and u' = 1. With w = 1 the largest has u = 1: for u = 0 the second bracket is
at most |y|^2 <= |x|^2, which u = 1 and u' = 0 has. What is left is u' = 0 or u' = w'.

**Values, x = y.** The weights are equal, w: what moves is w (e - e') x, at most |x|.

**Variances.** The vectors move by half the sum of these, with u = V^2 and t = V'^2:

    |u x - t y|^2   = u^2 |x|^2 + t^2 |y|^2 - 2 u t <x, y>
    |V x - V' y|^2  = u |x|^2 + t |y|^2 - 2 sqrt(u t) <x, y>

If <x, y> < 0, each term grows with u and with t: the largest is at V = V' = 1. If <x, y> >= 0, each line is
convex in u and convex in t, since -sqrt is, and what is convex in each of two numbers is largest at
a corner of their square. Both 1: |x - y|^2; one 1 and the other 0: |x|^2 or |y|^2.

As a function of m a pair's square is convex, and for m = 0 it is at most 1. Where variances move by 1 or
more, no m moves values by more than m = 1 does, and the same two trajectories move both regressions of every
step most. Elsewhere they may be others for variances than for values.
"""

import math
from typing import NamedTuple

import numpy as np

from dpaudit.algorithms.public_parameters import Array

#: Entries of one block of pairs: 32 MB each of some eight arrays.
_BLOCK = 2**22


class Cost(NamedTuple):
    """What squared movements of a Gram matrix and of its vectors are multiplied by."""

    gram: float
    vector: float


class Furthest(NamedTuple):
    """The two rows that are furthest apart, how far, squared, and how the other one is then."""

    square: float  # of the distance
    one: int  # the longer
    other: int  # the shorter
    alone: bool = False  # whether the other earns nothing


def furthest(
    features: Array, fixed: Cost, weighed: Cost, *, least: float = 1.0, alone: bool = True
) -> Furthest:
    """The pair of rows x, y, |x| >= |y|, that two costs together are largest for, whatever w and v.

    One is fixed.gram |xx' - yy'|^2 + fixed.vector |x - v y|^2, the other weighed.gram |xx' - w yy'|^2
    + weighed.vector |x - w v y|^2, with v in {0, 1} and w in {1, least}, but w = 1 where x is y.

    Longer features come first, and the search ends where no pair of those left can be further apart. Features
    [n, d] are all distinct, though rounding may have made some equal; `least`, m, is in (0, 1]; costs are not
    negative; `alone` says whether v = 0 is tried.
    """
    lengths = np.einsum("nd,nd->n", features, features)  # |x|^2
    order = np.argsort(-lengths, kind="stable")
    lengths, rows = lengths[order], features[order]
    # Where no feature has a negative entry, no two of them are opposed.
    apart = 2.0 if (rows >= 0.0).all() else 4.0
    gram, vector = fixed.gram + weighed.gram, fixed.vector + weighed.vector
    tried = [(v, w) for v in ((True, False) if alone else (False,)) for w in dict.fromkeys((1.0, least))]
    best = Furthest(-math.inf, 0, 0)
    height = max(1, _BLOCK // len(rows))
    for start in range(0, len(rows), height):
        longest = float(lengths[start])
        if 2.0 * gram * longest**2 + apart * vector * longest <= best.square:
            break
        block = lengths[start : start + height]
        inner = rows[start : start + height] @ rows[start:].T
        x = np.maximum(block[:, None], lengths[None, start:])
        y = np.minimum(block[:, None], lengths[None, start:])
        for unpaid, w in tried:
            squares = np.zeros_like(inner)
            for cost, weight in ((fixed, 1.0), (weighed, w)):
                if not any(cost):
                    continue
                u = 0.0 if unpaid else weight
                squares += cost.gram * (x**2 + (weight * y) ** 2 - 2.0 * weight * inner**2)
                squares += cost.vector * (x + u**2 * y - 2.0 * u * inner)
            if w < 1.0:
                np.fill_diagonal(squares, -math.inf)  # equal features, equal weights
            i, j = np.unravel_index(int(squares.argmax()), squares.shape)
            if squares[i, j] > best.square:
                one, other = sorted((start + int(i), start + int(j)))
                best = Furthest(float(squares[i, j]), int(order[one]), int(order[other]), unpaid)
    return best


def variance_sensitivity(features: Array, gram_share: float) -> float:
    """Return the l2 sensitivity, rounded up, of the variances' statistics, or of the values' with weights 1.

    Each inner product of features of norm 1 is off by at most (d + 2) 2^-53, so that a pair's square of
    movement is off by less than 16 (d + 6) 2^-53; (d + 8) 2^-48 of it are added. Features are [n, d],
    distinct, of norm at most 1 up to rounding; the longest has norm 1.
    """
    fixed = Cost(gram_share, 1.0 - gram_share)
    return _rounded_up(furthest(features, fixed, Cost(0.0, 0.0)).square, features)


def value_sensitivity(features: Array, gram_share: float, least: float) -> float:
    """The same of the values' statistics with least weight m, in (0, 1]."""
    weighed = Cost(gram_share, 1.0 - gram_share)
    return _rounded_up(furthest(features, Cost(0.0, 0.0), weighed, least=least).square, features)


def _rounded_up(square: float, features: Array) -> float:
    return math.sqrt(square * (1.0 + (features.shape[1] + 8) * 2.0**-48))
