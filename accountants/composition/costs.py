"""What one run of a mechanism costs on each additive scale: the formulae, each with its theorem.

These functions never see a count or a partition; `dpaudit.accountants.composition.composition` does.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias, assert_never

from dpaudit.accountants.closed_forms.columns import (
    additive,
    gaussian_mu_squared,
    gaussian_pure,
    gaussian_rho,
    laplace_mu_squared,
    laplace_pure,
    laplace_rho,
)
from dpaudit.accountants.closed_forms.conversions import ROUNDING, laplace_to_zcdp, pure_to_gdp, pure_to_zcdp
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

#: Gaussian noise, isotropic in the coordinates in which the sensitivity is measured.
GaussianLike: TypeAlias = Gaussian | SymmetricGaussian | TreeAggregation | GaussianProcess


@additive(gaussian_pure, laplace_pure)
def pure_epsilon(mechanism: AnyMechanism) -> float:
    """Pure epsilon; raises `CannotBound` for a mechanism that has none.

    Laplace and discrete Laplace: sensitivity/scale (Dwork, McSherry, Nissim, Smith 2006, Theorem 1;
    Ghosh, Roughgarden, Sundararajan 2009). Randomized response and the exponential mechanism: their own
    epsilon. Sampled: log(1 + rate (e^epsilon - 1)) (Balle, Barthe, Gaboardi 2018, Theorem 8). A table:
    its largest loss, where none is infinite.
    """
    match mechanism:
        case Laplace() | DiscreteLaplace():
            return finite(up(Fraction(mechanism.sensitivity.value) / Fraction(mechanism.scale)), mechanism)
        case Gaussian() | DiscreteGaussian() | SymmetricGaussian() | TreeAggregation() | GaussianProcess():
            if mechanism.sensitivity.value == 0:
                return 0.0
            remedy = "claim zCDP, GDP or (epsilon, delta)-DP, or use Laplace noise"
            raise _unbounded(mechanism, "pure epsilon-DP", remedy)
        case RandomizedResponse() | Exponential() | OpaquePureDP():
            return mechanism.epsilon
        case PoissonSampled():
            return _sampled_epsilon(mechanism.rate, pure_epsilon(mechanism.mechanism))
        case Tabulated():
            if infinite_mass(mechanism) > 0:
                raise _unbounded(mechanism, "pure epsilon-DP", _remedy(mechanism))
            return largest_loss(mechanism)
        case OpaqueZCDP():
            if mechanism.rho == 0:
                return 0.0
            raise _unbounded(mechanism, "pure epsilon-DP", "claim zCDP or (epsilon, delta)-DP")
        case SmoothGaussian() | OpaqueApproxDP():
            raise _unbounded(mechanism, "pure epsilon-DP", _remedy(mechanism))
        case _:
            assert_never(mechanism)


@additive(gaussian_rho, laplace_rho)
def rho(mechanism: AnyMechanism) -> float:
    """zCDP's rho.

    Gaussian noise: mu^2/2 (Bun and Steinke 2016, Proposition 1.6). Discrete Gaussian: sensitivity^2 /
    (2 sigma^2) (Canonne, Kamath, Steinke 2020, Theorem 4). Laplace: eps + e^-eps - 1 with eps =
    sensitivity/scale (Harrison and Manurangsi 2025); not so the discrete Laplace, whose loss at
    sensitivity 1 is that of randomized response. Exponential: eps^2/8, by its bounded range (Cesar and
    Rogers 2021, after Dong, Durfee, Rogers 2020). All else that has a pure epsilon: eps tanh(eps/2).
    """
    match mechanism:
        case Gaussian() | SymmetricGaussian() | TreeAggregation() | GaussianProcess():
            return finite(up(squared_mu(mechanism) / 2), mechanism)
        case DiscreteGaussian():
            return finite(
                up((Fraction(mechanism.sensitivity.value) / Fraction(mechanism.sigma)) ** 2 / 2), mechanism
            )
        case Laplace():
            return laplace_to_zcdp(pure_epsilon(mechanism))
        case Exponential():
            epsilon = Fraction(mechanism.epsilon)
            return min(up(epsilon**2 / 8), pure_to_zcdp(mechanism.epsilon))
        case OpaqueZCDP():
            return mechanism.rho
        case DiscreteLaplace() | RandomizedResponse() | OpaquePureDP():
            return pure_to_zcdp(pure_epsilon(mechanism))
        case PoissonSampled() | Tabulated():
            return pure_to_zcdp(_pure_or(mechanism, "zCDP"))
        case SmoothGaussian() | OpaqueApproxDP():
            raise _unbounded(mechanism, "zCDP", _remedy(mechanism))
        case _:
            assert_never(mechanism)


@additive(gaussian_mu_squared, laplace_mu_squared)
def mu_squared(mechanism: AnyMechanism) -> float:
    """The square of GDP's mu, which adds up (Dong, Roth, Su 2022, Corollary 3.3).

    Gaussian noise: see `squared_mu`. All else that has a pure epsilon: through it, as Gaussian
    trade-off curves dominate.
    """
    match mechanism:
        case Gaussian() | SymmetricGaussian() | TreeAggregation() | GaussianProcess():
            return finite(up(squared_mu(mechanism)), mechanism)
        case Laplace() | DiscreteLaplace() | RandomizedResponse() | Exponential() | OpaquePureDP():
            return finite(up(Fraction(pure_to_gdp(pure_epsilon(mechanism))) ** 2), mechanism)
        case PoissonSampled() | Tabulated():
            return finite(up(Fraction(pure_to_gdp(_pure_or(mechanism, "GDP"))) ** 2), mechanism)
        case DiscreteGaussian():
            if mechanism.sensitivity.value == 0:
                return 0.0
            raise _unbounded(mechanism, "GDP", "claim zCDP or (epsilon, delta)-DP")
        case OpaqueZCDP():
            if mechanism.rho == 0:
                return 0.0
            raise _unbounded(mechanism, "GDP", "claim zCDP or (epsilon, delta)-DP")
        case SmoothGaussian() | OpaqueApproxDP():
            raise _unbounded(mechanism, "GDP", _remedy(mechanism))
        case _:
            assert_never(mechanism)


def squared_mu(mechanism: GaussianLike) -> Fraction:
    """The square of mu, exactly: (sensitivity/sigma)^2, in a tree once for every node of an item.

    Dong, Roth, Su 2022, Theorem 2.7. A symmetric matrix: in the orthonormal coordinates of the Frobenius
    inner product the noise is isotropic. A tree: an item sits in floor(log2 steps) + 1 nodes (Chan, Shi,
    Song 2011). A Gaussian process: on any points the change of the function has at most its RKHS norm
    (Hall, Rinaldo, Wasserman 2013, section 4).
    """
    once = (Fraction(mechanism.sensitivity.value) / Fraction(mechanism.sigma)) ** 2
    return once * mechanism.levels if isinstance(mechanism, TreeAggregation) else once


def _sampled_epsilon(rate: float, epsilon: float) -> float:
    """log(1 + rate (e^epsilon - 1)), rounded up, and never above epsilon."""
    if epsilon > 700.0:  # e^epsilon overflows, and log(1/rate) is little beside it
        return epsilon
    amplified = math.log1p(rate * math.expm1(epsilon))
    return min(epsilon, math.nextafter(amplified * (1.0 + ROUNDING), math.inf))


def infinite_mass(mechanism: Tabulated) -> float:
    """The mass that a table has at infinite loss; what its figures lack of 1 beyond rounding counts too.

    Masses that add up to 1, each rounded to the nearest double, lack at most 2^-53 together.
    """
    missing = 1 - sum(Fraction(p) for p in mechanism.probabilities) - Fraction(mechanism.infinity)
    if missing > Fraction(1, 2**52):
        return up(Fraction(mechanism.infinity) + missing)
    return mechanism.infinity


def largest_loss(mechanism: Tabulated) -> float:
    """The largest finite loss of a table that has a mass; at least 0."""
    pairs = zip(mechanism.losses, mechanism.probabilities, strict=True)
    return max([0.0, *(loss for loss, probability in pairs if probability > 0)])


def _pure_or(mechanism: PoissonSampled | Tabulated, scale: str) -> float:
    """The pure epsilon of a mechanism whose other figures rest on it alone."""
    try:
        return pure_epsilon(mechanism)
    except CannotBound:
        raise _unbounded(mechanism, scale, _remedy(mechanism)) from None


def _remedy(mechanism: PoissonSampled | Tabulated | SmoothGaussian | OpaqueApproxDP) -> str:
    match mechanism:
        case PoissonSampled():
            return "use an accountant of Renyi divergences or privacy losses, which knows the mixture"
        case Tabulated():
            return "use an accountant of privacy losses, which takes the table"
        case SmoothGaussian():
            return "use an accountant for smooth sensitivity, which knows the bounds on the scale"
        case OpaqueApproxDP():
            return "claim (epsilon, delta)-DP, and compose the guarantee as such"
        case _:
            assert_never(mechanism)


def _unbounded(mechanism: AnyMechanism, scale: str, remedy: str) -> CannotBound:
    return CannotBound(
        f"no bound on the {scale} of a {mechanism.kind} mechanism is known here",
        where=f"mechanism {mechanism.kind}",
        remedy=remedy,
    )


def finite(cost: float, mechanism: AnyMechanism) -> float:
    """The cost, unless rounding took it past every double: then `CannotBound`."""
    if not math.isfinite(cost):
        raise CannotBound(
            f"the cost of {mechanism.kind} noise exceeds every double",
            where=f"mechanism {mechanism.kind}",
            remedy="add noise",
        )
    return cost
