"""From mechanisms to the privacy losses that dominate them: the exact ones where they are known.

Like `dpaudit.accountants.costs`, these formulae never see a count.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.costs import pure_epsilon, rho, squared_mu
from dpaudit.accountants.privacy_loss import (
    ApproxTerm,
    GaussianTerm,
    LaplaceTerm,
    PureTerm,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
    Term,
)
from dpaudit.accountants.rounding import sqrt_up
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
from dpaudit.relations import Neighbouring


def loss_terms(
    runs: Iterable[tuple[AnyMechanism, int]], neighbouring: Neighbouring
) -> list[tuple[Term, int]]:
    """The terms of mechanisms, each with how often it runs on one unit's data.

    Raises:
        CannotBound: a mechanism is known through another scale only.
    """
    return [(loss_term(mechanism, neighbouring), count) for mechanism, count in runs]


def renyi_terms(
    runs: Iterable[tuple[AnyMechanism, int]], neighbouring: Neighbouring
) -> list[tuple[Term, int]]:
    """As `loss_terms`, but dominating in every Renyi divergence only.

    That admits zCDP as such, the exponential mechanism by its bounded range (Cesar and Rogers 2021), and the
    discrete Gaussian, whose divergences are at most the continuous one's (Canonne, Kamath and Steinke 2020,
    Theorem 4).

    Raises:
        CannotBound: a mechanism has no zCDP.
    """
    return [(_renyi_term(mechanism, neighbouring), count) for mechanism, count in runs]


def loss_term(mechanism: AnyMechanism, neighbouring: Neighbouring) -> Term:
    """One run's dominating pair.

    Gaussian noise of every shape: N(mu, 1) against N(0, 1). Laplace: an L1 change spread over coordinates
    is dominated by the same change in one. Sampled noise: the mixture pair, which belongs to the relations
    that take one unit's contribution away (Zhu, Dong, Wang 2022, Theorem 11); under replace-one only a pure
    epsilon is amplified. All else that has a pure epsilon: randomized response (Kairouz, Oh, Viswanath
    2015, Theorem 3.3).

    Raises:
        CannotBound: the mechanism is known through another scale only.
    """
    match mechanism:
        case Gaussian() | SymmetricGaussian() | TreeAggregation() | GaussianProcess():
            return GaussianTerm(sqrt_up(squared_mu(mechanism)))
        case Laplace():
            return LaplaceTerm(pure_epsilon(mechanism))
        case RandomizedResponse():
            return RandomizedResponseTerm(mechanism.epsilon)
        case Exponential() | OpaquePureDP() | DiscreteLaplace() | Tabulated():
            return PureTerm(pure_epsilon(mechanism))
        case OpaqueApproxDP():
            return ApproxTerm(mechanism.epsilon, mechanism.delta)
        case PoissonSampled():
            return _sampled(mechanism, neighbouring)
        case DiscreteGaussian() | OpaqueZCDP() | SmoothGaussian():
            if isinstance(mechanism, DiscreteGaussian) and mechanism.sensitivity.value == 0:
                return GaussianTerm(0.0)
            raise CannotBound(
                f"no privacy loss of a {mechanism.kind} mechanism is known here",
                where=f"mechanism {mechanism.kind}",
                remedy="account for it on its own scale",
            )
        case _:
            assert_never(mechanism)


def _renyi_term(mechanism: AnyMechanism, neighbouring: Neighbouring) -> Term:
    match mechanism:
        case DiscreteGaussian() | Exponential() | OpaqueZCDP():
            return GaussianTerm(sqrt_up(2 * Fraction(rho(mechanism))))
        case _:
            return loss_term(mechanism, neighbouring)


def _sampled(mechanism: PoissonSampled, neighbouring: Neighbouring) -> Term:
    inner = mechanism.mechanism
    if neighbouring is Neighbouring.REPLACE_ONE:
        return PureTerm(pure_epsilon(mechanism))
    match inner:
        case Gaussian():
            return SampledGaussianTerm(sqrt_up(squared_mu(inner)), mechanism.rate)
        case Laplace():
            return SampledLaplaceTerm(pure_epsilon(inner), mechanism.rate)
        case _:
            assert_never(inner)
