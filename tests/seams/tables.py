"""Rows about tables and data files: levels and metadata, keys, files, and the place of a finding."""

from __future__ import annotations

import functools
import importlib
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import dpaudit
from dpaudit import L2, ZCDP, Claim, Curator, Gaussian
from dpaudit.app.options.data_files import read_data
from tests.certified import certified
from tests.seams.case import Case
from tests.tables.test_carried import PROGRAM, said

RARE = "rare disease of u7"
COST = ZCDP(rho=0.1)


def _visits() -> pd.DataFrame:
    patients = [f"p{i}" for i in range(6) for _ in range(4)] + ["u7"] * 6
    wards = ["ICU", "ER", "ICU", "ER"] * 6 + [RARE] * 6
    return pd.DataFrame({"patient": patients, "ward": wards, "minutes": [5.0] * 30})


def _with_levels() -> pd.DataFrame:
    frame = _visits().astype({"ward": "category"})
    frame.attrs = {"wards": [RARE]}
    return frame.rename_axis(RARE)


def _claimed(algorithm: Callable[..., Any], rho: float = 0.1) -> Any:
    """The algorithm as a new function, with a claim."""

    @functools.wraps(algorithm)
    def own(data: Any, curator: Curator) -> Any:
        return algorithm(data, curator)

    own.claim = Claim(ZCDP(rho=rho), unit="patient", neighbouring="add-or-remove-one")  # type: ignore[attr-defined]
    return own


def _published(algorithm: Callable[..., Any], data: Any) -> str:
    """Whether the output of a certified run, which has a twin, names what only one unit has."""
    with warnings.catch_warnings(action="ignore"):
        output = certified(_claimed(algorithm), data, auditor=_quickly, in_process=False).run.output
    return f"output {'with' if RARE in str(output) else 'without'} it"


def _quickly(target: Any, pairs: Any, **options: Any) -> dpaudit.Audit:
    return dpaudit.replay(target, pairs[:1], claim=options["claim"], replays=1, extreme_outputs=False)


def _certified(algorithm: Callable[..., Any], data: Any, *, in_process: bool = False) -> str:
    """What `dpaudit.certify` says with default options, and the error it raises."""
    with warnings.catch_warnings(action="ignore"):
        try:
            found = dpaudit.certify(_claimed(algorithm), data, in_process=in_process)
        except (dpaudit.DpauditError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
    kinds = sorted({finding.kind for audit in found.audits for finding in audit.findings})
    return f"{found.proof.name}, {found.experiment.name} {' '.join(kinds)}".strip()


def _counted(frame: Any, curator: Curator, keys: Any) -> Any:
    table = curator.table(frame, unit="patient").bound(rows_per_unit=4)
    return table.group_by("ward", keys=keys).count(cost=COST)


# Levels, and what else a frame says beside its rows.


def _keys_of_levels(frame: Any, curator: Curator) -> Any:
    return _counted(frame, curator, list(frame["ward"].cat.categories))


def _keys_of_stated_levels(frame: Any, curator: Curator) -> Any:
    frame = frame.assign(ward=frame["ward"].cat.set_categories(["ICU", "ER"]))
    return _counted(frame, curator, list(frame["ward"].cat.categories))


def _keys_of_attributes(frame: Any, curator: Curator) -> Any:
    return _counted(frame, curator, ["ICU", *frame.attrs.get("wards", [])])


def _name_of_the_index(frame: Any, curator: Curator) -> Any:
    return _counted(frame, curator, ["ICU"]), frame.index.name


def _columns_named(frame: Any, curator: Curator) -> Any:
    return _counted(frame, curator, ["ICU"]), list(map(str, frame.columns))


def _arrow_table() -> Any:
    table = pa.Table.from_pandas(_visits(), preserve_index=False)
    ward = table["ward"].combine_chunks().dictionary_encode()
    return table.set_column(1, "ward", ward).replace_schema_metadata({"note": RARE})


def _keys_of_a_dictionary(table: Any, curator: Curator) -> Any:
    ward = table["ward"].combine_chunks()
    return _counted(table, curator, ward.dictionary.to_pylist())


def _schema_metadata(table: Any, curator: Curator) -> Any:
    return _counted(table, curator, ["ICU"]), str(table.schema.metadata)


def _names_and_types(table: Any, curator: Curator) -> Any:
    return _counted(table, curator, ["ICU"]), str(table.schema.names)


# Files.


def _read(name: str, write: Callable[[Path], object], suffix: str = "") -> str:
    """What is said of a file, with its name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        before = sorted(Path(folder).iterdir())
        given = suffix.format(path=path, folder=folder) if suffix else str(path)
        try:
            found = read_data(given, None)
            found = found.make() if isinstance(found, dpaudit.Deferred) else found
            said = f"read: {found.fetchall() if hasattr(found, 'fetchall') else len(found)}"
        except dpaudit.DpauditError as error:
            said = f"{type(error).__name__}: {error}".replace(folder, "")
        return said + ("" if sorted(Path(folder).iterdir()) == before else ", and files were written")


def _npy(shape: str, body: bytes) -> Callable[[Path], object]:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return lambda path: path.write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body
    )


def _parquet(rows: int) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        table = pa.table({"patient": pa.array(["u"] * min(rows, 10**6))})
        with pq.ParquetWriter(path, table.schema) as writer:
            for _ in range(max(1, rows // 10**6)):
                writer.write_table(table)

    return write


def _database(path: Path) -> None:
    with importlib.import_module("duckdb").connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 'p1' AS patient")


def _query(query: str) -> Callable[[], str]:
    return lambda: _read("visits.db", _database, "duckdb:{path}?" + query)


# Keys that pandas holds as objects.


def _by_key(own: Any, keys: list[Any]) -> str:
    """Whether 5,000 rows are counted near 5,000, or which remedy is given."""
    frame = pd.DataFrame({"patient": [f"p{i}" for i in range(len(own))], "own": own})

    def count(frame: Any, curator: Curator) -> Any:
        table = curator.table(frame, unit="patient").bound(rows_per_unit=1)
        return table.group_by("own", keys=keys).count(cost=COST)

    try:
        found = dpaudit.run(count, frame, claim=_CLAIM).output[keys[0]]
    except dpaudit.DpauditError as error:
        return f"{type(error).__name__}: {error}"
    return "near 5000" if abs(found - 5000) < 100 else "far from 5000"


_CLAIM = Claim(COST, unit="patient", neighbouring="add-or-remove-one")
_DAY = pd.Series(pd.to_datetime(["2026-01-01"] * 5000))


# Polars, whose threads a fork lacks.


def _polars() -> str:
    """What a program of its own says that has used Polars, within a time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "count.py"
        path.write_text(PROGRAM)
        return said(path, "frame")


# Where a finding stands.


def _twice(frame: Any, curator: Curator) -> Any:
    noise = Gaussian(sigma=100.0, sensitivity=L2(0.5))
    table = curator.table(pd.concat([frame, frame]), unit="patient").bound(rows_per_unit=4)
    table.count(cost=ZCDP(rho=0.01), label=f"visits of {len(frame)}")
    return curator.release(float(len(frame)), noise, label="rows")


def _file_of_a_finding() -> str:
    with warnings.catch_warnings(action="ignore"):
        found = dpaudit.certify(_claimed(_twice), _visits(), in_process=True)
    places = {finding.where for audit in found.audits for finding in audit.findings if finding.where}
    return f"{found.experiment.name} at {' '.join(sorted({place.rpartition(':')[0] for place in places}))}"


def _one_unit(frame: Any, curator: Curator) -> Any:
    return curator.table(frame, unit="patient").bound(rows_per_unit=4).count(cost=COST)


_ALL = {"patient": ["u7"] * 5, "ward": ["ICU"] * 5}
_CAUGHT = r"InvalidParameter: .*no keys.*"
_INNOCENT = "PROVED, NOT_REFUTED"
_LEVELS, _FILES, _KEYS = "metadata of a table", "data files", "keys held as objects"

CASES = [
    Case(
        _LEVELS,
        "keys are the levels of a category",
        planted=True,
        verdict=lambda: _certified(_keys_of_levels, _with_levels()),
        expected=_CAUGHT,
    ),
    Case(
        _LEVELS,
        "keys are the levels of a category, in one process",
        planted=True,
        verdict=lambda: _certified(_keys_of_levels, _with_levels(), in_process=True),
        expected=r"(PROVED, REFUTED|NOT_PROVED, REFUTED).*|InvalidParameter: .*no keys.*",
    ),
    Case(
        _LEVELS,
        "keys are levels that the algorithm states",
        planted=False,
        verdict=lambda: _certified(_keys_of_stated_levels, _with_levels()),
        expected=_INNOCENT,
    ),
    Case(
        _LEVELS,
        "keys are an attribute of the frame",
        planted=True,
        verdict=lambda: _published(_keys_of_attributes, _with_levels()),
        expected="output without it",
    ),
    Case(
        _LEVELS,
        "the name of the index is returned",
        planted=True,
        verdict=lambda: _published(_name_of_the_index, _with_levels()),
        expected="output without it",
    ),
    Case(
        _LEVELS,
        "the names of the columns are returned",
        planted=False,
        verdict=lambda: _certified(_columns_named, _with_levels()),
        expected=_INNOCENT,
    ),
    Case(
        _LEVELS,
        "keys are the dictionary of an Arrow column",
        planted=True,
        verdict=lambda: _certified(_keys_of_a_dictionary, _arrow_table()),
        expected=_CAUGHT,
    ),
    Case(
        _LEVELS,
        "metadata of an Arrow schema are returned",
        planted=True,
        verdict=lambda: _published(_schema_metadata, _arrow_table()),
        expected="output without it",
    ),
    Case(
        _LEVELS,
        "names of an Arrow schema are returned",
        planted=False,
        verdict=lambda: _certified(_names_and_types, _arrow_table()),
        expected=_INNOCENT,
    ),
    Case(
        _FILES,
        "an array whose shape is a truth value",
        planted=True,
        verdict=lambda: _read("rows.npy", _npy("(True,)", b"0" * 8)),
        expected=r"DataError: DPA301 --data /rows.npy: a shape of \(True,\).*",
    ),
    Case(
        _FILES,
        "an array of 2^64 rows",
        planted=True,
        verdict=lambda: _read("rows.npy", _npy(f"({2**64},)", b"0" * 8)),
        expected=r"DataError: DPA301 --data /rows.npy: 8 bytes of an array.*",
    ),
    Case(
        _FILES,
        "an archive under the name of an array",
        planted=True,
        verdict=lambda: _read("rows.npy", lambda path: path.write_bytes(b"PK\x03\x04")),
        expected=r"DataError: DPA301 --data /rows.npy: an archive of numpy.savez.*",
    ),
    Case(
        _FILES,
        "an array of one row",
        planted=False,
        verdict=lambda: _read("rows.npy", _npy("(1,)", struct.pack("<d", 1.0))),
        expected="read: 1",
    ),
    Case(
        _FILES,
        "a small Parquet file of 2e8 rows",
        planted=True,
        verdict=lambda: _read("visits.parquet", _parquet(2 * 10**8)),
        expected=r"DataError: DPA301 --data /visits.parquet: 200000000 rows.*MODULE.py:FUNCTION.*",
    ),
    Case(
        _FILES,
        "a small Parquet file of 1000 rows",
        planted=False,
        verdict=lambda: _read("visits.parquet", _parquet(1000)),
        expected="read: 1000",
    ),
    Case(
        _FILES,
        "a query that copies the rows to a file",
        planted=True,
        verdict=_query("COPY visits TO '{folder}/copy.csv'"),
        expected=r"(?!.*files were written)DataError: .*1 statement \(COPY\).*",
        engines=True,
    ),
    Case(
        _FILES,
        "a query that exports the database",
        planted=True,
        verdict=_query("EXPORT DATABASE '{folder}/copy'"),
        expected=r"(?!.*files were written)DataError: .*1 statement \(EXPORT\).*",
        engines=True,
    ),
    Case(
        _FILES,
        "a query with a second statement",
        planted=True,
        verdict=_query("FROM visits; ATTACH '{folder}/other.db'"),
        expected=r"DataError: .*2 statements \(SELECT, ATTACH\).*",
        engines=True,
    ),
    Case(
        _FILES,
        "a query that reads another file",
        planted=True,
        verdict=_query("FROM read_text('/etc/hostname')"),
        expected=r"DataError: .*a query that fails.*",
        engines=True,
    ),
    Case(
        _FILES,
        "a query that reads its own file",
        planted=False,
        verdict=_query("WITH own AS (FROM visits) SELECT * FROM own"),
        expected=r"read: \[\('p1',\)\]",
        engines=True,
    ),
    Case(
        _KEYS,
        "keys are texts of intervals",
        planted=False,
        verdict=lambda: _by_key(pd.cut([1] * 5000, [0, 3]), ["(0, 3]"]),
        expected="near 5000",
    ),
    Case(
        _KEYS,
        "keys are texts of dates",
        planted=False,
        verdict=lambda: _by_key(_DAY.dt.date, ["2026-01-01"]),
        expected="near 5000",
    ),
    Case(
        _KEYS,
        "keys are texts of periods held as objects",
        planted=False,
        verdict=lambda: _by_key(_DAY.dt.to_period("M").astype(object), ["2026-01"]),
        expected="near 5000",
    ),
    Case(
        _KEYS,
        "keys are texts of numbers held as objects",
        planted=False,
        verdict=lambda: _by_key(pd.Series([1] * 5000, dtype=object), ["1"]),
        expected="near 5000",
    ),
    Case(
        _KEYS,
        "keys are numbers of texts held as objects",
        planted=False,
        verdict=lambda: _by_key(pd.Series(["1"] * 5000, dtype=object), [1]),
        expected="near 5000",
    ),
    Case(
        _KEYS,
        "keys are dates",
        planted=True,
        verdict=lambda: _by_key(_DAY.dt.date, [_DAY[0].date()]),
        expected="InvalidParameter: .*as text this one is '2026-01-01'",
    ),
    Case(
        _KEYS,
        "keys of a column of periods",
        planted=True,
        verdict=lambda: _by_key(_DAY.dt.to_period("M"), ["2026-01"]),
        expected=r"InvalidParameter: .*as text by frame\['own'\] = frame\['own'\].astype\(str\)",
    ),
    Case(
        "threads and forks",
        "a Polars frame is certified where Polars was used",
        planted=False,
        verdict=_polars,
        expected=_INNOCENT.replace(",", ""),
        engines=True,
    ),
    Case(
        "place of a finding",
        "a table's finding is in the author's file",
        planted=True,
        verdict=_file_of_a_finding,
        expected=r"REFUTED at tests/seams/tables.py",
    ),
    Case(
        "one unit has all rows",
        "a table of one unit is audited",
        planted=False,
        verdict=lambda: _certified(_one_unit, pa.table(_ALL)),
        expected=_INNOCENT,
    ),
]
