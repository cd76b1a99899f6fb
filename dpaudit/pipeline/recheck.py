"""Recompute a certificate's figures from its ledger."""

from collections.abc import Iterator, Sequence
from typing import Final

from dpaudit.accountants.accounting import Accounted
from dpaudit.accountants.curves.implied import implied_curve
from dpaudit.accountants.curves.profile_points import understated
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.noise_provenance import versions
from dpaudit.certificate.verdicts import (
    CLAIM_TOLERANCE,
    Accounting,
    Experiment,
    leading_figure,
    left_on_trust,
    meets,
    within,
)
from dpaudit.claims.bounds import Bound, as_rigorous
from dpaudit.errors import CannotBound, CertificateMismatch, ClaimMismatch, NotCertifiable
from dpaudit.ledger.ledger import Ledger
from dpaudit.pipeline.accounting import Rigour, accounted
from dpaudit.pipeline.checking import checked_by_file, contradictions

#: A certificate's statements beyond its ledger: no audit is run again, no other library is asked.
AS_STATED: Final = (
    *("audits", "the processes of the run", "the second opinion", "the author's statement"),
    *("that a curator drew the samples", "versions", "command"),
)


def require_figures(certificate: Certificate, ledger: Ledger) -> Accounted:
    """Return a fresh accounting of the ledger; the certificate may not promise more than it.

    Figures of an earlier version may be larger than today's, since accountants become tighter. `AS_STATED`
    lists the statements that no ledger contains.

    Raises `CertificateMismatch`: a figure, of the total or of a release, is smaller than the one computed,
    or claims a better rigour; a verdict is better; an unchecked condition is missing; or the ledger
    has no accounting.
    """
    where, maker = f"certificate of {certificate.algorithm!r}", certificate.versions.get("dpaudit")
    remedy = "" if maker == versions()["dpaudit"] else f"certify again: it says dpaudit {maker} made it"
    enclosed = any(bound.rigour == "interval" for bound in certificate.bounds)
    try:
        rigour: Rigour = "interval" if enclosed else "float-pessimistic"
        # A file does not show who drew its samples; the run in which the certificate was made did.
        found = accounted(ledger, certificate.claim, rigour, drawn_here=True)
    except (CannotBound, ClaimMismatch, NotCertifiable) as error:
        what = f"its ledger gives no figures to hold it against: {error.what}"
        raise CertificateMismatch(what, where=where, why=error.why, remedy=remedy) from None
    again = found.accounting
    for complaint in (
        *_overstated(certificate, again),
        *_not_said(certificate, again),
        *_contradicted(certificate),
        *_unconfirmed(certificate, ledger),
        *(_raised(certificate, again) if maker == versions()["dpaudit"] else ()),
        *understated(certificate.profile, ledger, again, found.composition),
    ):
        raise CertificateMismatch(complaint, where=where, remedy=remedy)
    return found


def _raised(certificate: Certificate, again: Accounting) -> Iterator[str]:
    """Return figures that are larger than this version computes, beyond another machine's rounding."""
    pairs = [
        (f"its bound by {bound.method}", bound.guarantee, one.guarantee)
        for bound in certificate.bounds
        for one in again.bounds
        if one.method == bound.method and as_rigorous(bound.rigour, one.rigour)
    ]
    pairs += [
        (f"release {one.label!r}", stated.proved, one.proved)
        for stated, one in zip(certificate.releases, again.releases, strict=True)
    ]
    for what, stated, found in pairs:
        if (
            type(stated) is type(found)
            and leading_figure(stated) > _MACHINES * leading_figure(found) + 1e-300
        ):
            yield f"{what} was raised to {stated}; computed again it is {found}"


def _unconfirmed(certificate: Certificate, ledger: Ledger) -> Iterator[str]:
    """Return confirmations in the certificate that the independent checker does not give."""
    if certificate.checks is None:
        return
    found, rest = checked_by_file(certificate, ledger)
    for answer, about, words in contradictions(rest):
        yield f"the independent checker finds that {about} {answer}: {words}"
    if (
        found.checks != certificate.checks
        and (found.checks or certificate.checks).sha256 == certificate.checks.sha256
    ):
        yield f"its `checks` confirm {certificate.checks.confirmed}, which the independent checker does not"


#: The relative difference of figures between machines.
_MACHINES: Final = 1.01


def _contradicted(certificate: Certificate) -> Iterator[str]:
    """Return lower bounds of audits without a refutation that exceed the claim at their delta."""
    says = implied_curve(certificate.claim.guarantee)
    for audit in certificate.audits:
        bound, delta = audit.epsilon_lower, audit.delta
        if not bound or not delta or audit.verdict is Experiment.REFUTED:
            continue
        if not within(delta, says(bound * (1 - CLAIM_TOLERANCE))):
            yield (
                f"its audit by {audit.method} is {audit.verdict}, and finds epsilon at least {bound:.12g} at "
                f"delta {delta:.12g}, where the claim says less"
            )


def _overstated(certificate: Certificate, again: Accounting) -> list[str]:
    found = []
    if again.verdict is not certificate.proof and certificate.proof == "PROVED":
        found.append(f"it says PROVED; its ledger, accounted for again, gives {again.verdict}")
    for bound in certificate.bounds:
        computed = [one for one in again.bounds if one.method == bound.method] or list(again.bounds)
        found += _overstated_bound(bound, computed)
    for stated, release in zip(certificate.releases, again.releases, strict=True):
        if not meets(release.proved, stated.proved):
            found.append(f"release {release.label!r} is {release.proved}, not {stated.proved}")
    return found


def _overstated_bound(bound: Bound, computed: Sequence[Bound]) -> Iterator[str]:
    its = f"its bound by {bound.method}"
    enough = [one for one in computed if as_rigorous(one.rigour, bound.rigour)]
    if not enough:
        yield f"{its} has rigour {bound.rigour}, which no bound computed again has"
    elif not any(meets(one.guarantee, bound.guarantee) for one in enough):
        yield f"{its} is {bound.guarantee}; computed again it is {enough[0].guarantee}"
    tight = [one.at_least for one in enough if one.at_least is not None]
    if bound.at_least is not None and not any(within(bound.at_least, lower) for lower in tight):
        yield f"{its} could not be below {bound.at_least:.12g}, which no bound computed again says"


def _not_said(certificate: Certificate, again: Accounting) -> list[str]:
    conditions = left_on_trust(again.not_checked, certificate.audits)
    settled, said = certificate.process.settles, certificate.not_checked
    lacking = [condition for condition in conditions if not settled(condition) and condition not in said]
    return [f"not_checked lacks {condition.code}" for condition in lacking]
