"""What --data reads for an algorithm of one's own, and how it refuses the rest."""

from __future__ import annotations

import importlib
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpaudit.app.options.data_files import read_data
from dpaudit.app.text.target_text import without_value
from dpaudit.errors import DataError, UsageError
from dpaudit.tables.sources import Deferred

TYPES = "?patient=text,ward=text,minutes=number,age=whole"
VISITS = "patient,ward,minutes,age\np1,ICU,1.5,30\np2,,2,\np1,ER,,50\n"


def written(tmp_path: Path, text: str, name: str = "visits.csv") -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


def test_a_table_with_text(tmp_path: Path) -> None:
    found = read_data(written(tmp_path, VISITS) + TYPES, None)
    assert [str(kind) for kind in found.schema.types] == ["string", "string", "double", "int64"]
    assert found.to_pydict() == {
        "patient": ["p1", "p2", "p1"],
        "ward": ["ICU", None, "ER"],
        "minutes": [1.5, 2.0, None],
        "age": [30, None, 50],
    }
    some = read_data(written(tmp_path, VISITS) + "?age=text,patient=text", "patient")
    assert some.to_pydict() == {"age": ["30", None, "50"], "patient": ["p1", "p2", "p1"]}


def test_the_cell_of_one_unit_decides_no_type(tmp_path: Path) -> None:
    """Where it did, the rows that are kept of others changed with it."""
    for text in (VISITS, "patient,age\n1,30\n", "patient,age\n1,30\n2,x\n"):
        path = written(tmp_path, text)
        with pytest.raises(UsageError, match="whose types are not stated") as error:
            read_data(path, "patient")
        names = text.split()[0].replace(",", "=TYPE,")
        assert f"write --data '{path}?{names}=TYPE'" in error.value.remedy
    for cell in ("1", "K1A", "1.5", ""):
        found = read_data(written(tmp_path, f"patient,code\n1,007\n2,{cell}\n") + "?code=text", "row")
        assert found.to_pydict() == {"code": ["007", cell or None]}
    least = written(tmp_path, f"a\n{-(2**63)}\n") + "?a=whole"
    assert read_data(least, None).to_pydict() == {"a": [-(2**63)]}
    whole = written(tmp_path, "patient,code\n1,7\n2,8\n") + "?patient=text,code=number"
    assert [str(kind) for kind in read_data(whole, "patient").schema.types] == ["string", "double"]


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ("patient=txt", "'patient=txt'(.|\n)*did you mean 'text'"),
        ("pateint=text", "'pateint=text'(.|\n)*did you mean 'patient'(.|\n)*its columns are patient, ward"),
        ("patient", "'patient'(.|\n)*NAME=TYPE"),
        ("age=whole,age=number", "'age=number'(.|\n)*each name once"),
        ("age=whole,", "''(.|\n)*NAME=TYPE"),
        ("age=whole,age=whole", "'age=whole'(.|\n)*it says again"),
        ("age=whole", "'patient' left out(.|\n)*state patient=text, or patient=whole"),
        ("patient=number", "'patient' as a number"),
        ("", "types are not stated"),
    ],
)
def test_types_that_say_nothing_are_refused(tmp_path: Path, types: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_data(f"{written(tmp_path, VISITS)}?{types}", "patient")


def test_names_of_any_kind(tmp_path: Path) -> None:
    """What the message prints can be written, in any shell."""
    for name in ("VISITS.CSV", "it's.csv", "a.csv?x.csv"):
        path = written(tmp_path, 'patient,"a,b",it\'s = ?\n1,x,2\n', name)
        with pytest.raises(UsageError, match="comma in its name needs another") as error:
            read_data(path, "patient")
        (data,) = (each for each in shlex.split(error.value.remedy.split(";")[0]) if "?patient" in each)
        found = read_data(data.rstrip(",").replace("TYPE", "whole"), "patient")
        assert found.to_pydict() == {"patient": [1], "it's = ?": [2]}
    years = written(tmp_path, "patient,2024,nan\n1,2,3\n") + "?nan=text,2024=number"
    assert read_data(years, None).to_pydict() == {"nan": ["3"], "2024": [2.0]}


def test_numbers_stay_an_array_unless_a_column_is_the_unit(tmp_path: Path) -> None:
    path = written(tmp_path, "patient,age\n1,30\n2,50\n")
    assert isinstance(read_data(path, "row"), np.ndarray)
    found = read_data(path + "?patient=whole,age=whole", "patient")
    assert found.to_pydict() == {"patient": [1, 2], "age": [30, 50]}


def test_a_unit_is_written_one_way(tmp_path: Path) -> None:
    """As numbers 7 and 007 would be one unit: then one of two people could move the other's rows."""
    path = written(tmp_path, 'patient,room\n007,07\n8,7\n"7",7\n')
    with pytest.raises(DataError, match="a unit's number that an earlier line writes differently") as error:
        read_data(path + "?patient=whole", "patient")
    assert error.value.where == f"--data {path}:4"
    assert "007" not in str(error.value)
    one_way = written(tmp_path, "patient,room\n007,07\n008,7\n007,7\n")
    found = read_data(one_way + "?patient=whole,room=whole", "patient")
    assert found.to_pydict() == {"patient": [7, 8, 7], "room": [7, 7, 7]}
    assert read_data(path + "?patient=text", "patient").to_pydict() == {"patient": ["007", "008", "007"]}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (VISITS + "p1,ICU,1,1.5\n", 5, "no whole number of 64 bits in column 'age'"),
        (VISITS + f"p1,ICU,1,{2**63}\n", 5, "no whole number of 64 bits in column 'age'"),
        (VISITS + "p1,ICU,1,1_0\n", 5, "no whole number of 64 bits in column 'age'"),
        (VISITS + "p1,ICU,\u0663,1\n", 5, "no number in column 'minutes'"),
        (VISITS + 'p1,"ICU,1,1\n', 5, "cannot be read"),
        (VISITS + "p1,ICU,x,1\n", 5, "no number in column 'minutes'"),
        (VISITS + "p1,ICU,inf,1\n", 5, "NaN or infinity in column 'minutes'"),
        (VISITS + "p1,ICU,nan,1\n", 5, "NaN or infinity in column 'minutes'"),
        (VISITS + "p1,ICU\n", 5, "2 cells, where the first line names 4 columns"),
        (VISITS + "\np1,ICU,1,1\n", 5, "0 cells, where"),
        ("a,a\nx,1\n", 1, "needs a name of its own"),
        ("a,\nx,1\n", 1, "needs a name of its own"),
    ],
)
def test_a_fault_is_named_with_line_and_column(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DataError, match=words) as error:
        read_data(path + TYPES, None)
    assert error.value.where == f"--data {path}:{line}"


@pytest.mark.parametrize("text", ["", "a,b\n", 'a,b\n"x,1\n', "a,b\nx,\udcff\n"])
def test_files_that_hold_no_table_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError) as error:
        read_data(str(path), "a")
    assert "in numbers" not in str(error.value)  # a table may hold text


def test_parquet_and_a_folder_of_it(tmp_path: Path) -> None:
    one, two = pa.table({"patient": ["a"], "age": [1]}), pa.table({"patient": ["b"], "age": [2]})
    (tmp_path / "visits").mkdir()
    pq.write_table(one, tmp_path / "visits" / "1.parquet")
    pq.write_table(two, tmp_path / "visits" / "2.parquet")
    assert read_data(str(tmp_path / "visits" / "1.parquet"), None).equals(one)
    assert read_data(str(tmp_path / "visits"), None).equals(pa.concat_tables([one, two]))
    pq.write_table(pa.table({"patient": [1]}), tmp_path / "visits" / "3.parquet")
    with pytest.raises(DataError, match=r"other columns than those of 1.parquet") as error:
        read_data(str(tmp_path / "visits"), None)
    assert error.value.where.endswith("3.parquet")


def test_a_folder_of_folders_of_parquet_is_read_once(tmp_path: Path) -> None:
    """Spark writes a folder whose own name ends in .parquet."""
    one = pa.table({"patient": ["a"], "age": [1]})
    (tmp_path / "year" / "visits.parquet").mkdir(parents=True)
    pq.write_table(one, tmp_path / "year" / "visits.parquet" / "part-0.parquet")
    assert read_data(str(tmp_path / "year"), None).equals(one)


def test_what_is_no_parquet_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_data(written(tmp_path, "text", "visits.parquet"), None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"without a .parquet file"):
        read_data(str(tmp_path / "empty"), None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pyarrow is not installed(.|\n)*dpaudit\[parquet\]"):
        read_data(str(tmp_path / "visits.parquet"), None)


def test_a_function_is_called_by_each_run(tmp_path: Path) -> None:
    path = written(tmp_path, "def visits(): return [1]\nword = 'no'\n", "load.py")
    found = read_data(f"{path}:visits", None)
    assert isinstance(found, Deferred)
    assert found.make() == [1]
    with pytest.raises(UsageError, match=r"has no 'visit'(.|\n)*did you mean visits"):
        read_data(f"{path}:visit", None)
    with pytest.raises(UsageError, match="not a function"):
        read_data(f"{path}:word", None)


def test_files_that_are_not_there_and_queries_that_are_none() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.csv is not there"):
        read_data("nowhere.csv", None)
    with pytest.raises(UsageError, match="no query"):
        read_data("duckdb:visits.db", None)
    with pytest.raises(UsageError, match=r"nowhere\.db is not there"):
        read_data("duckdb:nowhere.db?select 1", None)


def test_without_duckdb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError, match=r"duckdb is not installed(.|\n)*dpaudit\[engines\]"):
        read_data(f"duckdb:{written(tmp_path, '', 'visits.db')}?select 1", None)


@pytest.mark.interoperability
def test_a_query_is_opened_by_each_run(tmp_path: Path) -> None:
    duckdb: Any = importlib.import_module("duckdb")
    path = tmp_path / "visits.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "create table visits as select 'p' || (i % 7) as patient, i as age from range(50) t(i)"
        )
    query = "from visits where age > 9"
    found = read_data(f"duckdb:{path}?{query}", None)
    assert isinstance(found, Deferred)
    assert found.make().fetchall() == found.make().fetchall()
    assert len(found.make().fetchall()) == 40
    with pytest.raises(DataError, match="a query that fails") as error:
        read_data(f"duckdb:{path}?select nothing", None).make()
    assert "nothing" not in str(without_value(error.value))  # what DuckDB says may quote the data
