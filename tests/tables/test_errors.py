"""Every refusal of a table: what was wrong, where, and what to do."""

from __future__ import annotations

import copy
import enum
import importlib
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpaudit import GDP, RDP, ZCDP, ApproxDP, Claim, Curator, PureDP, run
from dpaudit.app.text.target_text import without_value
from dpaudit.curator.deferred import Deferred
from dpaudit.errors import ClaimMismatch, DataError, InvalidParameter
from dpaudit.tables.sources import facts
from dpaudit.tables.table import Table

COST = ZCDP(rho=0.1)
FRAME = pd.DataFrame(
    {
        "patient": ["a", "a", "b"],
        "ward": ["ICU", "ER", None],
        "minutes": [1.0, 2.0, None],
        "when": pd.to_datetime(["2026-01-01"] * 3),
        "age": [30, 30, 50],
        "beds": [1.0, None, 2.0],
    }
)


def asked(
    query: Callable[[Table], Any],
    frame: Any = FRAME,
    unit: str = "patient",
    claim_unit: str = "patient",
    **claim: Any,
) -> Any:
    def algorithm(given: Any, curator: Curator) -> Any:
        return query(curator.table(given, unit=unit))

    stated: dict[str, Any] = {"unit": claim_unit, "neighbouring": "add-or-remove-one"} | claim
    stated = {"guarantee": ZCDP(rho=9.0)} | stated
    return run(algorithm, frame, claim=Claim(**stated), seed=1).output


def bounded(query: Callable[[Table], Any]) -> Callable[[Table], Any]:
    return lambda table: query(table.bound(rows_per_unit=2, groups_per_unit=1))


def grouped(query: Callable[[Table], Any]) -> Callable[[Table], Any]:
    return bounded(lambda table: query(table.group_by("ward", keys=["ICU", "ER"])))


REFUSED: list[tuple[str, Callable[[Table], Any]]] = [
    ("no column 'wards'[^?]*did you mean 'ward'?", bounded(lambda t: t.group_by("wards", keys=["ICU"]))),
    ("no column 'minuts'", grouped(lambda t: t.sum("minuts", lower=0, upper=1, cost=COST))),
    ("'ward' of type String[^z]*convert", grouped(lambda t: t.sum("ward", lower=0, upper=1, cost=COST))),
    ("'when' of type Datetime", bounded(lambda t: t.group_by("when", keys=["2026-01-01"]))),
    ("give each key as int: 1.5", bounded(lambda t: t.group_by("beds", keys=[1, 1.5]))),
    ("a key of 9007199254740993(.|\n)*to Int64", bounded(lambda t: t.group_by("beds", keys=[2**53 + 1]))),
    ("no bound on the rows of a unit(.|\n)*rows_per_unit=", lambda t: t.count(cost=COST)),
    ("no bound on the rows", lambda t: t.bound(groups_per_unit=1).mean("age", lower=0, upper=9, cost=COST)),
    ("no bound on the rows", lambda t: t.quantile("age", 0.5, lower=0, upper=9, cost=COST)),
    (
        "no bound on the groups(.|\n)*groups_per_unit=",
        lambda t: t.group_by("ward", keys=["ICU", "ER"]).count_distinct_units(cost=COST),
    ),
    ("no bound is given", lambda t: t.bound()),
    ("no lower and no upper(.|\n)*give lower=, a public number", grouped(lambda t: t.sum("age", cost=COST))),
    ("no upper(.|\n)*give upper=", grouped(lambda t: t.quantile("age", 0.5, lower=0, cost=COST))),
    ("no cost(.|\n)*give cost=(.|\n)*ZCDP", grouped(lambda t: t.count())),
    ("no keys(.|\n)*must be public(.|\n)*select_keys", bounded(lambda t: t.group_by("ward"))),
    ("no column and no lower", grouped(lambda t: t.mean(upper=1, cost=COST))),
    ("no edges", grouped(lambda t: t.histogram("age", cost=COST))),
    ("no q", grouped(lambda t: t.quantile("age", lower=0, upper=1, cost=COST))),
    ("no by(.|\n)*list of columns", bounded(lambda t: t.select_keys(cost=ApproxDP(epsilon=1.0, delta=0.1)))),
    (
        "an argument 'uper'(.|\n)*did you mean 'upper'",
        grouped(lambda t: t.sum("age", lower=0, uper=1, cost=COST)),
    ),
    ("'rows_per_patient'(.|\n)*did you mean 'rows_per_unit'", lambda t: t.bound(rows_per_patient=3)),
    ("without its name(.|\n)*lower=, upper=", grouped(lambda t: t.sum("age", 0, 1, cost=COST))),
    ("without its name(.|\n)*rows_per_unit=, groups_per_unit=", lambda t: t.bound(3)),
    ("column twice", grouped(lambda t: t.sum("age", column="age", lower=0, upper=1, cost=COST))),
    ("rows_per_unit = 0", lambda t: t.bound(rows_per_unit=0)),
    ("2.5 of type float", lambda t: t.bound(rows_per_unit=2.5)),
    ("True of type bool", lambda t: t.bound(groups_per_unit=True)),
    ("lower = 5 is not below upper = 1", grouped(lambda t: t.sum("age", lower=5, upper=1, cost=COST))),
    ("lower = 1 is not below upper = 1", grouped(lambda t: t.mean("age", lower=1, upper=1, cost=COST))),
    ("upper = inf", grouped(lambda t: t.sum("age", lower=0, upper=float("inf"), cost=COST))),
    ("lower = nan", grouped(lambda t: t.variance("age", lower=float("nan"), upper=1, cost=COST))),
    ("'0' of type str", grouped(lambda t: t.sum("age", lower="0", upper=1, cost=COST))),
    ("lower = 3 is not below", grouped(lambda t: t.histogram("age", edges=[0, 3, 2], cost=COST))),
    ("1 edges", grouped(lambda t: t.histogram("age", edges=[0], cost=COST))),
    ("upper = 1e\\+200", grouped(lambda t: t.variance("age", lower=0, upper=1e200, cost=COST))),
    ("upper = 1000", grouped(lambda t: t.sum("age", lower=0, upper=10**400, cost=COST))),
    ("no double lies between", grouped(lambda t: t.sum("age", lower=2**53, upper=2**53 + 1, cost=COST))),
    ("a int is no list", grouped(lambda t: t.histogram("age", edges=5, cost=COST))),
    ("no double lies between", grouped(lambda t: t.histogram("age", edges=[2**53, 2**53 + 1], cost=COST))),
    ("q = 1.0", grouped(lambda t: t.quantile("age", 1.0, lower=0, upper=9, cost=COST))),
    ("q = \\[\\]", grouped(lambda t: t.quantile("age", [], lower=0, upper=9, cost=COST))),
    ("q = \\[0.5, 0.2\\]", grouped(lambda t: t.quantile("age", [0.5, 0.2], lower=0, upper=9, cost=COST))),
    ("q = \\[0.5, 0.5\\]", grouped(lambda t: t.quantile("age", [0.5, 0.5], lower=0, upper=9, cost=COST))),
    ("q = \\[1e-05\\]", grouped(lambda t: t.quantile("age", [0.00001], lower=0, upper=9, cost=COST))),
    ("'0' of type str", grouped(lambda t: t.quantile("age", "0.5", lower=0, upper=9, cost=COST))),
    (
        "denominator",
        grouped(lambda t: t.quantile("age", [1 / 9973, 1 / 2, 5 / 7, 0.99], lower=0, upper=9, cost=COST)),
    ),
    (
        "3 quantiles among 1000 candidates: 167,167,000(.|\n)*give 183 candidates",
        grouped(lambda t: t.quantile("age", [0.1, 0.5, 0.9], lower=0, upper=9, candidates=1000, cost=COST)),
    ),
    ("1 candidates", grouped(lambda t: t.quantile("age", 0.5, lower=0, upper=9, candidates=1, cost=COST))),
    ("for choices", grouped(lambda t: t.quantile("age", 0.5, lower=0, upper=9, cost=GDP(mu=1.0)))),
    ("no keys(.|\n)*select_keys", bounded(lambda t: t.group_by("ward", keys=[]))),
    ("'ICU' is a text, not a list(.|\n)*keys=\\['ICU'\\]", bounded(lambda t: t.group_by("ward", keys="ICU"))),
    ("no keys", bounded(lambda t: t.group_by("ward", keys=None))),
    ("a DataFrame is no list", bounded(lambda t: t.group_by("ward", keys=FRAME[["ward"]]))),
    ("'ICU' is a text, not a list", bounded(lambda t: t.group_by("ward", keys={"ward": "ICU"}))),
    ("a int is no list", bounded(lambda t: t.group_by("age", keys=3))),
    ("a int is no list", bounded(lambda t: t.group_by(3, keys=["ICU"]))),
    ("a NoneType is no list", bounded(lambda t: t.group_by("ward", keys={"ward": None}))),
    ("one value for each of ward", bounded(lambda t: t.group_by("ward", keys=[["ICU"]]))),
    ("a key of 9223372036854775808(.|\n)*leave it out", bounded(lambda t: t.group_by("age", keys=[2**63]))),
    ("no column 'wrad'", bounded(lambda t: t.select_keys("wrad", cost=ApproxDP(epsilon=1.0, delta=0.1)))),
    ("no bound on the groups", lambda t: t.select_keys("ward", cost=ApproxDP(epsilon=1.0, delta=0.1))),
    ("is not ApproxDP", bounded(lambda t: t.select_keys("ward", cost=COST))),
    ("keys of type bool, int", bounded(lambda t: t.group_by("age", keys=[1, True]))),
    ("keys of type float, int", bounded(lambda t: t.group_by("age", keys=[1, 1.0]))),
    ("keys of type int, str", bounded(lambda t: t.group_by("ward", keys=["ICU", 1]))),
    ("leave None out", bounded(lambda t: t.group_by("ward", keys=["ICU", None]))),
    ("keys of type bool", bounded(lambda t: t.group_by("age", keys=[True]))),
    ("one value for each of ward, age", bounded(lambda t: t.group_by(["ward", "age"], keys=["ICU"]))),
    ("keys for 'ward'", bounded(lambda t: t.group_by(["ward", "age"], keys={"ward": ["ICU"]}))),
    ("groups are of several units", bounded(lambda t: t.group_by("patient", keys=["a"]))),
    ("group_by\\('ward', 'ward'\\)", bounded(lambda t: t.group_by(["ward", "ward"], keys=[("a", "b")]))),
    ("a cost of", grouped(lambda t: t.count(cost=RDP(alpha=2.0, epsilon=1.0)))),
    ("a cost of 0-zCDP", grouped(lambda t: t.count(cost=ZCDP(rho=0.0)))),
    ("a cost of 0-DP", grouped(lambda t: t.quantile("age", 0.5, lower=0, upper=9, cost=PureDP(epsilon=0.0)))),
    ("a cost of 0.1 of type|a cost of 0.1", grouped(lambda t: t.count(cost=0.1))),
]


@pytest.mark.parametrize(("words", "query"), REFUSED, ids=[words for words, _ in REFUSED])
def test_a_query_is_refused_in_words_that_help(words: str, query: Callable[[Table], Any]) -> None:
    with pytest.raises(InvalidParameter, match=words) as error:
        asked(query)
    assert error.value.where
    assert error.value.remedy


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("coutn", "did you mean `count`"),
        ("groupby", "did you mean `group_by`"),
        ("median", "did you mean `quantile`"),
        ("nunique", "did you mean `count_distinct_units`"),
        ("enforce", "did you mean `bound`"),
        ("agg", "did you mean `count` or `sum`"),
        ("merge", "do that to the frame before `curator.table`"),
        ("filter", "do that to the frame before `curator.table`"),
        ("qqq", "it has bound, group_by, select_keys, count"),
    ],
)
def test_a_method_that_there_is_not_names_the_one_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"a table has no '{name}': {meant}"):
        asked(bounded(lambda table: getattr(table, name)))


@pytest.mark.parametrize("picked", [lambda table: table["minutes"], list], ids=["a column", "the rows"])
def test_columns_and_rows_are_not_handed_out(picked: Any) -> None:
    with pytest.raises(TypeError, match="name a column where it is released"):
        asked(bounded(picked))


def test_a_table_of_no_unit_is_refused() -> None:
    def algorithm(frame: Any, curator: Any) -> None:
        curator.table(frame)

    with pytest.raises(
        InvalidParameter, match=r"curator.table: no unit(.|\n)*the column with each row's unit"
    ):
        run(algorithm, FRAME, claim=Claim(ZCDP(rho=9.0), unit="patient"), seed=1)


def test_a_table_can_be_copied() -> None:
    """What a copy looks for is no misspelt method."""
    asked(bounded(lambda table: copy.copy(table).group_by("ward", keys=["ICU"]).count(cost=COST)))


def test_nothing_is_written_of_what_is_refused() -> None:
    def algorithm(frame: Any, curator: Curator) -> None:
        table = curator.table(frame, unit="patient").bound(rows_per_unit=2)
        for query in (
            lambda: table.mean("minutes", lower=2, upper=1, cost=COST),
            lambda: table.variance("minutes", lower=1, upper=2, cost=RDP(alpha=2.0, epsilon=1.0)),
            lambda: table.quantile("minutes", 0.0, lower=1, upper=2, cost=COST),
        ):
            with pytest.raises(InvalidParameter):
                query()

    claim = Claim(ZCDP(rho=9.0), unit="patient", neighbouring="add-or-remove-one")
    assert not list(run(algorithm, FRAME, claim=claim).ledger.releases)


def test_a_frame_without_columns_has_none_to_name() -> None:
    with pytest.raises(InvalidParameter, match=r"no column 'patient'(.|\n)*the table has no columns"):
        asked(grouped(lambda t: t.count(cost=COST)), pd.DataFrame())


def test_a_row_that_belongs_to_nobody_is_refused() -> None:
    frame = FRAME.assign(patient=["a", None, "b"])
    with pytest.raises(DataError, match="1 row has no 'patient'"):
        asked(grouped(lambda t: t.count(cost=COST)), frame)


@pytest.mark.parametrize("partitions", [False, True])
def test_objects_that_are_no_text_are_no_units(partitions: bool) -> None:
    """Their rows would be left out of every answer, and nobody told."""
    rows = pd.DataFrame({"patient": pd.Series(["a", 2, 3, None], dtype=object)})
    frame: Any = rows
    if partitions:
        dask, frames = importlib.import_module("dask"), importlib.import_module("dask.dataframe")
        with dask.config.set({"dataframe.convert-string": False}):  # else Dask makes text of them
            frame = frames.from_pandas(rows, npartitions=2)
    with pytest.raises(DataError, match="3 rows have no 'patient'") as error:
        asked(bounded(lambda t: t.count(cost=COST)), frame)
    assert "only text is a unit: make numbers Int64" in error.value.remedy


def test_keys_in_a_column_of_pyarrow_are_plain_values() -> None:
    found = asked(bounded(lambda t: t.group_by("ward", keys=pa.array(["ICU"])).count(cost=COST)))
    assert list(found) == ["ICU"]


def test_the_ledger_is_about_the_same_unit() -> None:
    with pytest.raises(ClaimMismatch, match="unit is 'patient' in a run whose unit is 'visit'"):
        asked(bounded(lambda t: t), claim_unit="visit")


def test_units_and_frames_that_cannot_be_bounded_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"no column 'pateint'(.|\n)*did you mean 'patient'"):
        asked(bounded(lambda t: t), unit="pateint")
    with pytest.raises(InvalidParameter, match="'minutes' of type Float64"):
        asked(bounded(lambda t: t), unit="minutes")
    with pytest.raises(InvalidParameter, match="a list is no data frame"):
        asked(bounded(lambda t: t), [1, 2])
    for categories, strange in ((pd.Categorical([1, "1", 2]), 2), (pd.Categorical([1, 2, 2]), 3)):
        with pytest.raises(DataError, match=f"{strange} rows have no 'patient'"):
            asked(bounded(lambda t: t.count(cost=COST)), FRAME.assign(patient=categories))
    numbers = pa.table({"patient": pa.array([1, 2]).dictionary_encode()})
    with pytest.raises(InvalidParameter, match="Categorical of other values than text"):
        asked(bounded(lambda t: t), numbers)
    with pytest.raises(InvalidParameter, match="0 of type int is not"):
        asked(bounded(lambda t: t), FRAME.rename(columns={"age": 0}))
    with pytest.raises(InvalidParameter, match=r"two columns of one name"):
        asked(bounded(lambda t: t), FRAME.rename(columns={"age": "ward"}))
    with pytest.raises(ClaimMismatch, match="under joint trust"):
        asked(bounded(lambda t: t), trust_model="joint")


def test_without_narwhals_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(InvalidParameter, match=r"narwhals is not installed(.|\n)*dpaudit\[tables\]"):
        asked(bounded(lambda t: t))


@pytest.mark.parametrize(("engine", "extra"), [("polars", "engines"), ("pyspark", "spark"), ("dask", "dask")])
def test_an_engine_that_is_not_installed_is_named_with_its_extra(
    engine: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(DataError, match=engine) as error:
        facts(Deferred(lambda: importlib.import_module(engine)), "patient")
    assert error.value.remedy == f"pip install 'dpaudit[{extra}]'"
    with pytest.raises(DataError, match="ZeroDivisionError") as other:
        facts(Deferred(lambda: 1 / 0), "patient")
    assert other.value.remedy == "correct the function"


def test_the_words_of_a_function_that_fails_are_not_for_a_log() -> None:
    """They may quote the data, as those of a query that cannot convert a text do."""

    def fails() -> None:
        raise ValueError("cannot convert 'Alice'")

    def says() -> None:
        raise DataError("an empty table", where="rows", why="nobody is in it", remedy="fill it")

    with pytest.raises(DataError, match="cannot be opened: ValueError: cannot convert 'Alice'") as error:
        facts(Deferred(fails), "patient")
    logged = str(without_value(pickle.loads(pickle.dumps(error.value))))  # noqa: S301  (made here)
    assert "Alice" not in logged
    assert "cannot be opened: ValueError\n" in logged
    assert "to see what was said" in logged
    with pytest.raises(DataError, match="rows: an empty table") as own:
        facts(Deferred(says), "patient")
    assert str(without_value(own.value)) == str(own.value)
    assert own.value.remedy == "fill it"


def test_missing_values_and_nan_count_nothing() -> None:
    """A missing number adds 0 to a sum and is no value of a mean; a missing key is in no group."""
    minutes = [1.0, None, float("nan"), 1.0]
    wards = ["ICU", "ICU", "ICU", None]
    missing = pa.table({"patient": ["a", "b", "c", "d"], "ward": wards, "minutes": minutes})
    found = asked(
        grouped(
            lambda t: {
                "sum": t.sum("minutes", lower=0, upper=1, cost=ZCDP(rho=1e18)),
                "mean": t.mean("minutes", lower=0, upper=1, cost=ZCDP(rho=1e18)),
                "count": t.count(cost=ZCDP(rho=1e18)),
            }
        ),
        missing,
    )
    for name, expected in {"sum": 1.0, "mean": 1.0, "count": 3.0}.items():
        assert found[name]["ICU"] == pytest.approx(expected, abs=1e-6)


def test_a_bound_that_is_not_given_again_stays() -> None:
    found = asked(lambda t: t.bound(rows_per_unit=2).bound(groups_per_unit=1).bound(rows_per_unit=3))
    assert (found.rows_per_unit, found.groups_per_unit) == (3, 1)


def test_what_a_function_returns_is_opened() -> None:
    assert asked(grouped(lambda t: t.count(cost=COST)), lambda: FRAME).keys() == {"ICU", "ER"}


@pytest.mark.parametrize("cells", [["a", 2, 3, None], [1, 2, 3, None]], ids=["mixed", "numbers"])
@pytest.mark.parametrize("dtype", [object, "category"])
def test_units_that_are_no_text_among_objects_are_told_of_everywhere(cells: list[Any], dtype: Any) -> None:
    frame = pd.DataFrame({"patient": pd.Series(cells, dtype=object).astype(dtype), "ward": "ICU"})
    with pytest.raises(DataError, match=r"rows have no 'patient'(.|\n)*only text is a unit"):
        asked(bounded(lambda t: t.count(cost=COST)), frame)
    assert facts(frame, "patient") is not None  # no pair fails before the run that says why


def test_text_units_of_any_class_bring_pairs() -> None:
    for dtype in (object, "category", "string"):
        frame = pd.DataFrame({"patient": pd.Series(["b", "a", "b"], dtype=dtype)})
        found = facts(frame, "patient")
        assert found is not None
        assert found.units == ("b", "a")


def test_a_unit_that_pandas_made_a_double_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"'beds' of type Float64(.|\n)*make it as Int64"):
        asked(bounded(lambda t: t.count(cost=COST)), unit="beds", claim_unit="beds")


class Own(str):
    """A text that says of itself that it is no other one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


@pytest.mark.parametrize("kind", [Own, np.str_, enum.StrEnum("Unit", {"a": "a"})])
def test_a_text_of_another_class_is_the_same_text(kind: Any) -> None:
    rows = pd.DataFrame({"patient": pd.Series([kind("a") for _ in range(5)], dtype=object), "ward": "ICU"})
    found = asked(lambda t: t.bound(rows_per_unit=1).count(cost=ZCDP(rho=1e18)), rows)
    assert found == pytest.approx(1.0, abs=1e-6)
    wards = pd.DataFrame(
        {"patient": [str(i) for i in range(99)], "ward": rows["patient"].repeat(20)[:99].to_list()}
    )

    def keys(table: Table) -> Any:
        return table.bound(rows_per_unit=1).select_keys("ward", cost=ApproxDP(epsilon=9.0, delta=0.01))

    assert asked(keys, wards, guarantee=ApproxDP(epsilon=9.0, delta=0.01)) == ["a"]
