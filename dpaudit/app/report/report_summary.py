"""What a certificate comes to, on half a page, for somebody who answers for data and proves nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpaudit.app.report.blocks import Badges, Block, Heading, Paragraph, Tone
from dpaudit.app.text.tables import bound_figure
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.claims.relations import Neighbouring

_TONES: dict[str, Tone] = {
    "PROVED": "good",
    "NOT_PROVED": "bad",
    "NOT_REFUTED": "good",
    "REFUTED": "bad",
    "INCONCLUSIVE": "unclear",
}

RELATIONS = {
    Neighbouring.ADD_OR_REMOVE_ONE: "added or left out",
    Neighbouring.REPLACE_ONE: "replaced by any other",
    Neighbouring.ZERO_OUT: "blanked out",
}


def summary(certificate: Certificate) -> Iterator[Block]:
    """Title, verdicts, and what they come to in a few sentences."""
    yield Heading(f"Privacy of {certificate.algorithm}")
    yield Paragraph(f"Claim: {certificate.claim}", lead=True)
    proof = Proof.PROVED if certificate.all_proved else Proof.NOT_PROVED
    run = "yes" if certificate.publishable else "no: its noise can be subtracted"
    yield Badges(
        [
            ("Proof, from the ledger of every release", str(proof).replace("_", " "), _TONES[proof]),
            (
                "Experiment, which can refute and never prove",
                str(certificate.experiment).replace("_", " "),
                _TONES[certificate.experiment],
            ),
            ("May this run's output be published?", run, "good" if certificate.publishable else "bad"),
        ]
    )
    yield Paragraph(_plainly(certificate))


def _plainly(certificate: Certificate) -> str:
    """What it comes to, for a data-protection officer."""
    claim = certificate.claim.guarantee
    if certificate.experiment is Experiment.REFUTED:
        return (
            "Do not rely on this claim. An experiment contradicts it, or what the ledger of this run says: "
            "none of the figures below need describe the run's real protection, the proof's included. What "
            "was found stands under Experiments."
        )
    if not certificate.all_proved:
        return f"Do not rely on this claim. {_why_not(certificate)}" + _odds(certificate)
    words = f"The claim of {claim} holds for this run, provided that what stands under Not checked is so."
    if not certificate.publishable:
        words += (
            " But the noise came from a seed that somebody chose: whoever knows it can take the noise "
            "away, and this output must not leave the house."
        )
    return words + _odds(certificate)


def _why_not(certificate: Certificate) -> str:
    failing = [premise for premise in certificate.claim.premises if not premise.holds]
    if failing:
        return f"Its theorem needs what is not so here: {failing[0]}."
    claim = certificate.claim.guarantee
    if certificate.proof is Proof.PROVED:
        number = sum(release.verdict is Proof.NOT_PROVED for release in certificate.releases)
        return f"The total holds, but what is claimed for {number} of the releases does not."
    if not certificate.bounds:
        return f"No accountant has a finite bound on the scale of {claim}."
    return f"Claimed is {claim}; what can be proved is {bound_figure(certificate.bounds[0])} and no less."


def _odds(certificate: Certificate) -> str:
    """The success of the best guess between two neighbouring data sets: (1 + delta(0)) / 2 at most.

    A test's errors add up to at least 1 - delta(0), whatever it looks at (Kairouz, Oh and Viswanath 2015).
    """
    if not all(premise.holds for premise in certificate.claim.premises):
        return ""  # the curves are those of a run for which it holds
    at_zero = [delta for curve in certificate.profile for epsilon, delta in curve.points if epsilon == 0.0]
    if not at_zero:
        return ""
    success = 50.0 * (1.0 + min(at_zero))
    unit = certificate.unit
    one = f"one {unit}" if certificate.group_size == 1 else f"{certificate.group_size} times one {unit}"
    shown = f"{min(100.0, math.ceil(10.0 * success) / 10.0):g}"
    words = (
        f" In plain words: somebody who knows all the data but {one}, sees everything that was released "
        f"and has to tell whether it was {RELATIONS[certificate.neighbouring]}, with both equally likely "
        f"beforehand, is right in at most {shown} of 100 cases; blind guessing is right in 50."
    )
    return words + (" By this figure alone that is next to no protection." if success >= 99.0 else "")
