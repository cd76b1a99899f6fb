"""A certified run as text."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import RenderableType

from dpaudit.app.text.audits import audit_words
from dpaudit.app.text.conditions import not_checked
from dpaudit.app.text.output import bullets, line
from dpaudit.app.text.tables import accounting_table, bound_figure, bound_words, premises, shortfalls
from dpaudit.certificate.verdicts import Accounting, Experiment
from dpaudit.claims.bounds import Bound
from dpaudit.pipeline.certify import Certified

#: Thousands of runs would take longer than all the rest.
NOT_SAMPLED = "not sampled: `dpaudit audit --method sequential` compares final outputs"

_WITHHELD = "the run on the data diverged from its twin's: publish nothing of it, whatever the proof says"
_NEXT = (
    "let records that cannot be used count as zero, as release_sum(records, map=f) does, and certify again",
    "count the cost of this run as spent, unless nobody but the data's holder saw anything of it",
)


def certificate_page(
    found: Certified, utility: Mapping[str, float | None], folder: Path | None
) -> list[RenderableType]:
    """Releases, proof, second opinion, audits, the output's utility and what was not checked.

    `folder` is where the certificate is written.
    """
    certificate, accounting = found.certificate, found.accounted.accounting
    parts: list[RenderableType] = [line(f"{certificate.algorithm}: {certificate.claim}"), line()]
    parts += accounting_table(accounting)
    parts += [line(), *bullets(line("proof", certificate.proof), _total(accounting, found.approximate))]
    if certificate.checks is not None:
        parts.append(line(certificate.checks))
    parts += [line("independent checker:", *answer) for answer in found.unconfirmed]
    if certificate.second_opinion is not None:
        parts.append(line("second opinion", *str(certificate.second_opinion).split(" ", 1)))
    if certificate.diverged:
        parts += bullets(line("withheld", _WITHHELD), _NEXT)
    parts += shortfalls(accounting) + premises(accounting.claim)
    for audit in certificate.audits:
        parts += audit_words(audit)
    why = "not run: no pair to run on; add --pair MODULE:CALLABLE"
    parts.append(line(NOT_SAMPLED) if certificate.audits else line("audit", Experiment.INCONCLUSIVE, why))
    for name, value in utility.items():
        parts.append(line(f"utility: {name} {'not finite' if value is None else format(value, '.6g')}"))
    return [*parts, line(), *not_checked(certificate.not_checked, folder)]


def _total(accounting: Accounting, approximate: Sequence[Bound]) -> list[str]:
    proved = bound_words(accounting)
    if not approximate or approximate[0] in accounting.bounds:
        return proved
    words = f"{bound_figure(approximate[0])}-DP by {approximate[0].method}"
    return [*proved, f"that is {words}"] if accounting.bounds else [words, *proved]
