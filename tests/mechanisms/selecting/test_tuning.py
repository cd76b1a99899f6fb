"""The best of a random number of trials: its law, its cost against exact output laws, and dp-accounting."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dpaudit import L1, L2, Neighbouring, PureDP
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import for_group
from dpaudit.accountants.composition.costs import pure_epsilon
from dpaudit.accountants.pairs.moments import log_moment
from dpaudit.errors import CannotBound, InputError
from dpaudit.mechanisms import (
    FixedSizeSampled,
    GaussianSparseVector,
    HiddenSample,
    NegativeBinomial,
    OpaqueApproxDP,
    Poisson,
    PrivateSelection,
    RandomAllocation,
    RandomizedResponse,
    SampledMatrix,
    SampledRecords,
    SparseVector,
    TrialRelease,
    TruncatedPoissonSampled,
)
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.randomness import ExactRandomness, SeededRandomness
from tests import make
from tests.sweeps import sweep

ALARM = 1e-6
ADD = Neighbouring.ADD_OR_REMOVE_ONE
LAWS = [
    NegativeBinomial(eta=1.0, gamma=0.25),
    NegativeBinomial(eta=0.0, gamma=0.1),
    NegativeBinomial(eta=-0.5, gamma=0.05),
    NegativeBinomial(eta=2.5, gamma=0.4),
    Poisson(mean=1.0),
    Poisson(mean=6.0),
]


def tuned(law: Any, *made: Any) -> PrivateSelection:
    releases = tuple(TrialRelease(mechanism=mechanism, count=count) for mechanism, count in made)
    return PrivateSelection(releases=releases, repetitions=law)


def masses(law: Any, most: int) -> list[mpf]:
    """P(K = k) for k = 0 .. most, from the definitions in Papernot and Steinke 2022."""
    if isinstance(law, Poisson):
        return [mp.exp(-mpf(law.mean)) * mpf(law.mean) ** k / mp.factorial(k) for k in range(most + 1)]
    eta, gamma = mpf(law.eta), mpf(law.gamma)
    if eta == 0:
        return [mpf(0), *((1 - gamma) ** k / (k * mp.log(1 / gamma)) for k in range(1, most + 1))]
    found = [mpf(0)]
    for k in range(1, most + 1):
        factors = mp.fprod((i + eta) / (i + 1) for i in range(k))
        found.append((1 - gamma) ** k / (gamma**-eta - 1) * factors)
    return found


@sweep("law", LAWS, everyday=(1, 4, 5))
def test_the_mean_is_that_of_the_law(law: Any) -> None:
    shares = masses(law, 400)
    assert float(mp.fsum(shares)) == pytest.approx(1.0, rel=1e-8)
    assert float(generating(law, mpf(0.7))) == pytest.approx(
        float(mp.fsum(p * mpf(0.7) ** k for k, p in enumerate(shares))), rel=1e-9
    )
    assert law.mean == pytest.approx(float(mp.fsum(k * p for k, p in enumerate(shares))), rel=1e-6)


@pytest.mark.parametrize("exact", [False, True])
@sweep("law", LAWS, everyday=(0, 3, 4, 5))
def test_numbers_of_trials_are_drawn_as_stated(law: Any, exact: bool) -> None:
    generator = np.random.default_rng(17)
    draws = ExactRandomness(SeededBits(generator)) if exact else SeededRandomness(generator)
    counts = np.bincount([min(law.draw(draws), 9) for _ in range(4000)], minlength=10)

    def p(shares: list[mpf]) -> float:
        inside = np.array([float(share) for share in shares[:9]])
        expected = 4000 * np.append(inside, max(0.0, 1.0 - inside.sum()))
        kept = expected > 5.0
        assert counts[expected == 0.0].sum() == 0
        together = [np.append(each[kept], each[~kept].sum()) for each in (counts, expected)]
        if together[1][-1] == 0.0:
            together = [each[:-1] for each in together]
        return float(stats.chisquare(*together).pvalue)

    assert p(masses(law, 9)) > ALARM
    other = law.model_copy(
        update={"mean": 1.4 * law.mean} if isinstance(law, Poisson) else {"gamma": 0.5 * law.gamma}
    )
    assert p(masses(other, 9)) < ALARM


def best(law: Any, one: list[mpf]) -> list[mpf]:
    """The law of the best of K draws of 0, 1, ..., and at the end the probability of none."""
    below = [mp.fsum(one[:k]) for k in range(len(one) + 1)]
    steps = [generating(law, high) - generating(law, low) for low, high in itertools.pairwise(below)]
    return [*steps, masses(law, 0)[0]]


def generating(law: Any, x: mpf) -> mpf:
    """E x^K, in closed form."""
    if isinstance(law, Poisson):
        return mp.exp(law.mean * (x - 1))
    left = 1 - (1 - mpf(law.gamma)) * x
    if law.eta == 0.0:
        return mp.log(left) / mp.log(law.gamma)
    return (left ** -mpf(law.eta) - 1) / (mpf(law.gamma) ** -mpf(law.eta) - 1)


def moment(one: list[mpf], other: list[mpf], t: float) -> float:
    return float(
        mp.log(mp.fsum(p ** (1 + mpf(t)) * q ** -mpf(t) for p, q in zip(one, other, strict=True) if p > 0))
    )


@pytest.mark.parametrize("law", LAWS)
@sweep("epsilon", [0.3, 2.0], everyday=(1,))
def test_no_divergence_is_below_the_truth(law: Any, epsilon: float) -> None:
    """Trials that are randomized response among four, its answers ordered in every way as scores."""
    answer = RandomizedResponse(epsilon=epsilon, categories=4)
    mechanism = tuned(law, (answer, 1))
    bound = log_moment(mechanism, ADD, mixture_first=True)
    total = mp.exp(mpf(epsilon)) + 3
    worst, naive = 0.0, 0.0
    for first, second in itertools.permutations(range(4), 2):
        sides = [
            [(mp.exp(mpf(epsilon)) if k == true else 1) / total for k in range(4)] for true in (first, second)
        ]
        one, other = (best(law, side) for side in sides)
        for t in (0.2, 1.0, 4.0, 40.0):
            truth = moment(one, other, t)
            assert truth <= bound(t)
            naive = max(naive, truth - moment(*sides, t))
        largest = max(abs(mp.log(p / q)) for p, q in zip(one, other, strict=True) if p > 0)
        worst = max(worst, float(largest))
    assert naive > 0.0, "the best of several costs more than one"
    if isinstance(law, NegativeBinomial):
        assert epsilon < worst <= pure_epsilon(mechanism) == pytest.approx((2.0 + law.eta) * epsilon)


@pytest.mark.parametrize("law", LAWS)
def test_trials_that_reveal_nothing_cost_no_less_than_nothing(law: Any) -> None:
    bound = log_moment(tuned(law, (RandomizedResponse(epsilon=1e-9), 1)), ADD, mixture_first=True)
    assert all(bound(t) >= 0.0 for t in (1e-6, 1e-2, 1.0, 100.0))


def test_the_geometric_law_costs_three_epsilon() -> None:
    mechanism = tuned(LAWS[0], (make.laplace(2.0), 2))
    found = bounds(make.composition(mechanism), PureDP(epsilon=0.0))
    assert found[0].guarantee == PureDP(epsilon=3.0)
    with pytest.raises(CannotBound):
        pure_epsilon(tuned(Poisson(mean=3.0), (make.laplace(2.0), 2)))


SGD = make.poisson(make.gaussian(1.0))


@pytest.mark.parametrize(
    ("law", "shape"),
    [
        (NegativeBinomial(eta=1.0, gamma=0.1), 1.0),
        (NegativeBinomial(eta=0.0, gamma=0.02), 0.0),
        (NegativeBinomial(eta=0.5, gamma=0.05), 0.5),
        (Poisson(mean=10.0), math.inf),
    ],
)
def test_never_looser_than_dp_accounting(law: Any, shape: float) -> None:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    sampled = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    for made, event in (
        ((make.gaussian(2.0), 1), dp_event.GaussianDpEvent(2.0)),
        ((SGD, 1000), dp_event.SelfComposedDpEvent(sampled, 1000)),
    ):
        theirs = RdpAccountant()
        theirs.compose(dp_event.RepeatAndSelectDpEvent(event, law.mean, shape))
        ours = min(make.figures(make.composition(tuned(law, made)), 1e-6).values())
        assert 0.99 < ours / theirs.get_epsilon(1e-6) < 1.0


def test_groups_are_those_of_a_trial() -> None:
    mechanism = tuned(LAWS[0], (make.laplace(2.0), 2))
    grouped, times = for_group(mechanism, 3)
    assert times * pure_epsilon(grouped) == pytest.approx(9.0)
    with pytest.raises(CannotBound):
        for_group(tuned(LAWS[0], (SGD, 10)), 2)


def test_trials_without_divergences_are_refused() -> None:
    leaky = OpaqueApproxDP(epsilon=1.0, delta=1e-6, justification="x")
    with pytest.raises(InputError):
        tuned(LAWS[0], (leaky, 1))
    sampled = FixedSizeSampled(mechanism=leaky, size=1, units=10)
    with pytest.raises(CannotBound):
        log_moment(tuned(LAWS[0], (sampled, 1)), Neighbouring.REPLACE_ONE, mixture_first=True)
    composed = make.composition(tuned(LAWS[0], (sampled, 1)), relation=Neighbouring.REPLACE_ONE)
    with pytest.raises(CannotBound, match="a fixed-size-sampled mechanism that may reveal everything"):
        make.figures(composed, 1e-6)


NOISE = make.gaussian(2.0)
BANDS = make.banded(2.0, 20, separation=2)


@sweep(
    "one",
    [
        FixedSizeSampled(size=10, units=1000, mechanism=NOISE),
        TruncatedPoissonSampled(rate=0.01, most=30, units=1000, mechanism=NOISE),
        SampledRecords(rate=0.01, records=3, mechanism=NOISE),
        RandomAllocation(steps=4, mechanism=NOISE),
        SampledMatrix(rate=0.01, mechanism=BANDS),
        BANDS,
        SparseVector(epsilon=0.5, sensitivity=L1(1.0)),
        GaussianSparseVector(sigma=10.0, sensitivity=L2(1.0), steps=10),
    ],
    ids=lambda one: one.kind,
    everyday=(0, 1, 2, 4, 5, 6, 7),
)
def test_trials_may_be_of_any_of_these(one: Any) -> None:
    """The best of several costs more than a trial, and what hides in a sample less than what does not."""

    def cost(mechanism: Any) -> float:
        return min(make.figures(make.composition(mechanism), 1e-6).values())

    tuned_cost = cost(tuned(LAWS[0], (one, 1)))
    assert cost(one) < tuned_cost
    if isinstance(one, HiddenSample):
        assert tuned_cost < cost(tuned(LAWS[0], (one.mechanism, 1)))


@pytest.mark.parametrize(
    "law",
    [
        {"kind": "negative-binomial", "eta": -1.0, "gamma": 0.5},
        {"kind": "negative-binomial", "eta": 1.0, "gamma": 1.0},
        {"kind": "negative-binomial", "eta": math.nan, "gamma": 0.5},
        {"kind": "poisson", "mean": 0.5},
        {"kind": "fixed", "mean": 3},
    ],
)
def test_laws_without_a_theorem_are_refused(law: Any) -> None:
    with pytest.raises(InputError):
        PrivateSelection(releases=(TrialRelease(mechanism=SGD),), repetitions=law)
    with pytest.raises(InputError):
        PrivateSelection(releases=(), repetitions=Poisson(mean=1.0))
