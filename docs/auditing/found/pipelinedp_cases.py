"""What docs/auditing/found.md audits of PipelineDP: local pipelines over public partitions, and pairs of neighbours."""

from __future__ import annotations

import math
from typing import Any

import pipeline_dp
from pipeline_dp import Metrics, NoiseKind

LIBRARY = "pipelinedp"
ADD = "add-or-remove-one"
#: Person, partition, value: the last person has four rows.
ROWS = [(person, "ab"[person % 2], float(person)) for person in range(10)]
OF_ONE = [(99, "a", 10.0), (99, "a", 10.0), (99, "b", 10.0), (99, "b", 1.0)]


def aggregated(
    rows: Any, metrics: list[Any], noise: Any = NoiseKind.LAPLACE, most: tuple[int, int] = (2, 3)
) -> Any:
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    about = {"max_partitions_contributed": most[0], "max_contributions_per_partition": most[1]}
    wanted = pipeline_dp.AggregateParams(
        metrics=metrics, noise_kind=noise, min_value=0.0, max_value=10.0, **about
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    found = engine.aggregate(rows, wanted, extractors, public_partitions=["a", "b"])
    budget.compute_budgets()
    return [(partition, tuple(values)) for partition, values in found]


def count_and_sum(rows: Any) -> Any:
    return aggregated(rows, [Metrics.COUNT, Metrics.SUM])


def one_of_each(rows: Any) -> Any:
    """One contribution of each person is kept."""
    return aggregated(rows, [Metrics.COUNT, Metrics.SUM], most=(1, 1))


def mean(rows: Any) -> Any:
    return aggregated(rows, [Metrics.MEAN], noise=NoiseKind.GAUSSIAN)


def variance(rows: Any) -> Any:
    return aggregated(rows, [Metrics.VARIANCE])


def removed_person() -> Any:
    return ROWS + OF_ONE, ROWS


def missing_value() -> Any:
    return [*ROWS, (99, "a", 5.0)], [*ROWS, (99, "a", math.nan)]


#: Each: name of the target, name of the pair, relation, what is expected, and what it shows.
CASES: list[tuple[str, str, str, str, str]] = [
    ("count_and_sum", "removed_person", ADD, "NOT_REFUTED", ""),
    ("one_of_each", "removed_person", ADD, "NOT_REFUTED", "a person with more rows than are kept"),
    ("mean", "removed_person", ADD, "NOT_REFUTED", ""),
    ("variance", "removed_person", ADD, "NOT_REFUTED", ""),
    (
        "count_and_sum",
        "missing_value",
        "replace-one",
        "REFUTED",
        "NaN passes through the bounds and the noise",
    ),
]
SAMPLED: dict[str, list[str]] = {}
CLAIM = ["--epsilon", "1", "--delta", "1e-6"]
