"""Frames whose threads and connections one process has: they reach others made anew, or are refused."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpaudit
from dpaudit import ZCDP, Claim, Curator, Deferred, Pair
from dpaudit.errors import DataError
from dpaudit.processes import fresh
from dpaudit.processes.engines import carried, has_polars_threads

pytestmark = [pytest.mark.interoperability, pytest.mark.filterwarnings("ignore")]

#: Polars has started its threads before the target has its processes. Few runs: each takes a second.
PROGRAM = """
import sys, warnings
import dpaudit
import polars as pl
from dpaudit import ZCDP, Claim

warnings.simplefilter("ignore")


def visits():
    return pl.DataFrame({"patient": [f"p{i // 3}" for i in range(9)], "ward": ["ICU", "ER", "ENT"] * 3})


def count(frame, curator):
    frame = pl.from_pandas(frame) if hasattr(frame, "iloc") else frame
    table = curator.table(frame.filter(pl.col("ward") != "ENT"), unit="patient").bound(rows_per_unit=2)
    return table.group_by("ward", keys=["ICU", "ER"]).count(cost=ZCDP(rho=0.1))


def quickly(target, pairs, **options):
    return dpaudit.replay(target, pairs[:1], claim=options["claim"], replays=1, extreme_outputs=False)


count.claim = Claim(ZCDP(rho=0.1), unit="patient", neighbouring="add-or-remove-one")
data = {
    "frame": visits(),
    "lazy frame": visits().lazy(),
    "function": dpaudit.Deferred(visits),
    "pandas": visits().to_pandas(),
}
visits().group_by("ward").len()
found = dpaudit.certify(count, data[sys.argv[1]], auditor=quickly)
print(found.proof.name, found.experiment.name)
"""


def said(program: Path, *words: str) -> str:
    """What a program prints whose environment states nothing of processes; it would hang, not fail."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("DPAUDIT_")}
    run: Any = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run([sys.executable, program, *words], check=False, env=own, **run)
    return str(done.stdout + done.stderr).strip()


@pytest.mark.parametrize(
    "data",
    [
        "frame",
        *(pytest.param(each, marks=pytest.mark.nightly) for each in ("lazy frame", "function", "pandas")),
    ],
)
def test_polars_does_not_hang_where_it_has_been_used(data: str, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(PROGRAM)
    assert said(tmp_path / "count.py", data) == "PROVED NOT_REFUTED"


def test_a_module_that_starts_threads_is_refused(tmp_path: Path) -> None:
    """Its runs would be forks without these threads."""
    module = PROGRAM.partition("data =")[0] + 'visits().group_by("ward").len()\n'
    (tmp_path / "count.py").write_text(module)
    (tmp_path / "start.py").write_text("from dpaudit.app.main import main\nmain()\n")
    target = f"{tmp_path / 'count.py'}:count", "--data", f"{tmp_path / 'count.py'}:visits"
    words = said(tmp_path / "start.py", "certify", *target, "-o", str(tmp_path / "out"))
    assert "Polars computed something while the target and its data were opened" in words
    assert "DPAUDIT_PROCESSES=spawn" in words


def test_a_frame_is_made_anew() -> None:
    pl, dd = (importlib.import_module(name) for name in ("polars", "dask.dataframe"))
    rows = pd.DataFrame({"patient": ["a", "b"]})
    for frame in (pl.from_pandas(rows), pl.from_pandas(rows).lazy(), dd.from_pandas(rows, npartitions=1)):
        found = carried(frame)
        assert isinstance(found, Deferred)
        assert type(found.make()) is type(frame)
    for other in (rows, found, [1.0], None):
        assert carried(other) is other


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("engine", ["duckdb", "ibis"])
def test_a_connection_is_refused(engine: str) -> None:
    def count(frame: Any, curator: Curator) -> Any:
        return curator.table(frame, unit="patient").bound(rows_per_unit=2).count(cost=ZCDP(rho=0.1))

    def visits() -> Any:
        connection = importlib.import_module(engine)
        connection = connection.connect() if engine == "duckdb" else connection.duckdb.connect()
        create = "CREATE TABLE visits AS SELECT 'p' || range % 3 AS patient FROM range(9)"
        (connection.execute if engine == "duckdb" else connection.raw_sql)(create)
        return connection.table("visits")

    data = visits()
    claim = Claim(ZCDP(rho=0.1), unit="patient", neighbouring="add-or-remove-one")
    with pytest.raises(DataError, match=r"a frame of (DuckDB|Ibis)(.|\n)*Deferred\(function\)"):
        dpaudit.certify(count, data, claim=claim, in_process=False)
    with pytest.raises(DataError, match=r"a frame of (DuckDB|Ibis)"):
        dpaudit.audit(count, Pair(data, data), claim=claim, in_process=False)
    # Its remedy: each run opens its own, and the names that DuckDB draws for relations are nobody's noise.
    few = functools.partial(dpaudit.audit, trials=1)
    found = dpaudit.certify(count, Deferred(visits), claim=claim, in_process=True, auditor=few)
    assert found.experiment is dpaudit.Experiment.NOT_REFUTED


class NotWritten:
    """What pickle refuses."""

    def __reduce__(self) -> str:
        raise TypeError


def test_a_frame_that_cannot_be_written_is_refused() -> None:
    pl = importlib.import_module("polars")
    frame = pl.DataFrame({"own": [NotWritten()]}, schema={"own": pl.Object})
    with pytest.raises(DataError, match=r"a frame of Polars that cannot be written"):
        carried(frame)


def test_threads_of_polars_make_a_fresh_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPAUDIT_PROCESSES", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    for started in (False, True):
        monkeypatch.setattr(fresh, "has_polars_threads", lambda own=started: own)
        assert fresh.is_spawned() is started
    monkeypatch.setenv("DPAUDIT_PROCESSES", "fork")
    assert not fresh.is_spawned()
    monkeypatch.setitem(sys.modules, "polars", None)
    del sys.modules["polars"]
    assert not has_polars_threads()
