"""The results of accounting and audits, and the verdicts that follow from them.

Proof and experiment are never merged: accounting proves a claim or does not, an audit refutes it, does not
refute it, or cannot tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, computed_field

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.claims.bounds import Bound
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, Guarantee, PureDP, figures
from dpaudit.claims.guarantees import leading_figure as leading_figure  # noqa: PLC0414  (re-exported)
from dpaudit.ledger.places import shown_place
from dpaudit.ledger.releases import Release
from dpaudit.models import Fraction, Model, NonNegative
from dpaudit.notebook import as_html

#: A claim's figures are typed decimals or floating-point results, so a bound meets a figure if it exceeds
#: the figure by at most this relative amount. Every certificate states it.
CLAIM_TOLERANCE = 1e-9


class Proof(StrEnum):
    """The verdict of accounting on a claim."""

    PROVED = "PROVED"
    NOT_PROVED = "NOT_PROVED"


class Experiment(StrEnum):
    """The verdict of an audit on a claim. It can refute one; it can never prove one."""

    REFUTED = "REFUTED"
    NOT_REFUTED = "NOT_REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"


@overload
def within(bound: float, figure: float) -> bool: ...
@overload
def within(bound: NDArray[np.float64], figure: NDArray[np.float64]) -> NDArray[np.bool_]: ...
def within(bound: Any, figure: Any) -> Any:
    """Return whether a bound, or each of many, is at most the claimed figure, within the tolerance."""
    return bound <= figure * (1 + CLAIM_TOLERANCE)


def meets(proved: AnyGuarantee, claimed: AnyGuarantee) -> bool:
    """Return whether a proved guarantee is at least as strong as a claimed one on the same scale."""
    match proved, claimed:
        case (PureDP(), PureDP() | ApproxDP()) | (ZCDP(), ZCDP()) | (GDP(), GDP()):
            return within(leading_figure(proved), leading_figure(claimed))
        case (ApproxDP(), ApproxDP()):
            return within(proved.epsilon, claimed.epsilon) and within(proved.delta, claimed.delta)
        case (RDP(), RDP()):
            return proved.alpha >= claimed.alpha and within(proved.epsilon, claimed.epsilon)
        case _:
            return False


class ReleaseAccount(Release):
    """A release and its cost: `proved` is on the scale of its own claim, if it has one."""

    proved: Guarantee

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents this order of decorators
    @property
    def verdict(self) -> Proof | None:
        """Whether the release's own claim holds; None if it has no claim."""
        if self.claimed is None:
            return None
        return Proof.PROVED if meets(self.proved, self.claimed) else Proof.NOT_PROVED

    def row(self) -> dict[str, Any]:
        """Return the release as one flat row; ``claimed`` is the claim's leading figure."""
        claimed = None if self.claimed is None else leading_figure(self.claimed)
        return {"label": self.label, **figures(self.proved), "claimed": claimed, "verdict": self.verdict}


def describes(accounts: Sequence[ReleaseAccount], releases: Sequence[Release]) -> bool:
    """Return whether accounts are about exactly these releases, in their order."""
    return len(accounts) == len(releases) and all(
        getattr(account, name) == getattr(release, name)
        for account, release in zip(accounts, releases, strict=True)
        for name in Release.model_fields
    )


class ReleaseGroup(Model):
    """Releases of one kind of mechanism with labels that differ only in digits (``#`` in `pattern`).

    Attributes:
        claimed: the number of releases with a claim.
        failed: the number of these claims that are not proved.
        costliest: the release with the largest proved figure.
    """

    pattern: str
    number: int
    claimed: int
    failed: int
    costliest: ReleaseAccount


class Overview(Model):
    """All of a run's releases, shown or not; the first thousand groups, in the order in which they appear."""

    total: int
    claimed: int
    failed: int
    groups: tuple[ReleaseGroup, ...]


class Accounting(Model):
    """The accountants' results for a ledger and a claim about it.

    Attributes:
        ledger_hash: the last hash of the ledger.
        bounds: upper bounds, tightest first.
        releases: all releases, in order; or the requested number, failing ones first.
        not_checked: the conditions that the proof takes on trust.
    """

    ledger_hash: str
    claim: Claim | None
    bounds: tuple[Bound, ...]
    releases: tuple[ReleaseAccount, ...]
    overview: Overview
    not_checked: tuple[Condition, ...]

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents this order of decorators
    @property
    def verdict(self) -> Proof | None:
        """Whether the total meets the claim and every premise holds; None without a claim."""
        return None if self.claim is None else proof_of(self.claim, self.bounds)

    @property
    def all_proved(self) -> bool:
        """Whether the total and each release's own claim are proved."""
        return self.verdict is not Proof.NOT_PROVED and self.overview.failed == 0

    def _repr_html_(self) -> str:
        facts = {"claim": self.claim, "proof": self.verdict}
        return proof_as_html("Accounting", facts, self.bounds, self.releases, self.not_checked)


def proof_as_html(
    title: str,
    facts: Mapping[str, object],
    bounds: Iterable[Bound],
    releases: Iterable[ReleaseAccount],
    not_checked: Iterable[Condition],
) -> str:
    """Return the proof, release by release, and its unchecked conditions, for a notebook."""
    known = {**facts, **{f"at most, by {bound.method}": bound.guarantee for bound in bounds}}
    known["not checked"] = ", ".join(dict.fromkeys(str(condition.code) for condition in not_checked))
    columns = ("release", "mechanism", "count", "claimed", "proved", "verdict")
    rows = [(r.label, r.mechanism.kind, r.count, r.claimed, r.proved, r.verdict) for r in releases]
    return as_html(title, known, columns, rows)


def proof_of(claim: Claim, bounds: Iterable[Bound]) -> Proof:
    """Return PROVED if a bound meets the claim and all its premises hold."""
    premises = all(premise.holds for premise in claim.premises)
    total = any(meets(bound.guarantee, claim.guarantee) for bound in bounds)
    return Proof.PROVED if premises and total else Proof.NOT_PROVED


#: A p-value, or a delta, with 0 for pure differential privacy.
Probability = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]


class Finding(Model):
    """Evidence from a replay that the ledger does not describe the algorithm.

    Attributes:
        kind: ``sensitivity`` (measured over declared), ``control-flow`` (the sequence of releases differs),
            ``leak`` (outputs differ although every release was the same), ``nondeterminism`` (same data, same
            noise, different output; or randomness that no curator handed out), ``sampler`` (noise is not
            distributed as its mechanism states), or ``sampling`` (a sum is not over the sample drawn for it,
            or another release or output reveals who was drawn).
        detail: the observation, without any private value.
        where: file and line of the release, relative to the repository.
    """

    kind: Literal["sensitivity", "control-flow", "leak", "nondeterminism", "sampler", "sampling"]
    label: str | None = None
    detail: str
    where: Annotated[str, AfterValidator(shown_place)] = ""
    declared: float | None = None
    measured: float | None = None


#: Evidence that can contradict a claim.
Ground: TypeAlias = Literal["findings", "epsilon", "mu", "p-value"]


class Audit(Model):
    """The result of one auditor on one or more neighbouring pairs.

    Attributes:
        pairs: the number of pairs compared; a one-run audit compares its canaries, and no pair.
        trials: runs on each side; for a replay, recordings in each direction; for a one-run audit, canaries.
        about: the subject of the result: the transcript of releases, or the final output.
        epsilon_lower: a lower bound on epsilon at `delta` with probability `confidence`; `mu_lower` on mu.
        epsilon_if_gaussian: the epsilon at `delta` of the Gaussian curve of `mu_lower`, rounded down; a lower
            bound only for a mechanism whose privacy curve is Gaussian.
        epsilon_claimed: the claim's epsilon at `delta`, if it implies one.
        p_value: the p-value of the claim as a whole: under a true claim it is at most a with probability at
            most a, for every a. It shares one error budget with `epsilon_lower` and `mu_lower`.
        largest_refutable_epsilon: the largest epsilon that the method could have refuted with these trials.
        event: the test, in words.
        searched: the pairs that a search tried or found, in words.
        smallest_pair: the smallest pair found that still refutes the claim, in words.
        inconclusive: the reasons for an inconclusive result, if any.
    """

    method: str
    claim: Claim | None
    pairs: int
    trials: int
    seed: int
    about: Literal["transcript", "final-output"]
    findings: tuple[Finding, ...] = ()
    epsilon_lower: NonNegative | None = None
    epsilon_claimed: NonNegative | None = None
    mu_lower: NonNegative | None = None
    epsilon_if_gaussian: NonNegative | None = None
    delta: Probability | None = None
    confidence: Fraction | None = None
    p_value: Probability | None = None
    largest_refutable_epsilon: NonNegative | None = None
    event: str | None = None
    searched: str | None = None
    smallest_pair: str | None = None
    inconclusive: tuple[str, ...] = ()
    not_checked: tuple[Condition, ...] = ()

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents this order of decorators
    @property
    def refuted_by(self) -> tuple[Ground, ...]:
        """All evidence that contradicts the claim; only this property decides that."""
        mu_claimed = self.claim.guarantee.mu if self.claim and isinstance(self.claim.guarantee, GDP) else None
        error = None if self.confidence is None else 1 - self.confidence
        grounds: dict[Ground, bool] = {
            "findings": bool(self.findings),
            "epsilon": _exceeds(self.epsilon_lower, self.epsilon_claimed),
            "mu": _exceeds(self.mu_lower, mu_claimed),
            "p-value": self.p_value is not None and error is not None and self.p_value <= error,
        }
        return tuple(ground for ground, contradicts in grounds.items() if contradicts)

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents this order of decorators
    @property
    def verdict(self) -> Experiment:
        """REFUTED by any evidence; INCONCLUSIVE if no refutation was possible; otherwise NOT_REFUTED."""
        if self.refuted_by:
            return Experiment.REFUTED
        return Experiment.INCONCLUSIVE if self.inconclusive else Experiment.NOT_REFUTED

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"claim": self.claim, "verdict": self.verdict, "pairs": self.pairs}
        facts |= {"trials": self.trials, f"epsilon at least, at delta {self.delta}": self.epsilon_lower}
        facts |= {"mu at least": self.mu_lower, "confidence": self.confidence, "p-value": self.p_value}
        rows = [(found.kind, found.label, found.detail, found.where) for found in self.findings]
        return as_html(f"Audit by {self.method}", facts, ("finding", "release", "detail", "where"), rows)


def beyond_reach(audit: Audit) -> bool:
    """Return whether an audit states a larger lower bound on epsilon than it could have found."""
    return _exceeds(audit.epsilon_lower, audit.largest_refutable_epsilon)


def left_on_trust(conditions: Iterable[Condition], audits: Iterable[Audit]) -> list[Condition]:
    """Return an accounting's unchecked conditions, given audits: a replay may have tested some."""
    replays = [audit for audit in audits if audit.method == "replay" and not audit.inconclusive]
    unseen = {condition.code for audit in replays for condition in audit.not_checked}
    untested = {Code.SAMPLE_SUMMED} if Code.SAMPLES_UNTESTED in unseen else set()
    return [
        condition.model_copy(update={"replayed": True})
        if replays and condition.replayed is not None and condition.code not in untested
        else condition
        for condition in conditions
    ]


def _exceeds(bound: float | None, claimed: float | None) -> bool:
    """Return whether a lower bound is above the claimed figure; False if either is missing."""
    return bound is not None and claimed is not None and not within(bound, claimed)
