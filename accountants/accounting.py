"""Compute upper bounds from a ledger, and the accounting of a claim."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.conditions import TrustedConditions
from dpaudit.accountants.curves import curves
from dpaudit.accountants.curves.implied import budget_bounds, held
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
from dpaudit.progress import Work


def bounds(composition: Composition, wanted: AnyGuarantee, *, enough: float = 0.0) -> list[Bound]:
    """Return upper bounds on the scale of a guarantee, tightest first; an empty list if the scale has none.

    `wanted` sets the kind, delta and order; its leading figure is not used. The search stops before the next,
    costlier accountant once a leading figure is at most `enough`. Raises `CannotBound` if every accountant of
    that scale refuses.
    """
    match wanted:
        case ApproxDP():
            found = _approximate(composition, wanted.delta, enough)
        case RDP():
            renyi = curves.rdp_profile(composition)
            guarantee = RDP(alpha=wanted.alpha, epsilon=renyi.divergence(wanted.alpha))
            found = [Bound(guarantee=guarantee, method=renyi.method, rigour=renyi.rigour)]
        case ZCDP():
            found = [_bound_of(curves.zcdp_profile(composition))]
        case GDP():
            found = [_bound_of(curves.gdp_profile(composition))]
        case PureDP():
            try:
                found = [_bound_of(curves.pure_profile(composition))]
            except CannotBound:
                found = []
        case _:
            assert_never(wanted)
    return sorted(found, key=lambda bound: leading_figure(bound.guarantee))


def _bound_of(profile: curves.ImpliedProfile) -> Bound:
    return Bound(guarantee=profile.guarantee, method=profile.method, rigour=profile.rigour)


#: With more different mechanisms beside plain noise, the search stops at a bound that proves the claim.
_MANY_DIFFERENT = 4096


def _approximate(composition: Composition, delta: float, enough: float) -> list[Bound]:
    found: list[Bound] = []
    refused: list[CannotBound] = []
    for accountant in curves.ACCOUNTANTS:
        at_least: float | None = None
        try:
            profile = accountant(composition)
            if isinstance(profile, curves.LossProfile):
                at_least, upper = profile.bracket(delta)
            else:
                upper = profile.epsilon(delta)
        except CannotBound as error:
            refused.append(error)
            continue
        method, rigour, guarantee = profile.method, profile.rigour, ApproxDP(epsilon=upper, delta=delta)
        found.append(Bound(guarantee=guarantee, method=method, rigour=rigour, at_least=at_least))
        if upper <= enough:
            break
    if not found:
        raise refused[-1]
    return found


@dataclass(frozen=True)
class Accounted:
    """The accounting of a ledger, and its composition, which gives bounds on other scales."""

    header: Header
    composition: Composition
    accounting: Accounting

    def bounds(self, wanted: AnyGuarantee) -> list[Bound]:
        """Return upper bounds of the total on another scale, tightest first, or raise `CannotBound`."""
        return _total(self.header, self.composition, wanted)


def account(
    ledger: Ledger | LedgerStream, claim: Claim | None = None, *, most_rows: int | None = None
) -> Accounting:
    """Account like `dpaudit.account` at rigour ``float-pessimistic``: bounds in total and per release."""
    return accounted(ledger, claim, most_rows=most_rows).accounting


def accounted(
    ledger: Ledger | LedgerStream,
    claim: Claim | None = None,
    *,
    most_rows: int | None = None,
    drawn_here: bool | None = None,
) -> Accounted:
    """Account like `account` and also return the composition, so that the ledger is composed only once.

    `drawn_here` says whether a curator drew every sample. If it is None, the ledger decides.
    """
    header = ledger.header
    ledger.require_live_noise()
    claim = claim.about(header.unit, header.neighbouring, header.trust_model) if claim else ledger.claim
    # Under local trust the ledger describes one user, so the number of users does not matter. A curator's
    # budget limits single units, whatever group size the claim has.
    composition = Composition(header.neighbouring, header.group_size if header.budget is None else 1)

    def alone(release: Release) -> AnyGuarantee:
        described = (release.mechanism, release.count, release.claimed)
        return _alone(*described, header.neighbouring, header.group_size)

    accounts = ReleaseAccounts(alone, most_rows, in_batches=header.group_size == 1)
    trusted = TrustedConditions(drawn_here=ledger.by_curator if drawn_here is None else drawn_here)
    for release in ledger.blocks() if isinstance(ledger, LedgerStream) else ledger:
        composition.add(release)
        accounts.add(release)
        trusted.add(release)
    with Work("computing what was spent"):
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
    """Return bounds on the scale of `wanted`; if it is None, as `on_some_scale` does."""
    if (budget := header.budget) is not None:
        if composition.shared and not isinstance(budget, PureDP):
            what = f"several releases on one sample in a run with the budget {budget}"
            why = "a filter charges release by release, and refuses a second release on one sample"
            remedy = "run the algorithm again with a curator that holds the budget"
            raise NotCertifiable(what, where="header.budget", why=why, remedy=remedy)
        spent = bounds(composition, budget)
        if not spent or leading_figure(spent[0].guarantee) > held(leading_figure(budget), 1):
            cost = spent[0].guarantee if spent else "more than can be bounded"
            what = f"the releases cost {cost}, the budget was {budget}"
            why = "a filter with this budget would have refused one of them"
            remedy = "run the algorithm again with a curator that holds the budget"
            raise NotCertifiable(what, where="header.budget", why=why, remedy=remedy)
        return budget_bounds(budget, wanted or ZCDP(rho=0.0), header.group_size)
    if wanted is None:
        return on_some_scale(composition)
    # The costlier accountants process every mechanism many times, unless it is in a column.
    enough = leading_figure(wanted) if len(composition.others()) > _MANY_DIFFERENT else 0.0
    return bounds(composition, wanted, enough=enough)


@lru_cache(maxsize=1 << 14)  # ledgers repeat releases
def _alone(
    mechanism: AnyMechanism, count: int, claimed: AnyGuarantee | None, neighbouring: Neighbouring, size: int
) -> AnyGuarantee:
    """Return the guarantee proved for one release alone, on the scale of its claim."""
    alone = compose([Release(label="alone", mechanism=mechanism, count=count)], neighbouring, size)
    if claimed is not None:
        try:
            found = bounds(alone, claimed, enough=leading_figure(claimed) * (1 + CLAIM_TOLERANCE))
        except CannotBound:
            found = []
        if found:
            return found[0].guarantee
    # If the claimed scale has no bound, the release gets a bound on another scale, which does not meet the
    # claim. No verdict depends on that figure, so the first accountant's bound is enough.
    return on_some_scale(alone, enough=math.inf)[0].guarantee


def on_some_scale(composition: Composition, *, enough: float = 0.0) -> list[Bound]:
    """Return bounds on rho, or on epsilon at a small delta if rho has none; `enough` as in `bounds`."""
    #: A cost without rho is shown at the first of these deltas that has a bound.
    deltas = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    scales: list[AnyGuarantee] = [ZCDP(rho=0.0), *(ApproxDP(epsilon=0.0, delta=delta) for delta in deltas)]
    for scale in scales[:-1]:
        try:
            return bounds(composition, scale, enough=enough)
        except CannotBound:
            continue  # a release that fails with probability delta has no bound at a smaller one
    return bounds(composition, scales[-1], enough=enough)


def _taken_on_trust(
    ledger: LedgerFacts, trusted: TrustedConditions, claim: Claim | None
) -> Iterator[Condition]:
    if not ledger.complete:
        yield Condition(code=Code.NO_FOOTER)
    if not ledger.hashed:
        yield Condition(code=Code.NO_HASHES)
    yield from trusted.found()
    for text in ledger.header.stated_trust:
        yield Condition(code=Code.STATED, text=text)
    if ledger.header.schedule == "fixed":
        yield Condition(code=Code.FIXED_SEQUENCE, replayed=False)
    yield Condition(code=Code.ONLY_THROUGH_LEDGER, replayed=False)
    for text in () if claim is None else claim.assumptions:
        yield Condition(code=Code.ASSUMED, text=text)
