"""What docs/auditing/found.md audits of SmartNoise SQL: private queries of one table, and pairs of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from snsql import Privacy, from_df
from snsql.sql._mechanisms import approx_bounds as bounds

LIBRARY = "smartnoise"
ADD = "add-or-remove-one"
ROWS = np.column_stack([np.linspace(1.0, 100.0, 20), np.arange(20) % 2])


def asked(rows: Any, sql: str, **table: Any) -> Any:
    frame = pd.DataFrame({"age": rows[:, 0], "part": rows[:, 1].astype(int)})
    columns = {"age": {"type": "float", "lower": 0.0, "upper": 100.0}, "part": {"type": "int"}}
    about = {"rows": 20, "row_privacy": True, "censor_dims": False, **table, **columns}
    reader = from_df(frame, metadata={"": {"S": {"T": about}}}, privacy=Privacy(epsilon=0.5, delta=1e-6))
    return [tuple(row) for row in reader.execute(sql)]


def sum_and_count(rows: Any) -> Any:
    return asked(rows, "SELECT SUM(age) AS total, COUNT(*) AS number FROM S.T")


def mean(rows: Any) -> Any:
    return asked(rows, "SELECT AVG(age) AS mean FROM S.T")


def groups(rows: Any) -> Any:
    return asked(rows, "SELECT part, COUNT(*) AS number FROM S.T GROUP BY part")


def unclamped_sum(rows: Any) -> Any:
    return asked(rows, "SELECT SUM(age) AS total FROM S.T", clamp_columns=False)


def approx_bounds(rows: Any) -> Any:
    return bounds.approx_bounds(rows[:, 0], 1.0)


def removed_row() -> Any:
    return ROWS, ROWS[:-1]


def missing_value() -> Any:
    other = ROWS.copy()
    other[-1, 0] = np.nan
    return ROWS, other


def row_far_out() -> Any:
    return ROWS, np.vstack([ROWS, [[1e4, 1.0]]])


def new_group() -> Any:
    return ROWS, np.vstack([ROWS, [[5.0, 7.0]]])


#: Each: name of the target, name of the pair, relation, what is expected, and what it shows.
CASES: list[tuple[str, str, str, str, str]] = [
    ("sum_and_count", "removed_row", ADD, "NOT_REFUTED", ""),
    ("sum_and_count", "row_far_out", ADD, "NOT_REFUTED", "values are clamped"),
    ("sum_and_count", "missing_value", "replace-one", "NOT_REFUTED", "a missing value is no value"),
    ("mean", "removed_row", ADD, "NOT_REFUTED", ""),
    ("groups", "removed_row", ADD, "NOT_REFUTED", ""),
    ("groups", "new_group", ADD, "REFUTED", "the metadata call the groups public, and they are not"),
    (
        "unclamped_sum",
        "row_far_out",
        ADD,
        "REFUTED",
        "clamping is switched off in the metadata, and the noise is not adapted",
    ),
    ("approx_bounds", "removed_row", ADD, "NOT_REFUTED", ""),
]
SAMPLED: dict[str, list[str]] = {}
