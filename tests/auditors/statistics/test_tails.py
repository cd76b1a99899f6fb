"""Events at the tails: their counts by looking at every run, their probabilities where those are known."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.tails import candidates, smoothed
from dpaudit.auditors.statistics.threshold import ThresholdEvent


def _samples(kind: str) -> Samples:
    random = np.random.default_rng(3)
    sides = random.normal(1.0, 1.0, 300), random.normal(0.0, 1.0, 300)
    if kind == "ties":
        sides = np.round(sides[0]), np.round(sides[1])
    if kind == "infinite":
        sides[0][:40], sides[1][:60] = math.inf, -math.inf
    return Samples(*sides)


@pytest.mark.parametrize("kind", ["all different", "ties", "infinite"])
def test_every_event_is_counted_on_either_side(kind: str) -> None:
    samples = _samples(kind)
    found = candidates(samples)
    scores = np.unique(np.concatenate([samples.data, samples.neighbour]))
    count = len(found.thresholds) // 4
    at = found.thresholds[:count]
    assert set(at) <= set(scores)
    assert (at[0], at[-1]) == (scores[0], scores[-1])
    assert len(at) == len(scores) if kind == "ties" else len(at) > 200
    events = set()
    for index in range(len(found.thresholds)):
        event = ThresholdEvent.of(found, index)
        assert event.counts(samples) == (found.x[index], found.y[index])
        events.add((event.threshold, event.upper, event.swapped))
    assert len(events) == 4 * count


def test_the_probabilities_of_gaussian_tails_are_those_of_the_ratio() -> None:
    """With 4000 runs a side a tail of 2e-3 has 8 of them, of which 3 standard deviations double it."""
    random = np.random.default_rng(5)
    samples = Samples(random.normal(1.0, 1.0, 4000), random.normal(0.0, 1.0, 4000))
    found = candidates(samples)
    p, q = smoothed(samples, found)
    upper = np.where(found.upper, 1.0, -1.0)
    sides = [norm.sf(upper * (found.thresholds - mean)) for mean in (1.0, 0.0)]
    first, second = np.where(found.swapped, sides[::-1], sides)
    for estimate, truth in ((p, first), (q, second)):
        seen = truth > 2e-3
        off = np.abs(np.log(estimate[seen] / truth[seen]))
        assert off.max() < 0.5
        assert off.mean() < 0.05


def test_where_the_sides_are_alike_no_event_is_likelier_on_one() -> None:
    random = np.random.default_rng(6)
    samples = Samples(random.normal(size=2000), random.normal(size=2000))
    found = candidates(samples)
    p, q = smoothed(samples, found)
    often = found.x + found.y > 100
    assert np.abs(np.log(p[often] / q[often])).max() < 0.2
