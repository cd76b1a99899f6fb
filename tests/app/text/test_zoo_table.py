"""The zoo's table: its width, its JSON and its exit code."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dpaudit.app.text import zoo_table
from dpaudit.app.text.zoo_table import show_zoo, zoo

NAMES = ("sparse-vector-5", "half-the-noise", "discrete-laplace", "dp-apvi")


@pytest.fixture(autouse=True)
def small_zoo(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A few of its mechanisms; tests may exchange them."""
    chosen = {name: replace(zoo()[name], most_trials=1000) for name in NAMES}
    chosen["dp-apvi"] = replace(chosen["dp-apvi"], most_trials=30)
    monkeypatch.setattr(zoo_table, "zoo", lambda: chosen)
    monkeypatch.setenv("COLUMNS", "100")
    return chosen


def shown(output_format: str) -> int:
    return show_zoo(trials=1000, seed=0, confidence=0.95, output_format=output_format)


@pytest.mark.nightly
def test_the_table_fits_a_hundred_columns_and_says_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("text") == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert text.split("\n")[0].split() == [
        *("mechanism", "claim", "truth", "threshold", "sequential", "replay", "refuted", "runs", "s")
    ]
    rows = {row.split()[0]: row.split() for row in text.splitlines() if row.split()[:1] != []}
    assert rows["half-the-noise"][1:3] == ["4.3772", "9.9973"]
    assert rows["half-the-noise"][5:8] == ["9.997", "yes", "1000"]
    assert rows["dp-apvi"][-3:-1] == ["no", "30"]
    assert "4 of 4 verdicts are right" in text


def test_json_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["right"], answer["confidence"]) == (4, 0.95)
    rows = {row["mechanism"]: row for row in answer["rows"]}
    assert list(rows) == list(NAMES)
    assert rows["sparse-vector-5"]["epsilon_truth"] is None
    assert [audit["method"] for audit in rows["sparse-vector-5"]["audits"]] == ["threshold", "sequential"]
    assert rows["half-the-noise"]["audits"][2]["verdict"] == "REFUTED"


@pytest.mark.parametrize(("name", "truth"), [("sparse-vector-5", 0.5), ("discrete-laplace", 2.0)])
def test_one_wrong_verdict_is_exit_code_1_and_named(
    small_zoo: dict[str, Any], name: str, truth: float, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {name: replace(small_zoo[name], pair_epsilon=truth)}
    small_zoo.clear()
    small_zoo.update(chosen)
    assert shown("text") == 1
    said = "correct, and refuted: " if small_zoo[name].correct else "broken, and not refuted: "
    assert f"{said}{name}." in " ".join(capsys.readouterr().out.split())


def test_the_whole_zoo_has_every_mechanism_and_an_algorithm() -> None:
    assert len(zoo_table.ZOO) == 14
    assert {name for name, specimen in zoo_table.ZOO.items() if specimen.correct} == {
        *("sparse-vector-1", "sparse-vector-2", "laplace", "randomized-response", "own-variance"),
        *("discrete-laplace", "discrete-gaussian"),
    }
