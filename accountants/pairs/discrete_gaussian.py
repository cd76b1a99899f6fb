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

_TAIL = 38  # standard deviations; less than 1e-300 lies beyond
_MOST_OUTPUTS = 1 << 21  # to either side; for wider noise only the divergences are used
_LEAST_VARIANCE = Fraction(1, 10**9)
_MOST_ROWS = 1024  # to either side


@functools.lru_cache(maxsize=256)
def discrete_gaussian_term(pair: dominating.DiscreteGaussian) -> DiscreteTerm:
    """Return the pair of one integer moved by one: at output k the loss is L = (1 - 2 k) / (2 sigma^2).

    Rows are g outputs apart; g = 1 keeps all outputs. Mass between two rows, with losses a < L < b, goes to b
    with probability (1 - e^(a - L)) / (1 - e^(a - b)) and to a otherwise. This preserves P and Q, and merging
    would restore the pair, so the table dominates the pair but does not equal it (`merged_gaussian_term` is
    at most the pair). The rows' losses are rounded up, which only reduces Q. Beyond 38 sigma there is less
    than 1e-300 on either side: it counts as infinite or as the least loss, and every probability is raised to
    that amount. Raises `CannotBound`: there are too many outputs.
    """
    variance, furthest = pair.sigma**2, math.ceil(_TAIL * pair.sigma)
    if furthest > _MOST_OUTPUTS or variance < _LEAST_VARIANCE:
        what = f"discrete Gaussian noise of sigma = {float(pair.sigma):g} has too many likely outputs"
        if variance < _LEAST_VARIANCE:
            what = f"discrete Gaussian noise of sigma = {float(pair.sigma):g} has too large privacy losses"
        remedy = "use the accountant of Renyi divergences, or claim zCDP"
        raise CannotBound(what, where="mechanism discrete-gaussian", remedy=remedy)
    apart = _row_distance(pair)
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
    """Return the pair after each output is replaced by its row: post-processing, so it is at most the pair.

    Rows are half as long as the distance of `discrete_gaussian_term`'s rows. A row's loss is log(P/Q) of all
    its outputs together, rounded down, which only increases Q. Raises as `discrete_gaussian_term` does.
    """
    discrete_gaussian_term(pair)  # raises if it cannot be computed
    outputs, variance = _outputs(pair, -(-_row_distance(pair) // 2)), float(pair.sigma**2)
    weights, losses = np.exp(-0.5 * outputs * outputs / variance), (0.5 - outputs) / variance
    mass = weights.sum(axis=1)
    some = mass > LEAST * mass.sum()
    mass, weights, losses = mass[some], weights[some], losses[some]
    # Relative to one loss of each row the others are small: nothing cancels.
    one = losses[:, losses.shape[1] // 2]
    merged = one - np.log1p((weights * np.expm1(one[:, None] - losses)).sum(axis=1) / mass)
    merged -= 64.0 * UNIT * (np.abs(losses).max(axis=1) + np.ptp(losses, axis=1))
    return DiscreteTerm(tuple(merged[::-1].tolist()), tuple((mass / mass.sum())[::-1].tolist()))


def _row_distance(pair: dominating.DiscreteGaussian) -> int:
    """Return the distance, in outputs, of the rows of `discrete_gaussian_term`."""
    return -(-math.ceil(_TAIL * pair.sigma) // _MOST_ROWS)


def _outputs(pair: dominating.DiscreteGaussian, apart: int) -> Vector:
    """Return all likely outputs in rows of length `apart`, [rows, apart]."""
    most = -(-math.ceil(_TAIL * pair.sigma) // apart)
    first = apart * np.arange(-most, most, dtype=np.float64)
    return first[:, None] + np.arange(apart, dtype=np.float64)
