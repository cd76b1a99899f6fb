"""The exact answers before noise are the same in every engine, for any order and any split of the rows."""

from __future__ import annotations

import importlib
import itertools
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.tables.hashing import Hash
from tests.tables import engines

MADE = engines.columns(1500)
ARROW = engines.arrow(MADE)
BOUNDS: list[dict[str, Any]] = [
    {"rows": 5, "groups": 2},
    {"rows": 3, "groups": None},
    {"rows": None, "groups": 1, "key": "another"},
]


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    return [engines.answers(ARROW, **bounds) for bounds in BOUNDS]


def same(frame: Any, expected: list[dict[str, Any]]) -> bool:
    found = [engines.answers(frame, **bounds) for bounds in BOUNDS]
    assert found == expected
    return True


def test_pandas_gives_the_answers_of_pyarrow(expected: list[dict[str, Any]]) -> None:
    frame = engines.pandas(MADE)
    assert same(frame, expected)
    shuffled = frame.sample(frac=1.0, random_state=5).reset_index(drop=True)
    assert same(shuffled[list(reversed(shuffled.columns))], expected)


def test_dask_gives_them_for_any_partitions(expected: list[dict[str, Any]]) -> None:
    frames = importlib.import_module("dask.dataframe")
    dask = importlib.import_module("dask")
    made = frames.from_pandas(engines.pandas(MADE).sample(frac=1.0, random_state=5), npartitions=4)
    with dask.config.set(scheduler="synchronous"):
        assert engines.answers(made, **BOUNDS[0]) == expected[0]
        assert engines.answers(made.repartition(npartitions=1), **BOUNDS[2]) == expected[2]


@pytest.mark.interoperability
def test_polars_gives_them_eagerly_and_lazily(expected: list[dict[str, Any]]) -> None:
    polars = importlib.import_module("polars")
    assert same(polars.DataFrame(MADE), expected)
    assert same(polars.LazyFrame(MADE), expected)


@pytest.mark.interoperability
def test_duckdb_gives_them_from_memory_and_from_a_file(
    expected: list[dict[str, Any]], tmp_path: Path
) -> None:
    duckdb = importlib.import_module("duckdb")
    parquet = importlib.import_module("pyarrow.parquet")
    parquet.write_table(ARROW, tmp_path / "rows.parquet", row_group_size=200)
    assert same(duckdb.from_arrow(ARROW), expected)
    found = engines.answers(duckdb.read_parquet(str(tmp_path / "rows.parquet")), **BOUNDS[0])
    assert found == expected[0]


@pytest.mark.interoperability
@pytest.mark.filterwarnings("default")  # Ibis calls what DuckDB deprecates
def test_ibis_gives_them_on_duckdb_and_refuses_what_may_compare_otherwise(
    expected: list[dict[str, Any]],
) -> None:
    ibis, polars = (importlib.import_module(name) for name in ("ibis", "polars"))
    assert engines.answers(ibis.memtable(ARROW), **BOUNDS[0]) == expected[0]
    own = ibis.duckdb.connect()
    own.con.from_arrow(ARROW).create("visits")
    table = own.table("visits")
    assert engines.answers(table.filter(table.person != "p0"), **BOUNDS[1]) != expected[1]
    assert engines.answers(table, **BOUNDS[1]) == expected[1]
    with pytest.raises(InvalidParameter, match="a table of Ibis on polars"):
        engines.answers(ibis.polars.connect({"visits": polars.DataFrame(MADE)}).table("visits"))


@pytest.mark.interoperability
@pytest.mark.parametrize("default", ["", "nocase.noaccent"])
def test_duckdb_takes_texts_for_the_same_only_where_their_bytes_are(default: str) -> None:
    """A person under two spellings is two units in every engine, whatever collation a table has."""
    connection = importlib.import_module("duckdb").connect()
    connection.execute(f"set default_collation='{default}'")
    connection.execute("create table own(person varchar collate nocase, ward varchar collate noaccent)")
    connection.executemany("insert into own values (?, ?)", list(engines.SPELLINGS.items()))
    assert engines.spelt(connection.table("own")) == engines.spelt(engines.SPELT)


def test_an_answer_is_what_a_loop_over_the_rows_finds() -> None:
    """The bounds hold for every person, and nothing is left out of those who are within them."""
    found = engines.answers(ARROW, rows=5, groups=2)
    wards: dict[str, Counter[str]] = defaultdict(Counter)
    for person, ward in zip(MADE["person"], MADE[engines.WARD], strict=True):
        if ward in found["rows"]:
            wards[person][ward] += 1
    least: Counter[str] = Counter()
    for each in wards.values():
        if len(each) <= 2 and each.total() <= 5:
            least.update(each)
    most = sum(min(5, sum(n for _, n in each.most_common(2))) for each in wards.values())
    fewest = sum(min(5, sum(n for _, n in each.most_common()[-2:])) for each in wards.values())
    assert fewest <= sum(found["rows"].values()) <= most
    assert sum(found["people"].values()) <= sum(min(2, len(each)) for each in wards.values())
    assert all(found["rows"][ward] >= least[ward] for ward in found["rows"])
    assert found["rows"]["none"] == 0.0


def test_another_key_keeps_other_rows() -> None:
    one, other = (engines.answers(ARROW, rows=2, groups=1, key=key) for key in ("a", "b"))
    assert one != other


NUMBERS = [np.arange(20_000, dtype=np.int64), np.arange(20_000, dtype=np.int64) * 2**32 - 2**62]


@pytest.mark.parametrize("values", NUMBERS, ids=["near", "far"])
def test_which_group_comes_first_is_a_fair_coin_for_every_unit(values: np.ndarray[Any, Any]) -> None:
    """Of two groups each is first for half of the units, and one unit's order says nothing of the next one's.

    4 sigma of 20,000 coins is 283; the seed is fixed by the key.
    """
    hashed = Hash("fair")
    units = hashed.of_whole(values, 0)
    for one, other in itertools.combinations(hashed.of_text(["ICU", "ER", "a"])[:, 0].tolist(), 2):
        first = hashed.both(units, np.full_like(units, one), 0) < hashed.both(
            units, np.full_like(units, other), 0
        )
        assert abs(int(first.sum()) - 10_000) < 283
        assert abs(int((first[1:] ^ first[:-1]).sum()) - 10_000) < 283


def test_a_frame_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="a dict is no data frame"):
        engines.answers({"person": [1]})
