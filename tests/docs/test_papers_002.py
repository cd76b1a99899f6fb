"""What the page says of Wang and Hegde (2019) is what was found by hand."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "papers_002.py"


def test_verdicts_by_form() -> None:
    section = runpy.run_path(str(SCRIPT))["section"]()
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    found = {cells[0]: cells[1:] for cells in lines}
    assert len(found) == len(lines) == 5 + 2 * 3
    for name, (premises, _, asked, proof, replayed, attack) in found.items():
        bad = name.startswith("published")
        assert premises.count("FAILS") == (2 if bad else 0)
        assert proof.startswith("NOT_PROVED" if bad else "PROVED")
        assert replayed.startswith("REFUTED" if bad else "NOT_REFUTED")
        assert ("leak" in replayed) == ("raw" in name or "J=1" in name)
        assert (attack == "REFUTED") == ("leak" in replayed)
        assert bool(asked) == bad
    paper = found["published, raw, J=T/B, (0.9, 0.0001)-DP"]
    assert "FAILS: 2k above 8.68 sqrt(beta) sigma: 4.6 > 353.1" in paper[0]
    assert paper[1:4] == ["0.32", "1.368", "NOT_PROVED, epsilon=3.22"]
    growth = re.search(r"(\d+\.\d+), (\d+\.\d+) and (\d+\.\d+) times as far", section)
    assert growth is not None
    early, middle, late = map(float, growth.groups())
    assert early < 1.0 < middle < late
    assert "makes it 0.3777" in section
