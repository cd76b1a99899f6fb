"""What one run of a mechanism costs on each additive scale: the formulae, each with its theorem.

These functions never see a count or a partition; `dpaudit.accountants.composition` does.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.conversions import laplace_to_zcdp, pure_to_gdp
from dpaudit.accountants.rounding import up
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism, Gaussian, Laplace


def pure_epsilon(mechanism: AnyMechanism) -> float:
    """Pure epsilon; raises `CannotBound` for a mechanism that has none.

    Laplace: sensitivity/scale (Dwork, McSherry, Nissim, Smith 2006, Theorem 1).
    """
    match mechanism:
        case Laplace():
            return _finite(up(Fraction(mechanism.sensitivity.value) / Fraction(mechanism.scale)), mechanism)
        case Gaussian():
            if mechanism.sensitivity.value == 0:
                return 0.0
            raise CannotBound(
                "Gaussian noise gives no pure epsilon-DP",
                where=f"mechanism {mechanism.kind}",
                remedy="claim zCDP, GDP or (epsilon, delta)-DP, or use Laplace noise",
            )
        case _:
            assert_never(mechanism)


def rho(mechanism: AnyMechanism) -> float:
    """zCDP's rho.

    Gaussian: sensitivity^2/(2 sigma^2) (Bun and Steinke 2016, Proposition 1.6). Laplace:
    eps + e^-eps - 1 with eps = sensitivity/scale (Harrison and Manurangsi 2025).
    """
    match mechanism:
        case Gaussian():
            return _finite(up(squared_mu(mechanism) / 2), mechanism)
        case Laplace():
            return laplace_to_zcdp(pure_epsilon(mechanism))
        case _:
            assert_never(mechanism)


def mu_squared(mechanism: AnyMechanism) -> float:
    """The square of GDP's mu, which adds up (Dong, Roth, Su 2022, Corollary 3.3).

    Gaussian: (sensitivity/sigma)^2, exactly (Theorem 2.7). Laplace: through its pure epsilon, which
    Gaussian trade-off curves dominate.
    """
    match mechanism:
        case Gaussian():
            return _finite(up(squared_mu(mechanism)), mechanism)
        case Laplace():
            return _finite(up(Fraction(pure_to_gdp(pure_epsilon(mechanism))) ** 2), mechanism)
        case _:
            assert_never(mechanism)


def squared_mu(mechanism: Gaussian) -> Fraction:
    """(sensitivity/sigma)^2, exactly."""
    return (Fraction(mechanism.sensitivity.value) / Fraction(mechanism.sigma)) ** 2


def _finite(cost: float, mechanism: AnyMechanism) -> float:
    if not math.isfinite(cost):
        raise CannotBound(
            f"the cost of {mechanism.kind} noise exceeds every double",
            where=f"mechanism {mechanism.kind}",
            remedy="add noise",
        )
    return cost
