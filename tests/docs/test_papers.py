"""The published verdicts are what the tool says today."""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from dpaudit.claims.guarantees import ZCDP

DOCS = Path(__file__).parents[2] / "docs"
FIGURE = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_papers.py"))


@pytest.fixture(scope="module")
def made(script: dict[str, Any]) -> str:
    return str(script["papers_page"]())


@pytest.fixture(scope="module")
def rows(made: str) -> dict[str, list[str]]:
    return table(made.partition("## 001")[0])


def table(section: str) -> dict[str, list[str]]:
    table = [line.strip("| ").split(" | ") for line in section.splitlines() if "PROVED |" in line]
    return {cells[0]: cells[1:] for cells in table}


def test_the_published_verdicts_are_up_to_date(made: str) -> None:
    stored = (DOCS / "papers.md").read_text(encoding="utf-8")
    # Every word, and so every verdict, is the same; figures may differ in their last digit between machines.
    assert FIGURE.sub("#", stored) == FIGURE.sub("#", made), "run: python docs/make_papers.py"
    for one, other in zip(FIGURE.findall(stored), FIGURE.findall(made), strict=True):
        assert float(one) == pytest.approx(float(other), rel=2e-3), "run: python docs/make_papers.py"


def test_verdicts_by_form(rows: dict[str, list[str]]) -> None:
    assert len(rows) == 2 + 2 * 3 * 2
    for name, (premises, releases, total, _, proof, replayed, *_) in rows.items():
        refuted = "as-published, raw" in name
        assert replayed.startswith("REFUTED" if refuted else "NOT_REFUTED")
        assert proof == ("NOT_PROVED" if refuted else "PROVED")
        assert ("FAILS" in premises) == refuted
        assert releases.startswith("40 of 100 NOT_PROVED") == ("as-published" in name)
        if "as-published" not in name:
            assert float(total) == pytest.approx(1.0, rel=1e-9)


def test_the_loss_of_a_pair_of_dp_apvi_is_its_whole_claim(script: dict[str, Any]) -> None:
    # n_sa and n_sas each move by sqrt(2H) under sigma^2 = 2H/rho: rho/2 each; by 2H under scale 4H/epsilon.
    for case in script["dp_apvi_cases"]():
        for pair in case.algorithm.worst_pairs():
            assert script["pair_loss"](case.algorithm, pair) == pytest.approx((1.0, 1.0), rel=1e-12)


def test_the_loss_of_a_pair_of_dp_vapvi_by_hand(script: dict[str, Any]) -> None:
    # One-hot features: every Sigma moves by sqrt 2, of which the share pays for 1: 2 rho/(5H) at each step.
    case = next(
        case for case in script["dp_vapvi_cases"]() if case.name == "as-published, one-hot, not split"
    )
    assert case.algorithm.guarantee == ZCDP(rho=1.0)
    (pair,) = case.algorithm.worst_pairs()
    low, high = script["pair_loss"](case.algorithm, pair)
    assert low == pytest.approx(2 / 5, rel=1e-12)
    assert high == pytest.approx(0.8843, abs=5e-5)


def test_the_paper_s_own_experiment_exceeds_its_claim_at_delta(rows: dict[str, list[str]]) -> None:
    epsilon = rows["as-published, raw, not split"][-1]
    low, high, allowed = (float(figure) for figure in FIGURE.findall(epsilon))
    assert allowed < low < high
    # Between mu^2/2 and mu^2/2 + mu z, z = 4.7534 the normal quantile of 1e-6's complement.
    for figure, loss in ((low, 11.4), (high, 23.1)):
        mu = math.sqrt(2 * loss)
        assert mu**2 / 2 < figure < mu**2 / 2 + 4.7535 * mu


def test_verdicts_of_policy_evaluation(made: str) -> None:
    found = table(made.partition("## 001")[2].partition("\n## ")[0])
    assert len(found) == 8
    for name, (premises, _, least, proof, replayed, sampled) in found.items():
        false = name == "DP-LSW, lemma, epsilon=52, d=1"
        assert ("FAILS" in premises) == false
        assert proof == ("NOT_PROVED" if false else "PROVED")
        assert (float(least) > 52.0) == false
        planted = name.endswith(("local sensitivity", "printed max"))
        assert replayed.startswith("REFUTED" if planted else "NOT_REFUTED")
        assert ("REFUTED" in sampled.split("; ")) == name.endswith("local sensitivity")
    assert float(found["DP-LSW, exact"][1]) == pytest.approx(2.847, abs=1e-3)
    assert float(found["DP-LSW, lemma"][1]) == pytest.approx(122.39, abs=0.02)
