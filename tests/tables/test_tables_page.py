"""The page on tables: its first query runs as it stands, and its study is proved."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpaudit import account, judge, run
from dpaudit.mechanisms import KeySelection

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "proving" / "tables.md").read_text(encoding="utf-8")
#: What the page leaves out.
CLAIMED = """
from dpaudit import ZCDP, Claim
measured.claim = Claim(ZCDP(rho=0.5), unit="patient", neighbouring="add-or-remove-one")
"""


def query(code: str, frame: Any, name: str) -> Any:
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "page", "exec"), scope)  # noqa: S102  (the page's own code)
    found = run(scope[name], frame)
    assert judge(found.ledger, account(found.ledger), (), command="run").all_proved
    return found.output


def test_the_first_query_is_proved_as_it_stands() -> None:
    code = re.search(r"```python\n# report.py\n(.*?)```", PAGE, flags=re.DOTALL)
    assert code is not None
    assert code[1].count("\n") <= 12
    frame = pd.DataFrame({"patient": ["a", "b"], "ward": ["ICU", "ER"], "minutes": [20.0, 30.0]})
    counts, means = query(code[1], frame, "weekly")
    assert list(counts) == list(means) == ["ICU", "ER", "ENT"]


@pytest.mark.usefixtures("few_runs")
def test_the_first_query_prints_what_the_page_shows(python: list[str], tmp_path: Path) -> None:
    found = re.search(
        r"```python\n(# report.py\n.*?)```\n\n```console\n\$ [^\n]*\n(.*?)```", PAGE, flags=re.DOTALL
    )
    assert found is not None
    (tmp_path / "report.py").write_text(found[1], encoding="utf-8")
    frame = pd.DataFrame({"patient": ["a", "b"], "ward": ["ICU", "ER"], "minutes": [20.0, 30.0]})
    frame.to_parquet(tmp_path / "visits.parquet")
    command = [*python, "-m", "dpaudit.app.main", "certify", "report.py:weekly", "--data", "visits.parquet"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.partition("proof")[0]) == (0, found[2]), ran.stderr


@pytest.mark.interoperability
def test_the_study_prints_what_the_page_shows(python: list[str], tmp_path: Path) -> None:
    """With lifelines, which ships it."""
    found = re.search(r"## A study\n.*?```console\n\$ (dpaudit [^\n]*)\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None
    start = shlex.join(python)
    command = found[1].replace("dpaudit certify", f"{start} -m dpaudit.app.main certify")
    command = command.replace("$(python ", f"$({start} ").replace("-o out", f"-o {tmp_path / 'out'}")
    ran = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    assert ran.stdout == found[2], ran.stderr


def test_the_marginals_for_synthetic_rows_are_proved_as_they_stand() -> None:
    code = re.search(r"## Synthetic rows\n.*?```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert code is not None
    frame = pd.DataFrame({"patient": ["a", "b"], "ward": ["ICU", "ER"], "urgent": [True, False]})
    claimed = code[1] + CLAIMED
    found = query(claimed, frame.assign(weekday=[0, 6]), "measured")
    assert [each["columns"] for each in found[:3]] == [["ward"], ["urgent"], ["weekday"]]


def test_the_study_is_proved() -> None:
    columns = ["start", "stop", "event", "age", "year", "surgery", "transplant", "id"]
    frame = pd.DataFrame([[0, 50, 1, -17.2, 0.1, 0, i % 2, i] for i in range(4)], columns=columns)
    code = (ROOT / "examples" / "heart_transplants.py").read_text(encoding="utf-8")
    assert set(query(code, frame, "report")) == {"patients", "deaths", "age", "days"}


def test_how_many_units_a_key_needs_is_what_the_page_says() -> None:
    chances = KeySelection(epsilon=0.5, delta=1e-6, changes=3).probabilities(100)
    words = [f"{chances[units]:.2f}" for units in (60, 75, 100)]
    said = "a key of 60 units with probability {}, of 75 with {}, and of 100 with {}."
    assert said.format(*words) in " ".join(PAGE.split())
