"""The report about a certificate: what it says, in words for people who did not make it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpaudit.app.report.blocks import Block, Code, Grid, Heading, Items, Paragraph, Picture
from dpaudit.app.report.report_summary import RELATIONS, summary
from dpaudit.app.report.running_total import MOST_LINES, Share, shares
from dpaudit.app.text.audits import could_refute_any
from dpaudit.app.text.conditions import sentences
from dpaudit.app.text.output import assured, lower
from dpaudit.app.text.streams import printable
from dpaudit.app.text.tables import (
    bound_figure,
    figure,
    mechanism_words,
    sensitivity_words,
    times,
)
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.statement import NOT_STATED
from dpaudit.certificate.verdicts import Audit, Experiment

_FIELDS = {
    "data_curator": "Data curator",
    "intended_use": "Intended use",
    "data_domain": "Data",
    "unit": "What one unit stands for",
    "contribution_bound": "Contribution bound",
    "trust": "Who is trusted with what",
    "access": "Access",
    "delta_rationale": "Why this delta",
    "composition_scope": "Scope of composition",
    "preprocessing": "Before release",
    "postprocessing": "After release",
    "unprotected_quantities": "Unprotected quantities",
    "hyperparameter_tuning": "Hyper-parameter tuning",
    "assumptions": "Assumptions that no machine checks",
    "waivers": "Waivers",
}


#: Why a picture is missing where there are others.
_NOT_DRAWN = {
    "course": "The total after each release is not drawn: its accountant is too dear to be asked again and "
    "again, or has no finite bound.",
    "profile": "delta(epsilon) is not drawn: neither the releases nor the claim have a curve.",
    "trade-off": "The trade-off is not drawn: the claim has no curve.",
    "audits": "No audit gave a lower bound on epsilon, so there is none to draw.",
}


def report(certificate: Certificate, captions: Mapping[str, str] | None = None) -> list[Block]:
    """The report's blocks.

    Args:
        certificate: what to report.
        captions: of every picture that there is, by its name; left out, nothing is said of pictures.
    """
    pictures: dict[str, Block] = {}
    if captions is not None:
        pictures |= {name: Paragraph(words) for name, words in _NOT_DRAWN.items()}
        pictures |= {name: Picture(name, caption) for name, caption in captions.items()}
    sections = (
        summary(certificate),
        _releases(certificate, pictures),
        _guarantee(certificate, pictures),
        _experiments(certificate, pictures),
        _deployment(certificate),
        _limits(certificate),
        _reproduction(certificate),
    )
    return [_printable(block) for section in sections for block in section]


def _releases(certificate: Certificate, pictures: Mapping[str, Block]) -> Iterator[Block]:
    releases, found = certificate.releases, shares(certificate.releases)
    number = "1 release" if len(releases) == 1 else f"{len(releases)} releases"
    yield Heading("Releases")
    words = f"Everything that left the algorithm: {number}."
    if len(releases) > MOST_LINES:
        words += " Those whose labels differ in a number alone share a row, with the costliest one's figures."
    if certificate.budget is not None:
        words += f" How many there are may depend on the data; a filter held the run to {certificate.budget}."
    yield Paragraph(words)
    columns = ("release", "mechanism", "sensitivity", "claimed", "proved", "share", "verdict")
    yield Grid(columns, [_row(share) for share in found], numbers=("claimed", "proved", "share"))
    yield from _drawn(pictures, "budget", "course")


def _row(share: Share) -> list[str]:
    costliest = share.costliest
    label = (
        times(share.label, costliest.count)
        if share.number == 1
        else f"{share.label} ({share.number} releases)"
    )
    return [
        label,
        mechanism_words(costliest.mechanism),
        sensitivity_words(costliest.mechanism),
        "" if costliest.claimed is None else figure(costliest.claimed),
        figure(costliest.proved, proved=True),
        "" if share.share is None else f"{share.share:.1%}",
        "" if share.verdict is None else _spaced(share.verdict),
    ]


def _guarantee(certificate: Certificate, pictures: Mapping[str, Block]) -> Iterator[Block]:
    yield Heading("Guarantee")
    if certificate.bounds:
        yield Paragraph(
            "The total, bounded from above by every accountant of the claim's scale, tightest first."
        )
        rows = [
            [
                bound_figure(bound),
                bound.method,
                bound.rigour,
                "" if bound.at_least is None else lower(bound.at_least),
            ]
            for bound in certificate.bounds
        ]
        columns = ("at most", "accountant", "rigour", "no less than")
        yield _filled(columns, rows, numbers=("no less than",))
    else:
        yield Paragraph("No accountant has a finite bound on the claim's scale.")
    if certificate.second_opinion is not None:
        yield Paragraph(f"A second opinion, which proves nothing: {certificate.second_opinion}.")
    premises = certificate.claim.premises
    if premises:
        yield Paragraph("Conditions of the claim's theorem:")
        yield Grid(
            ("condition", "", "source"),
            [[str(premise), "holds" if premise.holds else "FAILS", premise.source] for premise in premises],
        )
    yield from _drawn(pictures, "profile", "trade-off")


def _experiments(certificate: Certificate, pictures: Mapping[str, Block]) -> Iterator[Block]:
    yield Heading("Experiments")
    if not certificate.audits:
        yield Paragraph("No audit was run: nobody has tried to break this claim.")
        return
    columns = ("method", "verdict", "runs", "pairs", "epsilon ≥", "claimed", "reach", "delta", "confidence")
    yield Paragraph(
        "Runs are those on each side of a pair of neighbouring data sets; reach is the largest epsilon "
        "that so many runs could have refuted."
    )
    rows = [_audit_row(audit) for audit in certificate.audits]
    yield _filled(columns, rows, numbers=columns[2:])
    for audit in certificate.audits:
        lines = [f"{finding.kind}: {_finding(finding)}" for finding in audit.findings]
        if audit.event:
            lines.append(f"tested: {audit.event}")
        if audit.verdict is Experiment.INCONCLUSIVE and audit.inconclusive:
            lines += [f"inconclusive: {reason}" for reason in audit.inconclusive]
        if lines:
            yield Paragraph(
                f"What {audit.method} found, on the {audit.about.replace('-', ' ')}, seed {audit.seed}:"
            )
            yield Items(lines)
    yield from _drawn(pictures, "audits")


def _finding(finding: Any) -> str:
    label = f"in '{finding.label}', " if finding.label else ""
    figures = ""
    if finding.declared is not None and finding.measured is not None:
        figures = f" (declared {finding.declared:.6g}, measured {finding.measured:.6g})"
    return f"{label}{finding.detail}{figures}" + (f", at {finding.where}" if finding.where else "")


def _audit_row(audit: Audit) -> list[str]:
    def cell(value: float | None) -> str:
        return "" if value is None else f"{value:.6g}"

    return [
        audit.method,
        _spaced(audit.verdict),
        f"{audit.trials}",
        f"{audit.pairs}",
        "" if audit.epsilon_lower is None else lower(audit.epsilon_lower),
        cell(audit.epsilon_claimed),
        _reach(audit),
        cell(audit.delta),
        "" if audit.confidence is None else assured(audit.confidence),
    ]


def _reach(audit: Audit) -> str:
    if audit.largest_refutable_epsilon is None:
        return ""
    return "any" if could_refute_any(audit) else lower(audit.largest_refutable_epsilon)


def _deployment(certificate: Certificate) -> Iterator[Block]:
    yield Heading("Deployment")
    yield Paragraph("From the ledger, and so part of what was proved:")
    numerics = certificate.numerics
    grid = "in floating point" if numerics.floating_point else "exactly"
    group = "" if certificate.group_size == 1 else f", groups of {certificate.group_size}"
    yield Grid(
        ("", "recorded"),
        [
            ["Unit of privacy", f"{certificate.unit}{group}"],
            [
                "Neighbouring data",
                f"{certificate.neighbouring}: one unit {RELATIONS[certificate.neighbouring]}",
            ],
            ["Trust model", str(certificate.trust_model)],
            ["The adversary sees", str(certificate.view).replace("-", " ")],
            [
                "Schedule",
                "fixed" if certificate.budget is None else f"filtered, held to {certificate.budget}",
            ],
            ["Sampling", "; ".join(_few(certificate.sampling))],
            ["Noise", f"{numerics.sampler}, drawn {grid}{', seeded' if numerics.seeded else ''}"],
            ["Comparison", f"a bound meets a claim up to a relative {numerics.claim_tolerance:g}"],
        ],
    )
    yield Paragraph("Stated by the author, and not checked:")
    statement = certificate.statement.to_json()
    yield Grid(("", "stated"), [[words, _stated(statement[name])] for name, words in _FIELDS.items()])


def _stated(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(value) if value else "none"
    return str(value) if value != NOT_STATED else NOT_STATED


def _few(lines: tuple[str, ...]) -> tuple[str, ...]:
    return lines if len(lines) <= MOST_LINES else (*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more")


def _limits(certificate: Certificate) -> Iterator[Block]:
    yield Heading("Not checked")
    yield Paragraph("What has to be true beside the figures above, and no computation here has shown:")
    yield Items(sentences(certificate.not_checked))


def _reproduction(certificate: Certificate) -> Iterator[Block]:
    yield Heading("How to reproduce")
    yield Paragraph("The run, its accounting and its audits:")
    yield Code(certificate.command)
    yield Paragraph("The accounting alone, from the ledger that was written beside the certificate:")
    yield Code("dpaudit ledger check ledger.jsonl\ndpaudit verify ledger.jsonl")
    versions = ", ".join(f"{name} {number}" for name, number in certificate.versions.items())
    rows = [["Ledger's last hash", certificate.ledger_hash], ["Versions", versions]]
    rows += [[f"Parameter {name}", _value(value)] for name, value in certificate.parameters.items()]
    yield Grid(("", "value"), rows)


def _value(value: Any) -> str:
    match value:
        case float():
            return f"{value:.6g}"
        case Mapping():
            return "{" + ", ".join(f"{name}: {_value(one)}" for name, one in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return f"{value}"


def _drawn(pictures: Mapping[str, Block], *names: str) -> Iterator[Block]:
    yield from (pictures[name] for name in names if name in pictures)


def _filled(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> Grid:
    """A table without the columns that are empty in every row."""
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return Grid([columns[place] for place in kept], [[row[place] for place in kept] for row in rows], numbers)


def _spaced(verdict: str) -> str:
    return str(verdict).replace("_", " ")


def _printable(block: Block) -> Block:
    """The block without characters that would turn text around or command what shows it."""
    match block:
        case Heading(text):
            return Heading(printable(text))
        case Paragraph(text, lead):
            return Paragraph(printable(text), lead)
        case Items(lines):
            return Items([printable(line) for line in lines])
        case Code(text):
            return Code("\n".join(map(printable, text.split("\n"))))
        case Grid(columns, rows, numbers):
            return Grid(columns, [[printable(cell) for cell in row] for row in rows], numbers)
        case _:
            return block
