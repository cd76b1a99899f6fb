"""Discrete Gaussian noise on integers that move by one: its own pair, output by output."""

import functools
import math
from fractions import Fraction

import numpy as np

from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.pairs.tables import LEAST
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
    give the pair back. The rows' losses are rounded up, which only takes from Q. Beyond 38 sigma there is
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
    apart = -(-furthest // _MOST_ROWS)
    most = -(-furthest // apart)
    between, step = np.arange(apart, dtype=np.float64), float(1 / variance)
    outputs = apart * np.arange(-most, most, dtype=np.float64)[:, None] + between  # [rows - 1, apart]
    weights = np.exp(-0.5 * outputs * outputs / float(variance))
    whole = math.expm1(-step * apart)
    ups = weights * (np.expm1(-step * (apart - between)) / whole)
    downs = weights * (np.exp(-step * (apart - between)) * np.expm1(-step * between) / whole)
    rows = np.append(ups.sum(axis=1), 0.0) + np.insert(downs.sum(axis=1), 0, 0.0)
    losses = [up(Fraction(1 - 2 * apart * place, 2) / variance) for place in range(most, -most - 1, -1)]
    probabilities = np.maximum(rows[::-1] / rows.sum(), LEAST)
    return DiscreteTerm(tuple(losses), tuple(probabilities.tolist()), LEAST)
