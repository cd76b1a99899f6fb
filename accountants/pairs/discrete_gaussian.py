"""Discrete Gaussian noise on integers that move by one: its own pair, output by output."""

import functools
import math
from fractions import Fraction

import numpy as np

from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.pairs.tables import LEAST
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import dominating

_TAIL = 38  # standard deviations beyond which there is less than 1e-300
_MOST_OUTPUTS = 1 << 21  # to either side; of noise that is wider only its divergences are used
_LEAST_VARIANCE = Fraction(1, 10**9)
_MOST_ROWS = 1024  # to either side


@functools.lru_cache(maxsize=256)
def discrete_gaussian_term(pair: dominating.DiscreteGaussian) -> DiscreteTerm:
    """The pair of one integer moved by one: at the output k the loss is L = (1 - 2 k) / (2 sigma^2).

    Rows are g outputs apart, for g = 1 all of them. What lies between two, at losses a < L < b, goes to b
    with probability (1 - e^(a - L)) / (1 - e^(a - b)) and else to a: that keeps P and Q, and merging would
    give the pair back, so that the table dominates the pair and is not it (`merged_gaussian_term` is no more
    than the pair). The rows' losses are rounded up, which only takes from Q. Beyond 38 sigma there is
    less than 1e-300 on either side: it counts as infinite or as the least loss, and every probability is
    raised to as much. Raises `CannotBound` where there are too many outputs.
    """
    variance, furthest = pair.sigma**2, math.ceil(_TAIL * pair.sigma)
    if furthest > _MOST_OUTPUTS or variance < _LEAST_VARIANCE:
        what = f"discrete Gaussian noise of sigma = {float(pair.sigma):g} has too many likely outputs"
        if variance < _LEAST_VARIANCE:
            what = f"discrete Gaussian noise of sigma = {float(pair.sigma):g} has too large privacy losses"
        remedy = "use the accountant of Renyi divergences, or claim zCDP"
        raise CannotBound(what, where="mechanism discrete-gaussian", remedy=remedy)
    apart = _apart(pair)
    most = -(-furthest // apart)
    between, step = np.arange(apart, dtype=np.float64), float(1 / variance)
    weights = np.exp(-0.5 * _outputs(pair, apart) ** 2 / float(variance))
    whole = math.expm1(-step * apart)
    ups = weights * (np.expm1(-step * (apart - between)) / whole)
    downs = weights * (np.exp(-step * (apart - between)) * np.expm1(-step * between) / whole)
    rows = np.append(ups.sum(axis=1), 0.0) + np.insert(downs.sum(axis=1), 0, 0.0)
    losses = [up(Fraction(1 - 2 * apart * place, 2) / variance) for place in range(most, -most - 1, -1)]
    probabilities = np.maximum(rows[::-1] / rows.sum(), LEAST)
    return DiscreteTerm(tuple(losses), tuple(probabilities.tolist()), LEAST, pessimistic=apart > 1)


def merged_gaussian_term(pair: dominating.DiscreteGaussian) -> DiscreteTerm:
    """The pair after an output was only told up to a row of them: post-processing, so that it is no more.

    Rows are half as long as those of `discrete_gaussian_term` lie apart. A row's loss is log(P/Q) of all its
    outputs together, rounded down, which only adds to Q. Raises as `discrete_gaussian_term`.
    """
    discrete_gaussian_term(pair)  # refuses what cannot be computed
    outputs, variance = _outputs(pair, -(-_apart(pair) // 2)), float(pair.sigma**2)
    weights, losses = np.exp(-0.5 * outputs * outputs / variance), (0.5 - outputs) / variance
    mass = weights.sum(axis=1)
    some = mass > LEAST * mass.sum()
    mass, weights, losses = mass[some], weights[some], losses[some]
    # Beside one loss of each row the others are small: nothing cancels.
    one = losses[:, losses.shape[1] // 2]
    merged = one - np.log1p((weights * np.expm1(one[:, None] - losses)).sum(axis=1) / mass)
    merged -= 64.0 * UNIT * (np.abs(losses).max(axis=1) + np.ptp(losses, axis=1))
    return DiscreteTerm(tuple(merged[::-1].tolist()), tuple((mass / mass.sum())[::-1].tolist()))


def _apart(pair: dominating.DiscreteGaussian) -> int:
    """How many outputs apart the rows of `discrete_gaussian_term` are."""
    return -(-math.ceil(_TAIL * pair.sigma) // _MOST_ROWS)


def _outputs(pair: dominating.DiscreteGaussian, apart: int) -> Vector:
    """All likely outputs in rows of so many, [rows, apart]."""
    most = -(-math.ceil(_TAIL * pair.sigma) // apart)
    first = apart * np.arange(-most, most, dtype=np.float64)
    return first[:, None] + np.arange(apart, dtype=np.float64)
