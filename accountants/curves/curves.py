"""Privacy profiles, delta(epsilon) and epsilon(delta), of one unit's exposure, by each accountant.

The accountants of Renyi divergences and of privacy losses are imported only where needed: accounting for most
ledgers of zero-concentrated noise takes less time than that import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, TypeVar, assert_never

from dpaudit.accountants.closed_forms import conversions
from dpaudit.accountants.closed_forms.columns import quotients_up
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta, gaussian_epsilon
from dpaudit.accountants.closed_forms.ranges import representable
from dpaudit.accountants.closed_forms.rounding import Vector, sqrt_up
from dpaudit.accountants.composition.composition import Composition, Exposure
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.claims.bounds import Rigour
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, PureDP
from dpaudit.errors import CannotBound
from dpaudit.ledger.columns import Kind
from dpaudit.mechanisms import AnyMechanism, Exponential, dominating

if TYPE_CHECKING:
    from dpaudit.accountants.curves.rdp import RenyiProfile
    from dpaudit.accountants.pairs.dominating_pairs import Losses
    from dpaudit.accountants.privacy_loss import Bracket, PrivacyLoss, Term

Given = TypeVar("Given")
Found = TypeVar("Found")

#: A guarantee that adds up over releases, so that a filter can hold a run to it.
Additive = PureDP | ZCDP | GDP | RDP


class PrivacyProfile(Protocol):
    """An upper bound on the privacy curve, with the name of its method and its rigour."""

    @property
    def method(self) -> str:
        """The name of the accountant."""

    @property
    def rigour(self) -> Rigour:
        """The degree of control over rounding."""

    def epsilon(self, delta: float) -> float:
        """Return the epsilon proved at `delta` in (0, 1), rounded up."""

    def delta(self, epsilon: float) -> float:
        """Return the delta proved at `epsilon` >= 0, rounded up."""


@dataclass(frozen=True)
class ImpliedProfile:
    """The best known curve of a guarantee that adds up.

    It is the exact curve of mu-GDP (Balle and Wang 2018, Theorem 8), the curve of a rho-zCDP guarantee or of
    one Renyi order (Canonne, Kamath and Steinke 2020, Proposition 12), or the curve of randomized response
    for pure DP (Kairouz, Oh and Viswanath 2015).
    """

    guarantee: Additive
    rigour: Rigour = "float-pessimistic"

    @property
    def method(self) -> str:
        """The name of the accountant."""
        return "pure" if isinstance(self.guarantee, PureDP) else self.guarantee.kind

    def epsilon(self, delta: float) -> float:
        """Return the epsilon proved at `delta`."""
        match self.guarantee:
            case PureDP(epsilon=pure):
                return conversions.response_epsilon(pure, delta)
            case ZCDP(rho=rho):
                return conversions.zcdp_epsilon(rho, delta)
            case GDP(mu=mu):
                return gaussian_epsilon(delta, mu)
            case RDP(alpha=alpha, epsilon=divergence):
                return conversions.rdp_epsilon(alpha, divergence, delta)
            case _:
                assert_never(self.guarantee)

    def delta(self, epsilon: float) -> float:
        """Return the delta proved at `epsilon`."""
        match self.guarantee:
            case PureDP(epsilon=pure):
                return conversions.response_delta(pure, epsilon)
            case ZCDP(rho=rho):
                return conversions.zcdp_delta(rho, epsilon)
            case GDP(mu=mu):
                return gaussian_delta(epsilon, mu)
            case RDP(alpha=alpha, epsilon=divergence):
                return conversions.rdp_delta(alpha, divergence, epsilon)
            case _:
                assert_never(self.guarantee)


@dataclass(frozen=True, eq=False)
class LeastProfile:
    """The pointwise smallest of several proved curves of one composition; `method` names all of them."""

    profiles: Sequence[PrivacyProfile]
    method: str
    rigour: Rigour = "float-pessimistic"

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that a curve proves at `delta`; raises `CannotBound` if none does."""
        found, refused = bounded(lambda profile: profile.epsilon(delta), self.profiles)
        if not found:
            raise refused[0]
        return min(found)

    def delta(self, epsilon: float) -> float:
        """Return the least delta that a curve proves at `epsilon`."""
        return min(profile.delta(epsilon) for profile in self.profiles)


@dataclass(frozen=True, eq=False)
class LossProfile:
    """The exact curve of the composed worst pairs: the largest curve over all exposures.

    `below` holds compositions that cost at most as much, if some pairs are only upper bounds; their curves
    give the lower ends.
    """

    exposures: Sequence[PrivacyLoss]
    below: Sequence[PrivacyLoss] = ()
    instead: Sequence[PrivacyLoss] = ()  # alternative dominating pairs; the smaller figure counts
    divergences: Sequence[Callable[[], PrivacyProfile]] = ()  # used if delta is as small as tables' tails
    method: str = "pld"
    rigour: Rigour = "float-pessimistic"

    def epsilon(self, delta: float) -> float:
        """Return the epsilon proved at `delta`."""
        return self.bracket(delta).upper if delta < _TINY else self._upper(lambda each: each.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Return the delta proved at `epsilon`."""
        found = self._upper(lambda each: each.delta(epsilon))
        others = self.divergences if found < _TINY else ()
        return min([found, *bounded(lambda other: other().delta(epsilon), others)[0]])

    def bracket(self, delta: float) -> Bracket:
        """Return proved lower and upper bounds on the epsilon at `delta`."""
        from dpaudit.accountants.privacy_loss import Bracket

        found, refused = bounded(lambda ends: ends(delta), [self._ends])
        others = self.divergences if delta < _TINY else ()
        found += [(0.0, end) for end in bounded(lambda other: other().epsilon(delta), others)[0]]
        if not found:
            raise refused[0]
        lower, upper = max(low for low, _ in found), min(high for _, high in found)
        return Bracket(min(lower, upper), upper)

    def _upper(self, of: Callable[[PrivacyLoss], Bracket]) -> float:
        both = (self.exposures, self.instead)
        return min(max(of(each).upper for each in some) for some in both if some)

    def _ends(self, delta: float) -> tuple[float, float]:
        found = [exposure.epsilon(delta) for exposure in self.exposures]
        lower, upper = max(each.lower for each in found), max(each.upper for each in found)
        if self.below:  # the lower ends above belong to the tables, not to the pairs
            lower = max(each.epsilon(delta).lower for each in self.below)
        return lower, min(upper, max((each.epsilon(delta).upper for each in self.instead), default=upper))


def zcdp_profile(composition: Composition) -> ImpliedProfile:
    """Return the curve of the run's total rho."""
    return ImpliedProfile(ZCDP(rho=representable(composition.total(rho), "rho")))


def gdp_profile(composition: Composition) -> ImpliedProfile:
    """Return the exact Gaussian curve of the run's total mu."""
    square = Fraction(representable(composition.total(mu_squared), "mu^2"))
    return ImpliedProfile(GDP(mu=sqrt_up(square)))


def pure_profile(composition: Composition) -> ImpliedProfile:
    """Return the curve of the run's total pure epsilon; raises `CannotBound` if a mechanism has none."""
    return ImpliedProfile(PureDP(epsilon=representable(composition.total(pure_epsilon), "epsilon")))


def rdp_profile(composition: Composition) -> RenyiProfile:
    """Return the curve of the run's Renyi divergences of all orders."""
    from dpaudit.accountants.curves.rdp import RenyiProfile

    return RenyiProfile.of(composition)


def pld_profile(composition: Composition) -> LossProfile | LeastProfile:
    """Return the exact curve of the run's worst pairs; raises `CannotBound` if a mechanism has none.

    If divergences bound a mechanism better than its pair does (`closer_by_divergences`), the curve of the
    pairs may lie above the divergences' curve. Then the result is the smaller of both, under both names.
    """
    from dpaudit.accountants.pairs.dominating_pairs import closer_by_divergences

    pairs = replace(_pairs_profile(composition), divergences=[lambda: rdp_profile(composition)])
    if not any(map(closer_by_divergences, composition.others())):
        return pairs
    try:
        renyi = rdp_profile(composition)
    except CannotBound:
        return pairs
    return LeastProfile((pairs, renyi), f"{pairs.method}+{renyi.method}")


def _pairs_profile(composition: Composition) -> LossProfile:
    from dpaudit.accountants.pairs.dominating_pairs import loss_terms, losses, lower_terms
    from dpaudit.accountants.privacy_loss import Composed, PrivacyLoss

    exposures = composition.exposures()
    if len(exposures) > _MOST_EXPOSURES:
        what = f"{len(exposures)} ways to meet the parts of the splits"
        remedy = "use an accountant that adds up part by part: zcdp, gdp or rdp"
        raise CannotBound(what, where="composition", remedy=remedy)
    # Computed once for each mechanism, even if many exposures share it.
    relation = composition.sampling_relation
    everything = {m for exposure in exposures for m in exposure.others()}

    def beside(exposure: Exposure) -> Composed:
        return Composed(gaussian=_pairs(exposure, "gaussian"), laplace=_pairs(exposure, "laplace"))

    def composed(terms: Mapping[AnyMechanism, Losses]) -> list[PrivacyLoss]:
        return [PrivacyLoss.compose(_terms(exposure, terms), beside(exposure)) for exposure in exposures]

    pairs = [m.dominating_pair() for m in everything]
    # Batches and mixtures need a table for each order of their pair; other terms handle both orders.
    tables = any(isinstance(pair, dominating.Batch | dominating.Mixture) for pair in pairs)
    known: list[Mapping[AnyMechanism, Losses]] = []
    for order in (True, False) if tables else (None,):
        terms = {m: losses(m, relation, mixture_first=order) for m in everything}
        known += [] if terms in known else [terms]
    found = [loss for terms in known for loss in composed(terms)]
    least = [lower_terms(each.others().items(), relation) for each in exposures]
    below: list[PrivacyLoss] = []
    for each, lower in zip(exposures, least if any(one is not None for one in least) else (), strict=False):
        exact = loss_terms(each.others().items(), relation) if lower is None else lower
        below.append(PrivacyLoss.compose(exact, beside(each)))
    truncated = any(isinstance(pair, dominating.Batch) and pair.most is not None for pair in pairs)
    if not truncated or any(isinstance(pair, dominating.Mixture) for pair in pairs):
        return LossProfile(found, below)
    # For truncated samples, the pair that holds in both orders may be better.
    terms = {m: losses(m, relation) for m in everything}
    return LossProfile(found, below, () if terms in known else composed(terms))


def _terms(exposure: Exposure, losses_of: Mapping[AnyMechanism, Losses]) -> Iterator[tuple[Term, int]]:
    """Yield the terms of all mechanisms except plain ones; equal choices of bounded range are combined."""
    from dpaudit.accountants.pairs.adaptive_ranges import adaptive_terms

    others = exposure.others()
    choices = [m for m, count in others.items() if isinstance(m, Exponential) and count > 1]
    for mechanism, count in others.items():
        if isinstance(mechanism, Exponential) and len(choices) <= _MOST_CHOICES:
            yield from adaptive_terms(mechanism.epsilon, count)
        else:
            yield from ((term, times * count) for term, times in losses_of[mechanism])


def _pairs(exposure: Exposure, kind: Kind) -> tuple[Vector, Vector]:
    """Return the pair parameters (as in `losses`) and counts of all plain mechanisms of a kind."""
    sensitivity, scale, runs = exposure.columns(kind)
    parameter = quotients_up(sensitivity, scale)
    representable(float(parameter.max(initial=0.0)), "sensitivity / scale")
    return parameter, runs


#: From cheap to costly.
ACCOUNTANTS: tuple[Callable[[Composition], PrivacyProfile], ...] = (
    gdp_profile,
    zcdp_profile,
    pure_profile,
    rdp_profile,
    pld_profile,
)
_MOST_EXPOSURES = 64  # each costs up to a second
_TINY = 1e-270  # below this delta, the 1e-290 that tables may leave out is a significant share
#: Limit on different choices of bounded range with adaptive curves, which take a quarter of a second each.
_MOST_CHOICES = 4


def profiles(composition: Composition) -> list[PrivacyProfile]:
    """Return the curves of all accountants that can bound this composition, or raise `CannotBound`."""
    found, refused = bounded(lambda accountant: accountant(composition), ACCOUNTANTS)
    if not found:
        raise refused[-1]
    return found


def bounded(bound: Callable[[Given], Found], among: Iterable[Given]) -> tuple[list[Found], list[CannotBound]]:
    """Return the results of `bound` on each of `among`, and the `CannotBound` errors of the others."""
    found: list[Found] = []
    refused: list[CannotBound] = []
    for one in among:
        try:
            found.append(bound(one))
        except CannotBound as error:
            refused.append(error)
    return found, refused
