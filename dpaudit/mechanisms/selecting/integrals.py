"""Integrals of log-concave functions over the line, for the probabilities of comparisons of noisy numbers."""

import functools
from collections.abc import Callable

import numpy as np

from dpaudit.mechanisms.base import Array

#: Beyond the points where the logarithm has fallen by so much there is less than 1e-20 of the integral.
_FALL = 50.0
_PANELS, _NODES = 32, 24
#: Evaluations of one factor of the integrand that are worth it.
_MOST_WORK = 1 << 21
_MOST_KINKS = 1024


@functools.lru_cache(maxsize=8)
def gauss_legendre(nodes: int) -> tuple[Array, Array]:
    """The nodes in (-1, 1) and the weights: [nodes] each."""
    found: tuple[Array, Array] = np.polynomial.legendre.leggauss(nodes)
    return found


def log_integral(log_of: Callable[[Array], Array], kinks: Array, width: float) -> float | None:
    """The logarithm of the integral of exp(log_of); None where that would take too long.

    Composite Gauss-Legendre quadrature, good to about 1e-12 relative to the integral.

    Args:
        log_of: a concave function that falls at least linearly to either side, [n] -> [n]; each of its values
            costs about one operation for each kink.
        kinks: [m], m at least 1: where a factor of the integrand has its centre, and may not be smooth.
        width: the scale on which the factors vary, and beyond a few of which they are exponentials of
            polynomials of degree 2 at most.
    """
    if len(kinks) > _MOST_KINKS:
        return None
    centres = np.unique(kinks)
    low, high = _support(log_of, float(centres[0]), float(centres[-1]), width)
    inside = centres[(centres > low) & (centres < high)]
    edges = [np.linspace(low, high, _PANELS + 1), inside]
    step = 0.5 * width
    while step < (high - low) / _PANELS:
        edges += [inside - step, inside + step]
        step *= 2.0
    ends = np.unique(np.clip(np.concatenate(edges), low, high))
    if len(ends) * _NODES * len(kinks) > _MOST_WORK:
        return None
    nodes, weights = gauss_legendre(_NODES)
    half = 0.5 * np.diff(ends)
    points = (ends[:-1] + half)[:, None] + half[:, None] * nodes
    logs = log_of(points.ravel()).reshape(points.shape)
    peak = float(logs.max())
    if not np.isfinite(peak):
        return -np.inf
    return peak + float(np.log((np.exp(logs - peak) @ weights) @ half))


def _support(
    log_of: Callable[[Array], Array], first: float, last: float, width: float
) -> tuple[float, float]:
    """Ends of an interval that holds the function's largest value; at the ends it is `_FALL` less."""
    reach = width
    while True:  # the function rises towards its mode from both ends
        low, high = first - reach, last + reach
        at_low, below, above, at_high = log_of(np.array([low, low + 0.5 * width, high - 0.5 * width, high]))
        if at_low < below and at_high < above:
            break
        reach *= 2.0
        if reach > 1e300:
            break
    left, right = low, high
    for _ in range(60):
        points = np.linspace(left, right, 33)
        values = log_of(points)
        at = int(values.argmax())
        left, right = float(points[max(at - 1, 0)]), float(points[min(at + 1, 32)])
        if right - left <= 1e-3 * width or float(values.max() - values.min()) < 0.1:
            break
    mode = 0.5 * (left + right)
    least = float(log_of(np.array([mode]))[0]) - _FALL
    return _fallen(log_of, mode, -width, least), _fallen(log_of, mode, width, least)


def _fallen(log_of: Callable[[Array], Array], mode: float, step: float, least: float) -> float:
    """Where, from the mode on, the function has fallen to `least`, at most twice too far away."""
    # Narrow where many factors are multiplied: begin well inside.
    distances = step * 2.0 ** np.arange(-20.0, 1000.0, 1.0)
    for block in np.array_split(distances[np.abs(distances) < 1e300], 32):
        fallen = np.flatnonzero(~(log_of(mode + block) > least))
        if len(fallen):
            return mode + float(block[fallen[0]])
    return mode + float(block[-1])
