"""What docs/auditing/found.md audits of diffprivlib: functions from data to an output, and pairs of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from diffprivlib import models, tools

LIBRARY = "diffprivlib"
REPLACE, ADD = "replace-one", "add-or-remove-one"
UNIT = (0.0, 1.0)

VALUES = np.linspace(0.0, 1.0, 10)
LINE = np.column_stack([VALUES, VALUES])
POINTS = np.column_stack([np.linspace(0.1, 0.4, 8)] * 2)
LABELLED = np.column_stack([POINTS, np.arange(8) % 2])
FEW = np.append(np.full(8, np.nan), [0.0, 1.0])


def last(rows: Any, value: Any) -> tuple[Any, Any]:
    """Two data sets that differ in the last record."""
    return rows, np.concatenate([rows[:-1], np.array([value], dtype=np.float64)])


def mean(values: Any) -> Any:
    return tools.mean(values, epsilon=1.0, bounds=UNIT)


def nanmean(values: Any) -> Any:
    return tools.nanmean(values, epsilon=1.0, bounds=UNIT)


def nansum(values: Any) -> Any:
    return tools.nansum(values, epsilon=1.0, bounds=(5.0, 6.0))


def total(values: Any) -> Any:
    return tools.sum(values, epsilon=1.0, bounds=UNIT)


def count_nonzero(values: Any) -> Any:
    return tools.count_nonzero(values, epsilon=1.0)


def histogram(values: Any) -> Any:
    return tools.histogram(values, epsilon=1.0, bins=4, range=UNIT)[0]


def variance(values: Any) -> Any:
    return tools.var(values, epsilon=1.0, bounds=UNIT)


def median(values: Any, generator: Any) -> Any:
    """Called with a generator: it is sampled."""
    return tools.median(values, epsilon=1.0, bounds=UNIT, random_state=int(generator.integers(2**31)))


def classes_of_logistic(rows: Any, generator: Any) -> int:
    """How many classes the fitted model knows; called with a generator: it is sampled."""
    seed = int(generator.integers(2**31))
    model = models.LogisticRegression(epsilon=1.0, data_norm=2.0, random_state=seed)
    return len(model.fit(rows[:, :2], rows[:, 2].astype(int)).classes_)


def kmeans(rows: Any) -> Any:
    return models.KMeans(2, epsilon=1.0, bounds=UNIT).fit(rows).cluster_centers_


def linear_regression(rows: Any, bounds: tuple[float, float] = UNIT) -> Any:
    about = {"bounds_X": bounds, "bounds_y": bounds, "fit_intercept": False}
    return models.LinearRegression(epsilon=1.0, **about).fit(rows[:, :1], rows[:, 1]).coef_


def linear_regression_symmetric(rows: Any) -> Any:
    return linear_regression(rows, bounds=(-1.0, 1.0))


def gaussian_nb(rows: Any) -> Any:
    return models.GaussianNB(epsilon=1.0, bounds=UNIT).fit(rows[:, :2], rows[:, 2]).theta_


def pca(rows: Any) -> Any:
    return models.PCA(1, epsilon=1.0, centered=True, data_norm=1.0).fit(rows).components_


def replaced_value() -> Any:
    return last(VALUES, 0.0)


def removed_value() -> Any:
    return VALUES, VALUES[:-1]


def missing_value() -> Any:
    return last(VALUES, np.nan)


def value_among_missing() -> Any:
    return last(FEW, 0.0)


def value_made_missing() -> Any:
    return last(np.full(10, 5.5), np.nan)


def far_point() -> Any:
    return last(POINTS, [0.9, 0.9])


def point_on_line() -> Any:
    return last(LINE, [0.0, 1.0])


def new_label() -> Any:
    return last(LABELLED, [0.1, 0.1, 2.0])


def longer_row() -> Any:
    return last(POINTS, [3.0, 3.0])


#: Each: name of the target, name of the pair, relation, what is expected, and what it shows.
CASES: list[tuple[str, str, str, str, str]] = [
    (
        "kmeans",
        "far_point",
        REPLACE,
        "REFUTED",
        "an empty cluster is skipped: its centre leaves without noise",
    ),
    (
        "linear_regression",
        "point_on_line",
        REPLACE,
        "REFUTED",
        "the sensitivity of X^2 is read from the lower bound alone (issue 105)",
    ),
    (
        "linear_regression_symmetric",
        "point_on_line",
        REPLACE,
        "NOT_REFUTED",
        "bounds that hide the same fault",
    ),
    (
        "gaussian_nb",
        "new_label",
        REPLACE,
        "REFUTED",
        "the classes are those that the data have (issue 106, of another model)",
    ),
    (
        "pca",
        "longer_row",
        REPLACE,
        "INCONCLUSIVE",
        "a longer row is clipped; no density is known of its noise",
    ),
    (
        "nanmean",
        "value_among_missing",
        REPLACE,
        "REFUTED",
        "the mean divides by the values that are there, the sensitivity by all",
    ),
    ("nanmean", "replaced_value", REPLACE, "NOT_REFUTED", "the same without missing values"),
    (
        "nansum",
        "value_made_missing",
        REPLACE,
        "REFUTED",
        "a value that goes missing moves the sum by all of itself, not by the width of the bounds",
    ),
    ("mean", "missing_value", REPLACE, "REFUTED", "NaN passes through the noise"),
    ("mean", "replaced_value", REPLACE, "NOT_REFUTED", ""),
    ("total", "replaced_value", REPLACE, "NOT_REFUTED", ""),
    (
        "total",
        "removed_value",
        ADD,
        "REFUTED",
        "the noisy sum is truncated to bounds times the number of records",
    ),
    ("count_nonzero", "replaced_value", REPLACE, "NOT_REFUTED", ""),
    ("histogram", "removed_value", ADD, "NOT_REFUTED", ""),
    (
        "histogram",
        "replaced_value",
        REPLACE,
        "REFUTED",
        "a record that is replaced moves two counts: epsilon 2",
    ),
    (
        "variance",
        "replaced_value",
        REPLACE,
        "INCONCLUSIVE",
        "no density is known of noise on a bounded domain",
    ),
    ("median", "replaced_value", REPLACE, "NOT_REFUTED", "refused by replay, sampled"),
    (
        "classes_of_logistic",
        "new_label",
        REPLACE,
        "REFUTED",
        "the classes are those that the data have (issue 106); sampled",
    ),
]
#: Those that draw their own noise, with their options.
SAMPLED = {"median": ["--trials", "500"], "classes_of_logistic": ["--trials", "100"]}
