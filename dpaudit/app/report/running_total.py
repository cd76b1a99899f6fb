"""Each release's share of the total cost, and a run's total after each release."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.composition.costs import rho
from dpaudit.accountants.curves.profile_points import costly
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import Proof, ReleaseAccount, leading_figure
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.errors import DpauditError

#: Of more releases than this, those that differ in a number alone share a line.
MOST_LINES = 25

#: The running total is computed after no more releases than this, evenly spread.
_MOST_STEPS = 48


@dataclass(frozen=True)
class Share:
    """A release, or several whose labels differ in a number alone (``#`` in `label`)."""

    label: str
    number: int
    costliest: ReleaseAccount
    share: float | None  # of the sum of all releases' costs; None where they have none in common
    verdict: Proof | None  # NOT_PROVED if any of their own claims is not; None where none has one


def shares(releases: Sequence[ReleaseAccount]) -> list[Share]:
    """Every release's share, in the run's order; of very many, the largest, and one line for the rest."""
    costs = _costs(releases)
    whole = sum(costs)
    several = len(releases) > MOST_LINES
    groups: dict[str, list[int]] = {}
    for index, release in enumerate(releases):
        # A line of its own for each of few releases, also where they share a label.
        key = re.sub("[0-9]+", "#", release.label) if several else f"{index}"
        groups.setdefault(key, []).append(index)
    found = [
        Share(
            label=key if len(members) > 1 else releases[members[0]].label,
            number=len(members),
            costliest=_costliest(releases[index] for index in members),
            share=sum(costs[index] for index in members) / whole if whole > 0 else None,
            verdict=_verdict(releases[index].verdict for index in members),
        )
        for key, members in groups.items()
    ]
    if len(found) <= MOST_LINES:
        return found
    # Those that fail come first, so that the rest holds one only where more fail than there are lines.
    order = sorted(found, key=lambda s: (s.verdict is not Proof.NOT_PROVED, -(s.share or 0.0)))
    kept, rest = order[:MOST_LINES], order[MOST_LINES:]
    others = Share(
        label="all others",
        number=sum(s.number for s in rest),
        costliest=_costliest(s.costliest for s in rest),
        share=sum(s.share or 0.0 for s in rest) if costs else None,
        verdict=_verdict(s.verdict for s in rest),
    )
    return [*kept, others]


def _costliest(releases: Iterable[ReleaseAccount]) -> ReleaseAccount:
    return max(releases, key=lambda release: leading_figure(release.proved))


def _verdict(verdicts: Iterable[Proof | None]) -> Proof | None:
    found = set(verdicts)
    return next((verdict for verdict in (Proof.NOT_PROVED, Proof.PROVED) if verdict in found), None)


def course(
    certificate: Certificate, whole: Composition | None = None
) -> tuple[AnyGuarantee, list[tuple[int, float]]] | None:
    """What is held (the claim, or a filter's budget), and the total after so many releases on its scale.

    None where that takes an accountant too costly to run for each release, or there is none. `whole` is what
    the releases compose to, where that is known.
    """
    held = certificate.budget or certificate.claim.guarantee
    method = certificate.bounds[0].method if certificate.bounds else ""
    if method in {"pld", "pld+rdp", "rdp"} and costly(whole or _composed(certificate, certificate.releases)):
        return None
    try:
        return held, list(totals(certificate, held, _MOST_STEPS))
    except (DpauditError, IndexError):
        return None


def totals(certificate: Certificate, scale: AnyGuarantee, most: int) -> Iterator[tuple[int, float]]:
    """The total on a scale after each release, or after no more of them than `most`, evenly spread.

    Raises `CannotBound` where it has no bound there, `IndexError` where that scale has none.
    """
    so_far = _composed(certificate, ())
    stops = {max(1, round(len(certificate.releases) * step / most)) for step in range(1, most + 1)}
    for number, release in enumerate(certificate.releases, start=1):
        so_far.add(release)
        if number in stops:
            yield number, leading_figure(bounds(so_far, scale)[0].guarantee)


def _composed(certificate: Certificate, releases: Iterable[ReleaseAccount]) -> Composition:
    group = certificate.group_size if certificate.budget is None else 1
    return compose(releases, certificate.neighbouring, group)


def _costs(releases: Sequence[ReleaseAccount]) -> list[float]:
    """What adds up: every release's rho, or their figures where these are all on one scale that does."""
    try:
        return [rho(release.mechanism) * release.count for release in releases]
    except DpauditError:
        kinds = {release.proved.kind for release in releases}
        return [leading_figure(release.proved) for release in releases] if len(kinds) == 1 else []
