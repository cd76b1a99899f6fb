"""Audit true claims a thousand times by each method and write how often each erred into docs/auditing/auditing.md.

`python docs/programs/make_validity.py [FILE]`; `nox -s validity`. It takes about five minutes on one core. With a
FILE, what was counted is kept there, and a run that was stopped goes on where it was. Nothing is written if a
method errs so often that its level is in doubt.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scipy.special import betaincinv  # noqa: E402  (found by the line above)
from scipy.stats import binom  # noqa: E402

from tests.statistical.null_audits import NULLS, Null  # noqa: E402

PAGE = ROOT / "docs" / "auditing" / "auditing.md"
HEADING, NEXT = "## How often the methods err\n", "\n## "
AUDITS, LEVEL = 1000, 0.05
_AT_ONCE = 50

INTRODUCTION = """
For each method, {audits:,} audits with different seeds test a true and tight claim at confidence 0.95. An audit
errs if it refutes the claim or its bound lies above the truth. The interval is the exact 95% interval of the
error rate (Clopper and Pearson); a rate of 5% is allowed.

| method | mechanism | errors of {audits:,} | interval |
|---|---|---:|---|
"""

AFTER = """
Written by `python docs/programs/make_validity.py`; each method's first audits are repeated with every change.
"""


def main() -> int:
    """Count what is not counted yet, and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "counted.jsonl"
        errors = {null: sum(counted(null, path)) for null in NULLS}
    doubtful = [null for null, number in errors.items() if number > most_errors(AUDITS)]
    for null in doubtful:
        sys.stderr.write(f"{null.method}, {null.mechanism}: {errors[null]} of {AUDITS} audits err\n")
    if not doubtful:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), errors), encoding="utf-8")
    return len(doubtful)


def most_errors(audits: int) -> int:
    """How many may err: of audits that keep their level more do with a probability of one in a million."""
    return int(binom.isf(1e-6, audits, LEVEL))


def counted(null: Null, path: Path) -> Iterator[int]:
    """The errors of each block of audits, kept in a file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = {(method, mechanism, at): errors for method, mechanism, at, errors in map(json.loads, lines)}
    for at in range(0, AUDITS, _AT_ONCE):
        key = null.method, null.mechanism, at
        if key not in kept:
            kept[key] = sum(null.errs(seed) for seed in range(at, at + _AT_ONCE))
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*key, kept[key]]) + "\n")
        yield kept[key]


def page(text: str, errors: dict[Null, int]) -> str:
    """The page with the section written anew."""
    before, rest = text.split(HEADING)
    after = rest[rest.index(NEXT) :]
    rows = [
        f"| {null.method} | {null.mechanism} | {number} | {interval(number, AUDITS)} |\n"
        for null, number in errors.items()
    ]
    return before + HEADING + INTRODUCTION.format(audits=AUDITS) + "".join(rows) + AFTER + after


def interval(errors: int, audits: int) -> str:
    """The exact interval of a rate at 95%, in per cent."""
    low = betaincinv(errors, audits - errors + 1, 0.025) if errors else 0.0
    high = betaincinv(errors + 1, audits - errors, 0.975) if errors < audits else 1.0
    return f"{100 * low:.1f}% to {100 * high:.1f}%"


if __name__ == "__main__":
    raise SystemExit(main())
