"""A privacy filter at one Renyi order, which can also hold sampled mechanisms to a budget."""

import functools
import math
from collections.abc import Callable
from typing import Final, Self

from dpaudit.accountants.closed_forms.conversions import rdp_epsilon
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.implied import held
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.accountants.filters.filters import AdditiveFilter
from dpaudit.claims.guarantees import RDP, ApproxDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism

#: Orders that `RDPFilter.within` chooses from: from 1 + 2^-3 to 1 + 2^10.
_ORDERS: Final = tuple(1.0 + 2.0 ** (k / 4.0) for k in range(-12, 41))


class RDPFilter(AdditiveFilter):
    """A filter that admits releases while their divergences of order `alpha` add up to at most `epsilon`.

    The whole run is then (alpha, epsilon)-RDP, even if earlier outputs decide the later mechanisms and their
    number: the order is fixed before the run (Feldman and Zrnic 2021, Theorem 3.1). A sampled mechanism costs
    the larger of its two directions' divergences, under the filter's relation, which must be the run's.

    Raises:
        InvalidParameter: alpha is not above 1, or epsilon is negative or no number.
    """

    _scale = "epsilon, RDP"

    def __init__(
        self, alpha: float, epsilon: float, neighbouring: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE
    ) -> None:
        self._cost = _divergence(alpha, Neighbouring(neighbouring))
        super().__init__(RDP(alpha=alpha, epsilon=epsilon), neighbouring)

    @classmethod
    def within(
        cls,
        target: ApproxDP,
        mechanism: AnyMechanism,
        neighbouring: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE,
    ) -> Self:
        """Return the filter for (epsilon, delta) that admits this mechanism most often.

        Raises `CannotBound` if no order admits the mechanism even once.
        """
        best: tuple[float, float, float] = (0.0, 2.0, 0.0)
        for alpha in _ORDERS:
            budget = _budget(target, alpha)
            if budget > 0.0 and (cost := _divergence(alpha, Neighbouring(neighbouring))(mechanism)) > 0.0:
                best = max(best, (budget / cost, alpha, budget))
        times, alpha, budget = best
        if times < 1.0:
            what = f"a budget of {target} for {mechanism.kind} releases"
            remedy = "add noise, or state a larger budget"
            raise CannotBound(what, where="RDPFilter", why="not even one release fits", remedy=remedy)
        return cls(alpha, budget, neighbouring)


def _budget(target: ApproxDP, alpha: float) -> float:
    """Return the largest divergence of this order that implies the target; at most 0 if none does."""
    offset = math.log1p(-1.0 / alpha) - (math.log(target.delta) + math.log(alpha)) / (alpha - 1.0)
    budget = target.epsilon - offset
    while budget > 0.0 and rdp_epsilon(alpha, held(budget, 1), target.delta) > target.epsilon:
        budget -= 1e-9 * max(1.0, budget)
    return budget


@functools.lru_cache(maxsize=64)
def _divergence(alpha: float, neighbouring: Neighbouring) -> Callable[[AnyMechanism], float]:
    """Return a function for the cost of one run of a mechanism at an order; it caches each cost."""

    @functools.lru_cache(maxsize=1024)
    def cost(mechanism: AnyMechanism) -> float:
        alone = compose([Release(label="one", mechanism=mechanism)], neighbouring)
        return RenyiProfile.of(alone).divergence(alpha)

    return cost
