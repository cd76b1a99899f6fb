"""What --data reads for an algorithm of one's own, and how it refuses the rest."""

import importlib
import shlex
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpaudit.app.options import data_files
from dpaudit.app.options.data_files import read_data
from dpaudit.app.text.target_text import without_value
from dpaudit.curator.deferred import Deferred
from dpaudit.errors import DataError, UsageError

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


def test_what_is_written_beside_the_rows_is_left_out(tmp_path: Path) -> None:
    """Names of indexes, attributes and metadata could be one unit's."""
    frame = pd.DataFrame({"ward": pd.Categorical(["ICU", "ER"])}, index=pd.Index([1, 2], name="of u7"))
    frame.attrs = {"note": "of u7"}
    frame.to_parquet(tmp_path / "visits.parquet")
    found = read_data(str(tmp_path / "visits.parquet"), None)
    assert found.schema.metadata is None
    assert [field.metadata for field in found.schema] == [None, None]
    assert found["ward"].to_pylist() == ["ICU", "ER"]
    inner = pa.field("own", pa.int64(), metadata={"note": "of u7"})
    own = pa.schema([pa.field("all", pa.struct([inner]), metadata={"note": "of u7"})])
    pq.write_table(pa.table({"all": [{"own": 1}]}, schema=own), tmp_path / "nested.parquet")
    schema = read_data(str(tmp_path / "nested.parquet"), None).schema
    assert schema.field("all").metadata is None
    assert schema.field("all").type.field("own").metadata is None


def test_parquet_of_more_rows_than_memory_holds_is_refused(tmp_path: Path) -> None:
    """Before it is read: 2 MB can stand for 3e8 rows."""
    path = tmp_path / "visits.parquet"
    rows = pa.table({"patient": pa.array(["u"] * 10**6)})
    with pq.ParquetWriter(path, rows.schema) as writer:
        for _ in range(200):
            writer.write_table(rows)
    assert path.stat().st_size < 2**20
    with pytest.raises(DataError, match=r"200000000 rows(.|\n)*2 GiB(.|\n)*MODULE.py:FUNCTION") as error:
        read_data(str(path), None)
    assert error.value.where == f"--data {path}"


def test_parquet_is_refused_as_soon_as_its_texts_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"note": pa.array(["x" * 1000] * 10_000)})
    for name in ("1.parquet", "2.parquet"):
        pq.write_table(rows, tmp_path / name)
    monkeypatch.setattr(data_files, "MOST_BYTES", 15_000_000)
    assert read_data(str(tmp_path / "1.parquet"), None).equals(rows)
    with pytest.raises(DataError, match="10000 rows, which take more than") as error:
        read_data(str(tmp_path), None)
    assert error.value.where.endswith("2.parquet")
    monkeypatch.setattr(data_files, "MOST_BYTES", 1_000_000)
    with pytest.raises(DataError, match="10000 rows, which take more than"):
        read_data(str(tmp_path / "1.parquet"), None)


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


def npy(shape: str, body: bytes = b"", version: int = 1, descr: str = "'<f8'") -> bytes:
    """A file of numpy with a header of one's own."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header + body


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy("(True,)", b"0" * 8), r"a shape of \(True,\)"),
        (npy("(1.0,)", b"0" * 8), "cannot be read"),
        (npy("(-1,)", b"0" * 8), r"a shape of \(-1,\)"),
        (npy(f"({2**64},)", b"0" * 8), rf"8 bytes of an array(.|\n)*it takes {2**67}"),
        (npy(f"({2**32}, {2**32})"), "0 bytes of an array"),
        (npy("(10**12,)", b"0" * 8), "cannot be read"),
        (npy("(1000000000000,)", b"0" * 8), "it takes 8000000000000"),
        (npy("(4,)", b"0" * 8), "8 bytes of an array(.|\n)*it takes 32"),
        (npy("(1,)", b"0" * 80), "80 bytes of an array(.|\n)*it takes 8"),
        (npy("(0,)"), "holds no record"),
        (npy("()", b"0" * 8), "records lie along the first axis"),
        (npy("(1,)", b"0" * 8, version=3), "a header of version 3.0"),
        (npy("(1,)", b"0" * 8, version=9), "a header of version 9.0"),
        (npy("(1,)", b"0" * 8, descr="'|O'"), "cannot be read"),
        (npy("(1,)", b"0" * 8, descr="('<f8', (1000,))"), "cannot be read"),
        (npy("(1,)", b"0" * 8, descr="{}"), "no numbers to run on"),
        (npy("(" * 4000 + ")" * 4000), "cannot be read"),
        (npy("(1,)")[:20], "cannot be read"),
        (b"", "cannot be read"),
        (b"PK\x03\x04 and so on", "an archive of numpy.savez"),
    ],
)
def test_a_faulty_file_of_numpy_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    """And the algorithm is not, which never ran."""
    path = tmp_path / "rows.npy"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as error:
        read_data(str(path), None)
    assert error.value.where == f"--data {path}"
    assert error.value.remedy


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_a_file_of_numpy_is_read_as_it_is(tmp_path: Path, version: tuple[int, int]) -> None:
    rows = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    with (tmp_path / "rows.npy").open("wb") as file:
        np.lib.format.write_array(file, rows, version)
    found = read_data(str(tmp_path / "rows.npy"), None)
    assert found.dtype == rows.dtype
    assert found.tolist() == rows.tolist()


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


@pytest.mark.interoperability
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("copy visits to '{}/copy.csv'", r"1 statement \(COPY\)"),
        ("export database '{}/export'", r"1 statement \(EXPORT\)"),
        ("from visits; copy visits to '{}/copy.csv'", r"2 statements \(SELECT, COPY\)"),
        ("from visits; from visits", r"2 statements \(SELECT, SELECT\)"),
        ("attach '{}/other.db'", r"1 statement \(ATTACH\)"),
        ("install httpfs", r"1 statement \(LOAD\)"),
        ("set threads = 1", r"1 statement \(SET\)"),
        ("create temp table own as from visits", r"1 statement \(CREATE\)"),
        ("insert into visits values ('p') returning *", r"1 statement \(INSERT\)"),
        ("call pragma_version()", r"1 statement \(CALL\)"),
        ("explain from visits", r"1 statement \(EXPLAIN\)"),
        ("-- nothing", "no statement"),
        ("from read_csv('{}/other.csv')", "a query that fails(.|\n)*this file and no other"),
        ("from '{}/other.csv'", "a query that fails"),
        ("from read_text('{}/other.csv')", "a query that fails(.|\n)*this file and no other"),
        ("from glob('{}/*')", "a query that fails(.|\n)*this file and no other"),
        ("from pandas_frame", "a query that fails"),
    ],
)
def test_a_query_reads_its_file_alone_and_writes_none(tmp_path: Path, query: str, words: str) -> None:
    duckdb: Any = importlib.import_module("duckdb")
    path, pandas_frame = tmp_path / "visits.db", pd.DataFrame({"patient": ["p1"]})
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table visits as select 'p' as patient")
    written(tmp_path, "patient\np1\n", "other.csv")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=words):
        read_data(f"duckdb:{path}?{query.format(tmp_path)}", None).make()
    rows = read_data(f"duckdb:{path}?with own as (from visits) from own", None).make()
    with pytest.raises(duckdb.Error):  # nor does an author's own statement on what is handed out
        rows.query("own", f"copy own to '{tmp_path}/copy.csv'")
    assert sorted(tmp_path.iterdir()) == before
    assert rows.fetchall() == [("p",)]
    assert len(pandas_frame) == 1
