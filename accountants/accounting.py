"""From a ledger to upper bounds, and from a claim to its accounting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from dpaudit.accountants.bridges.imported_ledger import stated_trust
from dpaudit.accountants.closed_forms.ranges import representable
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.conditions import TrustedConditions
from dpaudit.accountants.curves.budgets import implied_by_gdp, implied_by_pure
from dpaudit.accountants.curves.curves import (
    ACCOUNTANTS,
    gdp_profile,
    pure_profile,
    rdp_profile,
    zcdp_profile,
)
from dpaudit.accountants.curves.profiles import LossProfile, PrivacyProfile, ZCDPProfile
from dpaudit.accountants.release_accounts import ReleaseAccounts
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE, Accounting, leading_figure
from dpaudit.claims.bounds import Bound
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, NotCertifiable
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.ledger import Header, Ledger, LedgerFacts
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism


def bounds(composition: Composition, wanted: AnyGuarantee, *, enough: float = 0.0) -> list[Bound]:
    """Upper bounds on the scale of a guarantee, tightest first; empty where that scale has none.

    Args:
        composition: what is to be bounded.
        wanted: its kind, delta and order say what is asked for; its leading figure is not looked at.
        enough: no dearer accountant is asked once a leading figure is at most this.

    Raises:
        CannotBound: every accountant of that scale refuses.
    """
    match wanted:
        case ApproxDP():
            found = _approximate(composition, wanted.delta, enough)
        case ZCDP():
            found = [Bound(guarantee=ZCDP(rho=zcdp_profile(composition).rho), method="zcdp")]
        case GDP():
            found = [Bound(guarantee=GDP(mu=gdp_profile(composition).mu), method="gdp")]
        case RDP():
            renyi = rdp_profile(composition)
            guarantee = RDP(alpha=wanted.alpha, epsilon=renyi.divergence(wanted.alpha))
            found = [Bound(guarantee=guarantee, method=renyi.method, rigour=renyi.rigour)]
        case PureDP():
            try:
                found = [Bound(guarantee=PureDP(epsilon=pure_profile(composition).pure), method="pure")]
            except CannotBound:
                found = []
        case _:
            assert_never(wanted)
    return sorted(found, key=lambda bound: leading_figure(bound.guarantee))


#: The deltas at which a cost without rho is shown where nobody asked for another: the first with a bound.
_DELTAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)

#: Of so many different mechanisms no tighter bound is sought than one that proves the claim.
_MANY_DIFFERENT = 4096


def budget_bounds(budget: AnyGuarantee, wanted: AnyGuarantee, group_size: int = 1) -> list[Bound]:
    """What a filter's budget alone proves: all that holds for a run of data-dependent length.

    A group of k units has k^2 times the rho of one (Bun and Steinke 2016, Proposition 1.9), k times its mu
    (Dong, Roth and Su 2022, Theorem 2.14) and k times its pure epsilon.
    """
    method = "budget"
    match budget, wanted:
        case ZCDP(), ZCDP():
            return [Bound(guarantee=ZCDP(rho=held(budget.rho, group_size**2)), method=method)]
        case ZCDP(), ApproxDP():
            epsilon = ZCDPProfile(held(budget.rho, group_size**2)).epsilon(wanted.delta)
            return [Bound(guarantee=ApproxDP(epsilon=epsilon, delta=wanted.delta), method=method)]
        case ZCDP(), RDP():
            return [Bound(guarantee=_renyi(held(budget.rho, group_size**2), wanted.alpha), method=method)]
        case ZCDP(), _:
            return []
        case GDP(mu=mu), _:
            implied = implied_by_gdp(held(mu, group_size), wanted)
            return [] if implied is None else [Bound(guarantee=implied, method=method)]
        case PureDP(epsilon=epsilon), _:
            return [Bound(guarantee=implied_by_pure(held(epsilon, group_size), wanted), method=method)]
        case _:
            raise CannotBound(
                f"a budget of {budget}",
                where="header.budget",
                remedy="hold the run to a zCDP, GDP or pure-DP budget",
            )


def held(budget: float, factor: int) -> float:
    """What a run held to a budget may have cost: a filter admits sums that exceed it by a rounding.

    `factor` is what a group costs more than a unit.
    """
    return representable(up(Fraction(budget) * (1 + Fraction(CLAIM_TOLERANCE)) * factor), "the budget")


def _renyi(rho: float, alpha: float) -> RDP:
    return RDP(alpha=alpha, epsilon=representable(up(Fraction(rho) * Fraction(alpha)), "epsilon"))


def _approximate(composition: Composition, delta: float, enough: float) -> list[Bound]:
    found: list[Bound] = []
    refused: list[CannotBound] = []
    for accountant in ACCOUNTANTS:
        try:
            found.append(_at(accountant(composition), delta))
        except CannotBound as error:
            refused.append(error)
        else:
            if leading_figure(found[-1].guarantee) <= enough:
                break
    if not found:
        raise refused[-1]
    return found


def _at(profile: PrivacyProfile, delta: float) -> Bound:
    if not isinstance(profile, LossProfile):
        guarantee = ApproxDP(epsilon=profile.epsilon(delta), delta=delta)
        return Bound(guarantee=guarantee, method=profile.method, rigour=profile.rigour)
    lower, upper = profile.bracket(delta)
    return Bound(
        guarantee=ApproxDP(epsilon=upper, delta=delta),
        method=profile.method,
        rigour=profile.rigour,
        at_least=lower,
    )


@dataclass(frozen=True)
class Accounted:
    """What accounting makes of a ledger, and the composition that bounds it on other scales as well."""

    header: Header
    composition: Composition
    accounting: Accounting

    def bounds(self, wanted: AnyGuarantee) -> list[Bound]:
        """Upper bounds of the total on another scale, tightest first.

        Raises:
            CannotBound: no accountant can bound it there.
        """
        return _total(self.header, self.composition, wanted)


def account(
    ledger: Ledger | LedgerStream, claim: Claim | None = None, *, most_rows: int | None = None
) -> Accounting:
    """Bound a ledger on a claim's scale, in total and release by release.

    Args:
        ledger: the ledger, whole or not, in memory or a stream of a file, which is read to its end; one
            whose noise was never drawn is refused.
        claim: what is to be judged; left out, the ledger's own; if there is none, bounds are given
            as zCDP.
        most_rows: how many releases to keep accounts of; of more, those that fail first. All are judged.

    Raises:
        ClaimMismatch: the claim is about another unit, relation or trust model.
        NotCertifiable: the noise in this ledger was never drawn, or replayed.
        CannotBound: no accountant can bound it.
        LedgerFormat, IntegrityError: while reading a stream, as it says.
    """
    return accounted(ledger, claim, most_rows=most_rows).accounting


def accounted(
    ledger: Ledger | LedgerStream, claim: Claim | None = None, *, most_rows: int | None = None
) -> Accounted:
    """As `account`, together with the composition, so that the ledger is composed once for all questions."""
    header = ledger.header
    ledger.require_live_noise()
    claim = (
        ledger.claim if claim is None else claim.about(header.unit, header.neighbouring, header.trust_model)
    )

    # Under local trust the ledger describes one user, so the number of users never enters. A curator held
    # single units to its budget, whatever groups the claim is about.
    composition = Composition(header.neighbouring, header.group_size if header.budget is None else 1)

    def alone(release: Release) -> AnyGuarantee:
        described = (release.mechanism, release.count, release.claimed)
        return _alone(*described, header.neighbouring, header.group_size)

    accounts = ReleaseAccounts(alone, most_rows, in_batches=header.group_size == 1)
    trusted = TrustedConditions()
    for release in ledger:
        composition.add(release)
        accounts.add(release)
        trusted.add(release)

    accounting = Accounting(
        ledger_hash=ledger.hash,
        claim=claim,
        bounds=tuple(_total(header, composition, None if claim is None else claim.guarantee)),
        releases=accounts.rows(),
        overview=accounts.overview(),
        not_checked=tuple(_taken_on_trust(ledger, trusted, claim)),
    )
    return Accounted(header, composition, accounting)


def _total(header: Header, composition: Composition, wanted: AnyGuarantee | None) -> list[Bound]:
    """Bounds on a scale; where none is wanted, on zCDP's, or as epsilon where it has none."""
    if header.budget is not None:
        _require_within_budget(composition, header.budget)
        return budget_bounds(header.budget, wanted or ZCDP(rho=0.0), header.group_size)
    if wanted is None:
        return _on_some_scale(composition)
    # The costlier accountants look at every mechanism many times over.
    enough = leading_figure(wanted) if composition.distinct > _MANY_DIFFERENT else 0.0
    return bounds(composition, wanted, enough=enough)


@lru_cache(maxsize=1 << 14)  # ledgers repeat releases
def _alone(
    mechanism: AnyMechanism,
    count: int,
    claimed: AnyGuarantee | None,
    neighbouring: Neighbouring,
    group_size: int,
) -> AnyGuarantee:
    """What is proved of a release by itself, on the scale of the claim about it."""
    alone = compose([Release(label="alone", mechanism=mechanism, count=count)], neighbouring, group_size)
    if claimed is not None:
        try:
            found = bounds(alone, claimed, enough=leading_figure(claimed) * (1 + CLAIM_TOLERANCE))
        except CannotBound:
            found = []
        if found:
            return found[0].guarantee
    # Where the claimed scale has no bound the release is shown on another, which does not meet the claim.
    # No verdict hangs on the figure then: the first accountant's will do.
    return _on_some_scale(alone, enough=math.inf)[0].guarantee


def _on_some_scale(composition: Composition, *, enough: float = 0.0) -> list[Bound]:
    """Bounds on zCDP's scale, or as epsilon at a small delta where it has none; `enough` as in `bounds`.

    Raises:
        CannotBound: on none of these scales.
    """
    scales: list[AnyGuarantee] = [ZCDP(rho=0.0), *(ApproxDP(epsilon=0.0, delta=delta) for delta in _DELTAS)]
    for scale in scales[:-1]:
        try:
            return bounds(composition, scale, enough=enough)
        except CannotBound:
            continue  # a release that fails with probability delta has no bound at a smaller one
    return bounds(composition, scales[-1], enough=enough)


def _require_within_budget(composition: Composition, budget: AnyGuarantee) -> None:
    spent = bounds(composition, budget)
    if not spent or leading_figure(spent[0].guarantee) > leading_figure(budget) * (1 + CLAIM_TOLERANCE):
        cost = spent[0].guarantee if spent else "more than can be bounded"
        raise NotCertifiable(
            f"the releases cost {cost}, the budget was {budget}",
            where="header.budget",
            why="a filter that had held this budget would have refused one of them",
            remedy="run the algorithm again with a curator that holds the budget",
        )


def _taken_on_trust(
    ledger: LedgerFacts, trusted: TrustedConditions, claim: Claim | None
) -> Iterator[Condition]:
    if not ledger.complete:
        yield Condition(code=Code.NO_FOOTER)
    if not ledger.hashed:
        yield Condition(code=Code.NO_HASHES)
    yield from trusted.found()
    for text in stated_trust(ledger.header.parameters):
        yield Condition(code=Code.STATED, text=text)
    if ledger.header.schedule == "fixed":
        yield Condition(code=Code.FIXED_SEQUENCE, replayed=False)
    yield Condition(code=Code.ONLY_THROUGH_LEDGER, replayed=False)
    for text in () if claim is None else claim.assumptions:
        yield Condition(code=Code.ASSUMED, text=text)
