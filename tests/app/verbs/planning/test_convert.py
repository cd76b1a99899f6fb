import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest


def figures(found: dict[str, Any], method: str, kind: str) -> list[float]:
    return [r["figure"] for r in found["rows"] if (r["method"], r["guarantee"]["kind"]) == (method, kind)]


def test_from_rho(answer: Any) -> None:
    # Classic, best and Gaussian-only conversions of rho = 0.5 at delta = 1e-6, from independent computation.
    status, found = answer("convert", "--rho", 0.5, "--delta", 1e-6)
    assert status == 0
    assert figures(found, "zcdp", "approx-dp") == [pytest.approx(5.22153, abs=1e-5)]
    assert figures(found, "bun-steinke", "approx-dp") == [
        pytest.approx(0.5 + (2 * 13.815510557964274) ** 0.5)
    ]
    assert figures(found, "gdp", "approx-dp") == [pytest.approx(4.88655, abs=1e-5)]
    assert figures(found, "gdp", "gdp") == [pytest.approx(1.0, rel=1e-12)]
    (gaussian,) = [row for row in found["rows"] if row["guarantee"]["kind"] == "gdp"]
    assert gaussian["holds"] == "only if every release is Gaussian"
    for row in found["rows"]:
        assert row["rigour"] == "float-pessimistic"
        assert row["source"]


def test_from_mu(answer: Any) -> None:
    _, found = answer("convert", "--mu", 1, "--delta", 1e-6)
    assert figures(found, "gdp", "approx-dp") == [pytest.approx(4.88655, abs=1e-5)]
    assert figures(found, "gdp", "zcdp") == [0.5]


def test_from_pure(answer: Any) -> None:
    # tanh(1/2) = 0.46211715726..., -2 Phi^-1(1 / (1 + e)) = 1.23203...
    _, found = answer("convert", "--epsilon", 1)
    assert [row["guarantee"].get("delta") for row in found["rows"]][:4] == [1e-5, 1e-6, 1e-9, None]
    assert figures(found, "bun-steinke", "zcdp") == [0.5]
    assert figures(found, "pure", "zcdp") == [pytest.approx(0.46211715726, rel=1e-10)]
    assert figures(found, "pure", "gdp") == [pytest.approx(1.23203, abs=1e-5)]
    assert all(figure <= 1.0 for figure in figures(found, "pure", "approx-dp"))


def test_a_target_and_the_largest_figures_that_meet_it(answer: Any) -> None:
    _, found = answer("convert", "--epsilon", 1, "--delta", 1e-6, "--delta", 1e-5)
    assert [row["target_delta"] for row in found["rows"]] == [*[1e-6] * 3, *[1e-5] * 3]
    # The first proves the target of any mechanism, by a row that always holds; more of it does not.
    rho = figures(found, "zcdp", "zcdp")[0]
    for larger, meets in ((rho, True), (rho * (1 + 1e-6), False)):
        _, back = answer("convert", "--rho", repr(larger), "--delta", 1e-6)
        always = next(row for row in back["rows"] if row["holds"] == "always")
        assert (always["figure"] <= 1.0) is meets
    # The analytic Gaussian mechanism at (1, 1e-6): sigma = 4.224678889 for sensitivity 1.
    mu = figures(found, "gdp", "gdp")[0]
    assert 1 / mu == pytest.approx(4.224678889, abs=1e-8)
    assert figures(found, "gdp", "zcdp")[0] <= mu**2 / 2


def test_delta_may_be_repeated_and_text_fits(dpaudit: Any) -> None:
    result = dpaudit("convert", "--rho", 0.5, "--delta", 1e-6, "--delta", 1e-7)
    assert result.exit_code == 0
    assert "5.22154" in result.stdout  # rounded up
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--rho", 1, "--mu", 1],
        ["--epsilon", 1, "--rho", 1],
        ["--delta", 1e-6],
        ["--rho", -1],
        ["--rho", "nan"],
        ["--mu", "inf"],
        ["--rho", 1, "--delta", 0],
        ["--rho", 1, "--delta", 1],
        ["--rho", 1, "--delta", "nan"],
        ["--rho", "much"],
        ["--rho", 1, "--alpha", 2],
        ["--alpha", 2],
        ["--alpha", 1, "--epsilon", 1],
        ["--rho", 1, "--order", 1],
        ["--rho", 1, "--output-format", "xml"],
        ["--rho", 1, "--plot", "curve.gif"],
        ["--rho", 1, "--plot", "no/such/folder/curve.svg"],
        ["--mu", 1e200],
    ],
)
def test_what_cannot_be_converted(refusal: Any, options: list[object]) -> None:
    refusal("convert", *options)


def test_zero_is_a_guarantee(answer: Any) -> None:
    for scale in ("--rho", "--mu", "--epsilon"):
        status, found = answer("convert", scale, 0)
        assert status == 0
        assert {row["figure"] for row in found["rows"]} == {0.0}


def test_the_title_says_what_a_target_asks_for(dpaudit: Any) -> None:
    title = dpaudit("convert", "--epsilon", 1, "--delta", 1e-6).stdout.splitlines()[0]
    assert title == "the largest figures that prove (1, 1e-06)-DP"


@pytest.mark.parametrize("option", [("--rho", "1e308"), ("--mu", "1e200")])
def test_what_is_too_large_to_convert_is_not_told_to_add_noise(refusal: Any, option: tuple[str, str]) -> None:
    result = refusal("convert", *option)
    assert "DPA402" in result
    assert "convert a smaller figure" in result


def test_from_renyi(answer: Any) -> None:
    # Canonne, Kamath, Steinke: 1 + (log 1e6 + 7 log(7/8) - log 8) / 7 at order 8, and Mironov's log 1e6 / 7.
    _, found = answer("convert", "--alpha", 8, "--epsilon", 1, "--delta", 1e-6)
    assert found["given"] == {"kind": "rdp", "alpha": 8.0, "epsilon": 1.0}
    best = 1.0 + (math.log(1e6) + 7.0 * math.log(7.0 / 8.0) - math.log(8.0)) / 7.0
    assert figures(found, "rdp", "approx-dp") == [pytest.approx(best, rel=1e-12)]
    assert figures(found, "mironov", "approx-dp") == [pytest.approx(1.0 + math.log(1e6) / 7.0, rel=1e-12)]


def test_to_renyi(answer: Any) -> None:
    _, found = answer("convert", "--mu", 2, "--order", 5)
    (row,) = [row for row in found["rows"] if row["guarantee"]["kind"] == "rdp"]
    assert row["guarantee"] == {"kind": "rdp", "alpha": 5.0, "epsilon": 10.0}


def test_slack_is_the_excess_over_gaussian_noise(answer: Any) -> None:
    _, found = answer("convert", "--rho", 0.5, "--delta", 1e-6)
    by_method = {row["method"]: row["slack"] for row in found["rows"] if "delta" in row["guarantee"]}
    assert by_method["zcdp"] == pytest.approx(5.22153 / 4.886554117462212 - 1.0, abs=1e-5)
    assert by_method["bun-steinke"] > by_method["zcdp"]
    assert 0.0 <= by_method["gdp"] < 1e-12


def test_tables_for_papers(dpaudit: Any) -> None:
    arguments = ["convert", "--rho", 0.5, "--delta", 1e-6, "--output-format"]
    rows = list(csv.DictReader(io.StringIO(dpaudit(*arguments, "csv").stdout)))
    assert float(rows[0]["figure"]) == pytest.approx(5.22153, abs=1e-5)
    assert rows[0]["source"] == "Canonne, Kamath, Steinke 2020, Proposition 12"
    assert {row["kind"] for row in rows} == {"approx-dp", "gdp", "rdp"}
    markdown = dpaudit(*arguments, "markdown").stdout.splitlines()
    assert {text.count("|") for text in markdown} == {7}
    assert "| 5.22154 | 6.9% |" in markdown[2]
    latex = dpaudit(*arguments, "latex").stdout
    assert latex.startswith(r"\begin{tabular}")
    assert r"6.9\%" in latex
    assert latex.rstrip().endswith(r"\end{tabular}")
    assert latex.count(r" \\") == len(rows) + 1


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")]
)
def test_the_curve_is_drawn(dpaudit: Any, tmp_path: Path, ending: str, start: bytes) -> None:
    picture = tmp_path / f"curve.{ending}"
    result = dpaudit("convert", "--rho", 0.5, "--delta", 1e-6, "--plot", picture)
    assert result.exit_code == 0, result.stderr
    content = picture.read_bytes()
    assert content.lstrip().startswith(start)
    if ending == "svg":
        for method in (b"zcdp", b"bun-steinke", b"gdp"):
            assert method in content


@pytest.mark.parametrize(
    "given", [["--epsilon", 1, "--delta", 1e-6, "--delta", 1e-9], ["--mu", 0], ["--epsilon", 1]]
)
def test_every_guarantee_has_a_picture(dpaudit: Any, tmp_path: Path, given: list[object]) -> None:
    result = dpaudit("convert", *given, "--plot", tmp_path / "curve.svg")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "curve.svg").stat().st_size > 1000
