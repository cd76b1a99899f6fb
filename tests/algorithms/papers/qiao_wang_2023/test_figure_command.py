import csv
import re
from pathlib import Path
from typing import Any

import pytest

FIGURE, OTHER = "qiao-wang-2023-figure-1a", "qiao-wang-2023-figure-1b"
SMALL = ("--episodes", 5, "--episodes", 20, "--runs", 2, "--workers", 1)


@pytest.mark.nightly
def test_the_page_needs_no_network_and_no_script(dpaudit: Any, tmp_path: Path) -> None:
    dpaudit("reproduce", OTHER, "-o", tmp_path, *SMALL)
    text = (tmp_path / f"{OTHER}.html").read_text()
    assert not re.search(
        r"<script|<link (?!rel=\"icon\" href=\"data:,\")|<img|\bsrc=|@import|url\((?!#)", text
    )
    assert text.count("<svg") == 1
    assert "The paper's sentences and these runs" in text


def test_the_papers_own_experiment_says_that_its_claim_fails(dpaudit: Any, tmp_path: Path) -> None:
    options = ("--calibration", "as-published", "--features", "raw")
    result = dpaudit("reproduce", FIGURE, "-o", tmp_path, *SMALL, *options)
    assert result.exit_code == 0
    page = (tmp_path / "qiao-wang-2023-figure-1a-as-published-raw.md").read_text()
    assert "| 1 | NOT_PROVED |" in page
    assert "FAILS: norm(phi(s, a))" in page
    assert "raw, as in the paper's own experiment" in page


@pytest.mark.nightly
def test_a_scaling_run_goes_beyond_the_figure(answer: Any, tmp_path: Path) -> None:
    code, found = answer("reproduce", FIGURE, "-o", tmp_path, *SMALL, "--scaling", "--largest", 100)
    assert code == 0
    assert [place["rho"] for place in found["reached"]] == [1.0, 25.0]
    assert len(found["sentences"]) == 2 + 2 + 1 + 4
    assert all(sentence["appears"] in {"yes", "no", "not told apart"} for sentence in found["sentences"])
    with (tmp_path / "qiao-wang-2023-figure-1a-scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted({int(row["episodes"]) for row in rows}) == [5, 20, 30, 100]
    assert {row["algorithm"] for row in rows} == {"vapvi", "dp-vapvi"}
    page = (tmp_path / "qiao-wang-2023-figure-1a.md").read_text()
    assert "from K on, up to 100 |" in page
    assert (tmp_path / "qiao-wang-2023-figure-1a.html").read_text().count("<svg") == 2


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_data_and_another_one_others(dpaudit: Any, tmp_path: Path) -> None:
    texts = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        options = ("--episodes", 5, "--runs", 1, "--workers", 1, "--seed", seed)
        assert dpaudit("reproduce", OTHER, "-o", tmp_path / name, *options).exit_code == 0
        texts.append((tmp_path / name / f"{OTHER}.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.nightly
def test_more_runs_reuse_those_there_are(dpaudit: Any, tmp_path: Path) -> None:
    assert dpaudit("reproduce", OTHER, "-o", tmp_path, *SMALL).exit_code == 0
    result = dpaudit("reproduce", OTHER, "-o", tmp_path, *SMALL, "--runs", 3)
    assert result.stderr.startswith("20 of 30 runs")


@pytest.mark.parametrize(
    "arguments",
    [
        (FIGURE,),
        (FIGURE, "-o", "file"),
        (FIGURE, "-o", "out", "--runs", 0),
        (FIGURE, "-o", "out", "--scaling", "--largest", 900),
    ],
)
def test_what_cannot_be_followed_exits_2(dpaudit: Any, tmp_path: Path, arguments: tuple[Any, ...]) -> None:
    (tmp_path / "file").write_text("")
    result = dpaudit("reproduce", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
