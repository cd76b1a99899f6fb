"""delta(epsilon) of a ledger's releases as points, by every accountant that can bound them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from dpaudit.accountants.accounting import held
from dpaudit.accountants.composition import Composition, compose_ledger
from dpaudit.accountants.curves import ACCOUNTANTS, pld_profile, rdp_profile
from dpaudit.accountants.profiles import GaussianProfile, PrivacyProfile, PureProfile, ZCDPProfile
from dpaudit.curve_points import CurvePoints
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.guarantees import GDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.ledger import Ledger

#: Evenly spaced from epsilon 0 to where delta is as small as the first of `_ENDS` that has an epsilon.
POINTS = 33
_ENDS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)

#: Of so many different mechanisms, or ways to meet the parts of splits, the dearer accountants are not asked.
_MANY_DIFFERENT = 256
_MANY_EXPOSURES = 4


def profile_points(ledger: Ledger, claimed: AnyGuarantee | None = None) -> tuple[CurvePoints, ...]:
    """The curves of all accountants that can bound a ledger in a second or two, tightest last.

    Args:
        ledger: the releases; of a filtered one, its budget is what has a curve.
        claimed: an (epsilon, delta) whose epsilon is to be among the points.
    """
    found = list(_profiles(ledger))
    last = _end(found)
    if last is None:
        return ()
    epsilons = {last * step / (POINTS - 1) for step in range(POINTS)}
    if isinstance(claimed, ApproxDP):
        epsilons.add(claimed.epsilon)
    curves = []
    for profile in found:
        try:
            curves.append(_points(profile, sorted(epsilons)))
        except CannotBound:
            continue
    return tuple(curves)


def _profiles(ledger: Ledger) -> Iterator[PrivacyProfile]:
    header = ledger.header
    if header.budget is not None:
        yield from _of_budget(header.budget, header.group_size)
        return
    composition = compose_ledger(ledger)
    for accountant in ACCOUNTANTS:
        if accountant in {rdp_profile, pld_profile} and _dear(composition):
            continue
        try:
            yield accountant(composition)
        except CannotBound:
            continue


def _dear(composition: Composition) -> bool:
    if composition.distinct > _MANY_DIFFERENT:
        return True
    try:
        return len(composition.exposures()) > _MANY_EXPOSURES
    except CannotBound:
        return True


def _of_budget(budget: AnyGuarantee, group_size: int) -> Iterator[PrivacyProfile]:
    """As `budget_bounds` has it: a group of k has k^2 times the rho of one unit, and k times the rest."""
    match budget:
        case ZCDP(rho=rho):
            yield ZCDPProfile(held(rho, group_size**2))
        case GDP(mu=mu):
            yield GaussianProfile(held(mu, group_size))
        case PureDP(epsilon=epsilon):
            yield PureProfile(held(epsilon, group_size))
        case _:
            return


def _end(profiles: Sequence[PrivacyProfile]) -> float | None:
    for delta in _ENDS:
        epsilons = []
        for profile in profiles:
            try:
                epsilons.append(profile.epsilon(delta))
            except (CannotBound, InvalidParameter):
                continue
        if epsilons:
            return min(epsilons) or 1.0
    return None


def _points(profile: PrivacyProfile, epsilons: Sequence[float]) -> CurvePoints:
    # Rounding may let a later figure exceed an earlier one, which bounds it too.
    deltas = itertools.accumulate((min(profile.delta(epsilon), 1.0) for epsilon in epsilons), min)
    return CurvePoints(
        method=profile.method, rigour=profile.rigour, points=tuple(zip(epsilons, deltas, strict=True))
    )
