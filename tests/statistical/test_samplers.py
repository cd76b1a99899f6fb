"""Each sampler has the distribution its theorem assumes: the true scale is accepted, one 5 % off is not.

Kolmogorov and Smirnov's test at level 1e-6, on fixed seeds: over fresh seeds the true scale would be
rejected once in a million runs. 200 000 draws tell a scale 5 % off by more than ten standard deviations.
"""

import numpy as np
import pytest
from scipy import stats

from dpaudit import run
from tests import make

DRAWS = 200_000
LEVEL = 1e-6
SCALE = 3.0

MECHANISMS = [(make.gaussian(SCALE), stats.norm), (make.laplace(SCALE), stats.laplace)]


@pytest.mark.parametrize(("mechanism", "family"), MECHANISMS, ids=["gaussian", "laplace"])
def test_the_sampler_has_the_scale_it_states_and_no_other(mechanism: object, family: object) -> None:
    value = np.full((DRAWS // 2, 2), 7.0)
    released = run(lambda data, curator: curator.release(data, mechanism, label="x"), value, seed=20240711)
    noise = (released.output - value).ravel()
    assert stats.kstest(noise, family(scale=SCALE).cdf).pvalue > LEVEL
    for wrong in (0.95 * SCALE, 1.05 * SCALE):
        assert stats.kstest(noise, family(scale=wrong).cdf).pvalue < LEVEL
    # Entry by entry independent: signs of neighbours agree as often as not, and so do sizes.
    pairs = noise.reshape(-1, 2)
    table = np.histogram2d(*(family(scale=SCALE).cdf(pairs.T)), bins=8, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(table.ravel()).pvalue > LEVEL


def test_runs_without_a_seed_never_repeat_a_draw() -> None:
    draws = [
        float(run(lambda data, curator: curator.release(0.0, MECHANISMS[0][0], label="x"), None).output)
        for _ in range(200)
    ]
    assert len(set(draws)) == 200
