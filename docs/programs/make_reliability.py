"""Run all torture tests and write docs/reliability.md from their figures: `python docs/programs/make_reliability.py`.

It takes about a quarter of an hour on two cores, and needs PostgreSQL's server. If a test fails, nothing is
written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"

INTRODUCTION = """# Reliability

What happens when something goes wrong: a broken file, a run that is killed, a full disk, two runs at once, a
database that dies. In each of these cases no file may be half written, no verdict wrong, no budget lost or
spent twice, and every command ends with a documented [exit code](design.md#exit-codes) and a message, never
with a traceback. A *fault* in this table is a case in which one of these was not so.

| what | cases | faults | what came of them |
|---|---:|---:|---|
"""

ABOUT = {
    "fuzzed inputs": "broken files and odd options, over all {verbs} verbs",
    "kills: certify -o": "`certify -o`, killed at a random moment",
    "kills: audit --resume": "`audit --resume`, killed at a random moment and resumed",
    "kills: book reserve": "`book reserve`, killed at a random moment",
    "kills: gate --report": "`gate --report`, killed at a random moment",
    "disk full": "files that cannot grow: certify, gate, report, sign, audit, book",
    "writers at once": "three runs that write to one folder at once",
    "book, SQLite": "operations of ten processes on one book in SQLite, three of them killed half-way",
    "book, PostgreSQL": "operations of ten processes on one book in PostgreSQL, its server killed half-way",
}

DETAILS = """
## What is checked

- **Broken files**: bytes flipped, cut off, inserted; lines doubled, exchanged, left out; values and names of
  JSON replaced by odd ones. Ledgers, certificates, signatures, keys, configurations, statements, data,
  modules, books, audits to resume and what other libraries recorded.
- **Killed** with SIGKILL, from the first moment to just past the end. Afterwards each file is whole or is not
  there; a certificate stands beside the ledger that it names, and says what a whole run says; a second run
  with the same seed gives the same certificate, a resumed audit the same answer; a reservation whose name was
  printed is in the book.
- **Full**: no file may grow beyond a limit between one byte and 64 KiB. A command that could not write ends
  with exit code 2, and `certify` then leaves no certificate.
- **At once**: one of the runs writes, and the others are refused or write after it. The folder then holds the
  files of one run.
- **Books**: every answer that a process had is in the book, no reservation is there twice, and what is
  reserved and spent, added up again from the entries, is at most the budget.

"""


def main() -> int:
    """Run the tests beside one another, and write the page if all of them pass.

    With a folder as argument, figures are kept there, and a test whose figures are there is not run again.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else name)
        runs = {test: start(test, folder) for test in tests() if not _file(test, folder, "done").exists()}
        failed = []
        for test, run in runs.items():
            if run.wait() == 0:
                _file(test, folder, "part").replace(_file(test, folder, "done"))
            else:
                failed.append(test)
                sys.stderr.write(_file(test, folder, "log").read_text(encoding="utf-8"))
        if failed:
            return 1
        lines = [line for path in folder.glob("*.done") for line in path.read_text().splitlines()]
    PAGE.write_text(page(list(map(json.loads, lines))), encoding="utf-8")
    return 0


def tests() -> list[str]:
    """The torture tests, by their names for pytest."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "--collect-only",
        "-m",
        "torture",
        "tests/torture",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603  (pytest)
    return [line for line in done.stdout.splitlines() if "::" in line]


def start(test: str, folder: Path) -> subprocess.Popen[bytes]:
    """A test in a process of its own, with its figures and what it prints in the folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "torture", test]
    figures = _file(test, folder, "part")
    figures.write_bytes(b"")
    with _file(test, folder, "log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603  (pytest itself)
            command,
            cwd=ROOT,
            env=os.environ | {"DPAUDIT_TORTURE_FIGURES": str(figures)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _file(test: str, folder: Path, kind: str) -> Path:
    name = test.partition("::")[2].partition("[")[0]
    return folder / f"{Path(test.partition('::')[0]).stem}-{name}.{kind}"


def page(found: list[dict[str, Any]]) -> str:
    """The page."""
    rows = []
    for topic, words in ABOUT.items():
        row = next(one for one in found if one["topic"] == topic)
        states = ", ".join(f"{count:,} {name}" for name, count in row["states"].items() if count)
        rows.append(f"| {words.format(**row)} | {row['cases']:,} | {row['faults']} | {states} |\n")
    how = (
        "Written by `python docs/programs/make_reliability.py`, or `nox -s torture`; a few of these cases run with\n"
        "every change.\n"
    )
    return INTRODUCTION + "".join(rows) + DETAILS + how


if __name__ == "__main__":
    raise SystemExit(main())
