"""How a target's budget grew: its certificate at every commit that changed it."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpaudit.app.git import file_at, git
from dpaudit.app.site.sources import Read, read_certificate
from dpaudit.certificate.verdicts import Proof
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.errors import DpauditError
from dpaudit.pipeline.files import LEDGER
from dpaudit.pipeline.many import scale_of

#: The latest commits of a certificate that are looked at.
MOST_COMMITS = 50


@dataclass(frozen=True)
class Version:
    """A certificate as it was at a commit (``""``: as it is now), with the commit's day.

    `proved` is the tightest bound, None where there is none; `again` says that it was computed again from
    the ledger that stood beside the certificate.
    """

    commit: str
    day: str
    claimed: AnyGuarantee
    proved: AnyGuarantee | None
    verdict: Proof
    again: bool


@dataclass(frozen=True)
class History:
    """The versions of a certificate on its present claim's scale, oldest first; how many are left out."""

    scale: str
    versions: Sequence[Version]
    left_out: int


def history(path: Path, now: Read) -> History | None:
    """A certificate's history, from git; None where there are not two versions to compare."""
    folder, scale = path.parent, scale_of(now.certificate.claim.guarantee)
    log = ("--literal-pathspecs", "log", f"--max-count={MOST_COMMITS}", "--format=%H %cs", "--")
    listed = git(folder, *log, f"./{path.name}")
    commits = [line.split() for line in (listed or b"").decode().splitlines()]
    found, left_out, last = [], 0, b""
    for commit, day in reversed(commits):
        content = file_at(folder, commit, path.name)
        if content is None:  # that commit deleted the file
            continue
        last = content
        try:
            version = _version(_as_it_was(folder, commit, path.name, content), commit[:9], day)
        except DpauditError:
            left_out += 1
            continue
        found.append(version)
    if path.read_bytes() != last:
        found.append(_version(now, "", "now"))
    comparable = [version for version in found if scale_of(version.claimed) == scale]
    left_out += len(found) - len(comparable)
    return History(scale, comparable, left_out) if len(comparable) > 1 else None


def _as_it_was(folder: Path, commit: str, name: str, content: bytes) -> Read:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, name)
        path.write_bytes(content)
        ledger = file_at(folder, commit, LEDGER)
        if ledger is not None:
            path.with_name(LEDGER).write_bytes(ledger)
        return read_certificate(path)


def _version(read: Read, commit: str, day: str) -> Version:
    certificate = read.certificate
    proved = certificate.bounds[0].guarantee if certificate.bounds else None
    claimed, verdict = certificate.claim.guarantee, certificate.proof
    return Version(commit, day, claimed, proved, verdict, read.computed is not None)
