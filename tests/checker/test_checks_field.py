"""What a certificate says that the checker confirms: written by `certify`, and found where it is a fake."""

import json
from pathlib import Path
from typing import Any

import pytest

import dpaudit
from dpaudit import L2, ZCDP, ApproxDP, Certificate, Claim, Curator, Gaussian, Ledger, PoissonSampled, checker
from dpaudit.errors import CertificateMismatch
from dpaudit.pipeline.certify import FigureOptions, RunOptions, certified
from dpaudit.pipeline.recheck import require_figures

CLAIM = Claim(ZCDP(rho=0.5), unit="row", neighbouring="add-or-remove-one")


def noisy(data: Any, curator: Curator) -> None:
    curator.release(data, Gaussian(sigma=1.0, sensitivity=L2(1.0)), label="sum")


def made(tmp_path: Path) -> tuple[dict[str, Any], bytes]:
    path = tmp_path / "ledger.jsonl"
    certificate = certified(noisy, 1.0, CLAIM, running=RunOptions(path=path)).certificate
    return certificate.to_json(), path.read_bytes()


def test_certify_asks_the_checker_where_that_is_quick(tmp_path: Path) -> None:
    certificate, ledger = made(tmp_path)
    assert certificate["checks"]["confirmed"] == "zcdp rho 0.5"
    found = checker.answers(json.dumps(certificate).encode(), ledger)
    assert {answer for answer, _, _ in found} == {checker.HOLDS}


def test_certify_asks_it_about_sampled_noise_only_if_told_to() -> None:
    def sampled(data: Any, curator: Curator) -> None:
        noise = Gaussian(sigma=1.0, sensitivity=L2(1.0))
        drawn = PoissonSampled(mechanism=noise, rate=0.1)
        curator.release_sum([[1.0]], bound=1.0, mechanism=drawn, label="sum")

    claim = Claim(ApproxDP(epsilon=3.0, delta=1e-5), unit="row", neighbouring="add-or-remove-one")
    for check in (False, True):
        found = certified(sampled, 1.0, claim, figures=FigureOptions(curves=False, check=check))
        assert (found.certificate.checks is not None) is check


@pytest.mark.parametrize(
    ("field", "fake"), [("confirmed", "zcdp rho 0.25"), ("lines", 12), ("version", "2"), ("confirmed", "all")]
)
def test_a_fake_is_found(tmp_path: Path, field: str, fake: Any) -> None:
    certificate, ledger = made(tmp_path)
    certificate["checks"][field] = fake
    found = checker.answers(json.dumps(certificate).encode(), ledger)
    assert found[0][:2] == (checker.FAILS, "checks")
    with pytest.raises(CertificateMismatch, match="checker"):
        require_figures(
            Certificate.from_record(certificate, where="fake"), Ledger.read(tmp_path / "ledger.jsonl")
        )


def test_a_certificate_without_the_field_is_read(tmp_path: Path) -> None:
    certificate, ledger = made(tmp_path)
    del certificate["checks"]
    assert Certificate.from_record(certificate, where="old").checks is None
    assert checker.answers(json.dumps(certificate).encode(), ledger)[0][0] == checker.HOLDS


def test_another_version_of_the_checker_is_named(tmp_path: Path) -> None:
    certificate, ledger = made(tmp_path)
    certificate["checks"]["sha256"] = "0" * 64
    assert checker.answers(json.dumps(certificate).encode(), ledger)[0][:2] == (checker.UNKNOWN, "checks")


def test_a_figure_that_the_checker_contradicts_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "rho", lambda pair: 2 * pair[1])

    def planted(data: Any, curator: Curator) -> None:
        noisy(data, curator)

    found = certified(planted, 1.0, CLAIM)
    assert found.certificate.checks is None
    assert found.unconfirmed[0][0] == checker.FAILS
    assert dpaudit.certify(planted, 1.0, claim=CLAIM).checks is None
