"""From a ledger to upper bounds, and from a claim to its accounting."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.composition import Composition, compose
from dpaudit.accountants.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.profiles import GaussianProfile, PrivacyProfile, PureProfile, ZCDPProfile
from dpaudit.accountants.release_accounts import ReleaseAccounts
from dpaudit.accountants.rounding import sqrt_up, up
from dpaudit.accountants.trusted import TrustedConditions
from dpaudit.bounds import Bound
from dpaudit.claims import Claim
from dpaudit.errors import CannotBound, NotCertifiable
from dpaudit.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.ledger import Ledger, LedgerFacts
from dpaudit.ledger_file import LedgerStream
from dpaudit.relations import Neighbouring
from dpaudit.releases import Release
from dpaudit.verdicts import CLAIM_TOLERANCE, Accounting, leading_figure


def zcdp_profile(composition: Composition) -> ZCDPProfile:
    """The run's total rho and the curve that follows from it."""
    return ZCDPProfile(_finite(composition.total(rho), "rho"))


def gdp_profile(composition: Composition) -> GaussianProfile:
    """The run's total mu and the exact Gaussian curve."""
    return GaussianProfile(sqrt_up(Fraction(_finite(composition.total(mu_squared), "mu^2"))))


def pure_profile(composition: Composition) -> PureProfile:
    """The run's total pure epsilon; raises `CannotBound` where a mechanism has none."""
    return PureProfile(_finite(composition.total(pure_epsilon), "epsilon"))


def profiles(composition: Composition) -> list[PrivacyProfile]:
    """The curves of all accountants that can bound this composition.

    Raises:
        CannotBound: none can.
    """
    found: list[PrivacyProfile] = []
    refused: list[CannotBound] = []
    accountants: tuple[Callable[[Composition], PrivacyProfile], ...] = (
        gdp_profile,
        zcdp_profile,
        pure_profile,
    )
    for accountant in accountants:
        try:
            found.append(accountant(composition))
        except CannotBound as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found


def bounds(composition: Composition, wanted: AnyGuarantee) -> list[Bound]:
    """Upper bounds on the scale of a guarantee, tightest first; empty where that scale has none."""
    match wanted:
        case ApproxDP():
            found = _approximate(composition, wanted.delta)
        case ZCDP():
            found = [Bound(guarantee=ZCDP(rho=zcdp_profile(composition).rho), method="zcdp")]
        case GDP():
            found = [Bound(guarantee=GDP(mu=gdp_profile(composition).mu), method="gdp")]
        case RDP():
            found = [Bound(guarantee=_renyi(zcdp_profile(composition).rho, wanted.alpha), method="zcdp")]
        case PureDP():
            try:
                found = [Bound(guarantee=PureDP(epsilon=pure_profile(composition).pure), method="pure")]
            except CannotBound:
                found = []
        case _:
            assert_never(wanted)
    return sorted(found, key=lambda bound: leading_figure(bound.guarantee))


def budget_bounds(budget: AnyGuarantee, wanted: AnyGuarantee) -> list[Bound]:
    """What a filter's budget alone proves: all that holds for a run of data-dependent length."""
    method = "budget"
    match budget, wanted:
        case ZCDP(), ZCDP():
            return [Bound(guarantee=ZCDP(rho=_held(budget)), method=method)]
        case ZCDP(), ApproxDP():
            epsilon = ZCDPProfile(_held(budget)).epsilon(wanted.delta)
            return [Bound(guarantee=ApproxDP(epsilon=epsilon, delta=wanted.delta), method=method)]
        case ZCDP(), RDP():
            return [Bound(guarantee=_renyi(_held(budget), wanted.alpha), method=method)]
        case ZCDP(), _:
            return []
        case _:
            raise CannotBound(
                f"a budget of {budget}",
                where="header.budget",
                remedy="hold the run to a zCDP budget",
            )


def _held(budget: ZCDP) -> float:
    """What a run held to a budget may have cost: a filter admits sums that exceed it by a rounding."""
    return budget.rho * (1 + CLAIM_TOLERANCE)


def _renyi(rho: float, alpha: float) -> RDP:
    return RDP(alpha=alpha, epsilon=_finite(up(Fraction(rho) * Fraction(alpha)), "epsilon"))


def _approximate(composition: Composition, delta: float) -> list[Bound]:
    found: list[Bound] = []
    refused: list[CannotBound] = []
    for profile in profiles(composition):
        try:
            guarantee = ApproxDP(epsilon=profile.epsilon(delta), delta=delta)
        except CannotBound as error:
            refused.append(error)
        else:
            found.append(Bound(guarantee=guarantee, method=profile.method, rigour=profile.rigour))
    if not found:
        raise refused[0]
    return found


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
    header = ledger.header
    if header.noise.source != "live":
        ledger.require_certifiable()
    claim = (
        ledger.claim if claim is None else claim.about(header.unit, header.neighbouring, header.trust_model)
    )
    wanted = ZCDP(rho=0.0) if claim is None else claim.guarantee

    # Under local trust the ledger describes one user, so the number of users never enters.
    composition = Composition(header.neighbouring)
    accounts = ReleaseAccounts(lambda release: _alone(release, header.neighbouring), most_rows)
    trusted = TrustedConditions()
    for release in ledger:
        composition.add(release)
        accounts.add(release)
        trusted.add(release)

    if header.budget is None:
        total = bounds(composition, wanted)
    else:
        _require_within_budget(composition, header.budget)
        total = budget_bounds(header.budget, wanted)
    return Accounting(
        claim=claim,
        bounds=tuple(total),
        releases=accounts.rows(),
        overview=accounts.overview(),
        not_checked=tuple(_taken_on_trust(ledger, trusted, claim)),
    )


def _alone(release: Release, neighbouring: Neighbouring) -> AnyGuarantee:
    """What one release satisfies, on the scale of what is claimed for it."""
    alone = compose([release], neighbouring)
    wanted = release.claimed if release.claimed is not None else ZCDP(rho=0.0)
    # Where the claimed scale has no bound the release is shown by its rho, which does not meet the claim.
    found = bounds(alone, wanted) or bounds(alone, ZCDP(rho=0.0))
    return found[0].guarantee


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


def _taken_on_trust(ledger: LedgerFacts, trusted: TrustedConditions, claim: Claim | None) -> list[str]:
    lines = []
    if not ledger.complete:
        lines.append("that the file holds every release of the run: it has no footer")
    if not ledger.hashed:
        lines.append("that no line was edited: the file has no hashes")
    lines += trusted.lines()
    if ledger.header.schedule == "fixed":
        lines.append(
            "that the sequence of releases is the same for every data set (an audit by replay tests it)"
        )
    lines.append("that nothing left the algorithm except through the ledger (an audit by replay tests it)")
    if claim is not None:
        lines += [f"assumed: {assumption}" for assumption in claim.assumptions]
    return lines


def _finite(figure: float, name: str) -> float:
    if not math.isfinite(figure):
        raise CannotBound(f"{name} exceeds every double", where="composition", remedy="add noise")
    return figure
