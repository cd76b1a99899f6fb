"""The certificate: claim, proof and experiment side by side, with everything that was not checked."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, computed_field

from dpaudit.bounds import Bound
from dpaudit.claims import Claim
from dpaudit.errors import CertificateFormat, NotCertifiable
from dpaudit.files import replace_file
from dpaudit.ledger import Ledger, Noise
from dpaudit.mechanisms import FLOATING_POINT_SAMPLER
from dpaudit.models import Model
from dpaudit.relations import Neighbouring, TrustModel, View
from dpaudit.verdicts import CLAIM_TOLERANCE, Accounting, Audit, Experiment, Proof, ReleaseAccount

CERTIFICATE_SCHEMA: Final = "dpaudit.certificate/1"

FLOATING_POINT_WARNING = (
    "the noise was drawn in floating point, whose grid can reveal more than the real-valued mechanism "
    "(Mironov 2012); the bounds are those of the real-valued mechanism"
)


class Numerics(Model):
    """How the noise was drawn and how figures are compared."""

    sampler: str
    floating_point: bool
    seeded: bool
    claim_tolerance: float = CLAIM_TOLERANCE

    @classmethod
    def of(cls, noise: Noise) -> Numerics:
        """What a ledger's header says of its noise."""
        return cls(
            sampler=noise.sampler, floating_point=noise.sampler == FLOATING_POINT_SAMPLER, seeded=noise.seeded
        )


class Certificate(Model):
    """Everything a reviewer needs to believe, reproduce or refute a claim.

    Attributes:
        ledger_hash: the last hash of the ledger's chain.
        bounds: upper bounds, tightest first.
        releases: every release with its claimed and its computed cost.
        audits: what experiments found; they never change the proof's verdict.
        not_checked: what is taken on trust.
        command: the command that reproduces the certificate.
    """

    schema_: Annotated[Literal["dpaudit.certificate/1"], Field(alias="schema")] = CERTIFICATE_SCHEMA
    algorithm: str
    claim: Claim
    unit: str
    neighbouring: Neighbouring
    trust_model: TrustModel
    view: View
    parameters: dict[str, JsonValue]
    ledger_hash: str
    bounds: tuple[Bound, ...]
    releases: tuple[ReleaseAccount, ...]
    proof: Proof
    audits: tuple[Audit, ...]
    numerics: Numerics
    not_checked: tuple[str, ...]
    publishable: bool
    versions: dict[str, str]
    command: str

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents this order of decorators
    @property
    def experiment(self) -> Experiment:
        """The audits together: one refutation refutes, and no audit at all is inconclusive."""
        verdicts = {audit.verdict for audit in self.audits}
        for verdict in (Experiment.REFUTED, Experiment.INCONCLUSIVE):
            if verdict in verdicts:
                return verdict
        return Experiment.NOT_REFUTED if verdicts else Experiment.INCONCLUSIVE

    @property
    def all_proved(self) -> bool:
        """Whether the total and each release's own claim are proved."""
        return self.proof is Proof.PROVED and all(r.verdict is not Proof.NOT_PROVED for r in self.releases)

    def write(self, path: str | Path) -> Path:
        """Write the certificate as JSON, whole or not at all."""
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        return replace_file(path, text.encode() + b"\n")

    @classmethod
    def read(cls, path: str | Path) -> Certificate:
        """Read a certificate and hold its stated verdicts against those that follow from its content.

        Raises:
            CertificateFormat: not a certificate this version reads, or its verdicts do not follow.
        """
        try:
            record = json.loads(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise CertificateFormat(f"cannot be read: {error}", where=str(path)) from None
        if not isinstance(record, dict):
            raise CertificateFormat(
                f"a {type(record).__name__} where a certificate should be", where=str(path)
            )
        certificate = cls(**_without_computed(record))
        if certificate.to_json() != record:
            raise CertificateFormat("its verdicts do not follow from its content", where=str(path))
        judged = Accounting(
            claim=certificate.claim, bounds=certificate.bounds, releases=certificate.releases, not_checked=()
        )
        if judged.verdict is not certificate.proof:
            raise CertificateFormat(
                f"says {certificate.proof}, but its bounds and premises make it {judged.verdict}",
                where=str(path),
            )
        return certificate


def judge(ledger: Ledger, accounting: Accounting, audits: Sequence[Audit], *, command: str) -> Certificate:
    """Put proof and experiment side by side.

    Raises:
        NotCertifiable: the ledger is truncated, unhashed or noiseless, or nothing is claimed.
    """
    ledger.require_certifiable()
    if accounting.claim is None or accounting.verdict is None:
        raise NotCertifiable(
            "nothing is claimed",
            where=f"ledger of {ledger.header.algorithm!r}",
            why="a certificate says of a claim whether it is proved",
            remedy="state a claim, with --rho, --mu or --epsilon and --delta, or in the ledger's header",
        )
    header = ledger.header
    numerics = Numerics.of(header.noise)
    not_checked = list(accounting.not_checked)
    if numerics.floating_point:
        not_checked.append(FLOATING_POINT_WARNING)
    if numerics.seeded:
        not_checked.append(
            "the noise came from a seed of the caller's choosing: whoever knows it can subtract the noise, "
            "so this run's output must not be published"
        )
    for audit in audits:
        not_checked += [line for line in audit.not_checked if line not in not_checked]
    if not audits:
        not_checked.append("no audit was run")
    return Certificate(
        algorithm=header.algorithm,
        claim=accounting.claim,
        unit=header.unit,
        neighbouring=header.neighbouring,
        trust_model=header.trust_model,
        view=accounting.claim.view,
        parameters=header.parameters,
        ledger_hash=ledger.hash,
        bounds=accounting.bounds,
        releases=accounting.releases,
        proof=accounting.verdict,
        audits=tuple(audits),
        numerics=numerics,
        not_checked=tuple(not_checked),
        publishable=not numerics.seeded,
        versions=versions(),
        command=command,
    )


def versions() -> dict[str, str]:
    """The versions that the figures depend on."""
    found = {"python": platform.python_version()}
    for package in ("dpaudit", "numpy", "scipy", "pydantic"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


_COMPUTED = {"experiment", "verdict", "refuted_by"}


def _without_computed(value: Any) -> Any:
    """The record without the verdicts that follow from it."""
    if isinstance(value, dict):
        return {name: _without_computed(item) for name, item in value.items() if name not in _COMPUTED}
    if isinstance(value, list):
        return [_without_computed(item) for item in value]
    return value
