import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.sweeps import sweep

SMALL = ("--samples", 500, "--runs", 2, "--workers", 1)


FIGURES = {"wang-hegde-2019-figure-1": 36, "wang-hegde-2019-figure-2": 16}


@pytest.mark.nightly
@sweep("figure, curves", FIGURES.items(), everyday=(1,))
def test_data_picture_and_page(dpaudit: Any, tmp_path: Path, figure: str, curves: int) -> None:
    result = dpaudit("reproduce", figure, *SMALL, "-o", tmp_path)
    assert result.exit_code == 0, result.stderr
    kinds = ("csv", "html", "md", "png", "svg")
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{figure}.{kind}" for kind in kinds),
        f"{figure}-runs.csv",
        *(f"{figure}-learnt.{kind}" for kind in ("csv", "png", "svg")),
    }
    assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    assert ET.fromstring((tmp_path / f"{figure}.svg").read_text()).tag.endswith("svg")  # noqa: S314
    with (tmp_path / f"{figure}.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / f"{figure}-runs.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert len(rows) == curves * 10
    assert len(cells) == 2 * len(rows)
    assert sum(float(row["mean"]) for row in rows) == pytest.approx(
        sum(float(cell["trained"]) for cell in cells) / 2
    )
    page = (tmp_path / f"{figure}.md").read_text()
    assert page.count("no: line 24 leaks") == (25 if figure == "wang-hegde-2019-figure-1" else 6)
    assert page.count("| PROVED |") == (5 if figure == "wang-hegde-2019-figure-1" else 8)
    assert page.count("| NOT_PROVED |") == (0 if figure == "wang-hegde-2019-figure-1" else 6)
    again = dpaudit("reproduce", figure, *SMALL, "-o", tmp_path, "--output-format", "json")
    assert again.stderr.splitlines() == [f"{2 * curves} of {2 * curves} runs"]
    assert (tmp_path / f"{figure}.md").read_text().replace(" --output-format json", "") == page
    assert again.exit_code == 0
    found = json.loads(again.stdout)
    assert (found["runs"], found["samples"]) == (2, 500)
    if figure == "wang-hegde-2019-figure-2":
        assert len(found["returns"]) == curves
        assert {s["published"] for s in found["sentences"]} == {
            "limited sub-optimality",
            "similar performance",
            "it outperforms both",
            "both do not improve over the training",
        }


def test_too_few_samples_are_refused(dpaudit: Any, tmp_path: Path) -> None:
    result = dpaudit("reproduce", "wang-hegde-2019-figure-1", "-o", tmp_path / "out", "--samples", 99)
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()
