"""One composition at every amount of noise: how far it is from a target, by one accountant and by another."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpaudit.accountants.calibration.check import Opinion, Terms, approximate, opinion, opinion_of_rho
from dpaudit.accountants.calibration.scaling import scaled
from dpaudit.accountants.closed_forms.conversions import zcdp_delta, zcdp_epsilon
from dpaudit.accountants.closed_forms.rounding import sqrt_up, up
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.pairs.dominating_pairs import loss_terms
from dpaudit.accountants.privacy_loss import GaussianTerm, PrivacyLoss
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism

#: The leading figure's name, and the accountant that adds it up.
_ADDITIVE = {
    "zcdp": ("rho", "zcdp"),
    "rdp": ("epsilon", "zcdp"),
    "gdp": ("mu", "gdp"),
    "pure-dp": ("epsilon", "pure"),
}


class ScaledComposition:
    """The releases of a run with all noise multiplied by a factor that is still to be chosen.

    Args:
        composition: the releases as they are.
        target: the guarantee that they are to meet.
    """

    def __init__(self, composition: Composition, target: AnyGuarantee) -> None:
        self._composition = composition
        self._exposures = composition.exposures()
        self._relation = composition.sampling_relation
        self._target = target
        self._has_losses = self._losses_are_known()

    @property
    def resolution(self) -> float:
        """The relative accuracy to which a factor is searched: sums and Gaussian curves are cheap."""
        cheap = not (isinstance(self._target, ApproxDP) and self._has_losses) or all(
            isinstance(term, GaussianTerm) for terms in self._terms(1.0) for term, _ in terms
        )
        return 1e-15 if cheap else 1e-12

    def excess(self, factor: float) -> float:
        """The logarithm of bound over target: at most 0 where the target is proved.

        Raises:
            CannotBound: no bound is known, or none for so little noise.
        """
        target = self._target
        if isinstance(target, ApproxDP):
            found, wanted = self._delta(factor, target.epsilon), target.delta
        else:
            found, wanted = self._additive(factor), leading_figure(target)
        if found <= wanted:
            return min(math.log(found / wanted), 0.0) if found > 0.0 and wanted > 0.0 else -math.inf
        return max(math.log(found / wanted), 5e-324) if wanted > 0.0 and found < math.inf else math.inf

    def bound(self, factor: float) -> tuple[Bound, float]:
        """What is proved at a factor, and how much of the target's leading figure is used at least."""
        target = self._target
        if isinstance(target, ApproxDP):
            if self._has_losses:
                losses = [PrivacyLoss.compose(terms) for terms in self._terms(factor)]
                worst = max(losses, key=lambda loss: loss.delta(target.epsilon).upper)
                delta, method = worst.delta(target.epsilon).upper, str(worst.method)
                used = worst.epsilon(target.delta).lower
            else:
                total = self._total(rho, factor)
                delta, method = zcdp_delta(total, target.epsilon), "zcdp"
                used = zcdp_epsilon(total, target.delta)
            return Bound(guarantee=approximate(target.epsilon, delta), method=method), used
        figure = self._additive(factor)
        field, method = _ADDITIVE[target.kind]
        return Bound(guarantee=target.model_copy(update={field: figure}), method=method), figure

    def opinion(self, factor: float) -> Opinion:
        """The second accountant's opinion: the least favourable over all exposures.

        Raises:
            CannotBound: there is no other accountant.
        """
        target = self._target
        if isinstance(target, ApproxDP) and not self._has_losses:
            return opinion_of_rho(self._total(rho, factor), target)
        found = [opinion(runs, self._relation, target) for runs in self._runs(factor)]
        return next((one for one in found if not one.agrees), found[0])

    def _runs(self, factor: float) -> list[list[tuple[AnyMechanism, int]]]:
        return [[(scaled(m, factor), count) for m, count in e.items()] for e in self._exposures]

    def _terms(self, factor: float) -> list[Terms]:
        return [loss_terms(runs, self._relation) for runs in self._runs(factor)]

    def _losses_are_known(self) -> bool:
        try:
            self._terms(1.0)
        except CannotBound:
            return False
        return True

    def _delta(self, factor: float, epsilon: float) -> float:
        if not self._has_losses:
            return zcdp_delta(self._total(rho, factor), epsilon)
        return max(PrivacyLoss.compose(terms).delta(epsilon).upper for terms in self._terms(factor))

    def _additive(self, factor: float) -> float:
        match self._target:
            case ZCDP() | ApproxDP():
                return self._total(rho, factor)
            case RDP(alpha=alpha):
                return up(Fraction(self._total(rho, factor)) * Fraction(alpha))
            case GDP():
                return sqrt_up(Fraction(self._total(mu_squared, factor)))
            case PureDP():
                return self._total(pure_epsilon, factor)

    def _total(self, cost: Callable[[AnyMechanism], float], factor: float) -> float:
        total = self._composition.total(lambda mechanism: cost(scaled(mechanism, factor)))
        if not math.isfinite(total):
            raise CannotBound("the total exceeds every double", where="composition", remedy="add noise")
        return total
