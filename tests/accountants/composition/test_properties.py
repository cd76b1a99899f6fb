"""What every accountant is held to, over every mechanism and mixes of them, against exact values."""

import itertools
import math
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpaudit import L1, L2, ApproxDP, Neighbouring
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.costs import pure_epsilon
from dpaudit.accountants.curves.curves import profiles
from dpaudit.accountants.privacy_loss import BoundedRangeTerm, PrivacyLoss
from dpaudit.claims.bounds import Bound
from dpaudit.claims.sensitivity import RKHS, Frobenius
from dpaudit.errors import CannotBound, InputError
from dpaudit.mechanisms import (
    AnyMechanism,
    Exponential,
    ExponentialKernel,
    FixedSizeSampled,
    GaussianProcess,
    GaussianSparseVector,
    KeySelection,
    MixtureOfGaussians,
    NegativeBinomial,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    PrivateSelection,
    RandomizedResponse,
    ReportNoisyMax,
    SampledMatrix,
    Shuffled,
    SmoothGaussian,
    SparseVector,
    SymmetricGaussian,
    Tabulated,
    TrialRelease,
    TruncatedPoissonSampled,
)
from tests import make, oracles
from tests.mechanisms.examples import EXAMPLES, example
from tests.sweeps import sweep

ADD = Neighbouring.ADD_OR_REMOVE_ONE
LADDER = [1e-3, 1e-6, 1e-9, 1e-15, 1e-30]
BANDED = (1.0, 0.5, 0.375)
YES = 1.0 / (1.0 + math.exp(-0.5))
MECHANISMS: dict[str, AnyMechanism] = {
    mechanism.kind: mechanism
    for mechanism in (
        make.gaussian(2.0),
        make.laplace(2.0),
        make.discrete_gaussian(2.0),
        make.discrete_laplace(2.0),
        SymmetricGaussian(sigma=2.0, dimension=2, sensitivity=Frobenius(1.0)),
        make.tree(3.0, 5),
        GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0)),
        RandomizedResponse(epsilon=0.5),
        Exponential(epsilon=0.5),
        ReportNoisyMax(epsilon=0.5),
        Shuffled(local=RandomizedResponse(epsilon=0.5), users=50),
        KeySelection(epsilon=0.5, delta=1e-15, changes=3),
        PrivateSelection(
            releases=(TrialRelease(mechanism=make.laplace(9.0)),),
            repetitions=NegativeBinomial(eta=1.0, gamma=0.2),
        ),
        SparseVector(epsilon=0.5, sensitivity=L1(1.0), answers=2),
        GaussianSparseVector(sigma=9.0, sensitivity=L2(1.0), answers=2, steps=50),
        SmoothGaussian(alpha=12.0, beta=0.01, dimension=3, epsilon=0.5, delta=1e-8),
        PoissonSampled(rate=0.1, mechanism=make.gaussian(1.0)),
        FixedSizeSampled(size=1, units=10, mechanism=make.gaussian(1.0)),
        TruncatedPoissonSampled(
            rate=0.1, most=3, units=10, mechanism=make.gaussian(1.0, 2.0), contribution=1.0
        ),
        make.banded(3.0, 9, BANDED, participations=3, separation=3),
        SampledMatrix(rate=0.1, mechanism=make.banded(1.0, 9, BANDED, separation=3)),
        MixtureOfGaussians(sigma=1.0, sensitivities=(0.0, 1.0), probabilities=(0.75, 0.25)),
        OpaquePureDP(epsilon=0.5, justification="x"),
        OpaqueApproxDP(epsilon=0.5, delta=1e-9, justification="x"),
        OpaqueZCDP(rho=0.1, justification="x"),
        Tabulated(losses=(-0.5, 0.5), probabilities=(1.0 - YES, YES), justification="x"),
    )
}
MECHANISMS |= {kind: example(kind) for kind in EXAMPLES if kind not in MECHANISMS}


#: Kinds that take long: one sweep takes all of them every day, the others a few, and the rest at night.
SLOW = {
    "laplace",
    "exponential",
    "shuffled",
    "poisson-sampled",
    "fixed-size-sampled",
    "truncated-poisson-sampled",
    "sampled-matrix",
    "mixture-of-gaussians",
    "random-allocation",
    "sampled-records",
}


def all_but(*kinds: str) -> list[int]:
    return [position for position, kind in enumerate(MECHANISMS) if kind not in kinds]


def found(delta: float, *mechanisms: tuple[AnyMechanism, int], relation: Neighbouring = ADD) -> list[Bound]:
    return bounds(make.composition(*mechanisms, relation=relation), ApproxDP(epsilon=0.0, delta=delta))


def by_method(delta: float, *mechanisms: tuple[AnyMechanism, int]) -> dict[str, float]:
    return make.figures(make.composition(*mechanisms), delta)


@sweep("kind", list(MECHANISMS), everyday=all_but(*SLOW - {"laplace"}))
def test_count_is_honoured(kind: str) -> None:
    mechanism, n = MECHANISMS[kind], 12
    counted = by_method(1e-5, (mechanism, n))
    looped = by_method(1e-5, *[(mechanism, 1)] * n)
    parted = by_method(1e-5, (mechanism, 5), (mechanism, n - 5))
    assert counted == looped == parted
    fewer = by_method(1e-5, (mechanism, n - 4))
    assert set(counted) <= set(fewer)
    for method, epsilon in counted.items():
        assert epsilon > fewer[method] > 0.0
    if kind in {"laplace", "randomized-response", "pure-dp", "discrete-laplace", "tabulated"}:
        assert counted["pure"] > 0.5 * (n - 1)


@sweep("kind", list(MECHANISMS), everyday=all_but(*SLOW - {"exponential", "poisson-sampled"}))
def test_pld_is_below_rdp_is_below_zcdp(kind: str) -> None:
    # Where more than 1e-10 may be revealed there is no bound.
    for delta in (1e-2, 1e-5, *([] if kind == "approx-dp" else [1e-10])):
        assert len(in_order(delta, (MECHANISMS[kind], 20))) >= 2


def in_order(delta: float, *mechanisms: tuple[AnyMechanism, int]) -> list[float]:
    """The figures of privacy losses, divergences and zCDP, after the law that none exceeds the next."""
    each = by_method(delta, *mechanisms)
    assert not {"pld", "pld+rdp"} <= set(each)
    chain = [each[method] for method in ("pld", "pld+rdp", "rdp", "zcdp") if method in each]
    assert all(left <= right * (1.0 + 1e-9) + 1e-12 for left, right in itertools.pairwise(chain)), each
    return chain


EPSILON, SCALE = st.floats(0.01, 2.0), st.floats(0.7, 30.0)


def table(masses: list[float], step: float, infinity: float) -> Tabulated:
    """Every loss has its opposite, so that the neighbour's probabilities add up to 1 as well."""
    losses = [step * (i + 1) for i in range(len(masses))]
    both = [(-loss, mass / (1.0 + math.exp(loss))) for loss, mass in zip(losses, masses, strict=True)]
    both += [(loss, mass / (1.0 + math.exp(-loss))) for loss, mass in zip(losses, masses, strict=True)]
    total = math.fsum(p for _, p in both) / (1.0 - infinity)
    rows = sorted((loss, p / total) for loss, p in both)
    return Tabulated(
        losses=tuple(loss for loss, _ in rows),
        probabilities=tuple(p for _, p in rows),
        infinity=infinity,
        justification="x",
    )


ANY_KIND = st.one_of(
    st.sampled_from(list(MECHANISMS.values())),
    SCALE.map(make.gaussian),
    SCALE.map(make.laplace),
    SCALE.map(make.discrete_gaussian),
    SCALE.map(make.discrete_laplace),
    SCALE.map(lambda s: make.tree(s, 9)),
    st.builds(RandomizedResponse, epsilon=EPSILON, categories=st.integers(2, 40)),
    st.builds(Exponential, epsilon=EPSILON),
    st.builds(
        lambda a, b, d: SmoothGaussian(alpha=a, beta=b, dimension=d, epsilon=1.0, delta=0.9),
        st.floats(3.0, 20.0),
        st.sampled_from([1e-3, 0.01]),
        st.integers(1, 3),
    ),
    st.builds(
        table,
        st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4),
        st.floats(0.05, 1.0),
        st.sampled_from([0.0, 1e-33]),  # of 120 of them less than any delta: all would refuse
    ),
)


@settings(max_examples=min(25, settings().max_examples // 2), deadline=None)
@given(
    st.lists(st.tuples(ANY_KIND, st.integers(1, 40)), min_size=1, max_size=3), st.sampled_from([*LADDER, 0.1])
)
def test_the_order_holds_for_every_mix_of_all_kinds(
    mix: list[tuple[AnyMechanism, int]], delta: float
) -> None:
    if any(isinstance(m, OpaqueApproxDP) for m, _ in mix) and delta < 1e-6:
        return  # revealed with a larger probability: all refuse
    assert in_order(delta, *mix)


def test_the_order_would_not_hold_of_the_pairs_alone() -> None:
    """The planted fault: the pair that dominates every choice is looser than their divergences."""
    choices = (Exponential(epsilon=0.1), 100)
    each = by_method(1e-6, choices)
    alone = PrivacyLoss.compose([(BoundedRangeTerm(0.1), 100)]).epsilon(1e-6).lower
    assert each["pld+rdp"] < each["rdp"] < 0.93 * alone


def test_with_all_answers_the_pair_alone_is_below_the_divergences() -> None:
    each = by_method(1e-5, (RandomizedResponse(epsilon=1.0, categories=30), 20))
    assert set(each) >= {"pld", "rdp"}
    assert each["pld"] < 0.95 * each["rdp"]


@sweep("kind", list(MECHANISMS), everyday=all_but(*SLOW - {"sampled-matrix"}))
def test_bounds_are_sorted_nonnegative_below_the_pure_sum_and_monotone_in_delta(kind: str) -> None:
    mechanism = MECHANISMS[kind]
    try:
        most = 10 * pure_epsilon(mechanism) * (1 + 1e-12)
    except CannotBound:
        most = math.inf
    last = math.inf
    for delta in (1e-7, 1e-5, 1e-2, 0.9):
        listed = found(delta, (mechanism, 10))
        figures = [bound.guarantee.epsilon for bound in listed]
        assert figures == sorted(figures)
        assert all(figure >= 0.0 for figure in figures)
        assert figures[0] <= min(most, last * (1 + 1e-12))
        for bound in listed:
            assert bound.rigour == "float-pessimistic"
            assert (bound.at_least is not None) == (bound.method == "pld")
            assert bound.at_least is None or bound.at_least <= bound.guarantee.epsilon
        last = figures[0]


def responses_and_gaussian_delta(epsilon: float, loss: float, runs: int, mu: float) -> Any:
    """Exact: the Gaussian's curve at epsilon less each atom of the responses' loss."""
    total, e0, m = mpf(0), mpf(loss), mpf(mu)
    for k in range(runs + 1):
        weight = mp.binomial(runs, k) * mp.exp(k * e0) / (1 + mp.exp(e0)) ** runs
        left = mpf(epsilon) - (2 * k - runs) * e0
        total += weight * (oracles.gaussian_delta(m, left) if mu else max(mpf(0), 1 - mp.exp(left)))
    return total


@sweep("delta", LADDER, everyday=(1, -1))
@pytest.mark.parametrize(
    ("loss", "runs", "mu"), [(0.5, 12, 0.0), (0.1, 40, 0.0), (0.3, 10, 0.7), (1.0, 1, 2.0)]
)
def test_never_below_the_exact_value(loss: float, runs: int, mu: float, delta: float) -> None:
    mechanisms: list[tuple[AnyMechanism, int]] = [(RandomizedResponse(epsilon=loss), runs)]
    if mu:
        mechanisms.append((make.gaussian(1.0, mu), 1))
    best = found(delta, *mechanisms)
    with mp.workdps(60):
        for bound in best:
            epsilon = bound.guarantee.epsilon
            assert responses_and_gaussian_delta(epsilon, loss, runs, mu) <= mpf(delta) * (1 + mpf(10) ** -11)
        first = best[0].guarantee.epsilon
        assert best[0].method == "pld" or first >= loss * runs * (1 - 1e-6)
        if first > 0:
            assert responses_and_gaussian_delta(first * (1 - 1e-7), loss, runs, mu) > delta
        [loss_bound] = [bound for bound in best if bound.method == "pld"]
        assert loss_bound.at_least is not None
        if loss_bound.at_least > 0:
            below = loss_bound.at_least * (1 - 1e-12)
            assert responses_and_gaussian_delta(below, loss, runs, mu) >= mpf(delta) * (1 - mpf(10) ** -11)


@sweep("delta", LADDER, everyday=(1, -1))
def test_one_laplace_release_is_its_closed_form(delta: float) -> None:
    with mp.workdps(60):
        exact = 1 + 2 * mp.log1p(-mpf(delta))  # delta = 1 - e^((epsilon - 1)/2)
    for bound in found(delta, (make.laplace(1.0), 1)):
        assert mpf(bound.guarantee.epsilon) >= exact * (1 - mpf(10) ** -15)
    assert found(delta, (make.laplace(1.0), 1))[0].guarantee.epsilon == pytest.approx(float(exact), rel=1e-7)


MIX = st.lists(
    st.tuples(
        st.one_of(
            st.builds(make.gaussian, st.floats(0.5, 50.0, exclude_min=True)),
            st.builds(make.laplace, st.floats(0.7, 50.0)),
            st.builds(lambda e: RandomizedResponse(epsilon=e), st.floats(0.01, 2.0)),
            st.builds(lambda e: OpaquePureDP(epsilon=e, justification="x"), st.floats(0.01, 1.0)),
        ),
        st.integers(1, 30),
    ),
    min_size=2,
    max_size=4,
)


@settings(max_examples=min(15, settings().max_examples // 3), deadline=None, derandomize=True)
@given(MIX, st.floats(-15.0, -2.0), st.integers(0, 3))
def test_a_mix_is_ordered_and_grows_with_what_is_added(
    mix: list[tuple[AnyMechanism, int]], power: float, index: int
) -> None:
    delta = 10.0**power
    each = by_method(delta, *mix)
    assert each["pld"] <= each["rdp"] * (1 + 1e-9)
    assert each["rdp"] <= each["zcdp"] * (1 + 1e-9)
    assert each["pld"] <= each["gdp"] * (1 + 1e-9)
    mechanism, count = mix[index % len(mix)]
    more = by_method(delta, *mix, (mechanism, count))
    assert all(more[method] >= each[method] * (1 - 1e-9) for method in each)


@pytest.mark.nightly
def test_directions_are_compared_after_composing_and_agree_with_dp_accounting() -> None:
    """One release at a time in a loop, at a moderate delta: there the other library is sound."""
    privacy_loss = import_module("dp_accounting.pld.privacy_loss_distribution")
    sampled = PoissonSampled(rate=0.1, mechanism=make.gaussian(1.0))
    laplace = make.laplace(2.0)
    fine = {"value_discretization_interval": 1e-4}
    one = privacy_loss.from_gaussian_mechanism(1.0, sampling_prob=0.1, **fine)
    composed = one
    for other in [one] * 9 + [privacy_loss.from_laplace_mechanism(2.0, **fine)] * 3:
        composed = composed.compose(other)
    theirs = composed.get_epsilon_for_delta(1e-5)
    [ours] = [b for b in found(1e-5, (sampled, 10), (laplace, 3)) if b.method == "pld"]
    assert ours.at_least is not None
    assert ours.at_least <= theirs * (1 + 1e-6)
    assert ours.guarantee.epsilon == pytest.approx(theirs, rel=2e-3)


@sweep("relation", list(Neighbouring), everyday=(0,))
@sweep("by", ["position", "values"], everyday=(1,))
def test_partitions_lie_between_the_dearest_part_and_the_sum(relation: Neighbouring, by: str) -> None:
    made = (("gaussian", 3), ("laplace", 9), ("randomized-response", 2))
    parts = [make.release(MECHANISMS[kind], n, part=kind, by=by) for kind, n in made]

    def each(*given: make.Made) -> dict[str, float]:
        return make.figures(make.composition(*given, relation=relation), 1e-6)

    whole = each(*parts)
    alone = [each(part) for part in parts]
    merged = each(*((MECHANISMS[kind], n) for kind, n in made))
    for method, epsilon in whole.items():
        assert max(one.get(method, 0.0) for one in alone) <= epsilon * (1 + 1e-9)
        assert epsilon <= merged[method] * (1 + 1e-9)
    if by == "position" or relation is ADD:
        assert whole["pld"] == pytest.approx(max(one["pld"] for one in alone), rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_nothing_is_computed_from_what_is_no_parameter(bad: float) -> None:
    for made in (
        lambda: make.gaussian(bad),
        lambda: make.gaussian(1.0, bad),
        lambda: make.laplace(bad),
        lambda: RandomizedResponse(epsilon=bad),
        lambda: SmoothGaussian(alpha=bad, beta=0.1, dimension=1, epsilon=1.0, delta=0.1),
        lambda: PoissonSampled(rate=bad, mechanism=make.gaussian(1.0)),
        lambda: ApproxDP(epsilon=bad, delta=0.1),
        lambda: ApproxDP(epsilon=1.0, delta=bad),
    ):
        with pytest.raises(InputError):
            made()
    for profile in profiles(make.composition((MECHANISMS["laplace"], 2))):
        with pytest.raises(InputError):
            profile.epsilon(bad)
        with pytest.raises(InputError):
            profile.delta(bad)


def test_curves_run_both_ways() -> None:
    curves = profiles(make.composition((MECHANISMS["laplace"], 10), (MECHANISMS["gaussian"], 2)))
    assert {curve.method for curve in curves} == {"gdp", "zcdp", "rdp", "pld"}
    for curve in curves:
        epsilon = curve.epsilon(1e-5)
        assert curve.delta(epsilon) <= 1e-5 * (1 + 1e-5)
        assert curve.delta(epsilon * 0.99) > 1e-5


def test_the_digits_of_the_oracle() -> None:
    """The sum over atoms is the published vector: 100 responses at 0.1, delta 1e-6."""
    with mp.workdps(60):
        at = responses_and_gaussian_delta(4.77456758810799, 0.1, 100, 0.0)
    assert float(at) == pytest.approx(1e-6, rel=1e-9)
