"""What the pytest plugin does, without pytest: a marker's claim, a curator whose ledger is judged, an audit.

Failures read like assertions: what was claimed, what came out, and what would make it true.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dpaudit.accountants.calibration.calibration import scale_ledger
from dpaudit.algorithms.data.trajectories import TrajectoryData, trajectory_pairs
from dpaudit.app.gate.audit_plan import TRIALS
from dpaudit.app.options.claim_options import StatedClaim
from dpaudit.app.text.audits import finding_words
from dpaudit.app.text.output import lower, upper
from dpaudit.app.text.streams import logged
from dpaudit.app.text.tables import bound_figure, figure, shortfall, total_shortfall
from dpaudit.auditors.neighbours import table_pairs
from dpaudit.certificate.verdicts import Accounting, Audit, Experiment, Proof
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise
from dpaudit.curator.running import terms
from dpaudit.errors import CannotBound, InvalidParameter, UsageError
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.ledger.releases import Release
from dpaudit.models import did_you_mean
from dpaudit.pipeline.accounting import account
from dpaudit.pipeline.audit import Method
from dpaudit.pipeline.audit import audit as audit_on_pairs

_MARKER = "@pytest.mark.dp_claim"

#: What of an algorithm to change for each kind of finding.
_MENDS: Mapping[str, str] = {
    "sensitivity": "clip every unit's contribution, or declare what was measured and add noise to match",
    "control-flow": "make the same releases whatever the data are, or hold the run to a budget",
    "leak": "let nothing out but through the curator",
    "nondeterminism": "draw public randomness from curator.public(name)",
    "sampler": "draw the noise as the mechanism states it",
    "sampling": "sum exactly the rows of the sampled units, or let release_sum(records, map=f) sample them",
}


def marked_claim(arguments: tuple[object, ...], fields: Mapping[str, object]) -> Claim:
    """The claim that a marker states: a `Claim`, or one's fields; else `UsageError`, `InvalidParameter`."""
    if len(arguments) == 1 and isinstance(arguments[0], Claim) and not fields:
        return arguments[0]
    known = list(StatedClaim.__dataclass_fields__)
    unknown = [name for name in fields if name not in known]
    if arguments or unknown:
        hint = did_you_mean(unknown[0], known) if unknown else ""
        what = f"{unknown[0]!r} is not a field of a claim" if unknown else f"{arguments!r} is no Claim"
        why = "a claim with an unknown part cannot be judged"
        remedy = f"{hint}give a dpaudit.Claim alone, or some of {', '.join(known)}"
        raise UsageError(what, where=_MARKER, why=why, remedy=remedy)
    try:
        guarantee = StatedClaim(**fields).required()  # type: ignore[arg-type]  # which it checks
    except UsageError as error:
        error.where = _MARKER
        raise
    about = ("unit", "neighbouring", "trust_model")
    return Claim(guarantee, **{name: fields[name] for name in about if fields.get(name) is not None})


def the_claim(marks: Sequence[tuple[tuple[object, ...], Mapping[str, object]]]) -> Claim | None:
    """The claim of a test with these marks, each as its arguments and fields; None without any.

    Raises the errors of `marked_claim`, and `UsageError` if two claims differ: only one could be judged.
    """
    claims = list(dict.fromkeys(marked_claim(*mark) for mark in marks))
    if len(claims) > 1:
        what = f"{len(claims)} different claims on one test: {'; '.join(map(str, claims))}"
        why = "one test judges one claim, and the others would be judged by nobody"
        remedy = (
            "leave one mark, on the test or on its class or module, and write a test for each other claim"
        )
        raise UsageError(what, where=_MARKER, why=why, remedy=remedy)
    return claims[0] if claims else None


def audit_seed(test: str, number: int, root: int) -> int:
    """The seed of one test's n-th audit: the same in whatever order, and by whatever worker, tests run."""
    digest = hashlib.sha256(json.dumps([test, number, root]).encode()).digest()
    return int.from_bytes(digest[:4], "big")


class ClaimedRun:
    """A curator for one test, and the judgement of what was released through it, by the test's claim."""

    def __init__(self, name: str, claim: Claim, seed: int) -> None:
        noise = LiveNoise(seed)
        about = dict(zip(("unit", "neighbouring", "trust_model"), terms(claim), strict=True))
        header = {"algorithm": name, "claim": claim, "noise": noise.description, **about}
        self._ledger = Ledger(Header.model_validate(header))
        self.curator = Curator(self._ledger, noise)

    @property
    def released(self) -> bool:
        """Whether anything was released."""
        return bool(self._ledger.releases)

    def failure(self) -> str | None:
        """Why the claim is not proved, or None; the run ends here. Raises `CannotBound`."""
        self.curator.end()
        self._ledger.finish()
        if not self._ledger.releases:
            return "nothing to check: nothing was released through dp_curator"
        accounting = account(self._ledger)
        return None if accounting.all_proved else logged(_not_proved(self._ledger, accounting))


def _not_proved(ledger: Ledger, accounting: Accounting) -> str:
    claim = accounting.claim
    assert claim is not None  # noqa: S101  (the header has one)
    lines = [f"not proved: {claim}"]
    relation = ledger.header.neighbouring
    for release, made in zip(accounting.releases, ledger.releases, strict=True):
        if release.verdict is Proof.NOT_PROVED and release.claimed is not None:
            lines.append(f"  release {release.label!r}: {shortfall(release.proved, release.claimed)}")
            cost = figure(release.proved, proved=True)
            lines.append(f"    {_would_hold(cost, [made], made.claimed, relation)}")
    lines += [f"  premise fails: {premise}" for premise in claim.premises if not premise.holds]
    lines += [f"  {words}" for words in total_shortfall(accounting)]
    if accounting.verdict is Proof.NOT_PROVED and accounting.bounds:
        cost = bound_figure(accounting.bounds[0])
        lines.append(f"    {_would_hold(cost, ledger.releases, claim.guarantee, relation)}")
    return "\n".join(lines)


def _would_hold(
    cost: str, releases: Iterable[Release], claimed: AnyGuarantee | None, relation: Neighbouring
) -> str:
    """What would make a claim true."""
    words = f"would hold: claim {cost}"
    if claimed is None:
        return words
    try:
        factor = scale_ledger(releases, claimed, neighbouring=relation).factor
    except (CannotBound, InvalidParameter):
        return words
    # A premise may fail where the noise would suffice.
    return f"{words}, or multiply the noise by {upper(factor)}" if factor > 1 else words


def neighbours(
    data: Any, relation: Neighbouring, *, lower: Any = 0.0, upper: Any = 1.0, row: int = -1
) -> list[Pair]:
    """Neighbouring pairs of a table [n, d], or of `TrajectoryData`, in which the unit `row` is changed.

    `lower` and `upper` bound what a record of a table may hold, each one number or [d]; public. Raises as
    `dpaudit.auditors.neighbours.table_pairs`.
    """
    if isinstance(data, TrajectoryData):
        return list(trajectory_pairs(data, neighbouring=relation, index=row))
    return list(table_pairs(data, neighbouring=relation, lower=lower, upper=upper, row=row))


def audit(
    algorithm: Callable[..., Any],
    pairs: object,
    *,
    claim: Claim | None,
    method: Method | None,
    trials: int | None,
    seed: int,
    error: float,
    run_options: Mapping[str, Any],
) -> Audit:
    """Audit as `dpaudit.audit` does; a method that is named has the gate's number of trials, if it has one.

    `error` is the probability, at most, of refuting a true claim. Raises what `dpaudit.audit` does.
    """
    trials = TRIALS.get(("pr", str(method))) if trials is None else trials
    once = functools.partial(audit_on_pairs, claim=claim, method=method, trials=trials, seed=seed)
    return once(algorithm, pairs, confidence=1 - error, **run_options)


def audit_failure(found: Audit, *, allow_inconclusive: bool) -> str | None:
    """Why an audit fails its test, or None."""
    if found.verdict is Experiment.NOT_REFUTED:
        return None
    about = "" if found.claim is None else f": {found.claim}"
    error = "none" if found.confidence is None else f"{1 - found.confidence:.3g}"
    repeat = f"  audit by {found.method}, {found.trials} trials, seed {found.seed}, error {error}"
    if found.verdict is Experiment.INCONCLUSIVE:
        if allow_inconclusive:
            return None
        return (
            f"inconclusive{about}\n  {'; '.join(found.inconclusive)}\n"
            f"    try: more trials, or another method; allow_inconclusive=True lets it pass\n{repeat}"
        )
    lines = [f"refuted{about}"]
    for finding in found.findings:
        lines += [f"  {finding_words(finding)}", f"    would hold: {_MENDS[finding.kind]}"]
    if found.epsilon_lower is not None and "epsilon" in found.refuted_by:
        claimed = "" if found.epsilon_claimed is None else f"claimed {found.epsilon_claimed:.6g}, "
        least = lower(found.epsilon_lower)
        lines.append(f"  epsilon at delta {found.delta:g}: {claimed}at least {least}")
        lines.append("    would hold: more noise, or a claim above that bound")
    elif "p-value" in found.refuted_by:
        seen = f"what was seen has a probability of at most {found.p_value:.3g}"
        lines.append(f"  {seen} where the claim is true")
    return logged("\n".join([*lines, repeat]))
