"""A score learned from outcomes: a classifier's guess at which of the two data sets a run was on.

Whatever the classifier learned, an event of its score is an event of the outputs; what makes the audit
valid is that the runs it learned from are never used again.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dpaudit.auditors.statistics.learning.features import Features
from dpaudit.auditors.statistics.learning.logistic import logistic_weights
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.errors import InvalidParameter, MissingExtra
from dpaudit.mechanisms import Array

Learner = Literal["logistic", "boosting"]

#: From runs to their scores [n].
Scoring = Callable[[Samples], Samples]
#: Log-odds of rows of features [n, f], [n].
_LogOdds = Callable[[Array], Array]

#: The part of the runs learned from on which further features have to prove better than the plain ones.
_COMPARED = 0.25
#: By how many standard errors: features that tell nothing add noise to the score's tails.
_CLEARLY = 2.0
_RIDGE = 1.0


def learned(samples: Samples, learner: Learner, share: float) -> Samples:
    """Learn a score on the first share of the runs; the rest, with its log-odds of "data" as scores [n].

    `InvalidParameter` is raised for an unknown learner.
    """
    first, rest = samples.split(share)
    return learned_score(first, learner)(rest)


def numbered(first: Samples) -> Scoring:
    """The number that each run gives as its score; what is of another kind than the first scores infinity."""
    kind = first.kinds_of(0)[0]

    def scores(samples: Samples, side: int) -> Array:
        rows = samples.rows(side)
        odd = np.isnan(rows[:, 0]) | ~np.isnan(rows[:, 1:]).all(axis=1) | (samples.kinds_of(side) != kind)
        return np.where(odd, np.inf, rows[:, 0])

    return lambda samples: samples.scored(scores(samples, 0), scores(samples, 1))


def learned_score(first: Samples, learner: Learner) -> Scoring:
    """A score of runs, learned from runs that must never be tested.

    The score is of plain features, or of further ones too where these tell better on a part of the runs that
    they were not fitted to. `MissingExtra` is raised for boosting without scikit-learn.
    """
    require_learner(learner)
    features = Features.of(first)

    def rows(samples: Samples, *, further: bool) -> Array:
        sides = []
        for side in (0, 1):
            numbers = samples.rows(side)
            parts = [features.plain(numbers, samples.kinds_of(side))]
            parts += [features.further(numbers)] if further else []
            sides.append(np.concatenate(parts, axis=1))
        return np.concatenate(sides)

    def fit(given: Array) -> _LogOdds:
        return _trees(given, first.seed) if learner == "boosting" else _logistic(given)

    further = _further_is_better(first, rows, fit)
    score = fit(rows(first, further=further))

    def scored(samples: Samples) -> Samples:
        data, neighbour = np.split(score(rows(samples, further=further)), 2)
        return samples.scored(data, neighbour)

    return scored


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


def _further_is_better(first: Samples, rows: Callable[..., Array], fit: Callable[[Array], _LogOdds]) -> bool:
    if len(first) < 8:
        return False
    fitted, compared = first.split(1 - _COMPARED)
    losses = []
    for further in (False, True):
        odds = fit(rows(fitted, further=further))(rows(compared, further=further))
        signs = np.repeat([-1.0, 1.0], len(compared))
        losses.append(np.logaddexp(0.0, signs * odds))
    gain = losses[0] - losses[1]
    return bool(gain.mean() > _CLEARLY * gain.std() / np.sqrt(len(gain)))


def _logistic(rows: Array) -> _LogOdds:
    """Logistic regression on standardised features.

    The rows [2n, f] are those of the data, then as many of the neighbour.
    """
    labels = np.repeat([1.0, 0.0], len(rows) // 2)
    size = np.maximum(np.abs(rows).max(axis=0, initial=0.0), 1e-300)
    middle = (rows / size).mean(axis=0)
    spread = (rows / size).std(axis=0)
    kept = spread > 1e-12
    size, middle, spread = size[kept], middle[kept], spread[kept]

    def standard(given: Array) -> Array:
        return np.asarray((given[:, kept] / size - middle) / spread)

    x = standard(rows)
    basis = None
    if x.shape[1] > len(x):
        # The best weights lie in the span of the rows.
        basis = np.linalg.qr(x.T)[0]
        x = x @ basis
    x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    ridge = np.append(1e-9, np.full(x.shape[1] - 1, _RIDGE))
    weights = logistic_weights(x, labels, 1 - labels, ridge)
    inner = weights[1:] if basis is None else basis @ weights[1:]
    return lambda given: np.asarray(standard(given) @ inner + weights[0])


def _trees(rows: Array, seed: int) -> _LogOdds:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model: Any = HistGradientBoostingClassifier(
        random_state=seed % 2**32, max_iter=100, max_leaf_nodes=15, min_samples_leaf=20
    )
    if rows.shape[1] == 0:
        return lambda given: np.zeros(len(given))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")
        model.fit(rows, np.repeat([1, 0], len(rows) // 2))
    return lambda given: np.asarray(model.decision_function(given), dtype=np.float64)
