"""A score learned from features: a classifier's guess at which of the two data sets a run was on.

Whatever the classifier learned, an event of its score is an event of the outputs; what makes the audit
valid is that the runs it learned from are never used again.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dpaudit.auditors.statistics.samples import Samples, rounding
from dpaudit.errors import InvalidParameter, MissingExtra
from dpaudit.mechanisms import Array

Learner = Literal["logistic", "boosting"]


def learned(samples: Samples, learner: Learner, share: float) -> Samples:
    """Fit a classifier on the first share of the runs; the rest, with its log-odds of "data" as scores [n].

    `InvalidParameter` is raised for scores instead of features, or an unknown learner.
    """
    if samples.data.ndim != 2:
        what = "scores of shape [n], from which nothing can be learned"
        why = "a classifier learns from features, and a score is used as it is"
        remedy = "give features [n, k], or leave the learner out"
        raise InvalidParameter(what, where="learner", why=why, remedy=remedy)
    first, rest = samples.split(share)
    score = learned_score(first, learner)
    return Samples(score(rest.data), score(rest.neighbour), samples.seed)


def learned_score(first: Samples, learner: Learner) -> Callable[[Array], Array]:
    """A function from features [n, k] to scores [n], learned from runs that must never be tested.

    `MissingExtra` is raised where scikit-learn is not installed.
    """
    views = [_view(column, learner) for column in np.concatenate([first.data, first.neighbour]).T]

    def features(rows: Array) -> Array:
        return np.concatenate([view(column) for column, view in zip(rows.T, views, strict=True)], axis=1)

    model = _classifier(learner, first.seed)
    labels = np.repeat([1, 0], len(first))
    with warnings.catch_warnings():
        # A fit that has not converged gives a weaker score that is as valid.
        warnings.filterwarnings("ignore", module="sklearn")
        warnings.filterwarnings("ignore", message=".*(did no converge|Ill-conditioned)")
        model.fit(features(np.concatenate([first.data, first.neighbour])), labels)

    def score(rows: Array) -> Array:
        return np.asarray(model.decision_function(features(rows)), dtype=np.float64)

    return score


def _view(known: Array, learner: Learner) -> Callable[[Array], Array]:
    """From a column of features [n] to a learner's input [n, 1 or 2]: rounded; for logistic, clipped too.

    On a scale that a few distant runs stretch, a linear score could not separate the other runs.
    """
    rounded = rounding(known)
    column = rounded(known)
    middle = float(np.median(column))
    gaps = np.diff(np.quantile(column, [0.01, *np.arange(1, 10) / 10, 0.99]))
    reach = 8 * min((gap for gap in gaps.tolist() if gap > 0), default=0.0)

    def view(values: Array) -> Array:
        near = rounded(values)
        columns = [near, np.clip(near, middle - reach, middle + reach)] if learner == "logistic" else [near]
        return np.stack(columns, axis=1)

    return view


def _classifier(learner: Learner, seed: int) -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        what = "learning a score needs scikit-learn"
        why = "outputs of several numbers have no order until a score is learned"
        remedy = "pip install 'dpaudit[learn]', or give one score a run"
        raise MissingExtra(what, where="classifier", why=why, remedy=remedy) from error
    if learner == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky"))
    if learner == "boosting":
        return HistGradientBoostingClassifier(
            random_state=seed % 2**32, max_iter=100, max_leaf_nodes=15, min_samples_leaf=20
        )
    raise InvalidParameter(
        f"unknown learner {learner!r}", where="learner", remedy="use 'logistic' or 'boosting'"
    )
