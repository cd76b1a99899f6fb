"""A table on a Dask cluster of several processes: the answer is the one in memory, and memory stays flat."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit import ZCDP, Claim, Curator, run
from dpaudit.curator.noise import NoNoise

ROWS, PARTITIONS = 1_000_000, 20


def parts(rows: int, people: int) -> Any:
    """Makes one partition of visits; patients are in all partitions. Nested: workers are sent its code."""

    def part(number: int) -> pd.DataFrame:
        draw = np.random.default_rng(number)
        patient = draw.integers(0, people, rows)
        ward = np.array(["ICU", "ER", "ENT", "other"])[draw.integers(0, 4, rows)]
        return pd.DataFrame({"patient": patient, "ward": ward, "minutes": draw.gamma(2.0, 20.0, rows)})

    return part


def weekly(visits: Any, curator: Curator) -> Any:
    table = curator.table(visits, unit="patient").bound(rows_per_unit=8, groups_per_unit=2)
    wards = table.group_by("ward", keys=["ICU", "ER", "ENT"])
    return wards.sum("minutes", lower=0.0, upper=100.0, cost=ZCDP(rho=0.1))


def answer(visits: Any) -> Any:
    claim = Claim(ZCDP(rho=0.1), unit="patient", neighbouring="add-or-remove-one")
    return run(weekly, visits, claim=claim, noise=NoNoise()).output


def both(rows: int, partitions: int) -> tuple[Any, pd.DataFrame]:
    """The same visits over partitions, made where they are needed, and in memory."""
    import dask.dataframe as dd

    part = parts(rows // partitions, rows // 20)
    lazily = dd.from_map(part, range(partitions), meta=part(0).head(0))
    return lazily, pd.concat([part(i) for i in range(partitions)])


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # the cluster's libraries warn of each other
def test_a_cluster_gives_the_answer_in_memory() -> None:
    distributed = importlib.import_module("distributed")
    lazily, whole = both(ROWS, PARTITIONS)
    settings: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=True, memory_limit="900MB", **settings) as cluster,
        distributed.Client(cluster),
    ):
        found = answer(lazily)
    assert found == answer(whole)


def test_partitions_are_added_up_as_they_come() -> None:
    import dask

    lazily, whole = both(2_000, 3)
    with dask.config.set(scheduler="synchronous"):
        found = answer(lazily)
    assert found == answer(whole)
