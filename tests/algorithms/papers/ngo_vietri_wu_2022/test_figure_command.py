import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

SMALL = ("ngo-vietri-wu-2022-regret", "--users", 60, "--runs", 2, "--workers", 1)
CURVES = 7


@pytest.mark.nightly
def test_data_picture_page_and_json(dpaudit: Any, tmp_path: Path) -> None:
    result = dpaudit("reproduce", *SMALL, "-o", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"ngo-vietri-wu-2022-regret.{kind}" for kind in ("csv", "html", "md", "png", "svg")),
        "ngo-vietri-wu-2022-regret-runs.csv",
    }
    assert (tmp_path / "ngo-vietri-wu-2022-regret.png").read_bytes().startswith(b"\x89PNG")
    assert ET.fromstring((tmp_path / "ngo-vietri-wu-2022-regret.svg").read_text()).tag.endswith("svg")  # noqa: S314
    with (tmp_path / "ngo-vietri-wu-2022-regret.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "ngo-vietri-wu-2022-regret-runs.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert len(rows) == 2 * CURVES * 50
    for row in rows:
        runs = [
            float(cell[row["quantity"]])
            for cell in cells
            if (cell["schedule"], cell["episode"]) == (row["schedule"], row["episodes"])
            and cell["rho"] == (row["rho"] or "inf")
            and cell["seed"] in {"0", "1"}
        ]
        assert len(runs) == 2 == int(row["runs"])
        assert float(row["mean"]) == pytest.approx(sum(runs) / 2)
        assert float(row["high"]) - float(row["mean"]) == pytest.approx(abs(runs[0] - runs[1]) / 2**0.5)
    page = (tmp_path / "ngo-vietri-wu-2022-regret.md").read_text()
    assert page.count("| PROVED |") == CURVES - 1
    assert "with the published beta nothing is learnt" in page
    # Again, nothing is run.
    again = dpaudit("reproduce", *SMALL, "-o", tmp_path, "--output-format", "json")
    assert again.stderr.splitlines()[-1].startswith("54 of 54 runs")
    assert len(again.stderr.splitlines()) == 2
    assert (tmp_path / "ngo-vietri-wu-2022-regret.md").read_text().replace(
        " --output-format json", ""
    ) == page
    assert again.exit_code == 0
    found = json.loads(again.stdout)
    assert {s["published"] for s in found["sentences"]} == {
        "sublinear in K",
        "privacy costs regret",
        "less the larger the budget",
        "at most N_max updates",
        "less regret than a fixed schedule",
        "(not the paper's) with the published beta nothing is learnt",
    }
    (last,) = (s for s in found["sentences"] if s["published"].startswith("(not"))
    assert last["appears"] == "yes"
    assert len(found["curves"]) == CURVES
    assert (found["runs"], found["users"]) == (2, 60)


@pytest.mark.parametrize("options", [("--calibration", "exact"), ("--users", 10), ("--episodes", 3)])
def test_options_that_it_does_not_have_are_refused(
    dpaudit: Any, tmp_path: Path, options: tuple[Any, ...]
) -> None:
    result = dpaudit("reproduce", "ngo-vietri-wu-2022-regret", "-o", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()
