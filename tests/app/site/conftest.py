"""Folders with certificates, ledgers and books."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpaudit import L2, ZCDP, ApproxDP, Claim, Gaussian, Header, Ledger, Release, judge
from dpaudit.accountants.accounting import account
from dpaudit.accountants.book import Book
from dpaudit.claims.guarantees import AnyGuarantee


@pytest.fixture
def certified() -> Callable[..., Path]:
    """Write a run's ledger and certificate into a folder, as `dpaudit certify -o` calls them."""

    def write(
        folder: Path,
        rho: float = 0.125,
        claim: AnyGuarantee | None = None,
        *,
        algorithm: str = "weekly counts",
        ledger: bool = True,
    ) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        about = {"algorithm": algorithm, "unit": "person", "neighbouring": "replace-one"}
        made = Ledger(Header(claim=Claim(claim or ZCDP(rho=0.5)), **about))
        noise = Gaussian(sigma=(0.5 / rho) ** 0.5, sensitivity=L2(1.0, "proved"))
        made.append(Release(label="<b>counts</b>", mechanism=noise))
        made.finish()
        if ledger:
            made.write(folder / "ledger.jsonl")
        return judge(made, account(made), [], command="dpaudit certify").write(folder / "certificate.json")

    return write


@pytest.fixture
def runs(tmp_path: Path, certified: Callable[..., Path]) -> Path:
    """Two sound certificates, four files with a fault each, a ledger, a book, and what is none of these."""
    folder = tmp_path / "runs"
    certified(folder / "wards")
    nasty = {"algorithm": "<b>a</b>\x1b", "ledger": False}
    certified(folder / "alone", 0.25, ApproxDP(epsilon=2.0, delta=1e-5), **nasty)
    edited = certified(folder / "edited")
    edited.write_text(edited.read_text().replace('"rho": 0.125', '"rho": 0.0625'))
    certified(folder / "cut")
    (folder / "cut" / "certificate.json").write_text("{")
    certified(folder / "other")
    lines = (folder / "other" / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(lines[: len(lines) // 2])
    (folder / "other.jsonl").write_bytes(lines)
    (folder / "other" / "certificate.json").unlink()
    with Book(folder / "budgets.sqlite") as book:
        book.open_account("<i>patients</i>", ZCDP(rho=1.5), unit="person", neighbouring="replace-one")
        book.reserve("<i>patients</i>", ZCDP(rho=0.25), note="a secret note")
    (folder / "dpaudit-book.sqlite").write_bytes(b"damaged")
    (folder / "rows.jsonl").write_text('{"patient": 4711}\n')
    (folder / "settings.json").write_text("{}")
    (folder / "trials.sqlite").write_bytes(b"")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "loop").symlink_to(folder)
    return folder
