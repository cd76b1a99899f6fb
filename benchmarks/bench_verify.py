"""How long `dpaudit verify` takes on ledgers of many different releases, file to verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpaudit import L1, L2, ZCDP, Claim, Gaussian, Laplace, Ledger, Neighbouring, Release
from dpaudit.accountants.accounting import account
from dpaudit.certificate.verdicts import Accounting, Proof
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.ledger import Header

MOST_ROWS = 10_000


def _written(path: Path, kind: str, number: int) -> Path:
    header = Header(
        algorithm="benchmark", unit="row", neighbouring=Neighbouring.REPLACE_ONE, claim=Claim(ZCDP(rho=1e6))
    )
    ledger = Ledger(header)
    for i in range(number):
        scale = 2.0 + (i + 0.5) / number
        noise = (
            Gaussian(sigma=scale, sensitivity=L2(1.0))
            if kind == "gaussian"
            else Laplace(scale=scale, sensitivity=L1(1.0))
        )
        ledger.append(Release(label=f"step {i}", mechanism=noise, claimed=ZCDP(rho=0.125)))
    ledger.finish()
    return ledger.write(path)


def _verify(path: Path) -> Accounting:
    with LedgerStream(path) as stream:
        return account(stream, most_rows=MOST_ROWS)


@pytest.mark.parametrize("number", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_verify(benchmark: BenchmarkFixture, tmp_path: Path, kind: str, number: int) -> None:
    path = _written(tmp_path / "ledger.jsonl", kind, number)
    found = benchmark.pedantic(_verify, args=(path,), rounds=3)
    assert found.verdict is Proof.PROVED
    assert found.overview.total == number


def test_read_into_memory(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    path = _written(tmp_path / "ledger.jsonl", "gaussian", 10_000)
    assert len(benchmark.pedantic(Ledger.read, args=(path,), rounds=3).releases) == 10_000
