import csv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

SMALL = ("liao-he-gu-2023-figure-2", "--users", 12, "--runs", 2, "--workers", 1)


@pytest.mark.nightly
def test_data_picture_and_page(dpaudit: Any, tmp_path: Path) -> None:
    result = dpaudit("reproduce", *SMALL, "-o", tmp_path)
    assert result.exit_code == 0, result.stderr
    stem = "liao-he-gu-2023-figure-2-published-noise"
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{stem}.{kind}" for kind in ("csv", "html", "md", "png", "svg")),
        "liao-he-gu-2023-figure-2-runs.csv",
    }
    assert (tmp_path / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert ET.fromstring((tmp_path / f"{stem}.svg").read_text()).tag.endswith("svg")  # noqa: S314
    with (tmp_path / f"{stem}.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "liao-he-gu-2023-figure-2-runs.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert len(rows) == 8 * 12
    for row in rows:
        same = ("river", "algorithm", "calibration", "episode")
        runs = [
            float(cell["regret"])
            for cell in cells
            if [cell[name] for name in same] == [row[name.replace("episode", "episodes")] for name in same]
            and cell["epsilon"] == (row["epsilon"] or "inf")
            and cell["seed"] in {"0", "1"}
        ]
        assert len(runs) == 2 == int(row["runs"])
        assert float(row["mean"]) == pytest.approx(sum(runs) / 2)
        assert float(row["high"]) - float(row["mean"]) == pytest.approx(abs(runs[0] - runs[1]) / 2**0.5)
    page = (tmp_path / f"{stem}.md").read_text()
    assert f"![Cumulative regret, mean of 2 runs; bands: one standard deviation]({stem}.svg)" in page
    assert page.count("| PROVED |") == 6
    assert "S=3, H=6" in page
    html = (tmp_path / f"{stem}.html").read_text()
    assert html.count("<svg") == 1
    # Again, nothing is run: every run on the grid is found, and every one that is drawn.
    again = dpaudit("reproduce", *SMALL, "-o", tmp_path)
    assert again.stderr.splitlines() == ["52 of 68 runs", "68 of 68 runs"]
    assert (tmp_path / f"{stem}.md").read_text() == page


@pytest.mark.nightly
def test_the_noise_may_be_chosen_and_the_answer_read_as_json(answer: Any, tmp_path: Path) -> None:
    status, found = answer("reproduce", *SMALL, "-o", tmp_path, "--calibration", "exact")
    assert status == 0
    assert {s["published"] for s in found["sentences"]} == {
        "sublinear in K",
        "a larger regret than UCRL-VTR",
        "closer as epsilon grows",
    }
    assert len(found["regret"]) == 8
    assert (found["runs"], found["users"]) == (2, 12)
    assert (tmp_path / "liao-he-gu-2023-figure-2-exact.png").exists()


@pytest.mark.parametrize(
    "options", [("--features", "raw"), ("--scaling",), ("--largest", 9), ("--episodes", 3), ("--users", 1)]
)
def test_options_of_other_figures_are_refused(dpaudit: Any, tmp_path: Path, options: tuple[Any, ...]) -> None:
    result = dpaudit("reproduce", "liao-he-gu-2023-figure-2", "-o", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()
