"""What `verify` takes of a million different lines: `python benchmarks/long_ledgers.py [LINES] [--write]`.

Seconds of CPU are the least of three rounds, megabytes the most that any of them held at once. `--write` puts
the table into docs/proving/long-ledgers.md. `--users FOLDER` only writes the ledgers of that page's example.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from dpaudit import L1, L2, ZCDP, Claim, Gaussian, Laplace, Ledger, Neighbouring, Release
from dpaudit.ledger.files import LedgerSink
from dpaudit.ledger.ledger import Header

PAGE = Path(__file__).parents[1] / "docs" / "proving" / "long-ledgers.md"
BEGIN, END = "<!-- written by long_ledgers.py -->\n", "<!-- end of the table -->\n"
LINES, ROUNDS = 1_000_000, 3
USERS, RELEASES = 1_000, 100
VERIFY = ("verify", "--epsilon", "100000", "--delta", "1e-6")
TABLE = """\

| command | noise | seconds of CPU | megabytes |
|---|---|---:|---:|
"""


def written(path: Path, kind: str, number: int) -> Path:
    """A ledger file of so many releases, each of a scale of its own."""
    header = Header(
        algorithm="long", unit="row", neighbouring=Neighbouring.REPLACE_ONE, claim=Claim(ZCDP(rho=1e6))
    )
    ledger = Ledger(header, LedgerSink(path))
    for i in range(number):
        scale = 2.0 + (i + 0.5) / number
        noise: Gaussian | Laplace = Laplace(scale=scale, sensitivity=L1(1.0))
        if kind == "gaussian":
            noise = Gaussian(sigma=scale, sensitivity=L2(1.0))
        ledger.append(Release(label=f"step {i}", mechanism=noise, claimed=ZCDP(rho=0.125)))
    ledger.finish()
    return path


def users(folder: Path) -> None:
    """Write a ledger for each of 1,000 users, whose releases together have a mu between 0.38 and 0.82."""
    random = np.random.default_rng(0)
    for user in range(USERS):
        part = folder / f"{user // 100:03d}"
        part.mkdir(parents=True, exist_ok=True)
        header = Header(algorithm="answers", unit="record", neighbouring=Neighbouring.REPLACE_ONE)
        ledger = Ledger(header, LedgerSink(part / f"user-{user:04d}.jsonl"))
        sigmas = math.sqrt(RELEASES) / random.uniform(0.38, 0.82) * random.uniform(0.9, 1.1, RELEASES)
        for day, sigma in enumerate(sigmas.tolist()):
            ledger.append(Release(label=f"day {day}", mechanism=Gaussian(sigma=sigma, sensitivity=L2(1.0))))
        ledger.finish()


def taken(*arguments: str) -> tuple[float, float]:
    """Seconds of CPU, the least of the rounds, and megabytes, the most."""
    spent = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "dpaudit.app.main", *arguments]
        started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            raise SystemExit(f"{' '.join(arguments)} ended with {started.returncode}")
        spent.append((used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
    seconds, megabytes = zip(*spent, strict=True)
    return min(seconds), max(megabytes)


def main() -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lines", type=int, nargs="?", default=LINES)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--users", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.users is not None:
        users(given.users)
        return 0
    rows = [TABLE]
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("gaussian", "laplace"):
            path = str(written(Path(folder, f"{kind}.jsonl"), kind, given.lines))
            for words in (VERIFY, ("ledger", "check")):
                seconds, megabytes = taken(*words, path)
                name = " ".join(word for word in words if word.isalpha())
                rows.append(f"| `dpaudit {name}` | {kind} | {seconds:.1f} | {megabytes:.0f} |\n")
    sys.stdout.write("".join(rows))
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + "".join(rows) + "\n" + rest[rest.index(END) :], encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
