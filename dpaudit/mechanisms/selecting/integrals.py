"""Integrals of log-concave functions over the real line, for probabilities of noisy comparisons."""

import functools
from collections.abc import Callable

import numpy as np

from dpaudit.mechanisms.base import Array

#: Integration ends where the logarithm has fallen by this much; the rest is below 1e-20 of the integral.
_FALL = 50.0
_PANELS, _NODES = 32, 24
#: The largest number of evaluations of one factor of the integrand.
_MOST_WORK = 1 << 21
_MOST_KINKS = 1024


@functools.lru_cache(maxsize=8)
def gauss_legendre(nodes: int) -> tuple[Array, Array]:
    """Return the Gauss-Legendre nodes in (-1, 1) and their weights: [nodes] each."""
    found: tuple[Array, Array] = np.polynomial.legendre.leggauss(nodes)
    return found


def log_integral(log_of: Callable[[Array], Array], kinks: Array, width: float) -> float | None:
    """Return the logarithm of the integral of exp(log_of), or None if it would take too long.

    The method is composite Gauss-Legendre quadrature, with a relative error of about 1e-12.

    Args:
        log_of: a concave function that falls at least linearly on both sides, [n] -> [n]; one value costs
            about one operation for each kink.
        kinks: [m], m at least 1: the centres of the integrand's factors, where they may not be smooth.
        width: the scale on which the factors vary; beyond a few widths they are exponentials of polynomials
            of degree at most 2.
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
    """Return an interval around the function's maximum; at its ends the function is `_FALL` lower."""
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
    """Return a point where the function is below `least`, at most twice as far from the mode as necessary."""
    # With many factors the function is narrow, so begin near the mode.
    distances = step * 2.0 ** np.arange(-20.0, 1000.0, 1.0)
    for block in np.array_split(distances[np.abs(distances) < 1e300], 32):
        fallen = np.flatnonzero(~(log_of(mode + block) > least))
        if len(fallen):
            return mode + float(block[fallen[0]])
    return mode + float(block[-1])
