"""Account for a ledger, in memory or in a file, at the requested rigour."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from dpaudit.accountants.accounting import Accounted
from dpaudit.accountants.accounting import accounted as accounted_in_floats
from dpaudit.certificate.verdicts import Accounting
from dpaudit.claims.arguments import checked
from dpaudit.claims.claims import Claim
from dpaudit.errors import DpauditError, NotCertifiable, UsageError
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.ledger import Ledger, LedgerFacts

#: float-pessimistic: every rounding is upwards; interval: only a proved enclosure judges the total.
Rigour: TypeAlias = Literal["float-pessimistic", "interval"]


@checked("account", ledger=Ledger | LedgerStream)
def account(
    ledger: Ledger | LedgerStream,
    claim: Claim | None = None,
    *,
    rigour: Rigour = "float-pessimistic",
    most_rows: int | None = None,
) -> Accounting:
    """Bound a ledger on a claim's scale, in total and release by release.

    >>> from dpaudit import L1, Claim, Laplace, PureDP, account, run
    >>> def count(rows, curator):
    ...     return curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")
    >>> claim = Claim(PureDP(epsilon=0.5), unit="row", neighbouring="add-or-remove-one")
    >>> account(run(count, ["a", "b"], claim=claim, seed=7).ledger).verdict
    <Proof.PROVED: 'PROVED'>

    Args:
        ledger: a ledger in memory, or a stream of a file, which is read to its end.
        claim: default: the ledger's own claim; without any claim, bounds are given as zCDP.
        rigour: ``float-pessimistic``, or ``interval``: only a proved enclosure judges the total.
        most_rows: the number of releases to keep accounts of, failing ones first; all are judged.

    Raises:
        ClaimMismatch: the claim is about another unit, relation or trust model.
        NotCertifiable: the noise in this ledger was never drawn, or was replayed.
        CannotBound: no accountant can bound it at that rigour.
        UsageError: the rigour is unknown.
        LedgerFormat, IntegrityError: while reading a stream.
        MissingExtra: python-flint is not installed.
    """
    return accounted(ledger, claim, rigour, most_rows=most_rows).accounting


def accounted(
    ledger: Ledger | LedgerStream,
    claim: Claim | None,
    rigour: Rigour,
    *,
    most_rows: int | None = None,
    drawn_here: bool | None = None,
) -> Accounted:
    """Return the result of `account`, and the composition, which bounds the ledger on other scales.

    `drawn_here`: whether a curator is known to have drawn every sample; None: as the ledger states.
    """
    if rigour not in {"float-pessimistic", "interval"}:
        why, remedy = "figures of another rigour would be given", "give float-pessimistic or interval"
        raise UsageError(f"no rigour {rigour!r}", where="rigour", why=why, remedy=remedy)
    found = accounted_in_floats(ledger, claim, most_rows=most_rows, drawn_here=drawn_here)
    if rigour == "interval":
        from dpaudit.accountants.interval.interval_bounds import enclosed

        return enclosed(found)
    return found


@dataclass(frozen=True)
class Verified:
    """A ledger file that was read to its end, and its accounting."""

    ledger: LedgerFacts
    accounted: Accounted

    @property
    def accounting(self) -> Accounting:
        """The bounds and verdicts of the ledger."""
        return self.accounted.accounting

    @property
    def not_certifiable(self) -> str | None:
        """Why the ledger can never carry a certificate, or None."""
        try:
            self.ledger.require_certifiable()
        except NotCertifiable as error:
            return error.what
        return None


@checked("verify", claim=Claim | Callable)
def verify(
    path: str | Path,
    claim: Claim | Callable[[Claim | None], Claim | None] | None = None,
    *,
    rigour: Rigour = "float-pessimistic",
    allow_unhashed: bool = False,
    most_rows: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Verified:
    """Check a ledger file's integrity and account for it.

    >>> import tempfile
    >>> from dpaudit import Gaussian, Header, L2, Ledger, Release, ZCDP, Claim, verify
    >>> claim = Claim(ZCDP(rho=0.125))
    >>> ledger = Ledger(Header(algorithm="sums", unit="row", neighbouring="replace-one", claim=claim))
    >>> ledger.append(Release(label="sum", mechanism=Gaussian(sigma=2.0, sensitivity=L2(1.0))))
    >>> ledger.finish()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     str(verify(ledger.write(f"{folder}/ledger.jsonl")).accounting.verdict)
    'PROVED'

    `claim` is the claim to judge, or a function from the file's claim to it. `allow_unhashed` also accounts
    for a file written by hand. `progress` is called with each number of bytes read. The other arguments are
    as in `account`.

    Raises `DpauditError`: as `account`, or the file cannot be read. A truncated or edited file is reported
    before any other fault.
    """
    with LedgerStream(path, allow_unhashed=allow_unhashed, progress=progress) as ledger:
        try:
            judged = claim(ledger.claim) if callable(claim) else claim
            return Verified(ledger, accounted(ledger, judged, rigour, most_rows=most_rows))
        except DpauditError:
            ledger.read_to_the_end()
            raise
