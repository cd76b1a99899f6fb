"""What accounting does not prove, release by release and in total, each where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpaudit.app.gate.policy import Source
from dpaudit.app.gate.report import Finding, Place
from dpaudit.app.text.tables import shortfall
from dpaudit.certificate.verdicts import Accounting, Proof, ReleaseAccount
from dpaudit.ledger.releases import Release

#: Of the releases of one check that fail, so many are shown; how many more there are is said.
MOST_RELEASES = 20


def proof_findings(
    name: str, accounting: Accounting, place_of: Callable[[int], Place], first: Place
) -> Iterator[Finding]:
    """Failing releases, the n-th of them at `place_of(n)`, then the total, at `first`."""
    failing = _failing(accounting)[:MOST_RELEASES]
    for position, release in enumerate(failing):
        if release.claimed is not None:
            words = shortfall(release.proved, release.claimed)
            yield Finding(
                "release-not-proved", name, f"release {release.label!r}: {words}", place_of(position)
            )
    more = accounting.overview.failed - len(failing)
    if more > 0:
        yield Finding("release-not-proved", name, f"and {more} more releases", first)
    claim = accounting.claim
    if claim is None or accounting.verdict is not Proof.NOT_PROVED:
        return
    lines = [f"premise fails: {premise}" for premise in claim.premises if not premise.holds]
    if accounting.bounds:
        lines.append(f"total: {shortfall(accounting.bounds[0].guarantee, claim.guarantee)}")
    else:
        lines.append(f"total: claimed {claim.guarantee}; no accountant has a finite bound on that scale")
    yield Finding("not-proved", name, "\n".join(lines), first)


def _failing(accounting: Accounting) -> list[ReleaseAccount]:
    return [release for release in accounting.releases if release.verdict is Proof.NOT_PROVED]


def lines_of_failing(source: Source, accounting: Accounting) -> list[int]:
    """On which lines of a ledger file the failing releases stand that the accounting shows.

    It shows them in the file's order. A release's cost follows from its mechanism, count and claim, so that
    one that looks like the next failing one is it.
    """
    wanted = iter(_failing(accounting))
    lines: list[int] = []
    sought = next(wanted, None)
    with source() as ledger:
        for line, read in enumerate(ledger, start=2):  # the header is the first
            if sought is None:
                break
            release = read if isinstance(read, Release) else read.release()
            if (release.label, release.mechanism, release.count, release.claimed) == (
                sought.label,
                sought.mechanism,
                sought.count,
                sought.claimed,
            ):
                lines.append(line)
                sought = next(wanted, None)
    return lines
