"""The privacy part of a model card, as a block of Markdown to paste."""

from collections.abc import Iterator, Sequence
from typing import Final

from dpaudit.accountants.accounting import Accounted
from dpaudit.app.report.evaluation import leading, numerics, unjudged
from dpaudit.app.report.running_total import totals
from dpaudit.app.text.output import lower, upper
from dpaudit.app.text.tables import mechanism_words, sensitivity_words
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import Experiment, leading_figure
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import DELTAS, ApproxDP
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import HiddenSample, StreamMechanism
from dpaudit.page.blocks import Block, Grid, Heading, Paragraph, markdown

#: Rows of the running total.
_ROWS: Final = 8


def model_card(certificate: Certificate, accounted: Accounted, computed: Sequence[Bound]) -> str:
    """Noise, sampling, steps, epsilon at several delta, the audit's bound, and epsilon over the steps."""
    return "#" + markdown(_blocks(certificate, accounted, computed), pictures=False)


def _blocks(certificate: Certificate, accounted: Accounted, computed: Sequence[Bound]) -> Iterator[Block]:
    deltas = sorted({*DELTAS, *_delta_of(certificate)}, reverse=True)
    yield Heading("Privacy")
    yield Paragraph(leading(certificate, computed))
    if certificate.against_publishing:
        yield Paragraph(f"Not to be published: {'; '.join(certificate.against_publishing)}.")
    if certificate.experiment is Experiment.INCONCLUSIVE:
        yield Paragraph(f"No experiment has judged this claim: {unjudged(certificate)}.")
    yield Grid(("steps", "noise", "sensitivity", "sampling rate"), list(_steps(certificate)))
    yield Paragraph(f"{numerics(certificate).capitalize()}.")
    yield Grid(
        ("delta", "epsilon, at most"), [(f"{delta:g}", _epsilon(accounted, delta)) for delta in deltas]
    )
    if certificate.budget is None and len(rows := _course(certificate, deltas[0])) > 1:
        yield Grid(("after releases", f"epsilon at delta {deltas[0]:g}, at most"), rows)
    yield Paragraph(_audited(certificate))
    yield Paragraph(f"{_judged(certificate)} by dpaudit; ledger `{certificate.ledger_hash}`.")


def _judged(certificate: Certificate) -> str:
    """Return exactly the checks that dpaudit made."""
    proved = "Proved" if certificate.all_proved else "Not proved"
    match certificate.experiment:
        case Experiment.REFUTED:
            return f"{proved}, and refuted by an experiment,"
        case Experiment.INCONCLUSIVE:
            return f"{proved}, and judged by no experiment,"
        case Experiment.NOT_REFUTED:
            return f"{proved} and audited" if certificate.all_proved else f"{proved}, and not refuted,"


def _course(certificate: Certificate, delta: float) -> list[tuple[str, str]]:
    """The total after some of the releases, evenly spread; empty where it has no bound."""
    found = totals(certificate, ApproxDP(epsilon=0.0, delta=delta), _ROWS)
    try:
        return [(f"{number:,}", upper(total)) for number, total in found]
    except (CannotBound, IndexError):
        return []


def _delta_of(certificate: Certificate) -> tuple[float, ...]:
    claimed = certificate.claim.guarantee
    return (claimed.delta,) if isinstance(claimed, ApproxDP) and claimed.delta > 0.0 else ()


def _epsilon(accounted: Accounted, delta: float) -> str:
    try:
        found = accounted.bounds(ApproxDP(epsilon=0.0, delta=delta))
    except CannotBound:
        found = []
    return upper(leading_figure(found[0].guarantee)) if found else "not known"


def _steps(certificate: Certificate) -> Iterator[tuple[str, str, str, str]]:
    """Releases of one mechanism together."""
    numbers: dict[tuple[str, str, str], int] = {}
    for release in certificate.releases:
        mechanism = release.mechanism
        inner = getattr(mechanism, "mechanism", mechanism)
        rate = f"{mechanism.most_likely:.6g}" if isinstance(mechanism, HiddenSample) else "all records"
        key = mechanism_words(inner), sensitivity_words(inner), rate
        steps = inner.steps if isinstance(inner, StreamMechanism) else 1
        numbers[key] = numbers.get(key, 0) + release.count * steps
    for key, number in numbers.items():
        yield f"{number:,}", *key


def _audited(certificate: Certificate) -> str:
    known = [a for a in certificate.audits if a.epsilon_lower is not None and a.delta is not None]
    if not known:
        return "No audit bounded epsilon from below."
    best = max(known, key=lambda audit: audit.epsilon_lower or 0.0)
    verdict = {
        Experiment.REFUTED: "The audit refuted the claim or the ledger",
        Experiment.NOT_REFUTED: "The audit found no evidence against the claim, which does not prove it",
        Experiment.INCONCLUSIVE: "The audit was inconclusive",
    }[certificate.experiment]
    bound = f"epsilon is at least {lower(best.epsilon_lower or 0.0)} at delta {best.delta:g}"
    return f"{verdict}: by {best.method}, {bound}, with confidence {best.confidence:g}."
