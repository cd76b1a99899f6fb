"""Points of delta(epsilon) for a ledger's releases, by every accountant that can bound them."""

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence

from dpaudit.accountants.composition.composition import Composition, compose_ledger
from dpaudit.accountants.curves.curves import (
    ACCOUNTANTS,
    ImpliedProfile,
    PrivacyProfile,
    bounded,
    pld_profile,
    rdp_profile,
)
from dpaudit.accountants.curves.implied import held_to
from dpaudit.certificate.curve_points import CurvePoints
from dpaudit.certificate.verdicts import Accounting, meets, within
from dpaudit.claims.bounds import as_rigorous
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import Gaussian, SymmetricGaussian

#: Number of points, evenly spaced from epsilon 0 to the epsilon of the first `_ENDS` delta that has one.
POINTS = 33
_ENDS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)

#: With more different non-Gaussian mechanisms, or more ways to meet the parts of splits, a costlier
#: accountant is used only if the claim's proof needs it: its curve takes many seconds.
_MANY_DIFFERENT = 8
_MANY_EXPOSURES = 4


def profile_points(
    ledger: Ledger, accounting: Accounting, composition: Composition | None = None
) -> tuple[CurvePoints, ...]:
    """Return the curves of all accountants that can bound a ledger in a second or two, cheapest first.

    A filtered ledger has its budget's curve instead. If the accounting claims (epsilon, delta), that epsilon
    is among the points. `composition` is the ledger's; None composes it here.
    """
    claimed = None if accounting.claim is None else accounting.claim.guarantee
    found = _profiles(ledger, _needed(accounting), composition)
    return points_of(found, *([claimed.epsilon] if isinstance(claimed, ApproxDP) else []))


def points_of(profiles: Sequence[PrivacyProfile], *further: float) -> tuple[CurvePoints, ...]:
    """Return profiles' curves at common epsilons, from 0 to a negligible delta, plus `further` epsilons."""
    last = _end(profiles)
    if last is None:
        return ()
    epsilons = sorted({*further, *(last * step / (POINTS - 1) for step in range(POINTS))})
    return tuple(bounded(lambda profile: _points(profile, epsilons), profiles)[0])


def understated(
    curves: Iterable[CurvePoints],
    ledger: Ledger,
    accounting: Accounting,
    composition: Composition | None = None,
) -> Iterator[str]:
    """Yield the errors of stated curves: points below the recomputed ones, or an unsupported rigour.

    A curve by an accountant that is not used now is compared with all current accountants. It may be tighter
    than each of them, but that cannot be checked, so it is refused where it lies below all.
    """
    found = _profiles(ledger, _needed(accounting), composition)
    for curve in curves:
        profiles = [profile for profile in found if profile.method == curve.method] or found
        if not any(as_rigorous(profile.rigour, curve.rigour) for profile in profiles):
            yield f"its curve by {curve.method} has rigour {curve.rigour}, which no curve computed again has"
        for epsilon, delta in curve.points:
            computed = min([1.0, *bounded(operator.methodcaller("delta", epsilon), profiles)[0]])
            if not within(computed, delta):
                yield (
                    f"its curve by {curve.method} has delta {delta:.12g} at epsilon {epsilon:.12g}; computed "
                    f"again it is {computed:.12g}"
                )
                break


def _needed(accounting: Accounting) -> str | None:
    """Return the only accountant that proves the claim; None if there are several or none."""
    claim = accounting.claim
    meeting = [b.method for b in accounting.bounds if claim and meets(b.guarantee, claim.guarantee)]
    return meeting[0] if len(meeting) == 1 else None


def _profiles(ledger: Ledger, needed: str | None, given: Composition | None) -> list[PrivacyProfile]:
    header = ledger.header
    if header.budget is not None:
        return [ImpliedProfile(held_to(header.budget, header.group_size))]
    composition = compose_ledger(ledger) if given is None else given
    #: The names of the costly accountants' methods.
    methods: dict[object, tuple[str, ...]] = {rdp_profile: ("rdp",), pld_profile: ("pld", "pld+rdp")}
    skipped = costly(composition)
    used = [a for a in ACCOUNTANTS if not skipped or a not in methods or needed in methods[a]]
    return bounded(lambda accountant: accountant(composition), used)[0]


def costly(composition: Composition) -> bool:
    """Return whether a curve by the Renyi and privacy-loss accountants takes many seconds."""
    different = (m for m in composition.mechanisms() if not isinstance(m, Gaussian | SymmetricGaussian))
    if len(list(itertools.islice(different, _MANY_DIFFERENT + 1))) > _MANY_DIFFERENT:
        return True
    try:
        return len(composition.exposures()) > _MANY_EXPOSURES
    except CannotBound:
        return True


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
    # Rounding may let a later figure exceed an earlier one; the earlier one bounds both.
    deltas = itertools.accumulate((min(profile.delta(epsilon), 1.0) for epsilon in epsilons), min)
    points = tuple(zip(epsilons, deltas, strict=True))
    return CurvePoints(method=profile.method, rigour=profile.rigour, points=points)
