"""docs/reliability.md was written by its command, from a whole run without faults."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What the page promises at least, by the beginning of each row.
LEAST = {
    "broken files and odd options": 10_000,
    "`certify -o`": 150,
    "`audit --resume`": 120,
    "`book reserve`": 120,
    "`gate --report`": 110,
    "files that cannot grow": 300,
    "three runs that write": 180,
    "operations of ten processes on one book in SQLite": 10_000,
    "operations of ten processes on one book in PostgreSQL": 10_000,
}


def test_the_page_has_the_figures_of_a_whole_run() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([0-9,]+) \| ([0-9]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert len(rows) == len(LEAST)
    for (words, cases, faults, _), (start, least) in zip(rows, LEAST.items(), strict=True):
        assert words.startswith(start)
        assert int(cases.replace(",", "")) >= least
        assert faults == "0"
    assert sum(LEAST[name] for name in list(LEAST)[1:5]) == 500  # kills
