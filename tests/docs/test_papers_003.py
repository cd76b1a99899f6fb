"""What the page says of Liao, He and Gu (2023) is what was found by hand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "papers_003.py"


def test_verdicts_by_form() -> None:
    section = runpy.run_path(str(SCRIPT))["section"]()
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    found = {cells[0]: cells[1:] for cells in lines}
    assert len(found) == len(lines) == 7
    false = {
        "as-published, mixture, values not clipped below, as printed": "least value V",
        "as-published, one-hot, values clipped": "norm(phi_V(s, a)) for values in [0, 1]: 1.73205 <= 1",
        "experiment, one-hot, values clipped": "L2 sensitivity of u: 2.44949 <= 1",
    }
    for name, (premises, releases, _, over, proof, replayed) in found.items():
        assert ("FAILS" in premises) == (name in false)
        assert f"FAILS: {false[name]}" in premises if name in false else True
        assert proof.startswith("NOT_PROVED" if name in false else "PROVED")
        assert replayed.startswith("REFUTED" if name in false else "NOT_REFUTED")
        assert releases in {"1 of 1 proved", "2 of 2 proved"}
        assert float(over) == pytest.approx(1.0) if name.startswith("exact") else float(over) > 5
    for words in ("21712.2 as published", "2502.6 is enough", "979.9 for values", "NOT_PROVED: epsilon=1"):
        assert words in section
