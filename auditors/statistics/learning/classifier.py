"""A score learned from outcomes: a classifier's guess at which of the two data sets a run was on.

Whatever the classifier learned, an event of its score is an event of the outputs; what makes the audit
valid is that the runs it learned from are never tested. They choose the event all the same: each is scored
by a classifier that was learned without it, so that the score promises no more of it than of other runs.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dpaudit.auditors.statistics.learning.features import Features
from dpaudit.auditors.statistics.learning.logistic import left_out, likeliest_weights
from dpaudit.auditors.statistics.samples import Samples, rounding
from dpaudit.errors import InvalidParameter, MissingExtra
from dpaudit.mechanisms import Array

Learner = Literal["logistic", "boosting"]

#: From runs to their scores [n].
Scoring = Callable[[Samples], Samples]
#: Log-odds of groups of features [n, f], [n].
_LogOdds = Callable[[list[Array]], Array]

#: In so many parts the runs learned from are left out, one after another.
_PARTS = 5
_PARTS_OF_TREES = 2
#: Rows whose features are held at once.
_AT_ONCE = 2**16


def numbered(first: Samples) -> Scoring:
    """The number that each run gives as its score; what is of another kind than the first scores infinity."""
    kind = first.kinds_of(0)[0]

    def scores(samples: Samples, side: int) -> Array:
        rows = samples.rows(side)
        odd = np.isnan(rows[:, 0]) | ~np.isnan(rows[:, 1:]).all(axis=1) | (samples.kinds_of(side) != kind)
        return np.where(odd, np.inf, rows[:, 0])

    return lambda samples: samples.scored(scores(samples, 0), scores(samples, 1))


def learned_score(first: Samples, learner: Learner) -> tuple[Scoring, Samples]:
    """A score of runs, learned from runs that must never be tested; and these, scored as if they were others.

    `InvalidParameter` is raised for an unknown learner, `MissingExtra` for boosting without scikit-learn.
    """
    require_learner(learner)
    features = Features.of(first)

    def groups(samples: Samples, begin: int = 0, end: int | None = None) -> list[Array]:
        part = samples.part(begin, len(samples) if end is None else end)
        sides = (features.groups(part.rows(side), part.kinds_of(side)) for side in (0, 1))
        return [np.concatenate(both) for both in zip(*sides, strict=True)]

    found = groups(first)
    score, without = _trees(found, first.seed) if learner == "boosting" else _logistic(found)

    def scored(samples: Samples) -> Samples:
        begins = range(0, max(len(samples), 1), _AT_ONCE)
        sides = [np.split(score(groups(samples, at, at + _AT_ONCE)), 2) for at in begins]
        data, neighbour = (np.concatenate([side[at] for side in sides]) for at in (0, 1))
        return samples.scored(data, neighbour)

    return scored, first.scored(*np.split(_alike(score(found), without), 2))


def _alike(scores: Array, without: Array) -> Array:
    """The scores of runs that were left out; of equal scores one, the mean, as equal outcomes must have."""
    _, same = np.unique(rounding(scores)(scores), return_inverse=True)
    return (np.bincount(same, without) / np.bincount(same))[same]


def require_learner(learner: object) -> None:
    """Raise `InvalidParameter` for an unknown learner, `MissingExtra` where its library is not installed."""
    if learner not in {"logistic", "boosting"}:
        remedy = "use 'logistic' or 'boosting'"
        raise InvalidParameter(f"unknown learner {learner!r}", where="learner", remedy=remedy)
    if learner == "boosting":
        try:
            import sklearn  # noqa: F401
        except ImportError as error:
            what, why = "boosting needs scikit-learn", "its score is learned by that library's trees"
            remedy = "pip install 'dpaudit[learn]', or have a logistic score learned"
            raise MissingExtra(what, where="classifier", why=why, remedy=remedy) from error


def _logistic(groups: list[Array]) -> tuple[_LogOdds, Array]:
    """Logistic regression on standardised features; its log-odds, and those of the rows when left out [2n].

    The rows [2n, f] of each group are those of the data, then as many of the neighbour.
    """
    runs = len(groups[0])
    labels, parts = np.repeat([1.0, 0.0], runs // 2), np.tile(np.arange(runs // 2) % _PARTS, 2)
    scales = [_Scale(group) for group in groups]

    def standard(given: list[Array]) -> Array:
        parts = [scale(group) for scale, group in zip(scales, given, strict=True)]
        return np.concatenate([np.ones((len(given[0]), 1)), *parts], axis=1)

    x = standard(groups)
    of = np.concatenate([[-1], *(np.full(scale.width, at) for at, scale in enumerate(scales))])
    weights, ridge = likeliest_weights(x, labels, 1 - labels, of)
    return lambda given: np.asarray(standard(given) @ weights), left_out(x, labels, weights, ridge, parts)


class _Scale:
    """The standard scale of a group of features; in the span of the rows, where these are fewer."""

    def __init__(self, rows: Array) -> None:
        self._size = np.maximum(np.abs(rows).max(axis=0, initial=0.0), 1e-300)
        share = rows / self._size
        self._middle, spread = share.mean(axis=0), share.std(axis=0)
        self._kept = spread > 1e-12
        # Of flags it is the log-odds that are likely to be of one size, of rare ones as of frequent ones.
        flags = ((share == 0) | (share == 1)).all(axis=0)
        self._spread, self._basis = np.where(flags, 1.0, spread), None
        if self._kept.sum() > len(rows):
            # The best weights lie there: the ridge is the same for all of the group.
            self._basis = np.linalg.qr(self(rows).T)[0]
        self.width = int(self._kept.sum()) if self._basis is None else len(rows)

    def __call__(self, rows: Array) -> Array:
        kept = self._kept
        x = (rows[:, kept] / self._size[kept] - self._middle[kept]) / self._spread[kept]
        return np.asarray(x if self._basis is None else x @ self._basis)


def _trees(groups: list[Array], seed: int) -> tuple[_LogOdds, Array]:
    """Gradient boosting, as `_logistic`."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = np.concatenate(groups, axis=1)
    labels = np.repeat([1, 0], len(rows) // 2)
    parts = np.tile(np.arange(len(rows) // 2) % _PARTS_OF_TREES, 2)

    def fitted(at: Any) -> Callable[[Array], Array]:
        model: Any = HistGradientBoostingClassifier(
            random_state=seed % 2**32, max_iter=100, max_leaf_nodes=15, min_samples_leaf=20
        )
        if rows.shape[1] == 0 or not at.any():
            return lambda given: np.zeros(len(given))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="sklearn")
            model.fit(rows[at], labels[at])
        return lambda given: np.asarray(model.decision_function(given), dtype=np.float64)

    without = np.zeros(len(rows))
    for part in range(_PARTS_OF_TREES):
        without[parts == part] = fitted(parts != part)(rows[parts == part])
    model = fitted(parts >= 0)
    return lambda given: model(np.concatenate(given, axis=1)), without
