"""What the page says of Ngo, Vietri and Wu (2022) is what was found by hand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "papers_004.py"


def test_verdicts_by_form() -> None:
    section = runpy.run_path(str(SCRIPT))["section"]()
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    found = {cells[0]: cells[1:] for cells in lines}
    assert len(found) == len(lines) == 9
    for name, (_, premises, targets, releases, proof, replayed) in found.items():
        unclipped = "unclipped" in name
        violated = name.startswith("as-published, episodes")
        assert ("FAILS: least value V" in premises) == unclipped
        assert proof.startswith("NOT_PROVED" if violated or unclipped else "PROVED")
        assert replayed.startswith("REFUTED" if unclipped else "NOT_REFUTED")
        assert ("without bound" in replayed) == unclipped
        if violated:
            horizon = int(name.partition("H=")[2].partition(",")[0])
            of_n_max = float(targets.partition("(")[2].rstrip(")"))
            assert of_n_max == pytest.approx({2: 1.67, 5: 3.87, 10: 7.27}[horizon], abs=5e-3)
            assert "NOT_PROVED" in releases
        else:
            assert float(targets.partition(" ")[0]) <= 1.0
    for words in (
        "4 of sensitivity 1: variance 4 is PROVED",
        "1 of sensitivity 4: variance 4 is NOT_PROVED",
        "section 4.2 says epsilon = 1.17298: NOT_PROVED",
        "Lemma 6 says epsilon = 2.24597: PROVED",
        "has 1.76006",
    ):
        assert words in section
