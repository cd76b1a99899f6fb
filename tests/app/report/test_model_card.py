"""The model card's block: its figures are the accountant's, rounded up, and the audit's, rounded down."""

from typing import Any

import pytest

import dpaudit
from dpaudit import ApproxDP, Claim, PoissonSampled, judge
from dpaudit.accountants.accounting import accounted
from dpaudit.accountants.filters.filters import GDPFilter
from dpaudit.app.report.model_card import model_card
from dpaudit.certificate.verdicts import Audit, Finding
from tests import make

STEP = PoissonSampled(rate=0.1, mechanism=make.gaussian(2.0))
CLAIM = Claim(ApproxDP(epsilon=5.0, delta=1e-5), unit="record", neighbouring="add-or-remove-one")
FOUND = Audit(
    method="replay",
    claim=CLAIM,
    pairs=1,
    trials=100,
    seed=0,
    about="transcript",
    epsilon_lower=0.123456,
    epsilon_claimed=5.0,
    delta=1e-5,
    confidence=0.95,
)


def card(steps: int = 4, *audits: Audit, **changes: Any) -> str:
    step = changes.pop("step", STEP)
    about: dict[str, Any] = {"algorithm": "a", "unit": "record", "neighbouring": CLAIM.neighbouring}
    gradients = [make.release(step, label="gradient")] * steps
    ledger = make.ledger(*gradients, **{**about, "claim": CLAIM, **changes})
    found = accounted(ledger)
    certificate = judge(ledger, found.accounting, audits, command="dpaudit certify")
    return model_card(certificate, found, found.bounds(ApproxDP(epsilon=0.0, delta=1e-5)))


def rows(text: str, head: str) -> list[list[str]]:
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |")) + 2
    table = [line.strip("| ").split(" | ") for line in lines[first:]]
    return table[: next((i for i, row in enumerate(table) if len(row) < 2), len(table))]


def test_a_card_has_the_noise_and_every_epsilon() -> None:
    text = card(4, FOUND)
    assert text.startswith("## Privacy\n\nProved: (")
    assert rows(text, "steps") == [["4", "gaussian sigma=2", "1 l2 declared", "0.1"]]
    for delta, epsilon in rows(text, "delta"):
        exactly = dpaudit.epsilon(STEP, float(delta), count=4).guarantee.epsilon
        assert exactly <= float(epsilon) <= exactly * (1 + 1e-5)
    course = rows(text, "after releases")
    assert [int(number) for number, _ in course] == [1, 2, 3, 4]
    for number, epsilon in course:
        exactly = dpaudit.epsilon(STEP, 1e-5, count=int(number)).guarantee.epsilon
        assert exactly <= float(epsilon) <= exactly * (1 + 1e-5)
    assert "epsilon is at least 0.123456 at delta 1e-05, with confidence 0.95" in text


def test_a_card_names_first_that_no_experiment_judged_the_claim() -> None:
    over = FOUND.model_copy(update={"epsilon_lower": None, "inconclusive": ("the time was over",)})
    for audits, reason in (((), "no audit was run"), ((over,), "replay: the time was over")):
        text = card(4, *audits)
        assert text.split("\n\n")[2] == f"No experiment has judged this claim: {reason}."
        assert "Proved, and judged by no experiment, by dpaudit; ledger" in text
        assert "audited" not in text
    judged = card(4, FOUND)
    assert "No experiment" not in judged
    assert "Proved and audited by dpaudit; ledger" in judged
    refuted = card(4, FOUND.model_copy(update={"findings": (Finding(kind="leak", detail="it differs"),)}))
    assert "Proved, and refuted by an experiment, by dpaudit; ledger" in refuted


def test_a_card_promises_nothing_that_does_not_hold() -> None:
    whole = make.gaussian(2.0)
    assert "No audit bounded epsilon from below." in card(step=whole)
    refuted = FOUND.model_copy(update={"findings": (Finding(kind="leak", detail="it differs"),)})
    text = card(4, refuted, step=whole)
    assert "Do not rely on any figure here" in text
    assert "The audit refuted the claim or the ledger" in text
    assert "Not to be published: " in text
    less = Claim(ApproxDP(epsilon=0.1, delta=1e-5), unit="record", neighbouring=CLAIM.neighbouring)
    assert "Not to be published: its claim is not proved." in card(claim=less, step=whole)


def test_a_budget_is_what_a_run_of_any_length_costs() -> None:
    """Its releases say nothing about another run's: there is no course of them."""
    budget = GDPFilter(1.0, CLAIM.neighbouring).budget
    whole = make.gaussian(9.0)
    text = card(9, schedule="filtered", budget=budget, step=whole)
    assert "after releases" not in text
    assert float(dict(rows(text, "delta"))["1e-05"]) == pytest.approx(4.377, abs=1e-3)
