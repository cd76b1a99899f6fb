"""Killed at a random moment: no file is half written, no verdict wrong, and a second run gives the answer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ZCDP, Certificate
from dpaudit.accountants.book import Book
from tests.torture.conftest import sizes
from tests.torture.tools import (
    KILLED,
    Killer,
    Program,
    faults_of_output,
    keep_figure,
    printed,
    run,
    seconds_of,
    together,
)

pytestmark = pytest.mark.usefixtures("own_processes", "undrawn")
Work = Callable[[str], Path]

CLAIM = ("--pair", "own.py:pair", "--rho", "3", "--unit", "row")


@sizes(1, 150)
def test_certify(work: Work, number: int) -> None:
    folder = work("certify")
    command = ("certify", "own.py:sums", *CLAIM, "--seed", "5", "-o", "out")
    killer = Killer(seconds_of(lambda: run(folder, *command)), seed=1)
    whole = Certificate.read(folder / "out" / "certificate.json")
    states, faults = [], []
    for index in range(number):
        if index % 2:  # both over an earlier run's files and in an empty folder
            shutil.rmtree(folder / "out", ignore_errors=True)
        status = killer.kill(Program.start(folder, *command))
        states.append("killed" if status == KILLED else "ended")
        faults += faults_of_output(folder / "out") if (folder / "out").exists() else []
        faults += [] if status in {0, KILLED} else [f"exit code {status}"]
    assert run(folder, *command) == 0, printed(folder, "err")
    again = Certificate.read(folder / "out" / "certificate.json")
    keep_figure("kills: certify -o", cases=number, states=together(states), faults=len(faults))
    assert faults == []
    assert again.ledger_hash == whole.ledger_hash
    assert again.to_json() == whole.to_json()


@sizes(1, 120, every="night")
def test_audit_resumed(work: Work, number: int) -> None:
    folder = work("audit")
    trials = "240" if number > 1 else "80"
    options = ("--method", "sequential", "--trials", trials, "--chunk", "20", "--output-format", "json")
    command = ("audit", "own.py:count", *CLAIM, *options)
    assert run(folder, *command) == 0, printed(folder, "err")
    expected = json.loads(printed(folder))
    killer = Killer(seconds_of(lambda: run(folder, *command, "--resume", "timed.sqlite")), seed=2)
    states, faults = [], []
    for index in range(number):
        kept = folder / f"{index % 10}.sqlite"
        resumed = ("--resume", kept.name)
        status = killer.kill(Program.start(folder, *command, *resumed), whole=not kept.exists())
        states.append("killed" if status == KILLED else "ended")
        faults += [] if status in {0, KILLED} else [f"exit code {status}"]
        if status == 0 or index % 3 == 2 or index >= number - 10:
            status = run(folder, *command, *resumed)
            if status != 0 or json.loads(printed(folder)) != expected:
                faults.append(f"resumed: {status} {printed(folder, 'err')}")
            kept.unlink(missing_ok=True)
    keep_figure("kills: audit --resume", cases=number, states=together(states), faults=len(faults))
    assert faults == []


@sizes(2, 120)
def test_book(work: Work, number: int) -> None:
    folder = work("book")
    address = str(folder / "book.sqlite")
    with Book(address) as book:
        book.open_account("patients", ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
    reserve = ("book", "reserve", "patients", "--rho", "0.015625", "--book", address)
    killer = Killer(seconds_of(lambda: run(folder, *reserve)), seed=3)
    acknowledged = [printed(folder).strip()]
    states, faults = [], []
    for _ in range(number):
        status = killer.kill(Program.start(folder, *reserve))
        name = printed(folder).strip()
        states.append({KILLED: "killed", 0: "ended", 1: "refused"}.get(status, f"exit code {status}"))
        acknowledged += [name] if name else []
        with Book(address, make=False) as book:
            account = book.account("patients")
        held = {entry.reservation for entry in account.entries}
        if lost := set(acknowledged) - held:
            faults.append(f"lost {lost}")
        if account.committed.to_json()["rho"] > 1.0 or not account.fits(ZCDP(rho=0.0)):
            faults.append(f"overspent: {account.committed}")
    keep_figure("kills: book reserve", cases=number, states=together(states), faults=len(faults))
    assert faults == []
    assert not any(state.startswith("exit code") for state in states)


GATE = """
[tool.dpaudit.targets.sums]
target = "own.py:sums"
pair = "own.py:pair"
claim = { rho = 3.0, unit = "row" }

[tool.dpaudit.targets.less]
target = "own.py:sums"
pair = "own.py:pair"
claim = { rho = 0.3, unit = "row" }

[tool.dpaudit.audit]
trials = 2
"""
REPORTS = ("json", "sarif", "junit")


@sizes(1, 110, every="night")
def test_gate(work: Work, number: int) -> None:
    folder = work("gate")
    (folder / "pyproject.toml").write_text(GATE)
    command = ("gate", *(word for kind in REPORTS for word in ("--report", f"{kind}=report.{kind}")))
    killer = Killer(seconds_of(lambda: run(folder, *command)), seed=4)
    expected = outcomes(folder)
    assert expected == {"sums": "passed", "less": "failed"}
    states, faults = [], []
    for index in range(number):
        if index % 2:
            for kind in REPORTS:
                (folder / f"report.{kind}").unlink(missing_ok=True)
        status = killer.kill(Program.start(folder, *command))
        states.append("killed" if status == KILLED else "ended")
        faults += [] if status in {1, KILLED} else [f"exit code {status}"]
        for kind in REPORTS:
            path = folder / f"report.{kind}"
            if path.exists() and not whole(path, kind):
                faults.append(f"half a {kind}")
        if (folder / "report.json").exists() and outcomes(folder) != expected:
            faults.append("another outcome")
    assert run(folder, *command) == 1
    keep_figure("kills: gate --report", cases=number, states=together(states), faults=len(faults))
    assert faults == []
    assert outcomes(folder) == expected


def outcomes(folder: Path) -> dict[str, Any]:
    checks = json.loads((folder / "report.json").read_text())["checks"]
    return {check["name"]: check["outcome"] for check in checks}


def whole(path: Path, kind: str) -> bool:
    text = path.read_text()
    if kind == "junit":
        return text.rstrip().endswith("</testsuites>")
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
