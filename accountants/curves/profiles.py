"""Privacy profiles: delta(epsilon) and epsilon(delta) of everything that one unit is exposed to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpaudit.accountants.closed_forms.conversions import zcdp_delta, zcdp_epsilon
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta, gaussian_epsilon
from dpaudit.accountants.closed_forms.ranges import nonnegative, probability
from dpaudit.accountants.privacy_loss import Bracket, PrivacyLoss
from dpaudit.claims.bounds import Rigour
from dpaudit.errors import CannotBound


class PrivacyProfile(Protocol):
    """An upper bound on the privacy curve, with the name of its method and its rigour."""

    @property
    def method(self) -> str:
        """The accountant's name."""

    @property
    def rigour(self) -> Rigour:
        """How far rounding is controlled."""

    def epsilon(self, delta: float) -> float:
        """The epsilon proved at `delta` in (0, 1), rounded up."""

    def delta(self, epsilon: float) -> float:
        """The delta proved at `epsilon` >= 0, rounded up."""


@dataclass(frozen=True)
class GaussianProfile:
    """The exact curve of mu-GDP (Balle and Wang 2018, Theorem 8)."""

    mu: float
    method: str = "gdp"
    rigour: Rigour = "float-pessimistic"

    def epsilon(self, delta: float) -> float:
        """The epsilon proved at `delta`."""
        return gaussian_epsilon(delta, self.mu)

    def delta(self, epsilon: float) -> float:
        """The delta proved at `epsilon`."""
        return gaussian_delta(epsilon, self.mu)


@dataclass(frozen=True)
class ZCDPProfile:
    """The best curve known for a rho known only as zCDP (Canonne, Kamath, Steinke 2020, Prop. 12)."""

    rho: float
    method: str = "zcdp"
    rigour: Rigour = "float-pessimistic"

    def epsilon(self, delta: float) -> float:
        """The epsilon proved at `delta`."""
        return zcdp_epsilon(self.rho, delta)

    def delta(self, epsilon: float) -> float:
        """The delta proved at `epsilon`."""
        return zcdp_delta(self.rho, epsilon)


@dataclass(frozen=True)
class PureProfile:
    """The curve of pure epsilon-DP, that of randomized response (Kairouz, Oh, Viswanath 2015).

    With e0 the pure epsilon: delta(e) = (e^e0 - e^e) / (1 + e^e0) for e <= e0, and 0 beyond.
    """

    pure: float
    method: str = "pure"
    rigour: Rigour = "float-pessimistic"

    def epsilon(self, delta: float) -> float:
        """The epsilon proved at `delta`: log(e^e0 - delta (1 + e^e0)), written as e0 + log1p(...)."""
        probability("delta", delta)
        inside = delta * (1.0 + math.exp(-self.pure)) * (1.0 - 1e-15)
        if inside >= 1.0:
            return 0.0
        return min(self.pure, max(0.0, (self.pure + math.log1p(-inside)) + 1e-15 * (1.0 + self.pure)))

    def delta(self, epsilon: float) -> float:
        """The delta proved at `epsilon`: (1 - e^(e - e0)) / (1 + e^-e0)."""
        nonnegative("epsilon", epsilon)
        if epsilon >= self.pure:
            return 0.0
        gap = (self.pure - epsilon) * (1.0 + 1e-15)
        return min(1.0, -math.expm1(-gap) / (1.0 + math.exp(-self.pure)) * (1.0 + 1e-14))


@dataclass(frozen=True, eq=False)
class LeastProfile:
    """The smallest of several proved curves of one composition, point by point.

    Attributes:
        profiles: the curves.
        method: the names of all.
    """

    profiles: Sequence[PrivacyProfile]
    method: str
    rigour: Rigour = "float-pessimistic"

    def epsilon(self, delta: float) -> float:
        """The least epsilon that one of them proves at `delta`; raises `CannotBound` where none does."""
        found: list[float] = []
        refused: list[CannotBound] = []
        for profile in self.profiles:
            try:
                found.append(profile.epsilon(delta))
            except CannotBound as error:
                refused.append(error)
        if not found:
            raise refused[0]
        return min(found)

    def delta(self, epsilon: float) -> float:
        """The least delta that one of them proves at `epsilon`."""
        return min(profile.delta(epsilon) for profile in self.profiles)


@dataclass(frozen=True, eq=False)
class LossProfile:
    """The exact curve of the releases' worst pairs, composed, for whatever one unit can be exposed to.

    Attributes:
        exposures: one composed privacy loss for each exposure; the curve is the largest, point by point.
    """

    exposures: Sequence[PrivacyLoss]
    method: str = "pld"
    rigour: Rigour = "float-pessimistic"

    def epsilon(self, delta: float) -> float:
        """The epsilon proved at `delta`."""
        return self.bracket(delta).upper

    def delta(self, epsilon: float) -> float:
        """The delta proved at `epsilon`."""
        return max(exposure.delta(epsilon).upper for exposure in self.exposures)

    def bracket(self, delta: float) -> Bracket:
        """Proved bounds on both sides of the epsilon at `delta`."""
        found = [exposure.epsilon(delta) for exposure in self.exposures]
        return Bracket(max(each.lower for each in found), max(each.upper for each in found))
