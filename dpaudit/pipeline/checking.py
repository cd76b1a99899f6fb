"""Check a certificate against its ledger by `dpaudit/checker.py`, which shares no line with accountants."""

import json
from collections.abc import Sequence
from typing import TypeAlias

from dpaudit.certificate.certificate import Certificate, Checks
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import Gaussian, SymmetricGaussian

#: A contradicted or unknown figure: the checker's answer, its subject, and the reason.
Unconfirmed: TypeAlias = Sequence[tuple[str, str, str]]

#: The numbers of releases, and of different releases, that are checked in well under a second.
_MANY, _DIFFERENT = 2000, 64


def checked_by_file(certificate: Certificate, ledger: Ledger) -> tuple[Certificate, Unconfirmed]:
    """Return the certificate with the checker's confirmation, and the answers that do not confirm it.

    A certificate with an unconfirmed claim is returned unchanged.
    """
    from dpaudit import checker

    stated = certificate.model_copy(update={"profile": (), "checks": None}).to_json()
    answers = checker.answers(json.dumps(stated).encode(), b"".join(ledger.lines()))
    rest = [answer for answer in answers if answer[0] != checker.HOLDS]
    if contradictions(rest):
        return certificate, rest
    found = Checks(**checker.checks(answers))
    if found.confirmed == checker.NOTHING:
        return certificate, rest
    return certificate.model_copy(update={"checks": found}), rest


def contradictions(unconfirmed: Unconfirmed) -> Unconfirmed:
    """Return the answers that contradict a figure or a field; the other answers name unknown figures."""
    from dpaudit import checker

    return [answer for answer in unconfirmed if answer[0] == checker.FAILS]


def is_quick(certificate: Certificate) -> bool:
    """Whether the checker takes less than a second: closed forms alone, and not too many releases."""
    releases = certificate.releases
    if len(releases) > _MANY or len({one.mechanism.model_dump_json() for one in releases}) > _DIFFERENT:
        return False
    scales = [certificate.claim.guarantee, *(release.proved for release in releases)]
    gaussian = all(isinstance(one.mechanism, Gaussian | SymmetricGaussian) for one in releases)
    return gaussian or not any(isinstance(scale, ApproxDP) for scale in scales)
