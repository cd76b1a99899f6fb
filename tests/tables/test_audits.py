"""A table brings its own pairs: what its author got wrong is found, and what is right is left alone."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpaudit
from dpaudit import L2, ZCDP, Claim, Curator, Gaussian
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.curator.deferred import Deferred
from dpaudit.errors import UsageError
from dpaudit.tables.sources import frame_pairs

WARDS = ["ICU", "ER", "ENT"]
COST = ZCDP(rho=0.1)
#: Sigma for rows of one patient, at most 4 in all, which move a table of counts by at most 4.
NOISE = Gaussian(sigma=4.0 / 0.2**0.5, sensitivity=L2(4.0))


def visits(people: int = 12) -> pd.DataFrame:
    draw = np.random.default_rng(3)
    patients = [f"p{i}" for i in range(people) for _ in range(1 + i % 6)]
    frame = pd.DataFrame({"patient": patients, "ward": draw.choice(WARDS, len(patients))})
    return frame.assign(minutes=draw.integers(5, 90, len(patients)) * 1.0)


def claimed(algorithm: Any, relation: str = "add-or-remove-one", rho: float = 0.2) -> Any:
    algorithm.claim = Claim(ZCDP(rho=rho), unit="patient", neighbouring=relation)
    return algorithm


def report(frame: Any, curator: Curator) -> Any:
    bounded = curator.table(frame, unit="patient").bound(rows_per_unit=4, groups_per_unit=2)
    wards = bounded.group_by("ward", keys=WARDS)
    return wards.count(cost=COST), wards.mean("minutes", lower=0.0, upper=60.0, cost=COST)


def no_bounding(frame: pd.DataFrame, curator: Curator) -> Any:
    counts = frame.groupby("ward").size().reindex(WARDS, fill_value=0)
    return curator.release(counts.to_numpy(dtype=float), NOISE, label="visits")


def keys_of_the_data(frame: pd.DataFrame, curator: Curator) -> Any:
    bounded = curator.table(frame, unit="patient").bound(rows_per_unit=4, groups_per_unit=2)
    return bounded.group_by("ward", keys=sorted(frame["ward"].dropna().unique())).count(cost=COST)


def rows_bounded_in_each_ward(frame: pd.DataFrame, curator: Curator) -> Any:
    kept = frame.groupby(["patient", "ward"]).head(4)
    counts = kept.groupby("ward").size().reindex(WARDS, fill_value=0)
    return curator.release(counts.to_numpy(dtype=float), NOISE, label="visits")


def missing_values_told(frame: pd.DataFrame, curator: Curator) -> Any:
    bounded = curator.table(frame, unit="patient").bound(rows_per_unit=4)
    return bounded.count(cost=COST), bool(frame["minutes"].isna().any())


def units_listed(frame: pd.DataFrame, curator: Curator) -> Any:
    bounded = curator.table(frame, unit="patient").bound(rows_per_unit=4)
    return bounded.count(cost=COST), sorted(frame["patient"].unique())


def mean_by_the_private_count(frame: pd.DataFrame, curator: Curator) -> Any:
    bounded = curator.table(frame, unit="patient").bound(rows_per_unit=4)
    return bounded.sum("minutes", lower=0.0, upper=60.0, cost=COST) / max(len(frame), 1)


def bounded_before_a_join(frame: pd.DataFrame, curator: Curator) -> Any:
    kept = frame.groupby("patient").head(4)
    staff = pd.DataFrame({"ward": np.repeat(WARDS, 5), "nurse": range(15)})
    counts = kept.merge(staff, on="ward").groupby("ward").size().reindex(WARDS, fill_value=0)
    return curator.release(counts.to_numpy(dtype=float), NOISE, label="visits and nurses")


def bounded_after_a_join(frame: pd.DataFrame, curator: Curator) -> Any:
    staff = pd.DataFrame({"ward": np.repeat(WARDS, 5), "nurse": range(15)})
    bounded = curator.table(frame.merge(staff, on="ward"), unit="patient").bound(rows_per_unit=4)
    return bounded.group_by("ward", keys=WARDS).count(cost=COST)


def certified(algorithm: Any, data: Any, **options: Any) -> Certificate:
    usual = {"in_process": True, "auditor": functools.partial(dpaudit.audit, trials=2)}
    return dpaudit.certify(algorithm, data, **{**usual, **options})


def half_the_noise(frame: pd.DataFrame, curator: Curator) -> Any:
    bounded = curator.table(pd.concat([frame, frame]), unit="patient").bound(rows_per_unit=4)
    return [
        bounded.count(cost=COST, label=f"visits of {len(frame)}"),
        bounded.count(cost=COST),
    ]


FAULTS = [no_bounding, keys_of_the_data, mean_by_the_private_count, bounded_before_a_join]
MORE = [rows_bounded_in_each_ward, missing_values_told, units_listed]
FAULTS += [pytest.param(fault, marks=pytest.mark.nightly) for fault in MORE]
RELATIONS = ["add-or-remove-one", pytest.param("replace-one", marks=pytest.mark.nightly)]


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Any, relation: str) -> None:
    found = certified(claimed(fault, relation, rho=0.4), visits())
    assert found.experiment is Experiment.REFUTED


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("relation", [*RELATIONS, pytest.param("zero-out", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("innocent", [report, pytest.param(bounded_after_a_join, marks=pytest.mark.nightly)])
def test_what_is_right_is_left_alone(innocent: Any, relation: str) -> None:
    found = certified(claimed(innocent, relation), visits())
    assert (found.proof, found.experiment) == (Proof.PROVED, Experiment.NOT_REFUTED)


def test_a_finding_names_the_authors_line() -> None:
    """And no file of dpaudit's own, though that is what releases."""
    found = certified(claimed(half_the_noise), visits())
    places = {finding.where for audit in found.audits for finding in audit.findings if finding.where}
    first = half_the_noise.__code__.co_firstlineno
    assert places
    assert places <= {f"tests/tables/test_audits.py:{first + line}" for line in range(2, 6)}


@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one", "zero-out"])
@pytest.mark.parametrize("units", [["a"] * 5, [7] * 5])
def test_one_unit_has_all_rows(units: list[Any], relation: str) -> None:
    frame = pd.DataFrame({"patient": units, "ward": ["ICU"] * 5, "minutes": [1.0] * 5})
    for data in (frame, pa.Table.from_pandas(frame)):
        found = certified(claimed(report, relation), data)
        assert (found.proof, found.experiment) == (Proof.PROVED, Experiment.NOT_REFUTED)


@pytest.mark.nightly
def test_whole_numbers_as_units_and_no_text_at_all() -> None:
    frame = pa.table({"patient": [1, 1, 2, 2**62], "age": [30, 30, 50, 70], "ill": [True, False, True, True]})

    def ages(table: Any, curator: Curator) -> Any:
        bounded = curator.table(table, unit="patient").bound(rows_per_unit=1)
        return bounded.sum("age", lower=0, upper=100, cost=COST), bounded.count(cost=COST)

    assert certified(claimed(ages), frame).experiment is Experiment.NOT_REFUTED


def quickly(target: Any, pairs: Any, **options: Any) -> dpaudit.Audit:
    """Few runs: each of them is a process, and what an audit finds is tested above."""
    return dpaudit.replay(target, pairs[:1], claim=options["claim"], replays=1, extreme_outputs=False)


def test_a_run_beside_a_twin_without_rows(nightly: bool) -> None:
    options: dict[str, Any] = {} if nightly else {"auditor": quickly}
    found = certified(claimed(report), visits(), in_process=False, **options)
    assert (found.proof, found.experiment) == (Proof.PROVED, Experiment.NOT_REFUTED)
    stand_in = [each.text for each in found.not_checked if each.code == "public-stand-in"]
    assert stand_in == ["a table without rows, made from the names and types of the data's columns alone"]


def test_the_holder_is_warned_of_a_run_that_stops_where_its_twin_goes_on() -> None:
    """The certificate, which others read, may not tell that a row has no unit."""
    nobody = visits()
    nobody.loc[0, "patient"] = None
    with pytest.warns(UserWarning, match="it ends where its twin(.|\n)*nothing of the data"):
        found = certified(claimed(report), nobody, in_process=False, auditor=quickly)
    assert found.proof is Proof.PROVED


@pytest.mark.nightly
def test_selected_keys_cross_to_the_holder() -> None:
    def selected(frame: Any, curator: Curator) -> Any:
        bounded = curator.table(frame, unit="patient").bound(rows_per_unit=4, groups_per_unit=1)
        keys = bounded.select_keys("ward", cost=dpaudit.ApproxDP(epsilon=1.0, delta=0.01))
        return bounded.group_by("ward", keys=keys).count(cost=dpaudit.PureDP(epsilon=1.0)) if keys else {}

    selected.claim = Claim(
        dpaudit.ApproxDP(epsilon=2.0, delta=0.01), unit="patient", neighbouring="add-or-remove-one"
    )
    found = certified(selected, visits(90), in_process=False)
    assert (found.proof, found.experiment) == (Proof.PROVED, Experiment.NOT_REFUTED)


def test_data_that_are_no_such_table_bring_no_pairs() -> None:
    claim = Claim(ZCDP(rho=0.2), unit="patient", neighbouring="add-or-remove-one")
    about_rows = Claim(ZCDP(rho=0.2), unit="row")
    for data in (np.zeros((3, 2)), [1, 2], visits()[["ward"]], visits(0)):
        assert frame_pairs(data, claim) == ()
    assert frame_pairs(visits(), about_rows) == ()
    assert frame_pairs(visits(), None) == ()


def test_without_pairs_it_is_said_which_tables_bring_their_own() -> None:
    with pytest.raises(UsageError, match=r"no pairs(.|\n)*unit, 'patient', is one of its columns"):
        dpaudit.audit(claimed(report), [], in_process=True)


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_pairs_of_every_kind_of_text_keep_the_types(text: Any, relation: str) -> None:
    """Files that pandas writes hold large_string; categories are dictionaries."""
    ward = pa.array(["ICU", "ER", "ER"]).cast(text)
    patient = pa.array(["a", "a", "b"], pa.string() if pa.types.is_dictionary(text) else text)
    frame = pa.table({"patient": patient, "ward": ward, "minutes": [1, 2, 3]})
    found = frame_pairs(frame, Claim(ZCDP(rho=0.2), unit="patient", neighbouring=relation))
    assert found
    for pair in found:
        assert pair.data.schema.types == pair.neighbour.schema.types == frame.schema.types


@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_pairs_keep_the_types_of_columns_that_cannot_be_missing(relation: str) -> None:
    """Whole numbers and booleans of numpy, and others that pandas has."""
    frame = pd.DataFrame(
        {
            "patient": ["a", "a", "b"],
            "age": [30, 30, 50],
            "small": np.array([1, 2, 3], dtype=np.int8),
            "beds": np.array([1, 2, 3], dtype=np.uint16),
            "urgent": [True, False, True],
            "nullable": pd.array([1, None, 2], dtype="Int64"),
            "when": pd.to_datetime(["2026-01-01"] * 3),
            "ward": pd.Categorical(["ICU", "ER", "ER"]),
        }
    )
    found = frame_pairs(frame, Claim(ZCDP(rho=0.2), unit="patient", neighbouring=relation))
    assert found
    for pair in found:
        for made in (pair.data, pair.neighbour):
            for name in ("age", "small", "beds", "urgent", "nullable", "when"):
                assert made[name].dtype == frame[name].dtype


@pytest.mark.interoperability
@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_pairs_of_duckdb_differ_in_one_unit_whatever_its_collation_is(relation: str) -> None:
    """Of the rows of 'a' none changes, though that table takes them for those of 'A'."""
    connection = importlib.import_module("duckdb").connect()
    connection.execute("set default_collation='nocase'")
    connection.execute('create table visits("the.patient" varchar collate nocase, minutes double)')
    rows = [["a", 1.0], ["A", 2.0], ["A", 3.0], ["b", 4.0]]
    connection.executemany("insert into visits values (?, ?)", rows)
    claim = Claim(ZCDP(rho=0.2), unit="the.patient", neighbouring=relation)
    found = frame_pairs(Deferred(lambda: connection.table("visits")), claim)
    assert found
    for pair in found:
        for side in (pair.data, pair.neighbour):
            left = [row for row in side.make().fetchall() if row[0] not in {"A", "dpaudit: a new unit"}]
            assert sorted(left) == [("a", 1.0), ("b", 4.0)]


@pytest.mark.interoperability
def test_engines_with_threads_of_their_own_are_opened_by_each_run(tmp_path: Path) -> None:
    polars, duckdb = (importlib.import_module(name) for name in ("polars", "duckdb"))
    visits().to_parquet(tmp_path / "visits.parquet")
    path = str(tmp_path / "visits.parquet")

    def own(frame: Any, curator: Curator) -> Any:  # which a fresh interpreter gets with its claim
        return report(frame, curator)

    for make in (
        lambda: polars.scan_parquet(path),
        lambda: polars.read_parquet(path),
        lambda: duckdb.read_parquet(path),
    ):
        found = certified(claimed(own), Deferred(make), in_process=False)
        assert (found.proof, found.experiment) == (Proof.PROVED, Experiment.NOT_REFUTED)
