"""Logistic regression with a ridge, given or borne out by the runs, by Newton's method with shortened steps.

D. J. C. MacKay. A practical Bayesian framework for backpropagation networks. Neural Computation 4, 1992.
"""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from dpaudit.mechanisms import Array

_STEPS = 50
#: What the log-likelihood must promise to grow by for another step, also where ridges change with each step.
_CLOSE_ENOUGH, _NEAR = 1e-10, 1e-3
#: How often ridges are found anew for one curvature, and what part of a ridge may still change at the end.
_RIDGE_STEPS, _SETTLED = 30, 0.01
#: A ridge of a group lies between 1 and 10 for each run: even a group that tells nothing weakly counts.
_LEAST, _MOST = 1.0, 10.0


def logistic_weights(features: Array, data: Array, neighbour: Array, ridge: Array) -> Array:
    """The weights [f] whose linear function is the log-odds of "data", with a penalty ridge [f] / 2 each.

    Of each row of features [n, f], `data` and `neighbour` [n] say how many runs of either side have it.
    """
    return _newton(features, data, neighbour, lambda *_: ridge, _CLOSE_ENOUGH)[0]


def likeliest_weights(
    features: Array, data: Array, neighbour: Array, groups: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Weights [f] and ridges [f], which are equal in a group of features; `groups` [f], of which -1 has none.

    The ridges are those that make the runs likeliest if the weights of each group were drawn with that
    precision (empirical Bayes: MacKay 1992): a group that tells nothing all but vanishes.
    """
    runs = float(data.sum() + neighbour.sum())
    ridge = np.where(groups >= 0, runs / 50, 1e-9)

    def likeliest(curvature: Array, target: Array) -> Array:
        for _ in range(_RIDGE_STEPS):
            inverse = np.linalg.inv(curvature + np.diag(ridge))
            weights, before = inverse @ target, ridge.copy()
            for group in range(int(groups.max()) + 1):
                at = groups == group
                # How many of the weights the runs determine, over the sum of their squares.
                determined = max(float(np.sum(1 - ridge[at] * np.diag(inverse)[at])), 1e-9)
                found = determined / max(float(weights[at] @ weights[at]), 1e-300)
                ridge[at] = min(max(found, _LEAST), _MOST * runs)
            if np.abs(np.log(ridge / before)).max() < _SETTLED:
                break
        return ridge.copy()

    return _newton(features, data, neighbour, likeliest, _NEAR)


def _newton(
    features: Array,
    data: Array,
    neighbour: Array,
    ridge_of: Callable[[Array, Array], Array],
    enough: float,
) -> tuple[Array, Array]:
    """Weights [f] and ridges [f], these from the curvature [f, f] and its product with the weights [f]."""
    runs, weights, ridge = data + neighbour, np.zeros(features.shape[1]), np.zeros(features.shape[1])

    def loss(weights: Array) -> float:
        odds = features @ weights
        return float(runs @ np.logaddexp(0.0, odds) - data @ odds + 0.5 * ridge @ weights**2)

    for _ in range(_STEPS):
        share = scipy.special.expit(features @ weights)
        curvature = (features * (runs * share * (1 - share))[:, None]).T @ features
        slope = features.T @ (runs * share - data)
        ridge = ridge_of(curvature, curvature @ weights - slope)
        slope = slope + ridge * weights
        step = scipy.linalg.solve(curvature + np.diag(ridge), slope, assume_a="pos")
        if float(slope @ step) < enough:
            break
        length, reached = 1.0, loss(weights)
        while loss(weights - length * step) > reached and length > 1e-6:
            length /= 2
        weights = weights - length * step
    return weights, ridge


def left_out(features: Array, labels: Array, weights: Array, ridge: Array, parts: NDArray[np.int64]) -> Array:
    """The log-odds [n] of each row by weights that were found without its part of the rows.

    `parts` [n] says to which each row belongs; the weights are those of all rows after one Newton step.
    """
    share = scipy.special.expit(features @ weights)
    odds = np.empty(len(features))
    curvatures = {}
    for part in np.unique(parts):
        rows = features[parts == part]
        inside = share[parts == part]
        curvatures[part] = (rows * (inside * (1 - inside))[:, None]).T @ rows
    whole = sum(curvatures.values()) + np.diag(ridge)
    for part, curvature in curvatures.items():
        at = parts == part
        rows = features[at]
        without = scipy.linalg.solve(whole - curvature, rows.T @ (labels[at] - share[at]), assume_a="pos")
        odds[at] = rows @ (weights - without)
    return odds
