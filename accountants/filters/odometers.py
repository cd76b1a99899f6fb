"""Odometers: the privacy loss of a run so far, valid at any stopping time, without a stated budget.

A reading is an *ex-post* statement about the releases that one run made. It is not a guarantee of the
algorithm, and no claim can rest on it; for a claim, hold the run to a budget
(`dpaudit.accountants.filters.filters`). It says when to stop, or how much a finished analysis has leaked.

Theorem. Let the i-th release, given all earlier outputs, be rho_i-zCDP, where mechanism and rho_i may be
chosen from those outputs, and U_t = rho_1 + ... + rho_t. For every a > 0 the Renyi divergence of order 1 +
a bounds E[exp(a L_i) | past] by exp(a (1 + a) rho_i), L_i the privacy loss, so that exp(a (L_1 + ... + L_t)
- a (1 + a) U_t) is a supermartingale that starts at 1. By Ville's inequality, with probability at least 1 -
delta,

    L_1 + ... + L_t <= (1 + a) U_t + log(1 / delta) / a        at all times t at once.

One a is best for only one U_t, so `RUNGS` values of a, fixed beforehand, share delta, and the least line
holds (Whitehouse, Ramdas, Rogers and Wu 2023; a ladder of budgets as in Lecuyer 2021). For mu-GDP releases
U_t is half the sum of their mu_i^2.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from dpaudit.accountants.closed_forms.conversions import ROUNDING
from dpaudit.accountants.closed_forms.ranges import probability
from dpaudit.accountants.closed_forms.rounding import sqrt_up, up
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.composition.costs import mu_squared, rho
from dpaudit.accountants.filters.filters import require_own_draw
from dpaudit.claims.guarantees import GDP, ZCDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.releases import Release

#: The ladder's lines are best at U = 2^-20, 2^-19, ..., 2^19: a step of 2 costs at most 1.6 percent.
RUNGS = 40
_LOWEST = 2.0**-20


@dataclass(frozen=True)
class ExPostLoss:
    """The loss of all releases so far, bounded at all times at once with probability at least 1 - delta.

    The privacy loss of all releases so far is at most `epsilon`, in nats. delta is the probability, over the
    run's noise, that this ever fails, by `theorem`. `spent`, the sum of the releases' own costs, describes
    this run's choices, not the algorithm.
    """

    spent: ZCDP | GDP
    epsilon: float
    delta: float
    theorem: str = "Ville's inequality on a ladder of Renyi orders (Whitehouse et al. 2023)"

    def __str__(self) -> str:
        bound = f"loss at most {self.epsilon:.6g} at all times, except with probability {self.delta:g}"
        return f"ex post: {self.spent} spent, {bound}"


class ZCDPOdometer:
    """A running sum of rho; `delta`, in (0, 1), is the probability that a reading ever fails."""

    _cost = rho

    def __init__(self, delta: float, neighbouring: Neighbouring = Neighbouring.REPLACE_ONE) -> None:
        self._delta = probability("delta", delta)
        self._composition = Composition(Neighbouring(neighbouring))

    def add(self, release: Release) -> None:
        """Add a release.

        Raises `CannotBound`, adding nothing: the release has no cost on this scale, or is on the sample of an
        earlier release (`require_own_draw`).
        """
        require_own_draw(self._composition, release)
        self._cost(release.mechanism)
        self._composition.add(release)

    @property
    def reading(self) -> ExPostLoss:
        """The loss bound, which holds now and at every earlier moment.

        Raises `CannotBound`: the total cost exceeds every double.
        """
        spent = self._total()
        return ExPostLoss(ZCDP(rho=spent), _loss(spent, self._delta), self._delta)

    def _total(self) -> float:
        spent = self._composition.total(self._cost)
        if not math.isfinite(spent):
            raise CannotBound("the total cost exceeds every double", where="odometer", remedy="add noise")
        return spent


class GDPOdometer(ZCDPOdometer):
    """A running sum of mu^2; arguments and errors as for `ZCDPOdometer`."""

    _cost = mu_squared

    @property
    def reading(self) -> ExPostLoss:
        """The loss bound, which holds now and at every earlier moment."""
        square = Fraction(self._total())
        return ExPostLoss(GDP(mu=sqrt_up(square)), _loss(up(square / 2), self._delta), self._delta)


def _loss(spent: float, delta: float) -> float:
    """Return the least of the ladder's lines at U = `spent`, rounded up."""
    if spent == 0.0:
        return 0.0  # nothing was released that depends on the data
    target = math.log(RUNGS) - math.log(delta)
    orders = (math.sqrt(target / (_LOWEST * 2.0**rung)) for rung in range(RUNGS))
    least = min((1.0 + a) * spent + target / a for a in orders)
    return math.nextafter(least * (1.0 + ROUNDING), math.inf)
