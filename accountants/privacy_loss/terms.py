"""The composable privacy losses: each release's worst pair of output distributions.

Each term names a dominating pair (P, Q). Composing the pairs gives the exact curve of the composition (Zhu,
Dong and Wang 2022, Theorem 10). A term has its parameters and `column`, the column of `Composed` that holds
them; its number of runs is stored beside it.
"""

import math
import operator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpaudit.accountants.closed_forms.ranges import nonnegative
from dpaudit.errors import CannotBound, InvalidParameter

LARGEST_PARAMETER = 1e6  # larger losses are refused; up to this one, every exponent stays far from overflow


@dataclass(frozen=True, slots=True)
class GaussianTerm:
    """Gaussian noise: N(mu, 1) against N(0, 1), mu = L2 sensitivity / sigma >= 0."""

    column: ClassVar[str] = "gaussian"
    mu: float

    def __post_init__(self) -> None:
        nonnegative("mu", self.mu)


@dataclass(frozen=True, slots=True)
class _OneEpsilon:
    """A pair whose largest loss is epsilon, a finite number in [0, 1e6]."""

    column: ClassVar[str]
    epsilon: float

    def __post_init__(self) -> None:
        _at_most(LARGEST_PARAMETER, "epsilon", self.epsilon)


class LaplaceTerm(_OneEpsilon):
    """Laplace noise of scale 1, moved by epsilon = L1 sensitivity / scale."""

    column: ClassVar[str] = "laplace"


class RandomizedResponseTerm(_OneEpsilon):
    """Binary randomized response."""

    column: ClassVar[str] = "randomized_response"


class PureTerm(_OneEpsilon):
    """Any epsilon-DP mechanism: dominated by randomized response (Kairouz et al. 2015, Theorem 3.3)."""

    column: ClassVar[str] = "randomized_response"


class BoundedRangeTerm(_OneEpsilon):
    """Any choice of bounded range epsilon: its losses lie in some interval of that length.

    Of two losses h and h - epsilon, the worst for any h by convexity, delta(x) is (e^epsilon + e^x - e^h -
    e^(epsilon + x - h)) / (e^epsilon - 1); its largest value over h is the pair's own

        delta(x) = (e^(epsilon / 2) - e^(x / 2))^2 / (e^epsilon - 1),    |x| <= epsilon,

    (after Dong, Durfee and Rogers 2020). It dominates every such choice; no single one attains it all.
    """

    column: ClassVar[str] = "bounded_range"


@dataclass(frozen=True, slots=True)
class DiscreteTerm:
    """A pair given loss by loss: P has probabilities[i] where log dP/dQ = losses[i].

    The losses are exact. The probabilities are relative to their sum, the mass of all finite losses. Bounds
    hold for any probabilities that round to the given ones within 16 u (1 + |log p|), relative, u = 2^-53.
    """

    losses: tuple[float, ...]  # increasing, in [-1e6, 1e6]
    probabilities: tuple[float, ...]  # one for each loss
    infinite: float = 0.0  # the probability of an infinite loss, besides the others
    pessimistic: bool = False  # it dominates another pair, so its lower ends say nothing about that pair
    enclosed: bool = True  # its masses have the stated accuracy; otherwise only its profile is proved

    def __post_init__(self) -> None:
        rows, given = len(self.losses), len(self.probabilities)
        if not self.losses or rows != given:
            raise InvalidParameter(f"{rows} losses and {given} probabilities", where="DiscreteTerm")
        if not self._are_good_doubles():
            for loss, probability in zip(self.losses, self.probabilities, strict=True):
                _at_most(LARGEST_PARAMETER, "a loss's size", abs(loss))
                _unit_interval("probability", probability)
        if any(map(operator.ge, self.losses, self.losses[1:])):
            raise InvalidParameter("losses that do not increase", where="DiscreteTerm")
        _unit_interval("infinite", self.infinite)
        if not math.fsum(self.probabilities) > 0.0:
            raise InvalidParameter("no finite loss has a probability", where="DiscreteTerm")

    def _are_good_doubles(self) -> bool:
        """Return whether all are doubles in their ranges; separate checks would take most of the time."""
        if {*map(type, self.losses), *map(type, self.probabilities)} != {float}:
            return False
        sizes, masses = np.abs(np.array(self.losses)), np.array(self.probabilities)
        return bool((sizes <= LARGEST_PARAMETER).all() and ((masses >= 0.0) & (masses <= 1.0)).all())


@dataclass(frozen=True, slots=True)
class ApproxTerm:
    """Any (epsilon, delta)-DP mechanism; epsilon in [0, 1e6], delta in [0, 1].

    It is dominated by a pair that reveals everything with probability delta and is randomized response
    otherwise (Kairouz, Oh and Viswanath 2015, Theorem 3.4).
    """

    column: ClassVar[str] = "approximate"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _at_most(LARGEST_PARAMETER, "epsilon", self.epsilon)
        _unit_interval("delta", self.delta)


@dataclass(frozen=True, slots=True)
class SampledGaussianTerm:
    """Gaussian noise over a Poisson sample, add-or-remove; mu in [0, 1e3], rate in [0, 1].

    The pair is (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1). Both orders are composed and the larger
    delta is taken (Mironov, Talwar and Zhang 2019; Zhu, Dong and Wang 2022, Theorem 11).
    """

    column: ClassVar[str] = "sampled_gaussian"
    mu: float
    rate: float

    def __post_init__(self) -> None:
        _at_most(1e3, "mu", self.mu, " under sampling")
        _unit_interval("rate", self.rate)


@dataclass(frozen=True, slots=True)
class ReplacedGaussianTerm:
    """Gaussian noise over a Poisson sample, replace-one; mu in [0, 1e3] for one unit's part, rate in [0, 1].

    The pair is (1 - rate) N(0, 1) + rate N(mu, 1) against (1 - rate) N(0, 1) + rate N(-mu, 1). Among all
    vectors x and y no longer than mu, with N(x, 1) and N(y, 1) in their places, these have the largest delta.
    Proof: delta is E (c + a X - b Y)_+ for X = e^(<x, z> - |x|^2 / 2), Y = e^(<y, z> - |y|^2 / 2), z standard
    normal and a, b >= 0. The cross derivative in X and Y is nowhere positive, so the mean falls as <x, y>,
    the exponents' covariance, grows (Price's theorem): at given lengths it is largest if x and y are
    opposite. A longer x' = x + w, w orthogonal to both, has E[X' | X, Y] = X: by Jensen's inequality nothing
    falls.
    """

    column: ClassVar[str] = "replaced_gaussian"
    mu: float
    rate: float

    def __post_init__(self) -> None:
        _at_most(1e3, "mu", self.mu, " under sampling")
        _unit_interval("rate", self.rate)


@dataclass(frozen=True, slots=True)
class SampledLaplaceTerm:
    """Laplace noise over a Poisson sample, as `SampledGaussianTerm`; epsilon in [0, 500]."""

    column: ClassVar[str] = "sampled_laplace"
    epsilon: float
    rate: float

    def __post_init__(self) -> None:
        _at_most(500.0, "epsilon", self.epsilon, " under sampling")
        _unit_interval("rate", self.rate)


#: All terms that `PrivacyLoss` composes.
Term = (
    GaussianTerm
    | _OneEpsilon
    | DiscreteTerm
    | ApproxTerm
    | SampledGaussianTerm
    | ReplacedGaussianTerm
    | SampledLaplaceTerm
)


def _at_most(most: float, name: str, value: float, condition: str = "") -> None:
    if nonnegative(name, value) > most:
        raise CannotBound(f"{name} = {value!r} exceeds {most:g}{condition}", where=name, remedy="add noise")


def _unit_interval(name: str, value: float) -> None:
    if nonnegative(name, value) > 1.0:
        raise InvalidParameter(f"{name} = {value!r} is not in [0, 1]", where=name)
