"""A second opinion in a certificate: read back whole, and a disagreement cannot be taken out of sight."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ZCDP, Certificate, Claim, Curator, judge, run
from dpaudit.accountants.accounting import account
from dpaudit.certificate.second_opinion import SecondOpinion
from dpaudit.errors import CertificateFormat
from tests import make

AGREEING = SecondOpinion(
    method="m", version="1", delta=1e-6, proved=1.0, proved_at_least=1.0, epsilon=1.00001, at_least=0.999
)
TOO_SMALL = AGREEING.model_copy(update={"proved": 0.9, "proved_at_least": 0.9})
TOO_LARGE = AGREEING.model_copy(update={"proved": 1.1, "proved_at_least": 1.1})
SILENT = SecondOpinion(method="m", version="1", none_because="nobody asked")


def certificate(opinion: SecondOpinion | None) -> Certificate:
    def algorithm(data: float, curator: Curator) -> None:
        curator.release(data, make.gaussian(4.0, 2.0), label="x")

    claim = Claim(ZCDP(rho=0.5), unit="row", neighbouring="replace-one")
    ledger = run(algorithm, 1.0, claim=claim).ledger
    return judge(ledger, account(ledger), [], command="dpaudit certify", second_opinion=opinion)


@pytest.mark.parametrize("opinion", [None, AGREEING, TOO_SMALL, TOO_LARGE, SILENT])
def test_a_certificate_with_an_opinion_is_read_back(opinion: SecondOpinion | None, tmp_path: Path) -> None:
    made = certificate(opinion)
    assert made.second_opinion == opinion
    assert Certificate.read(made.write(tmp_path / "c.json")) == made


@pytest.mark.parametrize("opinion", [TOO_SMALL, TOO_LARGE])
def test_a_disagreement_is_among_what_was_not_checked_and_leaves_the_proof_alone(
    opinion: SecondOpinion,
) -> None:
    made = certificate(opinion)
    assert opinion.agrees is False
    assert set(opinion.not_checked()) <= set(made.not_checked)
    assert made.proof == certificate(None).proof == "PROVED"
    assert made.to_json()["second_opinion"]["agrees"] is False


@pytest.mark.parametrize("opinion", [AGREEING, SILENT])
def test_an_agreeing_or_silent_opinion_adds_nothing_to_what_was_not_checked(opinion: SecondOpinion) -> None:
    assert certificate(opinion).not_checked == certificate(None).not_checked


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "typed in": lambda c: c["second_opinion"].update(agrees=True),
    "the warning left out": lambda c: c.update(
        not_checked=[one for one in c["not_checked"] if one["code"] != "accountants-disagree"]
    ),
    "a figure of theirs changed": lambda c: c["second_opinion"].update(at_least=0.9),
    "half of it gone": lambda c: c["second_opinion"].pop("epsilon"),
    "a reason beside figures": lambda c: c["second_opinion"].update(none_because="x"),
    "not a number": lambda c: c["second_opinion"].update(epsilon="1.0"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_opinion_is_refused(edit: str, tmp_path: Path) -> None:
    record = certificate(TOO_SMALL).to_json()
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    Certificate.read(path)  # the innocent twin
    EDITS[edit](record)
    path.write_text(json.dumps(record))
    with pytest.raises(CertificateFormat):
        Certificate.read(path)
