"""Every figure's command at a small size: data, pictures, page and answer."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from dpaudit.algorithms.papers.he_zhou_2025 import figure as he_zhou_2025
from dpaudit.app.figures import reproduce
from tests.sweeps import sweep


class Small(NamedTuple):
    """A figure at a small size, and what must come out."""

    options: str
    rows: int  # of its data, each the mean of two runs
    measured: str  # the column of the runs that rows are means of
    verdicts: tuple[int, int]  # how many lines of the page are PROVED and NOT_PROVED
    published: set[str]  # the sentences that are judged
    page: str  # words on the page
    stem: str = ""  # of the files, behind the figure's name
    more: str = ""  # of a second picture


_OFFLINE = {
    "DP-VAPVI performs slightly worse than VAPVI",
    "as the data set grows larger, DP-VAPVI converges to VAPVI",
    "with a larger budget DP-VAPVI is closer to VAPVI",
}
_RIVERS = {"sublinear in K", "a larger regret than UCRL-VTR", "closer as epsilon grows"}
_LARGE = (
    "for large enough batch sizes the private algorithms converge to the same solutions as the "
    "non-private ones"
)
_COSTS = {"sublinear in K", "privacy costs regret", "less the larger the budget"}
FIGURES = [
    (
        "qiao-wang-2023-figure-1a",
        Small(
            "--episodes 5 --episodes 20",
            8,
            "suboptimality",
            (2, 0),
            _OFFLINE | {"in most cases DP-VAPVI outperforms PEVI"},
            "2 runs, seeds 0 to 1, at each of 2 values of K from 5 to 20",
        ),
    ),
    ("qiao-wang-2024-regret", Small("--users 10", 60, "regret", (5, 0), _COSTS, "RiverSwim, S=3, H=6")),
    (
        "qiao-wang-2023-figure-1b",
        Small(
            "--episodes 5 --episodes 20",
            10,
            "suboptimality",
            (4, 0),
            _OFFLINE,
            "| 1 | PROVED | 1 | 0 of 39 |",
        ),
    ),
    (
        "he-zhou-2025-users",
        Small(
            "",
            10,
            "suboptimality",
            (4, 0),
            {"less is lost the more users there are", "less the larger the budget"},
            "softmax policies",
        ),
    ),
    (
        "balle-gomrokchi-precup-2016-figure-1",
        Small(
            "--episodes 30 --episodes 100",
            158,
            "error",
            (8, 0),
            {
                "LSL and LSW converge to the same solution",
                "LSW converges faster",
                _LARGE,
                "LSL works better with small batches",
                "LSW works better with large batches",
                "lambda should grow like sqrt(m)",
                "function approximation helps both private algorithms converge faster",
            },
            "| dp-lsl | exact | pairs | 2.848 | PROVED |",
        ),
    ),
    (
        "liao-he-gu-2023-figure-2",
        Small("--users 12", 96, "regret", (6, 0), _RIVERS, "S=3, H=6", "-published-noise"),
    ),
    (
        "liao-he-gu-2023-figure-2",
        Small("--users 12 --calibration exact", 96, "regret", (6, 0), _RIVERS, "Noise exact", "-exact"),
    ),
    (
        "ngo-vietri-wu-2022-regret",
        Small(
            "--users 60",
            700,
            "regret",
            (6, 0),
            {
                *_COSTS,
                "at most N_max updates",
                "less regret than a fixed schedule",
                "(not the paper's) with the published beta nothing is learnt",
            },
            "with the published beta nothing is learnt",
        ),
    ),
    (
        "wang-hegde-2019-figure-1",
        Small(
            "--samples 500",
            360,
            "trained",
            (5, 0),
            {"limited sub-optimality for sigma < 0.4", "a lower return under noise", "better with J = T/B"},
            "no: line 24 leaks",
            more="-learnt",
        ),
    ),
    (
        "wang-hegde-2019-figure-2",
        Small(
            "--samples 500",
            160,
            "trained",
            (8, 6),
            {
                "limited sub-optimality",
                "similar performance",
                "it outperforms both",
                "both do not improve over the training",
            },
            "no: it is about one trajectory",
            more="-learnt",
        ),
    ),
]


def test_every_figure_is_here() -> None:
    assert {name for name, _ in FIGURES} == set(reproduce.FIGURES)


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def is_of(run: dict[str, str], row: dict[str, str]) -> bool:
    """Whether a run is behind a row: alike in every column of both; rows leave out infinite budgets."""
    wanted = {**row, "episode": row["episodes"]} if "episode" in run else row
    return run["seed"] in {"0", "1"} and all(
        value in {run[name], ""} and (value or run[name] in {"inf", ""} or name in {"sigma", "ridge"})
        for name, value in wanted.items()
        if name in run and name != "error"  # a standard error in rows
    )


@sweep("figure, small", FIGURES, everyday=(0, 1))
def test_data_pictures_page_and_answer(
    dpaudit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: str, small: Small
) -> None:
    monkeypatch.setattr(he_zhou_2025, "BATCHES", (2, 4))
    typed = ("reproduce", figure, *small.options.split(), "--runs", 2, "--workers", 1, "-o", tmp_path)
    result = dpaudit(*typed)
    assert result.exit_code == 0, result.stderr
    stem, runs = f"{figure}{small.stem}", tmp_path / f"{figure}-runs.csv"
    files = {*(f"{stem}.{kind}" for kind in ("csv", "html", "md", "png", "svg")), runs.name}
    files |= {f"{stem}{small.more}.{kind}" for kind in ("csv", "png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == files
    assert (tmp_path / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert ET.fromstring((tmp_path / f"{stem}.svg").read_text()).tag.endswith("svg")  # noqa: S314
    # Each row is the mean of the runs behind it.
    rows, cells = table(tmp_path / f"{stem}.csv"), table(runs)
    assert len(rows) == small.rows
    # Of policy evaluation, one panel: others have another quantity, or lambdas that no row names.
    for row in (r for r in rows if "aggregate" not in r or (r["panel"], r["algorithm"][:3]) == ("c", "dp-")):
        values = [float(cell[row.get("quantity", small.measured)]) for cell in cells if is_of(cell, row)]
        assert len(values) == 2 == int(row["runs"]), row
        assert float(row["mean"]) == pytest.approx(sum(values) / 2)
        assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
    page = (tmp_path / f"{stem}.md").read_text()
    assert small.page in page
    assert "mean of 2 runs" in page or "Means of 2 runs" in page
    assert (page.count("| PROVED |"), page.count("| NOT_PROVED |")) == small.verdicts
    assert (tmp_path / f"{stem}.html").read_text().count("<svg") == 1 + bool(small.more)
    # Again, nothing is run, and the page is the same.
    kept = runs.read_bytes()
    again = dpaudit(*typed, "--output-format", "json")
    assert again.exit_code == 0
    assert runs.read_bytes() == kept
    assert (tmp_path / f"{stem}.md").read_text().replace(" --output-format json", "") == page
    found = json.loads(again.stdout)
    assert (found["figure"], found["runs"]) == (figure, 2)
    assert {sentence["published"] for sentence in found["sentences"]} == small.published


@pytest.mark.parametrize(
    ("figure", "options"),
    [
        ("balle-gomrokchi-precup-2016-figure-1", "--calibration sound"),
        ("liao-he-gu-2023-figure-2", "--episodes 3"),
        ("liao-he-gu-2023-figure-2", "--users 1"),
        ("ngo-vietri-wu-2022-regret", "--calibration exact"),
        ("ngo-vietri-wu-2022-regret", "--users 10"),
        ("wang-hegde-2019-figure-1", "--samples 99"),
    ],
)
def test_options_out_of_range_or_of_another_figure_are_refused(
    dpaudit: Any, tmp_path: Path, figure: str, options: str
) -> None:
    result = dpaudit("reproduce", figure, "-o", tmp_path / "out", *options.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert options.split(maxsplit=1)[0] in result.stderr
    assert not (tmp_path / "out").exists()
