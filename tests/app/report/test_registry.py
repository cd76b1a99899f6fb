"""Drafts for the OpenDP registry: its fields and no others, nothing invented; answers to NIST's questions."""

from typing import Any

import pytest
import yaml

from dpaudit import GDP, RDP, ZCDP, ApproxDP, Certificate, Claim, judge
from dpaudit.accountants.accounting import accounted
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.app.report.evaluation import evaluation
from dpaudit.app.report.registry import registry_entry
from dpaudit.certificate.statement import Statement
from dpaudit.certificate.verdicts import Audit, Finding
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.errors import NotCertifiable
from dpaudit.page.blocks import Grid, Paragraph
from tests import make

#: Names and values that the registry's schema of July 2026 (3e9c812) admits.
FIELDS: dict[str, Any] = {
    "url_slug": str,
    "status": {"Converted", "Draft", "Pending", "Changes Required", "Approved"},
    "tier": {1, 2, 3},
    "deployment": {
        "basic": {
            "name": str,
            "data_curators": list,
            "intended_use": str,
            "data_product_type": str,
            "data_product_region": str,
            "description": str,
            "publication_date": str,
            "data_product_sector": str,
        },
        "dp_variant": {
            "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
            "data_domain": str,
            "unprotected_quantities": str,
        },
        "privacy_loss": {
            "privacy_unit": str,
            "privacy_unit_details": str,
            "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
            "privacy_parameters_details": str,
        },
        "deployment_model": {
            "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
            "model_name_details": str,
            "actors": str,
            "release_type": {"One release", "Many releases"},
            "release_type_details": str,
            "data_source_type": {"Static", "Dynamic"},
            "data_source_type_details": str,
            "access_type": {"Interactive", "Non-interactive"},
            "access_type_details": str,
        },
        "accounting": {"post_processing": str, "composition": str},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": str,
            "mechanisms": str,
            "justification": str,
        },
        "administrative": {"sources": str, "notes": str, "registry_authors": list},
    },
}

STATED = Statement(
    data_curator="Statistics office: 'north'",
    intended_use="A bulletin\n# of the week",
    access="Published",
    delta_rationale="Below one over n",
    hyperparameter_tuning="None",
)


def made(
    claim: AnyGuarantee, statement: Statement | None = None, **more: Any
) -> tuple[Certificate, list[Bound]]:
    audits = more.pop("audits", ())
    counts = [make.release(make.gaussian(2.0), label=label) for label in ("counts", "more counts")]
    about = {"algorithm": "weekly counts", "unit": "person", "neighbouring": "replace-one", **more}
    ledger = make.ledger(*counts, claim=Claim(claim), **about)
    found = accounted(ledger)
    profile = profile_points(ledger, found.accounting)
    certificate = judge(
        ledger, found.accounting, audits, command="x", profile=profile, statement=statement or Statement()
    )
    return certificate, found.bounds(ApproxDP(epsilon=0.0, delta=1e-6))


def require_known(found: Any, allowed: Any) -> None:
    if isinstance(allowed, dict):
        assert set(found) <= set(allowed)
        for name, value in found.items():
            require_known(value, allowed[name])
    elif isinstance(allowed, set):
        assert found in allowed
    elif allowed is float:
        assert type(found) in {float, int}
    else:
        assert type(found) is allowed
        assert found


@pytest.mark.parametrize(
    ("claim", "variant", "parameters"),
    [
        (ZCDP(rho=0.25), "Zero-concentrated DP", {"rho": 0.25}),
        (ApproxDP(epsilon=4.0, delta=1e-6), "Approximate DP", {"epsilon", "delta"}),
        (GDP(mu=0.75), "Custom", None),
        (RDP(alpha=2.0, epsilon=0.5), "Renyi DP", None),
    ],
)
def test_the_entry_has_the_registrys_fields_and_the_proved_figures(
    claim: AnyGuarantee, variant: str, parameters: Any
) -> None:
    certificate, computed = made(claim, STATED)
    text = registry_entry(certificate, computed)
    entry = yaml.safe_load(text)
    require_known(entry, FIELDS)
    deployment = entry["deployment"]
    assert deployment["dp_variant"]["variant_name"] == variant
    stated = deployment["privacy_loss"].get("privacy_parameters")
    if isinstance(parameters, dict):  # two Gaussians of rho 1/8
        assert stated == parameters
    elif parameters is None:
        assert stated is None
    else:
        assert set(stated) == parameters
        assert stated["delta"] == 1e-6  # as a number: YAML 1.1 takes 1e-06 for a word
    assert deployment["basic"] == {
        "data_curators": ["Statistics office: 'north'"],
        "intended_use": "A bulletin\\n# of the week",
    }
    assert deployment["deployment_model"]["model_name"] == "Central"


def test_what_nobody_stated_is_absent_and_named_in_a_comment() -> None:
    certificate, computed = made(ZCDP(rho=0.25))
    text = registry_entry(certificate, computed)
    entry = yaml.safe_load(text)
    require_known(entry["deployment"]["accounting"], FIELDS["deployment"]["accounting"])
    assert "not stated" not in text
    assert entry["deployment"]["basic"] is None
    for name in ("url_slug", "tier", "data_curators", "publication_date", "release_type", "registry_authors"):
        assert f"# {name}:" in text


def test_what_must_not_be_published_is_not_registered() -> None:
    finding = Finding(kind="leak", detail="x")
    audit = Audit(
        method="replay", claim=None, pairs=1, trials=1, seed=0, about="transcript", findings=(finding,)
    )
    for certificate, computed in (made(ZCDP(rho=0.1)), made(ZCDP(rho=1.0), audits=(audit,))):
        with pytest.raises(NotCertifiable, match="no registry entry"):
            registry_entry(certificate, computed)


def answers(certificate: Certificate, computed: list[Bound] | None) -> dict[str, list[tuple[str, str]]]:
    (grid,) = (block for block in evaluation(certificate, computed) if isinstance(block, Grid))
    found: dict[str, list[tuple[str, str]]] = {}
    last = ""
    for question, source, answer in grid.rows:
        last = question or last
        found.setdefault(last, []).append((source, answer))
    return found


def test_what_the_author_left_open_is_one_sentence() -> None:
    *_, last = evaluation(*made(ZCDP(rho=0.25), STATED))
    assert isinstance(last, Paragraph)
    assert last.text.startswith("The author states nothing about:")
    assert "unprotected quantities" in last.text
    assert "privacy parameters" not in last.text


def test_every_question_has_an_answer_and_says_what_it_rests_on() -> None:
    certificate, computed = made(ZCDP(rho=0.25), STATED)
    found = answers(certificate, computed)
    assert list(found) == [
        "Unit of privacy",
        "Privacy parameters",
        "Strength",
        "Composition",
        "Trust model",
        "Algorithms",
        "Side channels",
        "Access and security",
        "Tests",
    ]
    sources = {source for given in found.values() for source, _ in given}
    assert sources == {"recorded", "stated", "claimed", "proved", "computed", "not known"}
    assert ("proved", "rho 0.25 by zcdp") in found["Privacy parameters"]
    assert ("stated", "Below one over n") in found["Privacy parameters"]
    # mu = sqrt(2) / 2 of two Gaussians: Phi(mu / 2) = 0.6381...
    assert "right in 63.9 of 100 cases" in found["Strength"][0][1]
    assert found["Algorithms"][0] == ("recorded", "gaussian (2 releases)")
    assert found["Tests"] == [("computed", "no audit was run")]
    assert not any(source == "proved" for source, _ in answers(certificate, None)["Privacy parameters"])
