"""Privacy profiles: delta(epsilon) and epsilon(delta) of everything that one unit is exposed to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from dpaudit.accountants.closed_forms.conversions import (
    response_delta,
    response_epsilon,
    zcdp_delta,
    zcdp_epsilon,
)
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta, gaussian_epsilon
from dpaudit.accountants.privacy_loss import Bracket, PrivacyLoss
from dpaudit.claims.bounds import Rigour
from dpaudit.claims.guarantees import GDP, ZCDP, PureDP
from dpaudit.errors import CannotBound

#: A guarantee that adds up over releases, so that a filter can hold a run to it.
Additive = PureDP | ZCDP | GDP


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
class ImpliedProfile:
    """The best curve known of a guarantee that adds up.

    The exact curve of mu-GDP (Balle and Wang 2018, Theorem 8), that of rho known only as zCDP (Canonne,
    Kamath and Steinke 2020, Proposition 12), or that of randomized response for pure DP (Kairouz, Oh and
    Viswanath 2015).
    """

    guarantee: Additive
    rigour: Rigour = "float-pessimistic"

    @property
    def method(self) -> str:
        """The accountant's name."""
        return "pure" if isinstance(self.guarantee, PureDP) else self.guarantee.kind

    def epsilon(self, delta: float) -> float:
        """The epsilon proved at `delta`."""
        match self.guarantee:
            case PureDP(epsilon=pure):
                return response_epsilon(pure, delta)
            case ZCDP(rho=rho):
                return zcdp_epsilon(rho, delta)
            case GDP(mu=mu):
                return gaussian_epsilon(delta, mu)
            case _:
                assert_never(self.guarantee)

    def delta(self, epsilon: float) -> float:
        """The delta proved at `epsilon`."""
        match self.guarantee:
            case PureDP(epsilon=pure):
                return response_delta(pure, epsilon)
            case ZCDP(rho=rho):
                return zcdp_delta(rho, epsilon)
            case GDP(mu=mu):
                return gaussian_delta(epsilon, mu)
            case _:
                assert_never(self.guarantee)


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
