"""The report about a certificate, for people who did not make it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpaudit.app.report.evaluation import RELATIONS, best_guess, evaluation, leading, unjudged
from dpaudit.app.report.running_total import MOST_LINES, Share, shares
from dpaudit.app.text.audits import could_refute_any, tested
from dpaudit.app.text.conditions import WARNED, sentences
from dpaudit.app.text.output import assured, counted, lower
from dpaudit.app.text.tables import (
    bound_figure,
    figure,
    mechanism_words,
    place_words,
    sensitivity_words,
    times,
)
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.statement import NOT_STATED
from dpaudit.certificate.verdicts import Audit, Experiment, Finding, Proof
from dpaudit.claims.bounds import Bound
from dpaudit.page.blocks import Badges, Block, Code, Grid, Heading, Items, Paragraph, Picture, Tone
from dpaudit.pipeline.recheck import AS_STATED

_TONES: dict[str, Tone] = {
    "PROVED": "good",
    "NOT_PROVED": "bad",
    "NOT_REFUTED": "good",
    "REFUTED": "bad",
    "INCONCLUSIVE": "unclear",
}

#: The fields of an author's statement, as the page names them.
_FIELDS = {
    "data_curator": "Data curator",
    "intended_use": "Intended use",
    "data_domain": "Data",
    "unit": "What one unit stands for",
    "contribution_bound": "Contribution bound",
    "trust": "Trust in each party",
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

#: Releases that are named where they are sampled alike; of more their number is given.
_NAMED = 3

#: Why a picture is missing where there are others.
_NOT_DRAWN = {
    "course": "The total after each release is not drawn: its accountant is too costly to run for each "
    "release, or has no finite bound.",
    "profile": "delta(epsilon) is not drawn: neither the releases nor the claim have a curve.",
    "trade-off": "The trade-off is not drawn: the claim has no curve.",
    "audits": "No audit gave a lower bound on epsilon, so there is none to draw.",
}


def report(
    certificate: Certificate, computed: Sequence[Bound] | None, captions: Mapping[str, str] | None = None
) -> list[Block]:
    """The report's blocks, with the pictures whose captions are given; None says nothing of pictures.

    `computed` is the total as (epsilon, delta), empty if it has none, once the certificate's figures were
    computed again from its ledger; None where they were not.
    """
    pictures: dict[str, Block] = {}
    if captions is not None:
        pictures |= {name: Paragraph(words) for name, words in _NOT_DRAWN.items()}
        if len(certificate.releases) == 1:  # a course of one step would say nothing
            del pictures["course"]
        pictures |= {name: Picture(name, caption) for name, caption in captions.items()}
    drawn = (section(certificate, pictures) for section in (_releases, _guarantee, _experiments))
    plain = (section(certificate) for section in (_deployment, _limits, _reproduction))
    asked = evaluation(certificate, computed)
    return list(itertools.chain(_summary(certificate, computed), *drawn, asked, *plain))


#: The first line of a page whose figures nobody has held against a ledger, after the title.
_NOT_COMPUTED = "figures not computed again"


def _summary(certificate: Certificate, computed: Sequence[Bound] | None) -> Iterator[Block]:
    """Title, the proved (epsilon, delta), verdicts, and what they come to in a few sentences."""
    title = f"Privacy of {certificate.algorithm}"
    yield Heading(title if computed is not None else f"{title}: {_NOT_COMPUTED}")
    yield Paragraph(leading(certificate, computed) + _confirmed(certificate, computed), lead=True)
    yield Paragraph(f"Claim: {certificate.claim}")
    proof = Proof.PROVED if certificate.all_proved else Proof.NOT_PROVED
    experiment = certificate.experiment
    verdicts: list[tuple[str, str, Tone]] = [
        ("Proof, from the ledger of every release", spaced(proof), _TONES[proof]),
        ("Experiment, which can refute but never prove", spaced(experiment), _TONES[experiment]),
    ]
    verdicts.append(("May this run's output be published?", *publishing(certificate, computed)))
    yield Badges(verdicts)
    yield Paragraph(_plainly(certificate))
    stated = ", ".join(AS_STATED)
    again = f"Bounds, curves and releases were computed again from the ledger; {stated} are shown as stated."
    believed = "There is no ledger beside the certificate: all figures and verdicts are shown as stated."
    yield Paragraph(again if computed is not None else believed)


def _confirmed(certificate: Certificate, computed: Sequence[Bound] | None) -> str:
    """State that the independent checker confirms the claim, if it was run again."""
    checks = certificate.checks
    return "" if checks is None or computed is None else f" {str(checks).capitalize()}."


def publishing(certificate: Certificate, computed: Sequence[Bound] | None) -> tuple[str, Tone]:
    """Return whether the output may be published, and the tone of that answer."""
    unknown = () if computed is not None else ("its figures were not computed again from its ledger",)
    if against := "; ".join((*certificate.against_publishing, *unknown)):
        return f"no: {against}", "bad"
    words = "yes, if everything under Not checked is true"
    if certificate.experiment is Experiment.INCONCLUSIVE:
        return f"{words}; no experiment has judged the claim", "unclear"
    return words, "good"


def _plainly(certificate: Certificate) -> str:
    """Return the summary for a data-protection officer."""
    claim = certificate.claim.guarantee
    if certificate.experiment is Experiment.REFUTED:
        return (
            "Do not rely on this claim. An experiment contradicts it or this run's ledger: the figures "
            "below, including the proof's, may not describe the run's real protection. The section "
            "Experiments gives the findings."
        )
    if not certificate.all_proved:
        return f"Do not rely on this claim. {_why_not(certificate)}" + _odds(certificate)
    if certificate.diverged:
        return (
            "Show nobody this page, the ledger or the output. The run on the data diverged from its twin's: "
            "records stopped it, delayed it, or changed its queries. This event itself is private, and no "
            "figure below covers it."
        )
    words = f"The claim of {claim} holds for this run, provided that everything under Not checked is true."
    if certificate.experiment is Experiment.INCONCLUSIVE:
        words = f"No experiment has judged this claim: {unjudged(certificate)}. {words}"
    if certificate.numerics.seeded:
        words += (
            " But somebody chose the seed of the noise: whoever knows the seed can subtract the "
            "noise, so this output must not be published."
        )
    return words + _odds(certificate)


def _why_not(certificate: Certificate) -> str:
    failing = [premise for premise in certificate.claim.premises if not premise.holds]
    if failing:
        return f"A condition of its theorem does not hold here: {failing[0]}."
    claim = certificate.claim.guarantee
    if certificate.proof is Proof.PROVED:
        number = sum(release.verdict is Proof.NOT_PROVED for release in certificate.releases)
        return f"The total is proved, but the claim for {number} of the releases is not."
    if not certificate.bounds:
        return f"No accountant has a finite bound on the scale of {claim}."
    return f"The claim is {claim}; the least that can be proved is {bound_figure(certificate.bounds[0])}."


def _odds(certificate: Certificate) -> str:
    """The success of the best guess between two neighbouring data sets."""
    if not all(premise.holds for premise in certificate.claim.premises):
        return ""  # the curves are those of a run for which it holds
    success = best_guess(certificate)
    if success is None:
        return ""
    unit = certificate.unit
    one = f"one {unit}" if certificate.group_size == 1 else f"{certificate.group_size} times one {unit}"
    words = (
        f" In plain words: somebody who knows all the data except {one}, sees everything that was released "
        f"and has to tell whether it was {RELATIONS[certificate.neighbouring]}, with both equally likely "
        f"beforehand, is right in at most {success:g} of 100 cases; blind guessing is right in 50."
    )
    return words + (" This figure alone means next to no protection." if success >= 99.0 else "")


def _releases(certificate: Certificate, pictures: Mapping[str, Block]) -> Iterator[Block]:
    releases, found = certificate.releases, shares(certificate.releases)
    yield Heading("Releases")
    words = f"Everything that left the algorithm: {counted(len(releases), 'release', 'releases')}."
    if len(releases) > MOST_LINES:
        words += " Those whose labels differ only in a number share a row, with the figures of the costliest."
    if certificate.budget is not None:
        words += f" Their number may depend on the data; a filter limited the run to {certificate.budget}."
    yield Paragraph(words)
    columns = ("release", "mechanism", "sensitivity", "made on", "claimed", "proved", "share", "verdict")
    yield _filled(columns, [_row(share) for share in found], numbers=("claimed", "proved", "share"))
    yield from _drawn(pictures, "budget", "course")


def _row(share: Share) -> list[str]:
    costliest = share.costliest
    several = f"{share.label} ({share.number} releases)"
    return [
        times(share.label, costliest.count) if share.number == 1 else several,
        mechanism_words(costliest.mechanism),
        sensitivity_words(costliest.mechanism),
        place_words(costliest),
        "" if costliest.claimed is None else figure(costliest.claimed),
        figure(costliest.proved, proved=True),
        "" if share.share is None else f"{share.share:.1%}",
        "" if share.verdict is None else spaced(share.verdict),
    ]


def _guarantee(certificate: Certificate, pictures: Mapping[str, Block]) -> Iterator[Block]:
    yield Heading("Guarantee")
    if certificate.bounds:
        words = "The total, bounded from above by every accountant of the claim's scale, tightest first."
        yield Paragraph(words)
        columns = ("at most", "accountant", "rigour", "dominating pairs: at least")
        rows = [[bound_figure(b), b.method, b.rigour, _lower(b.at_least)] for b in certificate.bounds]
        yield _filled(columns, rows, numbers=("dominating pairs: at least",))
    else:
        yield Paragraph("No accountant has a finite bound on the claim's scale.")
    if certificate.second_opinion is not None:
        yield Paragraph(f"A second opinion, which is not a proof: {certificate.second_opinion}.")
    premises = certificate.claim.premises
    if premises:
        yield Paragraph("Conditions of the claim's theorem:")
        rows = [[str(premise), "holds" if premise.holds else "FAILS", premise.source] for premise in premises]
        yield Grid(("condition", "", "source"), rows)
    yield from _drawn(pictures, "profile", "trade-off")


def _experiments(certificate: Certificate, pictures: Mapping[str, Block]) -> Iterator[Block]:
    yield Heading("Experiments")
    if not certificate.audits:
        yield Paragraph("No audit was run: no experiment has tried to refute this claim.")
        return
    columns = ("method", "verdict", "runs", "pairs", "epsilon ≥", "claimed", "reach", "delta", "confidence")
    yield Paragraph(
        "Runs counts the runs on each side of a pair of neighbouring data sets; reach is the largest "
        "epsilon that this number of runs could have refuted."
    )
    yield _filled(columns, list(map(_audit_row, certificate.audits)), numbers=columns[2:])
    for audit in certificate.audits:
        lines = [_finding(finding) for finding in audit.findings]
        lines += tested(audit)
        lines += [
            f"not checked: {one}" for one in sentences(c for c in audit.not_checked if c.code in WARNED)
        ]
        if audit.verdict is Experiment.INCONCLUSIVE:
            lines += [f"inconclusive: {reason}" for reason in audit.inconclusive]
        if lines:
            about = audit.about.replace("-", " ")
            yield Paragraph(f"Findings of {audit.method} about the {about}, seed {audit.seed}:")
            yield Items(lines)
    yield from _drawn(pictures, "audits")


def _finding(finding: Finding) -> str:
    label = f"in '{finding.label}', " if finding.label else ""
    figures, place = "", f", at {finding.where}" if finding.where else ""
    if finding.declared is not None and finding.measured is not None:
        figures = f" (declared {finding.declared:.6g}, measured {finding.measured:.6g})"
    return f"{finding.kind}: {label}{finding.detail}{figures}{place}"


def _audit_row(audit: Audit) -> list[str]:
    return [
        audit.method,
        spaced(audit.verdict),
        f"{audit.trials}",
        f"{audit.pairs}",
        _lower(audit.epsilon_lower),
        "" if audit.epsilon_claimed is None else f"{audit.epsilon_claimed:.6g}",
        "any" if could_refute_any(audit) else _lower(audit.largest_refutable_epsilon),
        "" if audit.delta is None else f"{audit.delta:.6g}",
        "" if audit.confidence is None else assured(audit.confidence),
    ]


def _deployment(certificate: Certificate) -> Iterator[Block]:
    yield Heading("Deployment")
    yield Paragraph("From the ledger, and therefore covered by the proof:")
    numerics = certificate.numerics
    grid = "in floating point" if numerics.floating_point else "exactly"
    group = "" if certificate.group_size == 1 else f", groups of {certificate.group_size}"
    relation = certificate.neighbouring
    sampled = _sampled(certificate)
    recorded = {
        "Unit of privacy": f"{certificate.unit}{group}",
        "Neighbouring data": f"{relation}: one unit {RELATIONS[relation]}",
        "Trust model": str(certificate.trust_model),
        "The adversary sees": str(certificate.view).replace("-", " "),
        "Schedule": "fixed" if certificate.budget is None else f"filtered, held to {certificate.budget}",
        "Sampling": "; ".join(sampled) or "no release uses a random sample of the records",
        "Noise": f"{numerics.sampler}, drawn {grid}{', seeded' if numerics.seeded else ''}",
        "Comparison": f"a bound meets a claim up to a relative {numerics.claim_tolerance:g}",
    }
    yield Grid(("", "recorded"), list(recorded.items()))
    statement = certificate.statement.to_json()
    given = {_FIELDS[name]: text for name, text in statement.items() if text != NOT_STATED}
    if given:
        yield Paragraph("Stated by the author and not checked:")
        lists = {name: "; ".join(one) or "none" for name, one in given.items() if isinstance(one, list)}
        yield Grid(("", "stated"), [[words, text] for words, text in {**given, **lists}.items()])
    left_open = [words for words in _FIELDS.values() if words not in given]
    if left_open:
        yield Paragraph(f"Not stated by the author: {'; '.join(left_open)}.")


def _sampled(certificate: Certificate) -> list[str]:
    """Return the sampling probabilities, with the releases that use them or their number."""
    at: dict[float, list[str]] = {}
    for one in certificate.sampling:
        at.setdefault(one.rate, []).append(one.label)
    words = "each unit independently with probability"
    lines = [
        f"{', '.join(labels) if len(labels) <= _NAMED else f'{len(labels)} releases'}: {words} {rate:g}"
        for rate, labels in at.items()
    ]
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def _limits(certificate: Certificate) -> Iterator[Block]:
    yield Heading("Not checked")
    yield Paragraph("Conditions that must also hold, and that no computation here has checked:")
    yield Items(list(sentences(certificate.not_checked)))


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
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else f"{value}"


def _drawn(pictures: Mapping[str, Block], *names: str) -> Iterator[Block]:
    yield from (pictures[name] for name in names if name in pictures)


def _filled(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> Grid:
    """A table without the columns that are empty in every row."""
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return Grid([columns[place] for place in kept], [[row[place] for place in kept] for row in rows], numbers)


def _lower(figure: float | None) -> str:
    return "" if figure is None else lower(figure)


def spaced(verdict: str) -> str:
    """A verdict with spaces between its words."""
    return str(verdict).replace("_", " ")
