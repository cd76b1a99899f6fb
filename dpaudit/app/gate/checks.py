"""Judge a configuration's checks: run, account for and audit targets; account for ledgers."""

import collections
import functools
import operator
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpaudit.app.gate.audit_plan import AuditPlan, Profile, root_seed
from dpaudit.app.gate.base import Held, held_to_base
from dpaudit.app.gate.configuration import Configuration
from dpaudit.app.gate.places import Places, claim_in_source, definition, place_in
from dpaudit.app.gate.policy import not_checked, policy_findings, today, waiver_findings
from dpaudit.app.gate.report import Checked, GateFinding, Place, Report, error_finding, waived
from dpaudit.app.gate.settings import Check, Gate, LedgerFile, Target
from dpaudit.app.options.claim_options import stated_budget
from dpaudit.app.options.foreign_code import TargetFailed, foreign_code
from dpaudit.app.options.processes import DEFAULT, Opened, Processes, open_target
from dpaudit.app.text.failures import EXIT_INPUT
from dpaudit.app.text.output import counted, lower
from dpaudit.app.text.tables import bound_figure, figure, not_proved, shortfall, total_shortfall
from dpaudit.app.text.target_text import tell_raised
from dpaudit.certificate import verdicts
from dpaudit.certificate.verdicts import Accounting, Audit, Experiment
from dpaudit.claims.claims import Claim
from dpaudit.errors import DataError, DpauditError, TargetDied, TrialFailed, UsageError
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.releases import Release
from dpaudit.pipeline.accounting import verify
from dpaudit.pipeline.certify import (
    AuditOptions,
    FigureOptions,
    NothingReleased,
    RunOptions,
    Telling,
    certified,
)
from dpaudit.pipeline.checking import contradictions
from dpaudit.progress import Work

#: At most this many failing releases of a check are shown, and then the number of the others.
MOST_RELEASES = 20


def run_gate(
    configuration: Configuration,
    *,
    profile: Profile,
    seed: int | None,
    strict: bool,
    root: Path,
    base: str | None = None,
    where: Processes = DEFAULT,
) -> Report:
    """Judge all checks of a configuration; its paths are relative to the current folder.

    After an error in one check the others are still judged. Without `seed`, the configuration's is used;
    with `strict`, an inconclusive check fails; places in the report are relative to `root`. With `base`, the
    rules are those of the merge base with that commit; `where` is where targets run.
    """

    def at(*key: str | int) -> Place:
        return Place.of(configuration.path, configuration.line(*key), root)

    with tempfile.TemporaryDirectory() as scratch:
        held = Held(configuration.gate or Gate())
        if base is not None:
            held = held_to_base(configuration, base, profile=profile, scratch=Path(scratch), at=at)
        gate = held.gate
        judge_one = _Judge(configuration, held, profile, root_seed(gate, profile, seed), root, where)
        wanted: list[tuple[str, Target | LedgerFile]] = [*gate.targets.items(), *gate.ledgers.items()]
        checks = []
        with Work("checks", len(wanted)) as work:
            for number, (name, check) in enumerate(wanted):
                work(number, name)
                checks.append(judge_one.check(name, check))
    valid = [waiver for waiver in gate.waivers if waiver.expires >= today()]
    findings = (*held.findings, *waiver_findings(configuration, checks, at))
    covered = tuple(replace(check, findings=waived(check.findings, valid)) for check in checks)
    return Report(profile, judge_one.seed if gate.targets else None, covered, findings, strict)


class _Judge:
    """Judges one check after another, under one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        held: Held,
        profile: Profile,
        seed: int,
        root: Path,
        where: Processes,
    ) -> None:
        self.configuration, self.gate, self.root = configuration, held.gate, root
        self.baselines = held.baselines
        self.profile, self.seed, self.where = profile, seed, where

    def at(self, *key: str | int) -> Place:
        """The place of a key of the configuration."""
        return Place.of(self.configuration.path, self.configuration.line(*key), self.root)

    def check(self, name: str, check: Target | LedgerFile) -> Checked:
        """Judge a target or a ledger; what cannot be judged is a finding that no waiver can name."""
        begun = time.perf_counter()
        try:
            found = self._target(name, check) if isinstance(check, Target) else self._ledger(name, check)
        except DpauditError as error:
            is_target = isinstance(check, Target)
            place = self._place_of(error) or self.at("targets" if is_target else "ledgers", name)
            subject = check.target if isinstance(check, Target) else check.ledger
            found = Checked(name, "target" if is_target else "ledger", subject)
            died = isinstance(error, TargetDied)  # perhaps while its module was imported
            found = replace(found, findings=(error_finding(error, name, place, in_run=died),))
        return replace(found, seconds=time.perf_counter() - begun)

    def _target(self, name: str, settings: Target) -> Checked:
        with open_target(
            settings.target,
            data_file=settings.data,
            parameters=settings.parameters,
            pair=settings.pair,
            processes=self.where,
            tell=functools.partial(self._lines, settings.target),
            claimed=functools.partial(self._claim, "targets", name, settings),
        ) as chosen:
            return self._opened(name, settings, chosen)

    def _opened(self, name: str, settings: Target, chosen: Opened) -> Checked:
        claim = self._claim("targets", name, settings, chosen.claim)
        if claim is None:
            what = "nothing is claimed"
            why = "the gate checks claims, and this target has none"
            remedy = 'add claim = { rho = ... }, or { epsilon = ..., delta = ... }, with unit = "..."'
            raise UsageError(what, where=self.configuration.place("targets", name), why=why, remedy=remedy)
        plan = AuditPlan.of(self.gate, self.profile, settings.audit, self.seed)
        checked = Checked(name, "target", settings.target, claim=str(claim))
        places = self._places(name, settings, chosen.told)
        try:
            found = certified(
                chosen.algorithm,
                chosen.data,
                claim,
                running=RunOptions(
                    seed=plan.seed,
                    users=settings.users,
                    budget=stated_budget(settings.budget_rho, settings.budget_mu, claim),
                    in_process=self.where.in_process,
                    limits=self.where.limits,
                ),
                auditing=AuditOptions(chosen.pairs, plan.audit, chosen.own_pairs),
                figures=FigureOptions(curves=False, check=True),
                telling=Telling(
                    command=f"dpaudit gate --profile {self.profile}",
                    step=functools.partial(foreign_code, settings.target),
                ),
            )
        except NothingReleased:
            reason = f"{settings.target} released nothing through its curator"
            return replace(checked, findings=(GateFinding("nothing-to-check", name, reason, places.whole),))
        except DpauditError as error:
            if not _ended_a_run(error):
                raise
            place = self._place_of(error) or places.whole
            return replace(checked, findings=(error_finding(error, name, place, in_run=True),))
        tell_raised(settings.target, found.raised)
        certificate, accounting, ledger = found.certificate, found.accounted.accounting, found.run.ledger
        made = ledger.places
        places = replace(places, release=lambda label: place_in(made.of(label), self.root) or places.whole)
        findings = [*proof_findings(name, accounting, places)]
        findings += self._audit_findings(name, certificate.audits, places.whole)
        findings += [
            GateFinding("contradicted", name, f"{about} {answer}: {words}", places.whole)
            for answer, about, words in contradictions(found.unconfirmed)
        ]
        findings += self._divergences(name, found.divergences, places.whole)
        findings += policy_findings(self.gate, name, settings, found.accounted, places, self.baselines)
        return replace(
            checked,
            findings=tuple(findings),
            claim=str(certificate.claim),
            proof=certificate.proof,
            experiment=certificate.experiment,
            cost=_cost(accounting),
            audits=tuple(map(_audit_words, certificate.audits)),
            not_checked=(*certificate.not_checked, *not_checked(settings)),
        )

    def _ledger(self, name: str, settings: LedgerFile) -> Checked:
        verified = verify(
            settings.ledger,
            functools.partial(self._claim, "ledgers", name, settings),
            allow_unhashed=settings.allow_unhashed,
            most_rows=MOST_RELEASES + 1 if settings.baseline is None else None,
        )
        accounting = verified.accounting
        first = Place.of(settings.ledger, 1, self.root)
        checked = Checked(
            name,
            "ledger",
            settings.ledger,
            claim="" if accounting.claim is None else str(accounting.claim),
            cost=_cost(accounting),
            not_checked=(*accounting.not_checked, *not_checked(settings)),
        )
        overview = accounting.overview
        if overview.total == 0 or (accounting.claim is None and overview.claimed == 0):
            reason = "no claim, in total or for any release" if overview.total else "no releases"
            finding = GateFinding("nothing-to-check", name, f"{settings.ledger}: {reason}", first)
            return replace(checked, findings=(finding,))
        lines = lines_of_failing(settings, accounting) if overview.failed else []
        failing = iter([Place.of(settings.ledger, line, self.root) for line in lines])
        findings = [*proof_findings(name, accounting, Places(first, first, lambda _: next(failing)))]
        if verified.not_certifiable is not None:
            findings.append(GateFinding("inconclusive", name, verified.not_certifiable, first))
        places = Places(first, first, functools.partial(self._line_of, settings))
        findings += policy_findings(self.gate, name, settings, verified.accounted, places, self.baselines)
        return replace(checked, findings=tuple(findings), proof=accounting.verdict)

    def _line_of(self, settings: LedgerFile, label: str) -> Place:
        """The line of a ledger's first release under a label."""
        lines = (line for line, release in numbered(settings) if release.label == label)
        return Place.of(settings.ledger, next(lines, 1), self.root)

    def _claim(self, table: str, name: str, settings: Check, own: Claim | None) -> Claim | None:
        """The configuration's claim, completed by the target's or ledger's own; else that."""
        if settings.claim is None:
            return own
        try:
            return settings.claim.stated().claim(own)
        except DpauditError as error:
            error.where = self.configuration.place(table, name, "claim")
            raise

    def _lines(self, reference: str, algorithm: Any) -> dict[str, Any]:
        """Where an algorithm is defined and claimed: file and line, or None; asked in its process."""
        found = definition(algorithm, self.root), claim_in_source(reference, algorithm, self.root)
        here, claim = (None if place is None else (place.file, place.line) for place in found)
        return {"definition": here, "claim": claim}

    def _places(self, name: str, settings: Target, lines: Mapping[str, Any]) -> Places:
        """The lines of a target; those of its releases are known once it has run."""
        here, claim = (None if lines[of] is None else Place(*lines[of]) for of in ("definition", "claim"))
        whole = here or self.at("targets", name, "target")
        if settings.claim is not None:
            return Places(whole, here or self.at("targets", name, "claim"), lambda _: whole)
        return Places(whole, claim or whole, lambda _: whole)

    def _divergences(
        self, name: str, divergences: Sequence[verdicts.Finding], here: Place
    ) -> Iterator[GateFinding]:
        for one in divergences:
            place = place_in(one.where, self.root) or here
            yield GateFinding("refuted", name, f"{one.kind}: {one.detail}", place)

    def _audit_findings(self, name: str, audits: Sequence[Audit], here: Place) -> Iterator[GateFinding]:
        if not audits:
            reason = "not audited: no pair of neighbouring data; add pair = MODULE:CALLABLE"
            yield GateFinding("inconclusive", name, reason, here)
        for audit in audits:
            for finding in audit.findings:
                label = f" in {finding.label!r}" if finding.label else ""
                place = place_in(finding.where, self.root) or here
                yield GateFinding("refuted", name, f"{finding.kind}{label}: {finding.detail}", place)
            if audit.verdict is Experiment.REFUTED and set(audit.refuted_by) != {"findings"}:
                yield GateFinding("refuted", name, _audit_words(audit), here)
            elif audit.verdict is Experiment.INCONCLUSIVE:
                reason = f"{audit.method}: {'; '.join(audit.inconclusive)}"
                yield GateFinding("inconclusive", name, reason, here)

    def _place_of(self, error: DpauditError) -> Place | None:
        """Where an error says that it is, if that is a line of a file here."""
        said = (error.raised_at, error.where, error.where.rpartition("(")[2].rstrip(")"))
        return next((place for text in said if (place := place_in(text, self.root))), None)


def _ended_a_run(error: DpauditError) -> bool:
    """Whether a run of a target ended with an error, where data that cannot be used are not the reason."""
    if isinstance(error, DataError) or error.exit_status != EXIT_INPUT:
        return False
    return bool(error.raised_at) or isinstance(error, TargetDied | TargetFailed | TrialFailed)


def _cost(accounting: Accounting) -> str:
    if not accounting.bounds:
        return ""
    return f"{bound_figure(accounting.bounds[0])} by {accounting.bounds[0].method}"


def _audit_words(audit: Audit) -> str:
    pairs = counted(audit.pairs, "pair", "pairs")
    words = f"{audit.verdict} by {audit.method} on {pairs}, {audit.trials} trials, seed {audit.seed}"
    if audit.epsilon_lower is not None:
        words += f"; epsilon >= {lower(audit.epsilon_lower)} at delta {audit.delta:g}"
        words += "" if audit.epsilon_claimed is None else f", claimed {audit.epsilon_claimed:.6g}"
    if audit.claim is not None and audit.refuted_by:
        words += f"; claimed {figure(audit.claim.guarantee)}, refuted by {', '.join(audit.refuted_by)}"
    return words


def proof_findings(name: str, accounting: Accounting, places: Places) -> Iterator[GateFinding]:
    """Return findings for failing releases, each at its line, then for the total, at the claim's line."""
    failing = not_proved(accounting)[:MOST_RELEASES]
    for release in failing:
        if release.claimed is not None:
            words = f"release {release.label!r}: {shortfall(release.proved, release.claimed)}"
            yield GateFinding("release-not-proved", name, words, places.release(release.label))
    more = accounting.overview.failed - len(failing)
    if more > 0:
        yield GateFinding("release-not-proved", name, f"and {more} more releases", places.whole)
    total = total_shortfall(accounting)
    if accounting.claim is not None and total:
        lines = [f"premise fails: {premise}" for premise in accounting.claim.premises if not premise.holds]
        lines += total
        yield GateFinding("not-proved", name, "\n".join(lines), places.claim)


def lines_of_failing(settings: LedgerFile, accounting: Accounting) -> list[int]:
    """The line numbers in a ledger file of the failing releases that the accounting shows.

    It shows them in the file's order. Releases with the same label, mechanism, count and claim cost the
    same and fail alike, so the first line that equals the next failing release is that release's.
    """
    looks = operator.attrgetter("label", "mechanism", "count", "claimed")
    wanted = collections.deque(map(looks, not_proved(accounting)))
    lines: list[int] = []
    for line, release in numbered(settings):
        if not wanted:
            break
        if looks(release) == wanted[0]:
            lines.append(line)
            wanted.popleft()
    return lines


def numbered(settings: LedgerFile) -> Iterator[tuple[int, Release]]:
    """A ledger file's releases with their lines."""
    with LedgerStream(settings.ledger, allow_unhashed=settings.allow_unhashed) as ledger:
        yield from enumerate(ledger, start=2)  # the header is the first line
