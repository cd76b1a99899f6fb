"""A certificate's figures, computed again from the ledger that they are said to follow from."""

from __future__ import annotations

from typing import Final

from dpaudit.accountants.profile_points import understated
from dpaudit.app.claim_options import accounted
from dpaudit.certificate import Certificate
from dpaudit.errors import CertificateMismatch
from dpaudit.ledger import Ledger
from dpaudit.verdicts import Accounting, meets

#: What `dpaudit certify -o` calls a certificate's ledger, beside it.
LEDGER: Final = "ledger.jsonl"


def require_figures(certificate: Certificate, ledger: Ledger) -> None:
    """Account for the ledger again: the certificate may not promise more than comes out.

    Larger figures than today's accountants find are no forgery: accountants become tighter.

    Raises:
        CertificateMismatch: a figure, of the total or of a release, is smaller than the one computed; or a
            verdict is better.
    """
    rigours = {bound.rigour for bound in certificate.bounds}
    again = accounted(ledger, certificate.claim, "interval" if "interval" in rigours else "float-pessimistic")
    for complaint in (*_overstated(certificate, again), *understated(certificate.profile, ledger, again)):
        raise CertificateMismatch(complaint, where=f"certificate of {certificate.algorithm!r}")


def _overstated(certificate: Certificate, again: Accounting) -> list[str]:
    found = []
    if again.verdict is not certificate.proof and certificate.proof == "PROVED":
        found.append(f"it says PROVED; its ledger, accounted for again, gives {again.verdict}")
    for bound in certificate.bounds:
        computed = [one for one in again.bounds if one.method == bound.method] or list(again.bounds)
        if not any(meets(one.guarantee, bound.guarantee) for one in computed):
            found.append(
                f"its bound by {bound.method} is {bound.guarantee}; computed again it is "
                f"{computed[0].guarantee if computed else 'none'}"
            )
    for stated, release in zip(certificate.releases, again.releases, strict=True):
        if not meets(release.proved, stated.proved):
            found.append(f"release {release.label!r} is {release.proved}, not {stated.proved}")
    return found
