"""The privacy losses that can be composed: each release's worst pair of output distributions.

Each term names a dominating pair (P, Q): composing the pairs gives the exact curve of the composition (Zhu,
Dong and Wang 2022, Theorem 10). A term knows its parameters and nothing else; how often it runs stands
beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpaudit.accountants.ranges import nonnegative
from dpaudit.errors import CannotBound, InvalidParameter

#: Past these nothing sensible is asked, and every exponent below stays far from overflow.
LARGEST_PARAMETER = 1e6


@dataclass(frozen=True, slots=True)
class GaussianTerm:
    """Gaussian noise: N(mu, 1) against N(0, 1), mu = L2 sensitivity / sigma >= 0."""

    mu: float

    def __post_init__(self) -> None:
        """Refuse what is not a finite number >= 0."""
        nonnegative("mu", self.mu)


@dataclass(frozen=True, slots=True)
class LaplaceTerm:
    """Laplace noise of scale 1, moved by epsilon = L1 sensitivity / scale >= 0."""

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse what is not a finite number in [0, 1e6]."""
        _loss("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class RandomizedResponseTerm:
    """Binary randomized response at epsilon >= 0."""

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse what is not a finite number in [0, 1e6]."""
        _loss("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class PureTerm:
    """Any epsilon-DP mechanism: dominated by randomized response (Kairouz et al. 2015, Theorem 3.3)."""

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse what is not a finite number in [0, 1e6]."""
        _loss("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class ApproxTerm:
    """Any (epsilon, delta)-DP mechanism.

    Dominated by revealing all with probability delta, else randomized response (Kairouz, Oh and Viswanath
    2015, Theorem 3.4).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse epsilon outside [0, 1e6] and delta outside [0, 1]."""
        _loss("epsilon", self.epsilon)
        _unit_interval("delta", self.delta)


@dataclass(frozen=True, slots=True)
class SampledGaussianTerm:
    """Gaussian noise over a Poisson sample, add-or-remove.

    The pair is (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1). Both orders are composed and the larger
    delta is taken (Mironov, Talwar and Zhang 2019; Zhu, Dong and Wang 2022, Theorem 11).
    """

    mu: float
    rate: float

    def __post_init__(self) -> None:
        """Refuse mu outside [0, 1e3] and rate outside [0, 1]."""
        if nonnegative("mu", self.mu) > 1e3:
            raise CannotBound(f"mu = {self.mu!r} exceeds 1000 under sampling", where="mu", remedy="add noise")
        _unit_interval("rate", self.rate)


@dataclass(frozen=True, slots=True)
class SampledLaplaceTerm:
    """Laplace noise over a Poisson sample, add-or-remove; as `SampledGaussianTerm`."""

    epsilon: float
    rate: float

    def __post_init__(self) -> None:
        """Refuse epsilon outside [0, 500] and rate outside [0, 1]."""
        if nonnegative("epsilon", self.epsilon) > 500.0:
            raise CannotBound(
                f"epsilon = {self.epsilon!r} exceeds 500 under sampling", where="epsilon", remedy="add noise"
            )
        _unit_interval("rate", self.rate)


#: Everything that `PrivacyLoss` composes.
Term = (
    GaussianTerm
    | LaplaceTerm
    | RandomizedResponseTerm
    | PureTerm
    | ApproxTerm
    | SampledGaussianTerm
    | SampledLaplaceTerm
)


def _loss(name: str, value: float) -> None:
    if nonnegative(name, value) > LARGEST_PARAMETER:
        raise CannotBound(f"{name} = {value!r} exceeds {LARGEST_PARAMETER:g}", where=name, remedy="add noise")


def _unit_interval(name: str, value: float) -> None:
    if not 0.0 <= nonnegative(name, value) <= 1.0 or math.isnan(value):
        raise InvalidParameter(f"{name} = {value!r} is not in [0, 1]", where=name)
