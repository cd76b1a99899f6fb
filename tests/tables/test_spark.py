"""Spark on a cluster of several processes gives the answers in memory: `nox -s spark`, which needs Java."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tables import engines

pytestmark = [
    pytest.mark.interoperability,
    pytest.mark.filterwarnings("default"),  # Spark warns of pandas' version, and leaves sockets to be closed
]

#: Two executors, each a process with one core and 700 MB.
CLUSTER = "local-cluster[2,1,700]"


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    builder = importlib.import_module("pyspark.sql").SparkSession.builder
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.master(CLUSTER).getOrCreate()
    yield made
    made.stop()


@pytest.mark.parametrize(("rows", "groups", "key"), [(5, 2, ""), (3, None, ""), (None, 1, "another")])
def test_spark_gives_the_answers_of_pyarrow(
    session: Any, tmp_path: Path, rows: int | None, groups: int | None, key: str
) -> None:
    arrow = engines.arrow(engines.columns(1500))
    importlib.import_module("pyarrow.parquet").write_table(arrow, tmp_path / "rows.parquet")
    frame = session.read.parquet(str(tmp_path / "rows.parquet")).repartition(4)
    bounds = {"rows": rows, "groups": groups, "key": key}
    assert engines.answers(frame, **bounds) == engines.answers(arrow, **bounds)


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UTF8_BINARY_RTRIM", "UNICODE_CI"])
def test_spark_takes_texts_for_the_same_only_where_their_bytes_are(session: Any, collation: str) -> None:
    functions = importlib.import_module("pyspark.sql.functions")
    frame = session.createDataFrame(list(engines.SPELLINGS.items()), ["person", "ward"])
    frame = frame.select(*(functions.collate(name, collation).alias(name) for name in frame.columns))
    assert engines.spelt(frame) == engines.spelt(engines.SPELT)
