"""Many different Poisson-sampled Gaussian mechanisms at one abscissa: their cumulants in arrays.

One rule serves all mechanisms with mu between two powers of 2. It has the step for the largest mu and count
there, and the outer ends that these and the least and the largest rate need: in `sampled_gaussian` the step
falls, and the ends move outwards, as mu and the count grow. So it is at least as fine and as long as each
mechanism's own rule, and the bound on that rule's error holds. For exponents a between 0 and 1, where an end
may move inwards, the mechanisms are computed one by one.

Rounding, in units of u: r^a - 1 is off by at most 8 |a l| e^(a l) <= 8 (1 + |a l|) |r^a - 1|. Its product
with the rule's weight is off by 8 |log weight| more, and each function call by another 8. If a l > 1 it is
the difference of two weights, neither of which exceeds 1.6 |r^a - 1|. The total is 64 + 16 (|a l| + |log
weight|).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Cumulant, Factor
from dpaudit.accountants.privacy_loss.contour.sampled import MOST_POINTS
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import TRUNCATED, SampledGaussianFactor

FEW = 8  # fewer factors are as fast one by one
_BLOCK = 512
_LARGEST = 600.0  # limit of an exponent


def cumulants(factors: Sequence[Factor], c: float) -> list[Cumulant]:
    """Return cumulants at abscissa c whose sum is that of all the factors."""
    if len(factors) < FEW:
        return [factor.cumulant(c) for factor in factors]
    found: list[Cumulant] = []
    alike: dict[tuple[int, bool], list[SampledGaussianFactor]] = {}
    for factor in factors:
        if type(factor) is SampledGaussianFactor and factor.rate <= 0.5:
            alike.setdefault((math.frexp(factor.parameter)[1], factor.mixture_first), []).append(factor)
        else:
            found.append(factor.cumulant(c))
    for some in alike.values():
        for start in range(0, len(some), _BLOCK):
            block = some[start : start + _BLOCK]
            together = _together(block, c) if len(block) >= FEW else None
            found += [one.cumulant(c) for one in block] if together is None else [together]
    return found


def _together(factors: Sequence[SampledGaussianFactor], c: float) -> Cumulant | None:
    """Return the sum over factors of one order; None if an exponent is too large, or the rule too long."""
    rows = np.array([(one.parameter, one.rate, one.count) for one in factors])
    mu, rate, count = rows.T[:, :, None]
    most = replace(factors[0], parameter=float(mu.max()), count=float(count.max()))
    spans = [replace(most, rate=float(each)).span(c, 0.0) for each in (rate.min(), rate.max())]
    low, high, step = min(one[0] for one in spans), max(one[1] for one in spans), spans[0][2]
    if 0.0 < most.exponent(c) < 1.0 or most.parameter * high > _LARGEST or (high - low) / step > MOST_POINTS:
        return None
    x = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64)
    log_base = -0.5 * x * x + math.log(step / math.sqrt(2.0 * math.pi))  # [points]; below [factors, points]
    loss = np.log1p(rate * np.expm1(mu * x - 0.5 * mu * mu))
    tilt = most.exponent(c) * loss
    log_weight = log_base + tilt
    if log_weight.max() > _LARGEST:
        return None
    base, weight = np.exp(log_base), np.exp(log_weight)
    grown = np.where(tilt < 1.0, base * np.expm1(np.minimum(tilt, 1.0)), weight - base)
    total, value = weight.sum(axis=1), np.log1p(grown.sum(axis=1))
    sizes = math.log2(len(x)) + 64.0 + 16.0 * (np.abs(tilt) - log_base)
    rounding = 2.0 * UNIT * (np.abs(grown) * sizes).sum(axis=1) / total
    slope = (weight * loss).sum(axis=1) / total
    curvature = (weight * (loss - slope[:, None]) ** 2).sum(axis=1) / total
    error = rounding + 8.0 * UNIT * np.abs(value) + 2.0 * TRUNCATED / rows[:, 2]
    slope = slope if factors[0].mixture_first else -slope
    return Cumulant(*(math.fsum((rows[:, 2] * each).tolist()) for each in (value, slope, curvature, error)))
