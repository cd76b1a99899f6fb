"""Privacy filters: budgets for runs whose number of releases may depend on earlier outputs."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

from dpaudit.accountants.closed_forms.rounding import sqrt_up
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.curves.implied import held
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import BudgetExceeded, CannotBound
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism


def require_own_draw(composition: Composition, release: Release) -> None:
    """Raise `CannotBound` for a second release on one sample, because its cost depends on the outputs.

    The first release may reveal part of the sample, so the sample hides less of the second release. The joint
    cost is a bound only if both releases are always made. A run under a budget may make the second one only
    after an output that reveals that the unit was drawn.
    """
    if composition.has_draw(release.sample):
        what = f"a second release on sample {release.sample!r} in a run that is charged release by release"
        why = "the first release may reveal the sample, and its output may decide whether the second is made"
        remedy = (
            "release both sums as one vector; or fix the sequence of releases and hold no budget; or draw a "
            "sample for each release"
        )
        raise CannotBound(what, where=f"release {release.label!r}", why=why, remedy=remedy)


class AdditiveFilter:
    """A filter that admits releases as long as a cost that adds up stays within a budget for the whole run.

    The run's relation decides the joint cost of a split's parts.
    """

    _scale: ClassVar[str]  # the budget's figure and scale, for messages
    #: Whether the cost bounds the loss of every run, not only the average over runs.
    _every_run: ClassVar[bool] = False
    #: The additive quantity: the budget's figure, except for mu, which is the root of its quantity.
    _cost: Callable[[AnyMechanism], float]

    def __init__(self, budget: AnyGuarantee, neighbouring: Neighbouring) -> None:
        self.budget = budget
        self._held = held(leading_figure(budget), 1)
        self.neighbouring = Neighbouring(neighbouring)
        self._composition = Composition(self.neighbouring, running=self._cost)

    @property
    def spent(self) -> float:
        """The figure of all admitted releases, on the budget's scale."""
        return self._figure(self._composition)

    def spend(self, release: Release) -> None:
        """Charge one release.

        Charges nothing if it raises. Raises `BudgetExceeded`: the release does not fit; `CannotBound`: it has
        no cost on the budget's scale, or is on the sample of an earlier release.
        """
        if not self._every_run:
            require_own_draw(self._composition, release)
        before, alone = self.spent, self._figure(compose([release], self.neighbouring))
        self._composition.add(release)
        try:
            exceeded = self.spent > self._held  # the final bound of the run
        except CannotBound:
            self._composition.remove(release)
            raise
        if exceeded:
            self._composition.remove(release)
            most = leading_figure(self.budget)
            what = f"{alone:.6g} requested, {before:.6g} of {most:.6g} spent ({self._scale})"
            remedy = "add noise, release less, or state a larger budget before the run"
            raise BudgetExceeded(what, where=f"release {release.label!r}", remedy=remedy)

    def _figure(self, composition: Composition) -> float:
        return composition.total(self._cost)


class ZCDPFilter(AdditiveFilter):
    """A filter that admits releases as long as their zCDP adds up to at most `rho`.

    The whole run is then rho-zCDP, even if earlier outputs decide the later mechanisms and their number
    (Feldman and Zrnic 2021, Theorem 3; Whitehouse et al. 2023).
    """

    _scale = "rho, zCDP"
    _cost = rho

    def __init__(self, rho: float, neighbouring: Neighbouring = Neighbouring.REPLACE_ONE) -> None:
        super().__init__(ZCDP(rho=rho), neighbouring)


class GDPFilter(AdditiveFilter):
    """A filter that admits releases as long as the squares of their GDP add up to at most `mu`^2.

    The whole run is then mu-GDP, even if earlier outputs decide the later mechanisms and their number (Smith
    and Thakurta 2022; Koskela, Tobaben and Honkela 2023): the filter has the same parameters as composition
    without adaptivity. In short: a mu_i-GDP mechanism is a post-processing of a Gaussian shift by mu_i, and
    shifts chosen from the past are increments of one Brownian path with a drift, observed up to time sum of
    mu_i^2.
    """

    _scale = "mu, GDP"
    _cost = mu_squared

    def __init__(self, mu: float, neighbouring: Neighbouring = Neighbouring.REPLACE_ONE) -> None:
        super().__init__(GDP(mu=mu), neighbouring)

    def _figure(self, composition: Composition) -> float:
        total = super()._figure(composition)
        return sqrt_up(Fraction(total)) if math.isfinite(total) else total


class PureFilter(AdditiveFilter):
    """A filter that admits releases as long as their pure epsilons add up to at most `epsilon`.

    The whole run is then epsilon-DP, even with adaptively chosen releases: the sum bounds the privacy loss on
    every path (Rogers, Roth, Ullman and Vadhan 2016).
    """

    _scale = "epsilon, pure DP"
    _every_run = True
    _cost = pure_epsilon

    def __init__(self, epsilon: float, neighbouring: Neighbouring = Neighbouring.REPLACE_ONE) -> None:
        super().__init__(PureDP(epsilon=epsilon), neighbouring)
