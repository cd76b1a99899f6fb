"""Groups of units: what a mechanism is to data sets that differ in several units at once.

Two data sets that differ in k units are the ends of a chain of k neighbouring pairs, so every distance
that the mechanism's obligation bounds grows at most k times (the triangle inequality). This is the one
place where a group's size turns into a factor; `dpaudit.accountants.composition.composition` applies it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    GaussianProcess,
    Laplace,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
)


@lru_cache(maxsize=1 << 16)
def for_group(mechanism: AnyMechanism, size: int) -> tuple[AnyMechanism, int]:
    """The mechanism as data sets that differ in `size` units see it, and how many times.

    Sensitivities are multiplied. Randomized response: each unit has an entry of its own, so a group
    meets `size` independent runs. Bounded range and pure epsilon: multiplied (Dwork, Kenthapadi,
    McSherry, Mironov and Naor 2006). zCDP: rho times size^2 (Bun and Steinke 2016, Proposition 1.9).
    (epsilon, delta): (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon))) (Vadhan 2017, Lemma
    2.2). Smooth noise: along the chain the scale changes by at most e^(beta/2) a step, so that each of
    the k shifts is at most e^((k-1) beta/2)/alpha times the smaller of the ends' scales.

    Raises:
        CannotBound: no bound for groups is known, or it is past the largest double.
    """
    if size == 1:
        return mechanism, 1
    match mechanism:
        case (
            Gaussian()
            | SymmetricGaussian()
            | TreeAggregation()
            | GaussianProcess()
            | DiscreteGaussian()
            | Laplace()
            | DiscreteLaplace()
        ):
            value = _scaled(mechanism.sensitivity.value, size)
            sensitivity = mechanism.sensitivity.model_copy(update={"value": value})
            return mechanism.model_copy(update={"sensitivity": sensitivity}), 1
        case RandomizedResponse():
            return mechanism, size
        case Exponential() | OpaquePureDP():
            return mechanism.model_copy(update={"epsilon": _scaled(mechanism.epsilon, size)}), 1
        case OpaqueZCDP():
            return mechanism.model_copy(update={"rho": _scaled(mechanism.rho, size**2)}), 1
        case OpaqueApproxDP():
            return _approximate(mechanism, size), 1
        case SmoothGaussian():
            beta = _scaled(mechanism.beta, size)
            growth = math.exp(min(0.5 * beta, 700.0)) * (1.0 + 1e-12)
            alpha = mechanism.alpha / (size * growth) * (1.0 - 1e-15)
            return mechanism.model_copy(update={"alpha": alpha, "beta": beta}), 1
        case PoissonSampled() | Tabulated():
            raise CannotBound(
                f"no bound for groups of {size} is known for a {mechanism.kind} mechanism",
                where="header.group_size",
                remedy="claim for single units, or account for the mechanism inside without sampling",
            )
        case _:
            assert_never(mechanism)


def _approximate(mechanism: OpaqueApproxDP, size: int) -> OpaqueApproxDP:
    epsilon = _scaled(mechanism.epsilon, size)
    # The sum is at most k e^((k-1) epsilon).
    exponent = (size - 1) * mechanism.epsilon
    delta = math.inf if exponent > 700.0 else mechanism.delta * size * math.exp(exponent) * (1.0 + 1e-12)
    if not delta < 1.0:
        raise CannotBound(
            f"a group of {size} is not protected by ({mechanism.epsilon}, {mechanism.delta})-DP",
            where="header.group_size",
            remedy="use a mechanism with a smaller delta",
        )
    return mechanism.model_copy(update={"epsilon": epsilon, "delta": delta})


def _scaled(figure: float, size: int) -> float:
    scaled = up(Fraction(figure) * size)
    if not math.isfinite(scaled):
        raise CannotBound(f"{size} times {figure} exceeds every double", where="header.group_size")
    return scaled
