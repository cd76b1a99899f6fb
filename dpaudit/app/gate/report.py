"""What a gate found: checks, findings, and the one exit code that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from dpaudit.app.gate.settings import Waiver
from dpaudit.app.text.failures import EXIT_INCONCLUSIVE, EXIT_INPUT, EXIT_NOT_PROVED, EXIT_NOTHING
from dpaudit.app.text.streams import note
from dpaudit.app.text.target_text import is_shown, without_text
from dpaudit.certificate.conditions import Condition
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.errors import DpauditError, IntegrityError
from dpaudit.page.printable import printable, printable_lines

Level = Literal["error", "warning", "note"]

_EXIT_INTEGRITY: Final = IntegrityError.exit_status


@dataclass(frozen=True)
class Rule:
    """A kind of finding: what it means, and its exit code where it is not waived."""

    meaning: str
    exit_status: int

    @property
    def level(self) -> Level:
        """The severity of findings of this kind."""
        levels: dict[int, Level] = {EXIT_INCONCLUSIVE: "warning", 0: "note"}
        return levels.get(self.exit_status, "error")


RULES: Final = {
    "not-proved": Rule("No accountant proves the claim, or one of its premises fails.", EXIT_NOT_PROVED),
    "release-not-proved": Rule("A release costs more than is claimed for it.", EXIT_NOT_PROVED),
    "refuted": Rule("An experiment contradicts the claim, or the ledger behind it.", EXIT_NOT_PROVED),
    "contradicted": Rule("The independent checker contradicts a figure.", EXIT_NOT_PROVED),
    "max-epsilon": Rule(
        "The ledger is not proved (max-epsilon, delta-at-most)-DP, which the policy demands.", EXIT_NOT_PROVED
    ),
    "delta-at-most": Rule("The claim's delta is larger than the policy allows.", EXIT_NOT_PROVED),
    "allowed-samplers": Rule("The noise was drawn by a sampler that the policy bars.", EXIT_NOT_PROVED),
    "fail-on-increase": Rule("The ledger costs more than the baseline certificate.", EXIT_NOT_PROVED),
    "policy-loosened": Rule("The change asks for less than the merge base does.", EXIT_NOT_PROVED),
    "target-removed": Rule("The change removes a target or ledger.", EXIT_NOT_PROVED),
    "waiver-added": Rule("The change adds a waiver, or extends one.", EXIT_NOT_PROVED),
    "allowed-change": Rule("The change to the gate is one that the merge base allows.", 0),
    "expired-waiver": Rule("A waiver's last day is over.", EXIT_NOT_PROVED),
    "incomplete": Rule("A run of the target did not come to its end.", EXIT_NOT_PROVED),
    "inconclusive": Rule("The check lacked the power to tell; it fails under --strict.", EXIT_INCONCLUSIVE),
    "nothing-to-check": Rule("There was no release, or no claim.", EXIT_NOTHING),
    "unused-waiver": Rule("A waiver covers no finding.", 0),
    "input": Rule("The configuration, a file or an algorithm cannot be used.", EXIT_INPUT),
    "integrity": Rule("A ledger was cut short or edited.", _EXIT_INTEGRITY),
}


@dataclass(frozen=True)
class Place:
    """A file, relative to the root of the report where it lies below it, and a line from 1."""

    file: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, file: str | Path, line: int, root: Path) -> Place:
        """A place in a file, seen from a root."""
        path = Path(file).absolute()
        inside = path.is_relative_to(root)
        return cls(printable((path.relative_to(root) if inside else path).as_posix()), max(1, line))


@dataclass(frozen=True)
class GateFinding:
    """One thing that a check found, of a rule among `RULES`; the first line of the message sums it up.

    `check` is empty for the configuration as a whole; `place` is what to look at; `waiver` lets it pass.
    """

    rule: str
    check: str
    message: str
    place: Place
    waiver: Waiver | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable_lines(self.message))

    @property
    def exit_status(self) -> int:
        """What the finding alone would make the gate exit with, but for --strict; 0 where it is waived."""
        return 0 if self.waiver is not None else RULES[self.rule].exit_status

    @property
    def level(self) -> Level:
        """Its severity: what is waived stays visible as a warning."""
        return "warning" if self.waiver is not None else RULES[self.rule].level

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON types."""
        return {
            **{name: getattr(self, name) for name in ("rule", "check", "level", "message")},
            "file": self.place.file,
            "line": self.place.line,
            "waiver": None if self.waiver is None else self.waiver.model_dump(mode="json"),
        }


@dataclass(frozen=True)
class Checked:
    """One target or ledger, judged: claim, cost (the tightest bound) and audits are in words.

    `subject` is its reference or file; proof and experiment are None if they were not reached.
    """

    name: str
    kind: Literal["target", "ledger"]
    subject: str
    findings: tuple[GateFinding, ...] = ()
    claim: str = ""
    proof: Proof | None = None
    experiment: Experiment | None = None
    cost: str = ""
    audits: tuple[str, ...] = ()
    not_checked: tuple[Condition, ...] = ()
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("subject", "claim", "cost"):
            object.__setattr__(self, name, printable(getattr(self, name)))
        object.__setattr__(self, "audits", tuple(map(printable, self.audits)))

    @property
    def outcome(self) -> str:
        """The outcome of the check, in one word."""
        return outcome(self.findings)

    def to_json(self) -> dict[str, Any]:
        """The check as plain JSON types."""
        return {
            **{name: getattr(self, name) for name in ("name", "kind", "subject", "outcome")},
            "claim": self.claim or None,
            "proof": self.proof,
            "experiment": self.experiment,
            "cost": self.cost or None,
            "audits": list(self.audits),
            "findings": [finding.to_json() for finding in self.findings],
            "not_checked": [condition.to_json() for condition in self.not_checked],
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Report:
    """A whole gate: its checks, targets first, and the findings about the configuration and its waivers.

    `seed` is the root seed of audits without one of their own; `strict` makes what is inconclusive fail.
    """

    profile: str
    seed: int | None
    checks: tuple[Checked, ...]
    findings: tuple[GateFinding, ...] = ()
    strict: bool = False

    @property
    def all_findings(self) -> list[GateFinding]:
        """Those of the configuration, then those of each check."""
        return [*self.findings, *(finding for check in self.checks for finding in check.findings)]

    @property
    def exit_status(self) -> int:
        """The exit status of the worst finding; inconclusive ones count only under ``strict``."""
        status = _worst(self.all_findings)
        if status in {0, EXIT_INCONCLUSIVE} and not self.checks:
            return EXIT_NOTHING
        return 0 if status == EXIT_INCONCLUSIVE and not self.strict else status

    @property
    def only_verdicts(self) -> bool:
        """Whether everything could be judged, whatever the verdicts."""
        rules = {finding.rule for finding in self.all_findings}
        return self.exit_status not in {EXIT_INPUT, _EXIT_INTEGRITY} and "incomplete" not in rules

    @property
    def summary(self) -> str:
        """The outcome of all checks, in one line."""
        total = len(self.checks)
        counts = Counter(check.outcome for check in self.checks)
        parts = [f"{number} {name}" for name, number in sorted(counts.items())]
        waived = sum(finding.waiver is not None for finding in self.all_findings)
        parts += [f"{waived} finding{'s' if waived > 1 else ''} waived"] if waived else []
        general = sorted({f.rule for f in self.findings if f.exit_status})
        parts += [f"configuration: {', '.join(general)}"] if general else []
        return f"{total} check{'' if total == 1 else 's'}: {', '.join(parts or ['nothing to check'])}"

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON types."""
        names = ("profile", "seed", "strict", "exit_status", "summary")
        return {
            "schema": "dpaudit.gate/2",
            **{name: getattr(self, name) for name in names},
            "checks": [check.to_json() for check in self.checks],
            "findings": [finding.to_json() for finding in self.findings],
        }


#: Exit statuses of findings, the worst first, each with what it makes of a check.
_OUTCOMES: Final = {
    _EXIT_INTEGRITY: "error",
    EXIT_INPUT: "error",
    EXIT_NOT_PROVED: "failed",
    EXIT_NOTHING: "unchecked",
    EXIT_INCONCLUSIVE: "inconclusive",
    0: "passed",
}


def outcome(findings: Iterable[GateFinding]) -> str:
    """Return the outcome of the worst finding, in one word."""
    return _OUTCOMES[_worst(findings)]


def _worst(findings: Iterable[GateFinding]) -> int:
    statuses = {finding.exit_status for finding in findings}
    return next((status for status in _OUTCOMES if status in statuses), 0)


def error_finding(error: DpauditError, check: str, place: Place, *, in_run: bool) -> GateFinding:
    """An error as a finding that no waiver can name; `in_run` is whether it ended a run of the target."""
    rule = "integrity" if error.exit_status == _EXIT_INTEGRITY else "incomplete" if in_run else "input"
    said = without_text(error)
    if said is not error and is_shown():
        note(f"{check}: {error}")
    return GateFinding(rule, check, str(said), place)


def waived(findings: Sequence[GateFinding], waivers: Sequence[Waiver]) -> tuple[GateFinding, ...]:
    """The findings, each with the waiver that covers it, if one does."""
    covering: dict[tuple[str, str | None], Waiver] = {(one.check, one.finding): one for one in waivers}
    return tuple(replace(f, waiver=covering.get((f.check, f.rule))) for f in findings)
