"""The terms of many mechanisms at once, for accountants that compose privacy losses or Renyi divergences."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpaudit.accountants.costs import rho
from dpaudit.accountants.losses import losses
from dpaudit.accountants.privacy_loss import GaussianTerm, Term
from dpaudit.accountants.rounding import sqrt_up
from dpaudit.mechanisms import AnyMechanism, DiscreteGaussian, Exponential, OpaqueZCDP
from dpaudit.relations import Neighbouring


def loss_terms(
    runs: Iterable[tuple[AnyMechanism, int]], neighbouring: Neighbouring
) -> list[tuple[Term, int]]:
    """The dominating pairs of mechanisms, each with how often it runs on one unit's data.

    Raises:
        CannotBound: a mechanism has none.
    """
    return [
        (term, times * count) for mechanism, count in runs for term, times in losses(mechanism, neighbouring)
    ]


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
    found: list[tuple[Term, int]] = []
    for mechanism, count in runs:
        if isinstance(mechanism, DiscreteGaussian | Exponential | OpaqueZCDP):
            found.append((GaussianTerm(sqrt_up(2 * Fraction(rho(mechanism)))), count))
        else:
            found += loss_terms([(mechanism, count)], neighbouring)
    return found
