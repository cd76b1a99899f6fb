"""Events at the tails of a score, and how likely each is by a smooth likelihood ratio.

Of hundreds of events on the same runs, the one whose frequencies differ most differs by luck. A logistic
regression says from all runs how likely each score is on either side. It is linear in the score, as it is if
the score is a log-likelihood ratio; where the runs say so clearly, it levels off, is quadratic, or is a
piecewise linear function of the score's rank. It guides the choice of an event, and is no part of its test.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dpaudit.auditors.statistics.learning.logistic import logistic_weights
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.mechanisms import Array

_CANDIDATES = 200
#: Where the log-likelihood ratio may bend, in normal quantiles of the score's rank.
_BENDS = np.arange(-3.0, 4.0)
#: How many standard errors an event's frequency may be off before the smooth ratio is not believed.
_TOO_FAR = 3.5
#: Of constant, slope and bends: a fault that few runs show must still show.
_RIDGE = np.concatenate([[1e-6, 1e-2], np.full(len(_BENDS), 8.0)])
#: How far out a score counts, in spreads; beyond which quantiles a ratio that levels off is constant.
_REACH, _LEVEL = 100.0, 0.5
#: By how much the log-likelihood must grow for the ratio to level off or be quadratic, or to bend.
_BY_ONE, _BENT = 2.0, 12.0
#: With fewer runs than this a side the penalties are smaller in proportion: few runs may bend the ratio too.
_FULL_RIDGE = 4000


@dataclass(frozen=True)
class Candidates:
    """Events on both tails and in both directions, with the counts x and y of each, all [c]."""

    thresholds: Array
    upper: NDArray[np.bool_]
    swapped: NDArray[np.bool_]
    x: Array
    y: Array


def candidates(samples: Samples) -> Candidates:
    """Thresholds at ranks of the pooled scores, denser towards both tails, with their counts."""
    data, neighbour = (np.sort(side, kind="stable") for side in (samples.data, samples.neighbour))
    # Stable sorting is a merge where the parts are sorted.
    pooled = np.sort(np.concatenate([data, neighbour]), kind="stable")
    n = len(pooled)
    tail = np.geomspace(1, n, _CANDIDATES).astype(int) - 1
    ranks = np.unique(np.concatenate([tail, n - 1 - tail, np.linspace(0, n - 1, _CANDIDATES).astype(int)]))
    at = np.unique(pooled[ranks])  # [t]
    above = [len(side) - np.searchsorted(side, at, side="left") for side in (data, neighbour)]
    below = [np.searchsorted(side, at, side="right") for side in (data, neighbour)]
    count = len(at)
    return Candidates(
        thresholds=np.tile(at, 4),
        upper=np.repeat([True, True, False, False], count),
        swapped=np.repeat([False, True, False, True], count),
        x=np.concatenate([above[0], above[1], below[0], below[1]]).astype(np.float64),
        y=np.concatenate([above[1], above[0], below[1], below[0]]).astype(np.float64),
    )


def smoothed(samples: Samples, found: Candidates) -> tuple[Array, Array]:
    """The probabilities of each event on its likelier side and on the other, [c] each, as estimated.

    They are those of the smooth ratio, or where it cannot be right the event's own frequencies.
    """
    at = found.thresholds[: len(found.thresholds) // 4]
    # Cells between the thresholds, and one for each threshold alone: scores may be equal.
    edges = np.stack([at, np.nextafter(at, np.inf)], axis=1).ravel()
    data, neighbour = (_counts(side, edges) for side in (samples.data, samples.neighbour))
    runs = data + neighbour
    halves = np.interp((np.arange(len(runs)) - 1) / 2, np.arange(len(at)), np.nan_to_num(at) / 2)
    odds = scipy.special.expit(_log_ratio(data, neighbour, halves))
    sides = [runs * odds, runs * (1 - odds)]
    above = [np.append(np.cumsum(side[::-1])[::-1], 0.0) / max(float(side.sum()), 1e-300) for side in sides]
    # The first cell lies below all edges; cell 2i + 1 is threshold i alone.
    first = 2 * np.arange(len(at)) + 1
    up, down = ([side[first] for side in above], [1 - side[first + 1] for side in above])
    p = np.concatenate([up[0], up[1], down[0], down[1]])
    q = np.concatenate([up[1], up[0], down[1], down[0]])
    share = np.clip(p / np.maximum(p + q, 1e-300), 1e-9, 1 - 1e-9)
    events = np.maximum(found.x + found.y, 1.0)
    off = np.abs(found.x / events - share) > _TOO_FAR * np.sqrt(share * (1 - share) / events)
    # One more run on the other side than was counted: an event is not chosen for a lucky zero.
    return np.where(off, found.x / len(samples), p), np.where(off, (found.y + 1) / len(samples), q)


def _counts(scores: Array, edges: Array) -> Array:
    at = np.searchsorted(edges, scores, side="right")
    return np.bincount(at, minlength=len(edges) + 1).astype(np.float64)


def _log_ratio(data: Array, neighbour: Array, scores: Array) -> Array:
    """The log-odds of "data" in cells of increasing scores with these counts, [cells] each."""
    runs = data + neighbour
    used, careful = runs > 0, min(1.0, float(runs.sum()) / (2 * _FULL_RIDGE))
    rank = (np.cumsum(runs) - runs / 2) / runs.sum()
    level = scipy.special.ndtri(np.clip(rank, 1e-12, 1 - 1e-12))[:, None]
    low, middle, high = np.interp([0.1, 0.5, 0.9], rank, scores)
    with np.errstate(over="ignore"):
        standard = np.clip((scores - middle) / max(high - low, 1e-300), -_REACH, _REACH)[:, None]
    found = []
    for features, price in (
        ([standard], 0.0),
        ([np.clip(level, -_LEVEL, _LEVEL)], _BY_ONE),
        ([standard, np.minimum(standard**2, _REACH)], _BY_ONE),
        ([level, np.maximum(0.0, level - _BENDS)], _BENT),
    ):
        rows = np.concatenate([np.ones_like(level), *features], axis=1)
        ridge = _RIDGE[: rows.shape[1]] * careful
        odds = rows @ logistic_weights(rows[used], data[used], neighbour[used], ridge)
        loss = data @ np.logaddexp(0, -odds) + neighbour @ np.logaddexp(0, odds)
        found.append((float(loss) + price * careful, odds))
    return np.asarray(min(found, key=lambda one: one[0])[1])
