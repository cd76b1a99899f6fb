"""Closed forms and enumerations that several tests hold the package against; nothing here uses it.

Those of mpmath are in the working precision, to be set around the call.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mpmath import mp, mpf


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    """delta of N(mu, 1) against N(0, 1) at any real epsilon (Balle and Wang 2018, Theorem 8)."""
    mu, epsilon = mpf(mu), mpf(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def laplace_delta(pure: Any, epsilon: Any) -> Any:
    """delta of one Laplace release at any real epsilon: 1 - e^((epsilon - pure) / 2) between the ends."""
    pure, epsilon = mpf(pure), mpf(epsilon)
    if epsilon <= -pure:
        return -mp.expm1(epsilon)
    return max(mpf(0), -mp.expm1((epsilon - pure) / 2))


def sampled_delta(inner: Callable[[Any], Any], rate: Any, epsilon: Any, *, mixture_first: bool) -> Any:
    """One release of a Poisson sample, from the curve of the noise (Balle, Barthe and Gaboardi 2018)."""
    q, gained = mpf(rate), mp.expm1(epsilon)
    weight = q if mixture_first else q - (1 - q) * gained
    if weight <= 0:
        return mpf(0)
    ratio = 1 + gained / weight
    return -gained if ratio <= 0 else weight * inner(mp.log(ratio))


def renyi_epsilon(t: Any, log_moment: Any, delta: float) -> Any:
    """From log E e^(t L), t = alpha - 1 (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    return (log_moment - mp.log(mpf(delta)) - mp.log(1 + t)) / t + mp.log(t / (1 + t))


def laplace_log_moment(pure: Any, t: Any) -> Any:
    """log E e^(t L) of one Laplace release (Mironov 2017, Table II)."""
    return mp.log(((t + 1) * mp.exp(t * pure) + t * mp.exp(-(t + 1) * pure)) / (2 * t + 1))


def sampled_log_moment(mu: Any, rate: Any, order: int) -> Any:
    """log E_Q (P / Q)^order of a Poisson sample with Gaussian noise, a binomial sum (Mironov et al. 2019)."""
    q, square = mpf(rate), mpf(mu) ** 2
    parts = (
        mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(square * k * (k - 1) / 2)
        for k in range(order + 1)
    )
    return mp.log(mp.fsum(parts))


def convolved(*laws: Mapping[int, Any]) -> dict[int, Any]:
    """The law of a sum of losses, each a multiple of one unit."""
    total: dict[int, Any] = {0: mpf(1)}
    for law in laws:
        longer: dict[int, Any] = defaultdict(lambda: mpf(0))
        for (loss, p), (more, q) in itertools.product(total.items(), law.items()):
            longer[loss + more] += p * q
        total = longer
    return total


def law_delta(law: Mapping[int, Any], epsilon: Any, unit: Any = 1) -> Any:
    """delta of a law of losses, in multiples of the unit."""
    return mp.fsum(-p * mp.expm1(epsilon - unit * loss) for loss, p in law.items() if unit * loss > epsilon)


def encloses(found: Any, exact: Any, width: float) -> bool:
    """Whether an enclosure holds the value, and is no wider than this share of it."""
    inside = mpf(found.lower) <= exact <= mpf(found.upper)
    return bool(inside and found.upper - found.lower <= width * float(exact))


def response(epsilon: float, categories: int) -> list[list[float]]:
    """Randomized response: the probability of each answer by the true one."""
    grown = math.exp(epsilon)
    total = grown + categories - 1
    return [[(grown if i == j else 1.0) / total for j in range(categories)] for i in range(categories)]


def hockey_stick(one: Sequence[float], other: Sequence[float], epsilon: float) -> float:
    """What the first distribution has more than e^epsilon times the second."""
    return math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(one, other, strict=True))
