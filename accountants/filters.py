"""Privacy filters: budgets for runs whose number of releases may depend on what came out before."""

from __future__ import annotations

from dpaudit.accountants.composition import Composition, compose
from dpaudit.accountants.costs import rho as zcdp_cost
from dpaudit.errors import BudgetExceeded
from dpaudit.guarantees import ZCDP
from dpaudit.relations import Neighbouring
from dpaudit.releases import Release
from dpaudit.verdicts import CLAIM_TOLERANCE


class ZCDPFilter:
    """Admits releases as long as their zCDP adds up to at most `rho`.

    The whole run is then rho-zCDP even where later mechanisms, and how many there are, are chosen
    from earlier outputs (Feldman and Zrnic 2021, Theorem 3; Whitehouse et al. 2023).

    Args:
        rho: the budget.
        neighbouring: the run's relation, which decides what parts of a split cost together.
    """

    def __init__(self, rho: float, neighbouring: Neighbouring = Neighbouring.REPLACE_ONE) -> None:
        self.budget = ZCDP(rho=rho)
        self.neighbouring = Neighbouring(neighbouring)
        self._composition = Composition(self.neighbouring, running=zcdp_cost)

    @property
    def spent(self) -> float:
        """The rho of all admitted releases."""
        return self._composition.total(zcdp_cost)

    def spend(self, release: Release) -> None:
        """Charge one release.

        Raises:
            BudgetExceeded: it does not fit; nothing is charged.
        """
        before, alone = self.spent, compose([release], self.neighbouring).total(zcdp_cost)
        self._composition.add(release)
        if self._composition.total(zcdp_cost) > self.budget.rho * (1 + CLAIM_TOLERANCE):
            self._composition.remove(release)
            raise BudgetExceeded(
                f"{alone:.6g} requested, {before:.6g} of {self.budget.rho:.6g} spent (rho, zCDP)",
                where=f"release {release.label!r}",
                remedy="add noise, release less, or state a larger budget before the run",
            )
