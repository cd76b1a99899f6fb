"""How a run that was certified reads as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from dpaudit.app.text.audits import audit_words
from dpaudit.app.text.conditions import not_checked
from dpaudit.app.text.output import bullets, line
from dpaudit.app.text.tables import (
    accounting_table,
    bound_figure,
    bound_words,
    opinion_line,
    premises,
    shortfalls,
)
from dpaudit.certificate.verdicts import Accounting, Experiment
from dpaudit.claims.bounds import Bound
from dpaudit.pipeline.certify import Certified

#: Thousands of runs would take longer than all the rest.
NOT_SAMPLED = "not sampled: `dpaudit audit --method sequential` compares final outputs"


def certificate_page(found: Certified, utility: Mapping[str, float | None]) -> list[RenderableType]:
    """Releases, proof, second opinion, audits, the output's utility and what was not checked."""
    certificate, accounting = found.certificate, found.accounted.accounting
    parts: list[RenderableType] = [line(f"{certificate.algorithm}: {certificate.claim}"), line()]
    parts += accounting_table(accounting)
    parts += [line(), *bullets(line("proof", certificate.proof), _total(accounting, found.approximate))]
    parts.append(opinion_line(certificate))
    parts += shortfalls(accounting) + premises(accounting.claim)
    if certificate.audits:
        for audit in certificate.audits:
            parts += audit_words(audit)
        parts.append(line(NOT_SAMPLED))
    else:
        parts.append(
            line("audit", Experiment.INCONCLUSIVE, "not run: no pair to run on; add --pair MODULE:CALLABLE")
        )
    for name, value in utility.items():
        parts.append(line(f"utility: {name} {'not finite' if value is None else format(value, '.6g')}"))
    return [*parts, line(), *not_checked(certificate.not_checked)]


def _total(accounting: Accounting, approximate: Sequence[Bound]) -> list[str]:
    if not approximate or approximate[0] in accounting.bounds:
        return bound_words(accounting)
    words = f"{bound_figure(approximate[0])}-DP by {approximate[0].method}"
    if not accounting.bounds:
        return [words, *bound_words(accounting)]
    return [*bound_words(accounting), f"that is {words}"]
