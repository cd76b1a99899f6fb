"""Findings of the policy, which hold for any claim, and of the waivers."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dpaudit.accountants.accounting import Accounted
from dpaudit.app.gate.configuration import Configuration
from dpaudit.app.gate.places import Places
from dpaudit.app.gate.report import Checked, GateFinding, Place
from dpaudit.app.gate.settings import Check, Gate
from dpaudit.app.text.compared import Comparison, Side
from dpaudit.app.text.tables import bound_figure, figure
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import leading_figure, within
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import CannotBound, ClaimMismatch, DpauditError
from dpaudit.ledger.ledger import Ledger
from dpaudit.pipeline.files import LEDGER
from dpaudit.pipeline.recheck import require_figures

At = Callable[..., Place]

#: At most this many releases that cost more than the baseline's are shown.
MOST_GROWN = 20


def policy_findings(
    gate: Gate, name: str, check: Check, accounted: Accounted, places: Places, baselines: Mapping[str, Path]
) -> Iterator[GateFinding]:
    """Hold a check's ledger against the policy; with a baseline all its releases have been accounted for.

    `baselines` has the file of each baseline that is not read from the path which the check names.

    Raises:
        ClaimMismatch, CertificateMismatch: the baseline is about something else, or contradicts its ledger.
        DpauditError: the baseline cannot be read, or the ledger not bounded on its scale.
    """
    policy, claim = gate.policy, accounted.accounting.claim
    delta = None
    if policy.delta_at_most is not None:
        delta = 1 / (check.n or 1) if isinstance(policy.delta_at_most, str) else policy.delta_at_most
    guarantee = None if claim is None else claim.guarantee
    if delta is not None and isinstance(guarantee, ApproxDP) and guarantee.delta > delta:
        message = f"claimed delta {guarantee.delta:g}, the policy allows {delta:g}"
        yield GateFinding("delta-at-most", name, message, places.claim)
    if policy.max_epsilon is not None and delta is not None:
        wanted = ApproxDP(epsilon=policy.max_epsilon, delta=delta)
        message = _above(accounted, wanted)
        if message:
            yield GateFinding("max-epsilon", name, message, places.claim)
    if policy.allowed_samplers is not None:
        sampler = accounted.header.noise.sampler
        if sampler not in policy.allowed_samplers:
            allowed = ", ".join(policy.allowed_samplers)
            message = f"the noise was drawn by {sampler}, the policy allows {allowed}"
            yield GateFinding("allowed-samplers", name, message, places.whole)
    if check.baseline is not None:
        file = baselines.get(check.baseline, Path(check.baseline))
        named = check.baseline + (" of the merge base" if check.baseline in baselines else "")
        try:
            baseline = Certificate.read(file)
            message = _increase(accounted, baseline, named, file.with_name(LEDGER))
        except DpauditError as error:  # which names the copy that was read
            shown = str(Path(check.baseline).parent / file.name)
            error.where = error.where.replace(str(file), shown + named.removeprefix(check.baseline))
            error.where = error.where.replace(str(file.parent), str(Path(check.baseline).parent))
            raise
        if message:
            after = Side.of_ledger(accounted.header, accounted.accounting)
            yield from _grown(name, message, Comparison(Side.of_certificate(baseline), after), places)


def not_checked(check: Check) -> tuple[Condition, ...]:
    """Return the parts of the policy that are taken on trust."""
    if check.baseline is None or Path(check.baseline).with_name(LEDGER).is_file():
        return ()
    return (Condition(code=Code.BASELINE, path=check.baseline),)


def _above(accounted: Accounted, wanted: ApproxDP) -> str:
    """Return why the ledger is not proved to meet a guarantee; empty if it is proved."""
    try:
        bounds = accounted.bounds(wanted)
    except CannotBound as error:
        what = f"no epsilon at delta {wanted.delta:g} is proved, the policy allows {wanted.epsilon:g}"
        return f"{what}\n{error}"
    if any(within(leading_figure(bound.guarantee), wanted.epsilon) for bound in bounds):
        return ""
    best = bound_figure(bounds[0]) if bounds else "no finite epsilon"
    return f"proved is {best}, the policy allows {figure(wanted)}"


def _increase(accounted: Accounted, baseline: Certificate, path: str, own: Path) -> str:
    """How much more the ledger costs than its baseline, with the ledger `own`, did; empty if no more."""
    header = accounted.header
    theirs = (baseline.unit, baseline.neighbouring, baseline.trust_model)
    ours = (header.unit, header.neighbouring, header.trust_model)
    if theirs != ours:
        what = f"the baseline is about {', '.join(map(str, theirs))}; this about {', '.join(map(str, ours))}"
        raise ClaimMismatch(what, where=path, remedy="certify the baseline anew")
    scale = baseline.claim.guarantee
    now, before = accounted.bounds(scale), list(baseline.bounds)
    if own.is_file():
        ledger = Ledger.read(own)
        baseline.require_ledger(ledger)
        # A certificate may state more than its ledger costs, and would then let an increase pass.
        before = require_figures(baseline, ledger).bounds(scale)
    if not before:
        return ""
    if not now:
        return f"no bound is known any more; the baseline {path} has {bound_figure(before[0])}"
    cost, limit = leading_figure(now[0].guarantee), leading_figure(before[0].guarantee)
    if within(cost, limit):
        return ""
    return f"costs {bound_figure(now[0])}; the baseline {path} costs {bound_figure(before[0])}"


def _grown(name: str, message: str, compared: Comparison, places: Places) -> Iterator[GateFinding]:
    """The increase at the release that grew most, then the others; at the claim if no release grew."""
    grown = [one for one in compared.changes() if one.status in {"new", "costlier"}][:MOST_GROWN]
    if not grown:
        yield GateFinding("fail-on-increase", name, message, places.claim)
    for number, change in enumerate(grown):
        before = f"at the baseline {change.base}" if change.base else "new"
        words = f"release {change.label!r}: {change.head}, {before} ({change.why})"
        lines = [message, words] if number == 0 else [words]
        yield GateFinding("fail-on-increase", name, "\n".join(lines), places.release(change.label))


def today() -> dt.date:
    """The day by which waivers expire, in UTC wherever the gate runs."""
    return dt.datetime.now(dt.UTC).date()


def waiver_findings(configuration: Configuration, checks: list[Checked], at: At) -> Iterator[GateFinding]:
    """Findings about waivers: expired ones fail the gate, unused ones are only reported."""
    waivers = configuration.gate.waivers if configuration.gate is not None else []
    day = today()
    used = {(finding.check, finding.rule) for check in checks for finding in check.findings}
    for position, waiver in enumerate(waivers):
        words = f"the waiver of {waiver.finding} ({waiver.reason})"
        if waiver.expires < day:
            remedy = "resolve the finding and delete the waiver, or renew it"
            message = f"{words} expired on {waiver.expires}: {remedy}"
            yield GateFinding("expired-waiver", waiver.check, message, at("waivers", position, "expires"))
        elif (waiver.check, waiver.finding) not in used:
            message = f"{words} covers no finding: delete it"
            yield GateFinding("unused-waiver", waiver.check, message, at("waivers", position))
