"""A full disk: no command writes half a file, or calls a success what was not written."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpaudit import ZCDP
from dpaudit.accountants.book import Book
from tests.torture.conftest import sizes
from tests.torture.tools import faults_of_output, keep_figure, printed, run, together

pytestmark = pytest.mark.usefixtures("own_processes", "runs_in_threads", "undrawn")
Work = Callable[[str], Path]

CLAIM = ("--pair", "own.py:pair", "--rho", "3", "--unit", "row")
SAMPLED = ("--method", "sequential", "--trials", "40")
CONFIGURATION = '[tool.dpaudit.ledgers.kept]\nledger = "whole/ledger.jsonl"\n'

#: Each with the files that it writes.
COMMANDS = {
    "certify": (("certify", "own.py:sums", *CLAIM, "-o", "out"), ()),
    "gate": (("gate", "--report", "json=r.json", "--report", "sarif=s.json"), ("r.json", "s.json")),
    "report": (("report", "whole/certificate.json", "-o", "page.html", "--registry", "entry.yaml"), ()),
    "sign": (("sign", "whole/certificate.json", "--key", "key", "-o", "signed.json"), ("signed.json",)),
    "audit": (
        (
            "audit",
            "own.py:count",
            *CLAIM,
            "--method",
            "sequential",
            "--trials",
            "40",
            "--resume",
            "runs.sqlite",
        ),
        (),
    ),
    "book": (("book", "reserve", "patients", "--rho", "0.001", "--book", "book.sqlite"), ()),
}


@sizes(6, 300)
def test_no_half_file_and_no_false_success(work: Work, number: int) -> None:
    folder = work("full")
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    with Book(folder / "book.sqlite") as book:
        book.open_account("patients", ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
    assert run(folder, "certify", "own.py:sums", *CLAIM, "-o", "whole") == 0, printed(folder, "err")
    assert run(folder, "keygen", "key") == 0
    draw = random.Random(7)  # noqa: S311  (no secret)
    held, states = 0, list[str]()
    faults: list[str] = []
    for case in range(number):
        name, (command, files) = list(COMMANDS.items())[case % len(COMMANDS)]
        shutil.rmtree(folder / "out", ignore_errors=True)
        for file in (*files, "page.html", "entry.yaml"):
            (folder / file).unlink(missing_ok=True)
        largest = int(2 ** draw.uniform(0, 16))
        status = run(folder, *command, largest_file=largest)
        states.append(f"exit code {status}")
        said = printed(folder, "err")
        if status not in {0, 2, 3} or "Traceback" in said:
            faults.append(f"{name} with {largest} bytes: {status} {said[-300:]}")
        if name == "certify" and (folder / "out").exists():
            faults += faults_of_output(folder / "out")
            if (status == 0) != (folder / "out" / "certificate.json").exists():
                faults.append(f"{name} with {largest} bytes: exit code {status}, and the certificate")
        for file in files:
            if (folder / file).exists():
                json.loads((folder / file).read_text())
            elif status == 0:
                faults.append(f"{name} with {largest} bytes: a success without {file}")
        if name == "book":
            before = held
            with Book(folder / "book.sqlite", make=False) as book:
                held = len(book.account("patients").entries)
            if held - before != (status == 0):
                faults.append(
                    f"book with {largest} bytes: exit code {status}, {held - before} reservations more"
                )
    keep_figure("disk full", cases=number, states=together(states), faults=len(faults))
    assert faults == []


@pytest.mark.nightly
def test_a_full_device_for_stdout_is_no_success(work: Work) -> None:
    folder = work("device")
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    assert run(folder, "certify", "own.py:sums", *CLAIM, "-o", "whole") == 0, printed(folder, "err")

    def full() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    for arguments in (
        ("verify", "whole/ledger.jsonl"),
        ("list",),
        ("report", "whole/certificate.json", "--format", "md"),
        ("gate",),
    ):
        assert run(folder, *arguments) == 0
        assert run(folder, *arguments, first=full) == 2
        assert "Traceback" not in printed(folder, "err")
