"""`dpaudit reproduce balle-gomrokchi-precup-2016-figure-1`, small."""

import csv
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

NAME = "balle-gomrokchi-precup-2016-figure-1"
SMALL = ("--episodes", 30, "--episodes", 100, "--runs", 2, "--workers", 1)


@pytest.mark.nightly
def test_data_picture_page_and_json(dpaudit: Any, answer: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = dpaudit("reproduce", NAME, "-o", out, *SMALL)
    assert result.exit_code == 0, result.stderr
    kinds = {f"{NAME}.{kind}" for kind in ("csv", "html", "md", "png", "svg")}
    assert {path.name for path in out.iterdir()} == kinds | {f"{NAME}-runs.csv"}
    assert (out / f"{NAME}.png").read_bytes().startswith(b"\x89PNG")
    assert ET.fromstring((out / f"{NAME}.svg").read_text()).tag.endswith("svg")  # noqa: S314
    rows, cells = (
        list(csv.DictReader((out / f"{NAME}{part}.csv").read_text().splitlines())) for part in ("", "-runs")
    )
    assert {row["panel"] for row in rows} == set("abcd")
    # A mean and its standard error are those of the runs behind it.
    chosen = [
        r
        for r in rows
        if (r["panel"], r["algorithm"], r["calibration"], r["episodes"]) == ("c", "dp-lsw", "exact", "100")
    ]
    errors = [
        float(cell["error"])
        for cell in cells
        if [cell[key] for key in ("algorithm", "calibration", "aggregate", "episodes")]
        == ["dp-lsw", "exact", "2", "100"]
    ]
    (row,) = chosen
    assert len(errors) == 2
    assert float(row["mean"]) == pytest.approx(sum(errors) / 2)
    assert float(row["error"]) == pytest.approx(abs(errors[0] - errors[1]) / math.sqrt(2) / math.sqrt(2))
    page = (out / f"{NAME}.md").read_text()
    assert "2 runs, seeds 0 to 1, at each of 2 batch sizes from 30 to 100" in page
    assert "| dp-lsw | lemma | tabular | 122.4 | PROVED |" in page
    assert "| dp-lsl | exact | pairs | 2.848 | PROVED |" in page
    assert (out / f"{NAME}.html").read_text().count("<svg") == 1
    # Again, the runs there are are read, and the answer is JSON.
    kept = (out / f"{NAME}-runs.csv").read_text()
    code, found = answer("reproduce", NAME, "-o", out, *SMALL)
    assert code == 0
    assert (found["figure"], found["runs"], found["batches"]) == (NAME, 2, [30, 100])
    assert len(found["sentences"]) == 18
    assert (out / f"{NAME}-runs.csv").read_text() == kept


@pytest.mark.parametrize(
    "option", [("--calibration", "sound"), ("--features", "raw"), ("--scaling",), ("--largest", 5)]
)
def test_options_of_other_figures_are_refused(dpaudit: Any, tmp_path: Path, option: tuple[Any, ...]) -> None:
    result = dpaudit("reproduce", NAME, "-o", tmp_path / "out", *option)
    assert result.exit_code == 2
    assert option[0] in result.stderr
    assert not (tmp_path / "out").exists()
