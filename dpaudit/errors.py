"""All errors of dpaudit, each with its code; docs/errors.md lists them.

`InputError` (a ``ValueError``; exit status 2): an input or a request is wrong.
`IntegrityError` (exit status 3): a file differs from the file that was written.
"""

from __future__ import annotations

from typing import ClassVar


class DpauditError(Exception):
    """An error with a stable code: what was wrong, where, why it matters and what to do.

    `what` names the wrong value; `where` is the place: a file and line, a release's label, or a parameter;
    `why` is the reason for the refusal, and `remedy` the correction.
    """

    code: ClassVar[str] = "DPA100"
    exit_status: ClassVar[int] = 2
    default_why: ClassVar[str] = ""
    default_remedy: ClassVar[str] = ""
    #: ``file:line`` in the algorithm's code that raised the error, if known.
    raised_at: str = ""
    #: The part of `what` that quotes another library's exception and may contain private data.
    quoted: str = ""

    def __init__(self, what: str, *, where: str = "", why: str = "", remedy: str = "") -> None:
        self.what, self.where = what, where
        self.why = why or self.default_why
        self.remedy = remedy or self.default_remedy
        super().__init__(what, where, self.why, self.remedy)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders in parallel trials; pickle cannot pass keyword-only fields.
        return _rebuild, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        # A line break in a name or a quoted message could imitate a line of ours.
        what, where, why, remedy = map(_on_one_line, (self.what, self.where, self.why, self.remedy))
        place = f"{where}: " if where else ""
        reason = f"\n  why: {why}" if why else ""
        advice = f"\n  do:  {remedy}" if remedy else ""
        return f"{self.code} {place}{what}{reason}{advice}"


def _on_one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _rebuild(kind: type[DpauditError], args: tuple[str, ...], fields: dict[str, object]) -> DpauditError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InputError(DpauditError, ValueError):
    """An input or a request is wrong."""


class InvalidParameter(InputError):
    """A number outside its range."""

    code = "DPA101"
    default_why = "a bound computed from it would mean nothing"
    default_remedy = "give a finite number in the stated range"


class NormMismatch(InputError):
    """A sensitivity in a norm that the mechanism cannot use."""

    code = "DPA102"
    default_why = "a mechanism's privacy cost is a function of the sensitivity in its own norm only"
    default_remedy = "derive the sensitivity in the norm that the mechanism needs"


class UnknownKind(InputError):
    """A mechanism or guarantee kind that is not in the closed union."""

    code = "DPA103"
    default_why = "an unknown release cannot be accounted for, and is never counted as free"
    default_remedy = "use a kind of docs/proving/mechanisms.md, or an opaque mechanism with a justification"


class SensitivityTooSmall(InputError):
    """A declared sensitivity below the one that the contribution bound implies."""

    code = "DPA104"
    default_why = "the noise would be calibrated to less than one unit can change"
    default_remedy = "declare the sensitivity that the bound implies, and calibrate the noise to it"


class UsageError(InputError):
    """A wrong command line or configuration."""

    code = "DPA105"
    default_why = "a wrong option would have to be guessed"
    default_remedy = "see dpaudit --help, or the documentation of the parameter named"


class MissingExtra(InputError):
    """A required optional library is not installed."""

    code = "DPA106"
    default_why = "without it the file or figure cannot be made"
    default_remedy = "install the extra that the message names"


class BrokenPackage(InputError):
    """An installed package adds an unusable entry to dpaudit."""

    code = "DPA107"
    default_why = "the name cannot be used; everything else works"
    default_remedy = "correct the package, or uninstall it"


class LedgerFormat(InputError):
    """A line that the ledger format does not allow."""

    code = "DPA201"
    default_why = "a release that cannot be read cannot be accounted for"
    default_remedy = "write the file with Ledger.write, or follow the format in docs/design.md"


class LedgerVersion(InputError):
    """A schema version that this version of dpaudit does not read."""

    code = "DPA202"
    default_why = "fields of another version may mean something else"
    default_remedy = "read the file with the version of dpaudit that wrote it"


class UnhashedLedger(InputError):
    """A file without a hash chain, read without `allow_unhashed`."""

    code = "DPA203"
    default_why = "without the hash chain a missing release cannot be detected"
    default_remedy = "pass --allow-unhashed: the file is then accounted for, but never certified"


class CertificateFormat(InputError):
    """A certificate that cannot be read, or whose verdicts do not follow from its content."""

    code = "DPA204"
    default_why = "verdicts are computed from the certificate's content"
    default_remedy = "make the certificate again from its ledger"


class DataError(InputError):
    """Records that are not a data set of the declared shape; the message is for the data holder only."""

    code = "DPA301"
    default_why = "one unit's contribution is bounded only for data of the declared shape"
    default_remedy = "correct the records, or declare the shape that they have"


class ClaimMismatch(InputError):
    """A claim about another unit, neighbouring relation or trust model than the ledger's."""

    code = "DPA401"
    default_why = "the same number means another protection there"
    default_remedy = "claim the ledger's unit, relation and trust model, or run the algorithm for the claim"


class CannotBound(InputError):
    """No sound bound is known, so none is given."""

    code = "DPA402"
    default_why = "a bound that cannot be computed is an error, never a smaller number"
    default_remedy = "claim a guarantee on a scale where the mechanisms have a bound, or add noise"


class BudgetExceeded(InputError):
    """A release exceeds the remaining budget; nothing was sampled or written."""

    code = "DPA403"
    default_why = "beyond the budget the guarantee no longer holds"
    default_remedy = "add noise, release less, or state a larger budget before the run"


class NotCertifiable(InputError):
    """A ledger that cannot have a certificate."""

    code = "DPA404"
    default_why = "its certificate would have no basis"
    default_remedy = "run the algorithm to its end with live noise, and state a claim"


class TrustMismatch(InputError):
    """A mechanism that needs a trusted party absent from the ledger's trust model."""

    code = "DPA405"
    default_why = "its figures hold only if a trusted party does its task"
    default_remedy = "state trust_model central, or record the mechanism that a unit runs on its own data"


class ScheduleBroken(InputError):
    """A release that differs from the required sequence of releases."""

    code = "DPA501"
    default_why = "the ledger describes the run only if every release comes where it is expected"
    default_remedy = "make the same releases in the same order, whatever the data"


class TargetDied(InputError):
    """A target's process ended without a result, or exceeded its limit of time or memory."""

    code = "DPA502"
    default_why = "a run that is not complete proves nothing: its ledger may lack releases"
    default_remedy = "let the algorithm return its output; --in-process runs it under a debugger"


class TargetRaised(Exception):
    """An exception of a target in its own process. `text` may hold private data; the message does not."""

    def __init__(self, kind: str, text: str, place: str, traceback: str) -> None:
        super().__init__(f"{kind} at {place}" if place else kind)
        self.kind, self.text, self.place, self.traceback = kind, text, place, traceback


class TrialFailed(InputError):
    """An algorithm raised in one trial of an audit.

    Only the chained cause holds the algorithm's own message: it may quote records and is for the data holder.
    """

    code = "DPA601"
    default_why = "leaving failed trials out would change the distribution that is audited"
    default_remedy = "repeat the trial with repeat_trial, and correct the algorithm"

    seed: int  # the audit's root seed
    side: int  # 0 for the data, 1 for the neighbour
    index: int  # the trial, or the first one of a batch; ``SeedSequence((seed, side, index))`` seeds it
    trials: int
    partial: object = None  # the scores of earlier trials, if the runner kept them

    @classmethod
    def in_trial(cls, raised: str, *, seed: int, side: int, index: int, trials: int = 1) -> TrialFailed:
        """Return the error of one trial, or of a batch of trials, with the call that repeats it."""
        batch, call, size = "", "repeat_trial", ""
        if trials > 1:
            batch, call, size = f" in a batch of {trials}", "repeat_batch", f", trials={trials}"
        error = cls(
            f"the algorithm raised {raised}{batch}",
            where=f"seed {seed}, side {side}, trial {index}",
            remedy=f"repeat it with {call}(algorithm, data, seed={seed}, side={side}, index={index}{size})",
        )
        error.seed, error.side, error.index, error.trials = seed, side, index, trials
        return error


class ScoreShape(InputError):
    """Scores that are not one number, or one vector of a fixed length, per trial."""

    code = "DPA602"
    default_why = "trials are compared number by number"
    default_remedy = "give a score that makes every output one number, or one vector of a fixed length"


class StoreMismatch(InputError):
    """Stored trials of another configuration than the resumed one."""

    code = "DPA603"
    default_why = "trials of two experiments would be counted together"
    default_remedy = "give another file, or the configuration that the file was made with"


class WorkersLost(DpauditError):
    """Worker processes died repeatedly without finishing a chunk of trials."""

    code = "DPA604"
    default_why = "the trials that they ran are missing"
    default_remedy = "check whether memory ran out; use fewer workers or smaller chunks"


class BookUnavailable(DpauditError):
    """A budget book with a database that does not answer, or a file that is not a database."""

    code = "DPA701"
    default_why = "the budget is recorded there, so nothing was reserved, spent or cancelled"
    default_remedy = "check the database, and try again"


class BookFormat(InputError):
    """A line of a budget book that this version of dpaudit would not have written."""

    code = "DPA702"
    default_why = "the remaining budget cannot be computed from lines that cannot be read"
    default_remedy = "restore the book from a copy, or use the version of dpaudit that wrote it"


class IntegrityError(DpauditError):
    """The file that was read differs from the file that was written."""

    exit_status = 3


class LedgerTruncated(IntegrityError):
    """A ledger without its footer."""

    code = "DPA205"
    default_why = "releases may be missing, so no bound holds for the run"
    default_remedy = "run the algorithm again to its end"


class LedgerTampered(IntegrityError):
    """A hash that does not follow from its line and the previous line."""

    code = "DPA206"
    default_why = "the file was edited after it was written"
    default_remedy = "take the original file, or run the algorithm again"


class RecordAfterFooter(IntegrityError):
    """A record after the ledger's footer."""

    code = "DPA207"
    default_why = "the hash chain ended before it, so it may not belong to the run"
    default_remedy = "take the original file, or run the algorithm again"


class SignatureInvalid(IntegrityError):
    """An envelope without a valid signature by the trusted key."""

    code = "DPA208"
    default_why = "it was signed with another key, or changed after it was signed"
    default_remedy = "ask the signer for the envelope again, and for the public key over another channel"


class CertificateMismatch(IntegrityError):
    """A certificate about another ledger, or with figures that do not follow from its own ledger."""

    code = "DPA209"
    default_why = "it contradicts the run's ledger"
    default_remedy = "give the ledger that was written with it, or certify again"
