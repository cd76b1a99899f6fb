"""The questions that NIST SP 800-226 asks about a deployment, answered from a certificate.

Each answer says what it rests on: what was computed, what the ledger records, what the author states, or that
nothing is known about it here.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from dpaudit.app.text.output import counted, upper
from dpaudit.app.text.tables import bound_figure, figure
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.statement import NOT_STATED
from dpaudit.certificate.verdicts import Experiment
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.page.blocks import Block, Grid, Heading, Paragraph

#: What happens to one unit between two neighbouring data sets.
RELATIONS = {
    Neighbouring.ADD_OR_REMOVE_ONE: "added or left out",
    Neighbouring.REPLACE_ONE: "replaced by any other",
    Neighbouring.ZERO_OUT: "blanked out",
}

TRUST = {
    TrustModel.CENTRAL: "central: whoever runs the algorithm holds the records and is trusted with them",
    TrustModel.LOCAL: "local: each user adds noise before anything leaves, and trusts nobody else",
    TrustModel.JOINT: "joint: whoever runs the algorithm is trusted; each user's own output may depend on "
    "the user's own records, and the guarantee is against all other users together",
}

#: e^epsilon above this is not worth a figure.
_MOST_FACTOR = 1e6


def leading(certificate: Certificate, computed: Sequence[Bound] | None) -> str:
    """The proved (epsilon, delta), or its substitute: the page's first sentence."""
    if certificate.experiment is Experiment.REFUTED:
        return "Do not rely on any figure here: an experiment contradicts the claim or the run's ledger."
    if computed is None:
        stated = bound_figure(certificate.bounds[0]) if certificate.bounds else "no bound"
        return f"Stated, and not computed again: {stated}."
    best = approximate(certificate, computed)
    if best is None or not all(premise.holds for premise in certificate.claim.premises):
        return "No (epsilon, delta) is proved for this run."
    unit = certificate.unit if certificate.group_size == 1 else f"group of {certificate.group_size}"
    return f"Proved: {bound_figure(best)}-DP per {unit}, for all releases together, by {best.method}."


def approximate(certificate: Certificate, computed: Sequence[Bound]) -> Bound | None:
    """The tightest bound on (epsilon, delta): at the claim's delta, if it has one."""
    own = certificate.bounds if isinstance(certificate.claim.guarantee, ApproxDP) else ()
    return next(iter((*own, *computed)), None)


def evaluation(certificate: Certificate, computed: Sequence[Bound] | None) -> Iterator[Block]:
    """The blocks of the section about NIST SP 800-226."""
    yield Heading("NIST SP 800-226")
    yield Paragraph(
        "The questions of the guidelines for evaluating differential privacy, and the known answers."
    )
    asked = list(_answers(certificate, computed))
    rows = [
        ("" if place else question, *answer)
        for question, answers in asked
        for place, answer in enumerate(answers)
    ]
    yield Grid(("question", "from", "answer"), rows)
    silent = [question for question, answers in asked if not any(source == "stated" for source, _ in answers)]
    left_open = [question for question in silent if question not in _NOT_FOR_THE_AUTHOR]
    if left_open:
        yield Paragraph(f"The author states nothing about: {', '.join(left_open).lower()}.")


#: What an answer rests on, and the answer.
_Answer = tuple[str, str]


def _answers(
    certificate: Certificate, computed: Sequence[Bound] | None
) -> Iterator[tuple[str, Sequence[_Answer]]]:
    statement, relation = certificate.statement, certificate.neighbouring
    group = "" if certificate.group_size == 1 else f" in groups of {certificate.group_size}"
    unit = f"{certificate.unit}{group}; in neighbouring data one is {RELATIONS[relation]} ({relation})"
    yield "Unit of privacy", [("recorded", unit), *_stated(statement.unit, statement.contribution_bound)]
    yield "Privacy parameters", [*_parameters(certificate, computed), *_stated(statement.delta_rationale)]
    yield "Strength", [("computed", _strength(certificate, computed))]
    scope = ("recorded", f"this run alone: {counted(len(certificate.releases), 'release', 'releases')}")
    yield "Composition", [scope, *_stated(statement.composition_scope)]
    yield "Trust model", [("recorded", TRUST[certificate.trust_model]), *_stated(statement.trust)]
    yield "Algorithms", [("recorded", mechanisms(certificate)), *_stated(statement.hyperparameter_tuning)]
    yield "Side channels", [("recorded", numerics(certificate)), ("not known", _UNSEEN)]
    yield "Unprotected quantities", _stated(statement.unprotected_quantities)
    yield "Access and security", [*_stated(statement.access), ("not known", _SECURITY)]
    yield "Tests", [("computed", tests(certificate))]


_UNSEEN = "timing, memory, and everything else that an observer may see besides the output"
_SECURITY = "how the records are stored, who can read them, and how they were collected"


#: What no statement of an author's is asked about.
_NOT_FOR_THE_AUTHOR = ("Strength", "Side channels", "Tests")


def _stated(*texts: str) -> list[_Answer]:
    return [("stated", text) for text in texts if text != NOT_STATED]


def _parameters(certificate: Certificate, computed: Sequence[Bound] | None) -> list[_Answer]:
    claim = certificate.claim.guarantee
    found = [("claimed", figure(claim))]
    source = "stated" if computed is None else "proved"
    found += [(source, f"{bound_figure(one)} by {one.method}") for one in certificate.bounds[:1]]
    best = None if computed is None else approximate(certificate, computed)
    if best is not None and best not in certificate.bounds:
        found.append(("proved", f"{bound_figure(best)}-DP by {best.method}"))
    return found


def best_guess(certificate: Certificate) -> float | None:
    """In how many of 100 cases the best guess between two neighbouring data sets is right, at most.

    From (epsilon, delta)-DP at epsilon 0 a test's errors add up to at least 1 - delta(0), whatever it looks
    at (Kairouz, Oh and Viswanath 2015), so that it is right with probability (1 + delta(0)) / 2 at most.
    """
    at_zero = [delta for curve in certificate.profile for epsilon, delta in curve.points if epsilon == 0.0]
    return min(100.0, math.ceil(500.0 * (1.0 + min(at_zero))) / 10.0) if at_zero else None


def _strength(certificate: Certificate, computed: Sequence[Bound] | None) -> str:
    if not all(premise.holds for premise in certificate.claim.premises):
        return "none: a condition of the claim's theorem fails"
    words, guess = [], best_guess(certificate)
    if guess is not None:
        words.append(f"the best guess between two neighbouring data sets is right in {guess:g} of 100 cases")
    best = None if computed is None else approximate(certificate, computed)
    if best is not None and isinstance(best.guarantee, ApproxDP):
        factor = math.exp(min(best.guarantee.epsilon, 100.0))
        shown = f"{upper(factor)}" if factor < _MOST_FACTOR else "more than a million"
        plus = f" plus {best.guarantee.delta:g}" if best.guarantee.delta else ""
        words.append(f"no event is more than {shown} times as likely as on a neighbouring data set{plus}")
    words.append(
        "no threshold suits every use: the holder of these data decides how much protection is enough"
    )
    return "; ".join(words)


def mechanisms(certificate: Certificate) -> str:
    """The kinds of mechanisms, each with the number of its releases."""
    kinds = sorted(release.mechanism.kind for release in certificate.releases)
    counted_ = [f"{kind} ({counted(len(list(of)), 'release', 'releases')})" for kind, of in groupby(kinds)]
    filtered = "" if certificate.budget is None else f"; held by a filter to {certificate.budget}"
    return ", ".join(counted_) + filtered


def numerics(certificate: Certificate) -> str:
    """A sentence about how the noise was drawn."""
    found = certificate.numerics
    how = (
        "in floating point, whose grid can reveal more"
        if found.floating_point
        else "exactly, on public grids"
    )
    seeded = "; from a known seed, so the noise can be subtracted" if found.seeded else ""
    return f"noise drawn {how}, by {found.sampler}{seeded}"


def tests(certificate: Certificate) -> str:
    """Return each audit's subject, method and verdict."""
    if not certificate.audits:
        return "no audit was run"
    return "; ".join(
        f"{audit.verdict.replace('_', ' ')} by {audit.method} on {counted(audit.pairs, 'pair', 'pairs')}, "
        f"{audit.trials} trials"
        for audit in certificate.audits
    )


def unjudged(certificate: Certificate) -> str:
    """Return why an experiment did not judge the claim; empty if each one did."""
    if not certificate.audits:
        return "no audit was run"
    unclear = [audit for audit in certificate.audits if audit.verdict is Experiment.INCONCLUSIVE]
    return "; ".join(f"{audit.method}: {reason}" for audit in unclear for reason in audit.inconclusive)
