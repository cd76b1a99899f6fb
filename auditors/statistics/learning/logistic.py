"""Logistic regression with a ridge, by Newton's method with shortened steps."""

import numpy as np
import scipy

from dpaudit.mechanisms import Array

_STEPS = 50
_CLOSE_ENOUGH = 1e-10


def logistic_weights(features: Array, data: Array, neighbour: Array, ridge: Array) -> Array:
    """The weights [f] whose linear function is the log-odds of "data", with a penalty ridge [f] / 2 each.

    Of each row of features [n, f], `data` and `neighbour` [n] say how many runs of either side have it.
    """
    runs = data + neighbour

    def loss(weights: Array) -> float:
        odds = features @ weights
        return float(runs @ np.logaddexp(0.0, odds) - data @ odds + 0.5 * ridge @ weights**2)

    weights = np.zeros(features.shape[1])
    reached = loss(weights)
    for _ in range(_STEPS):
        share = scipy.special.expit(features @ weights)
        slope = features.T @ (runs * share - data) + ridge * weights
        curvature = (features * (runs * share * (1 - share))[:, None]).T @ features + np.diag(ridge)
        step = scipy.linalg.solve(curvature, slope, assume_a="pos")
        if float(slope @ step) < _CLOSE_ENOUGH:
            break
        length, nearer = 1.0, loss(weights - step)
        while nearer > reached and length > 1e-6:
            length /= 2
            nearer = loss(weights - length * step)
        weights, reached = weights - length * step, nearer
    return weights
