"""The certificate: claim, proof and experiment side by side, with everything that was not checked."""

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, computed_field, model_validator

from dpaudit.certificate import verdicts
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.curve_points import CurvePoints
from dpaudit.certificate.noise_provenance import Numerics, versions
from dpaudit.certificate.process import IN_PROCESS, Process
from dpaudit.certificate.second_opinion import SecondOpinion
from dpaudit.certificate.statement import NOTHING_STATED, Statement
from dpaudit.certificate.verdicts import Accounting, Audit, Experiment, Proof, ReleaseAccount, describes
from dpaudit.claims.bounds import Bound
from dpaudit.claims.claims import Claim, left_out
from dpaudit.claims.guarantees import Guarantee
from dpaudit.claims.relations import Neighbouring, TrustModel, View
from dpaudit.errors import CertificateFormat, CertificateMismatch, InputError, NotCertifiable
from dpaudit.json_text import strictly_parsed
from dpaudit.ledger.files import replace_file
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import HiddenSample
from dpaudit.models import Count, Model, Parameters, without_computed

CERTIFICATE_SCHEMA: Final = "dpaudit.certificate/2"

#: The fields that a certificate repeats from its ledger's header.
_REPEATED: Final = ("algorithm", "unit", "neighbouring", "trust_model", "group_size", "budget", "parameters")

_STAYS: Final = "what a claim rests on stays, whatever figure is claimed"


class Sampled(Model):
    """A release in which each unit takes part independently with probability `rate`."""

    label: str
    rate: float


class Checks(Model):
    """The figures that `dpaudit/checker.py` confirms; it shares no line with the accountants.

    Attributes:
        confirmed: the confirmed claim.
        version: the checker's version.
        sha256: the hash of the checker's file.
        lines: the number of lines of that file, without blank lines.
    """

    confirmed: Annotated[str, Field(min_length=1)]
    version: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    lines: Count

    def __str__(self) -> str:
        return f"confirmed by an independent checker of {self.lines:,} lines"


class Certificate(Model):
    """Everything a reviewer needs to believe, reproduce or refute a claim.

    Attributes:
        group_size: the number of units in the groups that the guarantee protects.
        budget: the budget that a filter enforced, if the number of releases may depend on the data.
        ledger_hash: the last hash of the ledger's chain.
        bounds: upper bounds, tightest first, on the claim's scale.
        profile: the whole curve delta(epsilon) by every accountant that has one; empty if none has.
        audits: the results of experiments; they never change the proof's verdict.
        second_opinion: the figure of another library's accountant, or why there is none; it proves nothing.
        command: the command that reproduces the certificate.
        statement: the author's statements about the deployment; none of them was checked.
        process: the processes of the run.
        checks: the independent checker's confirmation of the claim; absent if the checker was not asked.
        diverged: whether the run on the data diverged from its twin. That depends on the private data, so a
            certificate with this field is for the data holder alone.
    """

    schema_: Annotated[Literal["dpaudit.certificate/2"], Field(alias="schema")] = CERTIFICATE_SCHEMA
    algorithm: str
    claim: Claim
    unit: str
    neighbouring: Neighbouring
    trust_model: TrustModel
    view: View
    group_size: Count
    budget: Guarantee | None = None
    parameters: Parameters
    ledger_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    bounds: tuple[Bound, ...]
    profile: tuple[CurvePoints, ...]
    releases: tuple[ReleaseAccount, ...]
    proof: Proof
    audits: tuple[Audit, ...]
    numerics: Numerics
    not_checked: tuple[Condition, ...]
    versions: dict[str, str]
    command: str
    statement: Statement
    second_opinion: SecondOpinion | None = None
    process: Process = IN_PROCESS
    diverged: Literal[True] | None = None
    checks: Checks | None = None

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents this order of decorators
    @property
    def experiment(self) -> Experiment:
        """The audits together: one refutation refutes, and no audit at all is inconclusive."""
        found = {audit.verdict for audit in self.audits} or {Experiment.INCONCLUSIVE}
        order = (Experiment.REFUTED, Experiment.INCONCLUSIVE, Experiment.NOT_REFUTED)
        return next(verdict for verdict in order if verdict in found)

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def sampling(self) -> tuple[Sampled, ...]:
        """The releases on a secret random part of the records."""
        found = ((release.label, release.mechanism) for release in self.releases)
        return tuple(
            Sampled(label=label, rate=m.most_likely) for label, m in found if isinstance(m, HiddenSample)
        )

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def publishable(self) -> bool:
        """Whether the run's output may be published; see `against_publishing`."""
        return not self.against_publishing

    @property
    def against_publishing(self) -> tuple[str, ...]:
        """Every reason not to publish the run's output."""
        reasons = {
            "its noise came from a known seed": self.numerics.seeded,
            "its claim is not proved": not self.all_proved,
            "an audit refuted its claim or its ledger": self.experiment is Experiment.REFUTED,
            "its run on the data diverged from its twin's, which only the data's holder may know": (
                self.diverged is True
            ),
        }
        return tuple(reason for reason, holds in reasons.items() if holds)

    @property
    def all_proved(self) -> bool:
        """Whether the total and each release's own claim are proved."""
        return self.proof is Proof.PROVED and all(r.verdict is not Proof.NOT_PROVED for r in self.releases)

    @model_validator(mode="after")
    def _follows(self) -> Self:
        """Make the checks that need no ledger."""
        claim, numerics = self.claim, self.numerics
        unproving = [b for b in self.bounds if b.direction != "upper" or b.confidence is not None]
        order = [verdicts.leading_figure(bound.guarantee) for bound in self.bounds]
        about = (claim.unit, claim.neighbouring, claim.trust_model, claim.view)
        meant = (self.unit, self.neighbouring, self.trust_model, self.view)
        follows = Numerics.of(numerics.sampler, (r.mechanism for r in self.releases), seeded=numerics.seeded)
        limits = _limits(
            self.process, self.releases, numerics, self.audits, self.second_opinion, self.statement
        )
        missing = [str(limit.code) for limit in limits if limit not in self.not_checked]
        proof = verdicts.proof_of(claim, self.bounds)
        others = [str(a.claim) for a in self.audits if a.claim and a.claim.guarantee != claim.guarantee]
        beyond = [a.method for a in self.audits if verdicts.beyond_reach(a)]
        contradictions = [
            (not self.releases, "a certificate without releases"),
            (unproving, "a bound that is not an upper bound: only the figures of an accountant prove"),
            (order != sorted(order), "its bounds are not in order, tightest first"),
            (about != meant, "its claim is about another unit, relation, trust model or view"),
            (self.diverged and self.process.kind != "twin", "a run that diverged, and had no twin"),
            (numerics != follows, f"its numerics do not follow: they would be {follows.to_json()}"),
            (missing, f"not_checked lacks {', '.join(missing)}"),
            (others, f"an audit is of another claim: {', '.join(others)}"),
            (beyond, f"a lower bound is above what its audit could refute: {', '.join(beyond)}"),
            (proof is not self.proof, f"says {self.proof}, but its bounds and premises make it {proof}"),
        ]
        for wrong, complaint in contradictions:
            if wrong:
                raise CertificateFormat(complaint, where="Certificate")
        return self

    def require_ledger(self, ledger: Ledger) -> None:
        """Compare the certificate with its ledger, line by line.

        The certificate may claim another figure than the header, with the header's premises, assumptions and
        view. Its figures are not computed again: for that, account for the ledger and judge again. Raises
        `CertificateMismatch` if the certificate is about another ledger, or the ledger cannot carry a
        certificate.
        """
        where = f"certificate of {self.algorithm!r}"
        try:
            ledger.require_certifiable()
        except NotCertifiable as error:
            raise CertificateMismatch(error.what, where=where, why=error.why, remedy=error.remedy) from None
        if self.ledger_hash != ledger.hash:
            what = f"made from the ledger with hash {self.ledger_hash[:16]}, not from {ledger.hash[:16]}"
            raise CertificateMismatch(what, where=where, why="its figures are about another run")
        header = ledger.header
        own, theirs = ([getattr(of, name) for name in _REPEATED] for of in (self, header))
        noise = (self.numerics.sampler, self.numerics.seeded) == (header.noise.sampler, header.noise.seeded)
        if own != theirs or not noise or not describes(self.releases, ledger.releases):
            raise CertificateMismatch("its header or its releases differ from the ledger's", where=where)
        if missing := left_out(self.claim, ledger.claim):
            raise CertificateMismatch(missing, where=where, why=_STAYS)

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"claim": self.claim, "proof": self.proof, "experiment": self.experiment}
        if against := "; ".join(self.against_publishing):
            facts["not to be published"] = against
        title, found = f"Certificate of {self.algorithm}", (self.bounds, self.releases, self.not_checked)
        shown = verdicts.proof_as_html(title, facts, *found)
        return shown + "".join(audit._repr_html_() for audit in self.audits)

    def write(self, path: str | Path) -> Path:
        """Write the certificate as JSON, atomically; if the run diverged, readable by its owner alone."""
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        return replace_file(path, text.encode() + b"\n", mode=0o600 if self.diverged else None)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a certificate and check that its statements follow from its content.

        To check its figures against its ledger, see `require_ledger`. Raises `CertificateFormat` if this
        version cannot read the certificate, or it contradicts itself.
        """
        try:
            record = strictly_parsed(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            what, why = f"cannot be read: {reason}", "only a certificate's own file says what was proved"
            remedy = "name a certificate.json that `dpaudit certify -o` wrote, not a ledger"
            raise CertificateFormat(what, where=str(path), why=why, remedy=remedy) from None
        return cls.from_record(record, where=str(path))

    @classmethod
    def from_record(cls, record: Any, *, where: str) -> Self:
        """Check a parsed certificate, as `read` does."""
        if not isinstance(record, dict):
            raise CertificateFormat(f"a {type(record).__name__} where a certificate should be", where=where)
        try:
            certificate = cls(**_stated(record))
        except InputError as error:
            raise CertificateFormat(error.what, where=f"{where}: {error.where}") from None
        if certificate.to_json() != record:
            raise CertificateFormat("its verdicts do not follow from its content", where=where)
        return certificate


def judge(
    ledger: Ledger,
    accounting: Accounting,
    audits: Sequence[Audit],
    *,
    command: str,
    profile: Sequence[CurvePoints] = (),
    second_opinion: SecondOpinion | None = None,
    statement: Statement = NOTHING_STATED,
    process: Process = IN_PROCESS,
    diverged: bool = False,
) -> Certificate:
    """Put proof and experiment side by side, with the proof's curve and the author's statement.

    `diverged`: the run on the data diverged from its twin.

    >>> from dpaudit import L1, Claim, Laplace, PureDP, account, judge, run
    >>> def count(rows, curator):
    ...     return curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")
    >>> claim = Claim(PureDP(epsilon=0.5), unit="row", neighbouring="add-or-remove-one")
    >>> ledger = run(count, ["a", "b"], claim=claim).ledger
    >>> found = judge(ledger, account(ledger), [], command="count")
    >>> str(found.proof), str(found.experiment)
    ('PROVED', 'INCONCLUSIVE')

    Raises `NotCertifiable`: the ledger is truncated, unhashed, noiseless or without releases; nothing is
    claimed; the accounting was made from another ledger; or a release is not on its sampler's grid.
    """
    ledger.require_certifiable()
    where = f"ledger of {ledger.header.algorithm!r}"
    if not ledger.releases:
        why = "every claim would be proved of a run in which nothing left through the curator"
        raise NotCertifiable("it has no releases", where=where, why=why, remedy="release through the curator")
    if accounting.ledger_hash != ledger.hash or not describes(accounting.releases, ledger.releases):
        what = "the accounting was made from another ledger"
        remedy = "account for the ledger that is to be certified"
        raise NotCertifiable(what, where=where, why="its figures say nothing about this run", remedy=remedy)
    if accounting.claim is None or accounting.verdict is None:
        why = "a certificate states whether a claim is proved"
        remedy = "state a claim, with --rho, --mu or --epsilon and --delta, or in the ledger's header"
        raise NotCertifiable("nothing is claimed", where=where, why=why, remedy=remedy)
    if missing := left_out(accounting.claim, ledger.claim):
        raise NotCertifiable(missing, where=where, why=_STAYS, remedy="claim these too")
    other = next(
        (a.claim for a in audits if a.claim and a.claim.guarantee != accounting.claim.guarantee), None
    )
    if other is not None:
        why = "it would stand beside a proof of something else, as if it were about the same"
        remedy = "audit the claim that is certified, or certify the one that was audited"
        what = f"an audit is of {other.guarantee}, and the accounting of {accounting.claim.guarantee}"
        raise NotCertifiable(what, where=where, why=why, remedy=remedy)
    noise = ledger.header.noise
    if noise.on_grid and (stray := [r.label for r in ledger.releases if r.grid != r.mechanism.grid]):
        what = f"release {stray[0]!r} lacks the grid of the sampler that the header names"
        why = "a line without it is one of noise in floating point, which can reveal more"
        raise NotCertifiable(what, where=where, why=why, remedy="certify ledgers as runs write them")
    numerics = Numerics.of(noise.sampler, (r.mechanism for r in ledger.releases), seeded=noise.seeded)
    not_checked = verdicts.left_on_trust(accounting.not_checked, audits)
    not_checked = [condition for condition in not_checked if not process.settles(condition)]
    limits = _limits(process, accounting.releases, numerics, audits, second_opinion, statement)
    not_checked += [limit for limit in limits if limit not in not_checked]
    return Certificate(
        **{name: getattr(ledger.header, name) for name in _REPEATED},
        claim=accounting.claim,
        view=accounting.claim.view,
        ledger_hash=ledger.hash,
        bounds=accounting.bounds,
        profile=tuple(profile),
        releases=accounting.releases,
        proof=accounting.verdict,
        audits=tuple(audits),
        numerics=numerics,
        not_checked=tuple(not_checked),
        versions=dict(versions()),
        command=command,
        statement=statement,
        second_opinion=second_opinion,
        process=process,
        diverged=diverged or None,
    )


def _limits(
    process: Process,
    releases: Iterable[Release],
    numerics: Numerics,
    audits: Sequence[Audit],
    opinion: SecondOpinion | None,
    statement: Statement,
) -> list[Condition]:
    """Return the conditions that processes, noise, audits, a second opinion and assumptions leave open."""
    sources = [
        process.not_checked(releases),
        numerics.not_checked(),
        *(audit.not_checked for audit in audits),
    ]
    sources += [[] if opinion is None else opinion.not_checked(), statement.not_checked()]
    sources += [_judged_nothing(audits)]
    return list(dict.fromkeys(itertools.chain.from_iterable(sources)))


def _judged_nothing(audits: Sequence[Audit]) -> list[Condition]:
    """Return the conditions that name experiments without a verdict on the claim, with their reasons."""
    if not audits:
        return [Condition(code=Code.NO_AUDIT)]
    unclear = [audit for audit in audits if audit.verdict is Experiment.INCONCLUSIVE]
    return [
        Condition(code=Code.AUDIT_JUDGED_NOTHING, text=f"{audit.method}: {'; '.join(audit.inconclusive)}")
        for audit in unclear
    ]


def _stated(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record without its verdicts, which are derived and therefore never read."""
    rest: dict[str, Any] = without_computed(record, Certificate)
    for name, kind in (("audits", Audit), ("releases", ReleaseAccount)):
        if isinstance(rest.get(name), list):
            rest[name] = [without_computed(item, kind) for item in rest[name]]
    if "second_opinion" in rest:
        rest["second_opinion"] = without_computed(rest["second_opinion"], SecondOpinion)
    return rest
