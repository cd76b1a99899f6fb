"""Mistakes that auditors in use make: each is made here on purpose, shown to err, and not made by ours.

Seeds are fixed. Where rates are held against a level, a correct auditor would pass on all but one in a
million fresh seeds, and a mistaken one is shown to be beyond that.
"""

import functools
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import binom, norm

from dpaudit import GDP, Claim, Experiment, PureDP
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta
from dpaudit.auditors.statistics.clopper_pearson import epsilon_lower
from dpaudit.auditors.statistics.gaussian_pair import epsilon_below
from dpaudit.auditors.statistics.gdp import gaussian_trade_off
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.errors import InvalidParameter

LEVEL = 0.05
DELTA = 1e-5
ONE = Claim(PureDP(epsilon=1.0))


def allowed(audits: int) -> int:
    """How many of so many audits may err before the level is in doubt: a false alarm once in a million."""
    return int(binom.isf(1e-6, audits, LEVEL))


def same(runs: int, seed: int) -> Samples:
    return Samples(*np.random.default_rng([31, seed]).normal(size=(2, runs)))


def laplace(runs: int, seed: int = 0) -> Samples:
    """A mechanism that is 1-DP."""
    noise = np.random.default_rng([32, seed]).laplace(size=(2, runs))
    return Samples(1.0 + noise[0], noise[1])


def response(runs: int, seed: int) -> Samples:
    """Randomized response: 1-DP, and no less."""
    truth = 1 / (1 + math.exp(-1.0))
    told = np.random.default_rng([33, seed]).random((2, runs)) < [[truth], [1 - truth]]
    return Samples(*told.astype(float))


def counts(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """At every score as a threshold, the runs at or above it on either side."""
    at = np.unique(np.concatenate([samples.data, samples.neighbour]))
    sides = (np.sort(samples.data), np.sort(samples.neighbour))
    above = [len(side) - np.searchsorted(side, at) for side in sides]
    return above[0], above[1]


def test_an_epsilon_read_off_a_fitted_gaussian_is_large_where_both_sides_are_the_same(nightly: bool) -> None:
    def fitted(samples: Samples) -> float:
        """The largest distance of normal quantiles at any threshold, and the Gaussian epsilon of it."""
        x, y = counts(samples)
        p, q = ((count + 0.1) / (len(samples) + 0.2) for count in (x, y))
        return epsilon_below(DELTA, float(np.abs(norm.ppf(p) - norm.ppf(q)).max()))

    null = [same(1000, seed) for seed in range(40)]
    assert min(map(fitted, null)) > 0.5  # always, and
    assert max(map(fitted, null)) > 5.0  # at times absurdly so
    audits = 40 if nightly else 20
    ours = [gaussian_trade_off(samples) for samples in null[:audits]]
    assert sum((audit.mu_lower or 0.0) > 0.0 for audit in ours) <= allowed(audits)
    assert all(audit.epsilon_lower is None for audit in ours)
    found = sum((threshold(samples).epsilon_lower or 0.0) > 0 for samples in null[:audits])
    assert found <= allowed(audits)


def test_a_credible_interval_for_epsilon_is_above_0_where_both_sides_are_the_same(nightly: bool) -> None:
    random = np.random.default_rng(0)

    def credible(samples: Samples) -> float:
        """The lower end at 95% of the posterior of epsilon, from the rates of one fixed event."""
        p, q = (
            random.beta(0.5 + np.sum(side > 0), 0.5 + np.sum(side <= 0), 4000)
            for side in (samples.data, samples.neighbour)
        )
        ratios = [np.log(p / q), np.log(q / p), np.log((1 - p) / (1 - q)), np.log((1 - q) / (1 - p))]
        return float(np.quantile(np.max(ratios, axis=0), LEVEL))

    audits = 100 if nightly else 40
    null = [same(1000, seed) for seed in range(audits)]
    assert min(map(credible, null)) > 0.0  # a largest log ratio is never below 0, whatever is true
    assert sum((threshold(samples).epsilon_lower or 0.0) > 0 for samples in null) <= allowed(audits)


def test_a_threshold_tested_on_the_scores_it_was_chosen_on_errs_too_often() -> None:
    n = 200
    # Clopper-Pearson bounds of each count that there can be.
    count = np.arange(n + 1)
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), n - count + 1, LEVEL / 2), 1e-300)
    high = np.where(count < n, betaincinv(count + 1, np.maximum(n - count, 1), 1 - LEVEL / 2), 1.0)

    def best(samples: Samples) -> float:
        """The largest Clopper-Pearson bound at any threshold, in either direction."""
        x, y = counts(samples)
        ways = ((x, y), (y, x), (n - x, n - y), (n - y, n - x))
        return max(0.0, *(float(np.log(low[one] / high[other]).max()) for one, other in ways))

    mistaken = sum(best(same(n, seed)) > 0.0 for seed in range(1500))
    assert 0.06 < mistaken / 1500 < 0.20
    assert mistaken > allowed(1500)
    ours = sum((threshold(same(n, seed), delta=0.0).epsilon_lower or 0.0) > 0 for seed in range(60))
    assert ours <= allowed(60)


@pytest.mark.nightly
def test_the_largest_of_several_bounds_is_none_at_the_level_of_one() -> None:
    """Twenty trials in both directions, and the maximum of them all at 95%."""
    trials, audits, n = 20, 150, 300
    bound = functools.cache(epsilon_lower)

    def largest(seed: int, error: float) -> float:
        found = []
        for trial in range(trials):
            told = response(n, 1000 * seed + trial)
            x, y = int(told.data.sum()), int(told.neighbour.sum())
            found += [bound(x, n, y, n, 0.0, error), bound(n - y, n, n - x, n, 0.0, error)]
        return max(found)

    assert sum(largest(seed, LEVEL) > 1.0 for seed in range(audits)) > allowed(audits)
    # One error, split over all of them.
    assert sum(largest(seed, LEVEL / (2 * trials)) > 1.0 for seed in range(audits)) <= allowed(audits)
    # Ours looks in both directions with one error, since one event alone is tested.
    ours = [threshold(response(n, seed), delta=0.0).epsilon_lower or 0.0 for seed in range(60)]
    assert sum(one > 1.0 for one in ours) <= allowed(60)


@pytest.mark.nightly
def test_a_bound_from_the_gaussian_family_says_nothing_of_another_mechanisms_epsilon() -> None:
    audit = gaussian_trade_off(laplace(20_000))
    mistaken = epsilon_below(DELTA, audit.mu_lower or 0.0)
    assert mistaken > 3.0  # of a mechanism that is 1-DP
    # Ours refuses to judge such a claim by it; of mu it may speak, and says what it does not say.
    with pytest.raises(InvalidParameter, match="cannot refute"):
        gaussian_trade_off(laplace(20_000), claim=ONE)
    about_mu = gaussian_trade_off(laplace(20_000), claim=Claim(GDP(mu=0.8)))
    assert about_mu.refuted_by == ("mu",)
    assert about_mu.epsilon_lower is None
    assert about_mu.not_checked[0] == Condition(code=Code.MU_ONLY)
    assert threshold(laplace(20_000), claim=ONE).verdict is Experiment.NOT_REFUTED
    assert sequential(laplace(3000), claim=ONE).verdict is Experiment.NOT_REFUTED


@pytest.mark.parametrize("mu", [1.0, 2.0])
def test_the_most_accurate_threshold_refutes_little(mu: float) -> None:
    """At the event of the largest total variation p + q = 1: never beyond 2 atanh(TV)."""
    variation = 2 * norm.cdf(mu / 2) - 1
    limit = 2 * math.atanh(variation)
    # However many runs.
    p, q = norm.cdf(mu / 2), norm.cdf(-mu / 2)
    bounds = [
        epsilon_lower(round(n * p), n, round(n * q), n, DELTA, LEVEL) for n in (10**3, 10**4, 10**6, 10**9)
    ]
    assert all(one < other for one, other in pairwise(bounds))
    assert bounds[-1] < limit
    random = np.random.default_rng(3)
    samples = Samples(random.normal(mu, 1, 10_000), random.normal(0, 1, 10_000))
    assert limit < (threshold(samples, delta=DELTA).epsilon_lower or 0.0) < epsilon_below(DELTA, mu)
    assert gaussian_delta(limit, mu) > DELTA  # the claim of the limit is false, and only ours sees it


def test_a_log_likelihood_score_tells_the_grid_of_floating_point_numbers() -> None:
    def score(outputs: np.ndarray) -> np.ndarray:
        """The exact log-likelihood ratio of Laplace noise about 1 and about 0, between -1 and 1."""
        return np.abs(outputs) - np.abs(outputs - 1.0)

    outputs = laplace(8000)
    samples = Samples(score(outputs.data), score(outputs.neighbour))
    # Below 0 the ratio is -1 on paper. In floats it is so on one side alone: the last bits tell them apart.
    assert samples.data.min() == -1.0 > samples.neighbour.min()
    mistaken = threshold(samples, claim=ONE, attack_grid=True)
    assert mistaken.verdict is Experiment.REFUTED  # of a mechanism that is 1-DP on the real line
    for audit in (threshold(samples, claim=ONE), sequential(samples, claim=ONE)):
        assert audit.verdict is Experiment.NOT_REFUTED
        assert Condition(code=Code.ROUNDED_SCORES) in audit.not_checked
