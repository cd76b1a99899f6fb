"""Ledgers to and from dp-accounting's events: exact where they can be, never cheaper, else refused."""

import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import L2, Claim, Neighbouring
from dpaudit.accountants.accounting import account
from dpaudit.accountants.bridges.from_dp_events import from_dp_event
from dpaudit.accountants.bridges.to_dp_events import to_dp_event
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.sensitivity import RKHS, Frobenius
from dpaudit.errors import CannotBound, ClaimMismatch, InputError, InvalidParameter, NotCertifiable
from dpaudit.ledger.ledger import Noise
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteLaplace,
    Exponential,
    ExponentialKernel,
    Gaussian,
    GaussianProcess,
    Laplace,
    MixtureOfGaussians,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    PrivateSelection,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
)
from tests import make, oracles
from tests.sweeps import sweep

ADD, SPECIAL, REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
    NeighboringRelation.REPLACE_ONE,
)


GAUSSIAN, LAPLACE, RESPONSE = (
    dp_event.GaussianDpEvent,
    dp_event.LaplaceDpEvent,
    dp_event.RandomizedResponseDpEvent,
)
POISSON, WITHOUT, CUT = (
    dp_event.PoissonSampledDpEvent,
    dp_event.SampledWithoutReplacementDpEvent,
    dp_accounting.TruncatedSubsampledGaussianDpEvent,
)
TIMES, REPEAT, MIXTURE = (
    dp_event.SelfComposedDpEvent,
    dp_event.RepeatAndSelectDpEvent,
    dp_event.MixtureOfGaussiansDpEvent,
)
TABLE = Tabulated(
    losses=(-0.5, 0.5), probabilities=(1 / (1 + math.exp(0.5)), 1 / (1 + math.exp(-0.5))), justification="x"
)


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (make.gaussian(3.0, 1.5), GAUSSIAN(2.0)),
        (SymmetricGaussian(sigma=2.0, dimension=3, sensitivity=Frobenius(1.0)), GAUSSIAN(2.0)),
        (TreeAggregation(sigma=2.0, steps=5, sensitivity=L2(1.0)), TIMES(GAUSSIAN(2.0), 3)),
        (
            GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0)),
            GAUSSIAN(2.0),
        ),
        (make.laplace(2.0, 0.5), LAPLACE(4.0)),
        (make.discrete_laplace(2.0, 3.5), dp_event.DiscreteLaplaceDpEvent(0.5, 3)),
        (make.discrete_gaussian(2.0, 2.0), dp_event.ZCDpEvent(0.5)),
        (Exponential(epsilon=2.0), dp_event.ZCDpEvent(0.5)),
        (OpaqueZCDP(rho=0.25, justification="x"), dp_event.ZCDpEvent(0.25)),
        (PoissonSampled(rate=0.1, mechanism=make.gaussian(2.0)), POISSON(0.1, GAUSSIAN(2.0))),
        (make.gaussian(1.0, 0.0), dp_event.NoOpDpEvent()),
        (make.discrete_laplace(1.0, 0.5), dp_event.NoOpDpEvent()),
    ],
)
def test_each_mechanism_has_its_event(mechanism: Any, expected: Any) -> None:
    found = to_dp_event(make.ledger(mechanism))
    assert found.event == expected
    assert found.relation is ADD


@pytest.mark.parametrize("mechanism", [OpaquePureDP(epsilon=0.5, justification="x"), TABLE])
def test_a_pure_guarantee_becomes_the_zcdp_that_follows_from_it(mechanism: Any) -> None:
    event = to_dp_event(make.ledger(mechanism)).event
    assert isinstance(event, dp_event.ZCDpEvent)
    assert event.rho == pytest.approx(0.5 * math.tanh(0.25), rel=1e-9)  # Bun and Steinke's 0.125 is looser
    assert event.rho >= 0.5 * math.tanh(0.25)


def test_counts_and_order_are_kept() -> None:
    gaussian, laplace = make.gaussian(2.0), make.laplace(3.0)
    assert to_dp_event(make.ledger((gaussian, 7), laplace, gaussian)).event == dp_event.ComposedDpEvent(
        [TIMES(GAUSSIAN(2.0), 7), LAPLACE(3.0), GAUSSIAN(2.0)]
    )


def test_groups_cost_what_groups_cost() -> None:
    ledger = make.ledger(make.gaussian(4.0), group_size=2)
    assert to_dp_event(ledger).event == GAUSSIAN(2.0)


@pytest.mark.parametrize(
    ("neighbouring", "mechanism", "relation"),
    [
        ("add-or-remove-one", make.gaussian(1.0), ADD),
        ("zero-out", make.gaussian(1.0), SPECIAL),
        ("replace-one", make.gaussian(1.0), SPECIAL),
        ("replace-one", RandomizedResponse(epsilon=1.0), REPLACE),
        ("replace-one", PoissonSampled(rate=0.5, mechanism=make.gaussian(1.0)), REPLACE),
    ],
)
def test_events_come_with_a_relation_that_covers_the_ledgers(
    neighbouring: str, mechanism: Any, relation: NeighboringRelation
) -> None:
    assert to_dp_event(make.ledger(mechanism, neighbouring=neighbouring)).relation is relation


def test_their_accountants_find_what_a_replace_one_ledger_costs() -> None:
    """N(0, 1) against N(1, 1) at 1e-6: 4.886554 (Balle and Wang); theirs are upper bounds."""
    ledger = make.ledger(make.gaussian(2.0, 2.0), neighbouring="replace-one")
    events = to_dp_event(ledger)
    by_losses = PLDAccountant(events.relation).compose(events.event).get_epsilon(1e-6)
    by_orders = RdpAccountant(neighboring_relation=events.relation).compose(events.event).get_epsilon(1e-6)
    assert by_losses == pytest.approx(4.886554, rel=1e-4)
    assert by_losses <= by_orders <= 5.3


MULTIPLIER = st.floats(1e-3, 1e3)
MECHANISM = st.one_of(
    st.builds(make.gaussian, MULTIPLIER, MULTIPLIER),
    st.builds(make.laplace, MULTIPLIER, MULTIPLIER),
    st.builds(lambda s, d: make.discrete_laplace(s, float(d)), MULTIPLIER, st.integers(1, 9)),
    st.builds(
        lambda e, k: RandomizedResponse(epsilon=e, categories=k), st.floats(1e-6, 30), st.integers(2, 9)
    ),
    st.builds(lambda r: OpaqueZCDP(rho=r, justification="x"), st.floats(0, 10)),
    st.builds(
        lambda q, s, d: PoissonSampled(rate=q, mechanism=make.gaussian(s, d)),
        st.floats(1e-6, 1),
        MULTIPLIER,
        MULTIPLIER,
    ),
    st.builds(
        lambda q, s, d: PoissonSampled(rate=q, mechanism=make.laplace(s, d)),
        st.floats(1e-6, 1),
        MULTIPLIER,
        MULTIPLIER,
    ),
)


def parameter(mechanism: AnyMechanism) -> tuple[Any, ...]:
    """What a mechanism's cost depends on, as far as events can tell it, exactly."""
    match mechanism:
        case Gaussian():
            return ("gaussian", Fraction(mechanism.sensitivity.value) / Fraction(mechanism.sigma))
        case Laplace() | DiscreteLaplace():
            return (mechanism.kind, Fraction(mechanism.sensitivity.value) / Fraction(mechanism.scale))
        case RandomizedResponse():
            return ("response", mechanism.categories, Fraction(mechanism.epsilon))
        case OpaqueZCDP():
            return ("zcdp", Fraction(mechanism.rho))
        case PoissonSampled():
            return ("sampled", mechanism.rate, *parameter(mechanism.mechanism))
        case _:
            raise AssertionError(mechanism)


@given(
    st.lists(st.tuples(MECHANISM, st.integers(1, 50)), min_size=1, max_size=5),
    st.sampled_from(list(Neighbouring)),
)
def test_there_and_back_again_is_the_same_but_for_roundings_upwards(
    releases: list[tuple[AnyMechanism, int]], neighbouring: Neighbouring
) -> None:
    if neighbouring is not Neighbouring.REPLACE_ONE:
        releases = [(m, n) for m, n in releases if not isinstance(m, RandomizedResponse)]
    ledger = make.ledger(*releases, neighbouring=neighbouring)
    there = to_dp_event(ledger)
    back = from_dp_event(there.event, there.relation, whole=True, neighbouring=neighbouring, unit="row")
    assert back.header.neighbouring is neighbouring
    assert [release.count for release in back] == [count for _, count in releases]
    for (before, _), after in zip(releases, back, strict=True):
        *kind, cost = parameter(before)
        *same, costlier = parameter(after.mechanism)
        assert same == kind
        assert cost <= costlier <= cost * (1 + Fraction(1, 10**12)) + Fraction(1, 10**12)
        sensitivity = getattr(after.mechanism, "sensitivity", None)
        assert sensitivity is None or sensitivity.basis == "declared"
    again = to_dp_event(back)
    assert again.relation is there.relation


def test_a_replaced_unit_moves_a_sum_twice_unless_multipliers_hold_the_whole() -> None:
    event = GAUSSIAN(2.0)
    for relation, moves in ((ADD, 1.0), (SPECIAL, 1.0), (REPLACE, 2.0)):
        [release] = from_dp_event(event, relation)
        assert release.mechanism == make.gaussian(2.0, moves)
        [release] = from_dp_event(event, relation, whole=True)
        assert release.mechanism == make.gaussian(2.0)


def test_a_ledger_from_events_is_accounted_for_and_never_certified() -> None:
    ledger = from_dp_event(GAUSSIAN(1.0), ADD)
    assert make.epsilon(ledger) == pytest.approx(4.886554117462212, rel=1e-9)
    with pytest.raises(NotCertifiable, match="footer"):
        ledger.require_certifiable()
    assert any(c.code == "declared-sensitivity" for c in account(ledger, Claim(ZCDP(rho=1.0))).not_checked)


def test_nested_compositions_multiply_their_counts_and_keep_their_places() -> None:
    inner = dp_event.ComposedDpEvent([LAPLACE(1.0), dp_event.NoOpDpEvent()])
    event = dp_event.ComposedDpEvent([TIMES(TIMES(inner, 3), 4), GAUSSIAN(2.0)])
    ledger = from_dp_event(event, ADD)
    assert [(r.label, r.mechanism.kind, r.count) for r in ledger] == [
        ("event[0][0]", "laplace", 12),
        ("event[1]", "gaussian", 1),
    ]


def test_what_only_events_can_say() -> None:
    both = dp_event.ComposedDpEvent([GAUSSIAN(3.0), GAUSSIAN(4.0)])
    [release] = from_dp_event(POISSON(0.1, both), ADD)
    assert isinstance(release.mechanism, PoissonSampled)
    assert mu_squared(release.mechanism.mechanism) == pytest.approx(1 / 9 + 1 / 16)
    [release] = from_dp_event(dp_event.SingleEpochTreeAggregationDpEvent(2.0, [3, 8, 5]), SPECIAL)
    assert release.mechanism == TreeAggregation(sigma=2.0, steps=8, sensitivity=L2(1.0))
    [release] = from_dp_event(dp_event.ZCDpEvent(0.5, 0.25), ADD)
    assert rho(release.mechanism) == 0.75
    [release] = from_dp_event(RESPONSE(0.5, 2), REPLACE)
    assert pure_epsilon(release.mechanism) == pytest.approx(math.log(3))
    for nothing in (
        dp_event.NoOpDpEvent(),
        dp_event.ComposedDpEvent([]),
        RESPONSE(1.0, 2),
        RESPONSE(0.5, 1),
        POISSON(0.0, GAUSSIAN(1.0)),
    ):
        assert from_dp_event(nothing, REPLACE).releases == ()


def test_a_mixture_of_gaussians_comes_over_as_it_is() -> None:
    event = MIXTURE(2.0, [0.0, 1.0, np.float64(3.0)], np.array([0.5, 0.25, 0.25]))
    for relation in (ADD, SPECIAL):
        (release,) = from_dp_event(event, relation)
        expected = MixtureOfGaussians(
            sigma=2.0, sensitivities=(0.0, 1.0, 3.0), probabilities=(0.5, 0.25, 0.25)
        )
        assert release.mechanism == expected


def test_randomized_response_against_a_uniform_answer_costs_no_more_than_against_another() -> None:
    """The pair of ``REPLACE_SPECIAL``, enumerated, lies below delta(epsilon) of the release made of it."""
    p, k = 0.4, 5
    [release] = from_dp_event(RESPONSE(p, k), SPECIAL)
    composition = make.composition(release, relation=Neighbouring.ZERO_OUT)
    answer, uniform = [1 - p + p / k] + [p / k] * (k - 1), [1 / k] * k
    for delta in (0.2, 0.05, 1e-3):
        proved = min(make.figures(composition, delta).values())
        for pair in ((answer, uniform), (uniform, answer)):
            assert oracles.hockey_stick(*pair, proved) <= delta


def test_ten_answers_against_uniform_ones_are_not_charged_as_against_others() -> None:
    """At p = (4 - e) / 3 the answer has e / 4: a loss of 1 a run, 9.99995 at 1e-6 by enumeration."""
    p, k, count = (4.0 - math.e) / 3.0, 4, 10
    event = TIMES(RESPONSE(p, k), count)
    composition = make.composition(*from_dp_event(event, SPECIAL), relation=Neighbouring.ZERO_OUT)
    found = min(make.figures(composition, 1e-6).values())
    answers = (
        [math.comb(count, n) * kept**n * (1.0 - kept) ** (count - n) for n in range(count + 1)]
        for kept in (1.0 - p + p / k, 1.0 / k)
    )
    both = list(answers)
    assert oracles.hockey_stick(*both, found) <= 1e-6 < oracles.hockey_stick(*both, 9.9999)
    assert found <= 10.0


@pytest.mark.parametrize(
    "mechanism",
    [
        OpaqueApproxDP(epsilon=1.0, delta=1e-9, justification="x"),
        SmoothGaussian(alpha=5.0, beta=0.1, dimension=1, epsilon=1.0, delta=1e-6),
        Tabulated(losses=(0.5,), probabilities=(0.9,), infinity=0.1, justification="x"),
        RandomizedResponse(epsilon=1.0),  # the relation is add-or-remove-one here
        make.laplace(1e-300, 1e300),
    ],
)
def test_what_has_no_event_is_refused_by_name(mechanism: Any) -> None:
    with pytest.raises(CannotBound) as caught:
        to_dp_event(make.ledger(mechanism))
    error = caught.value
    assert mechanism.kind in error.what
    assert "'r'" in error.where
    assert error.why
    assert error.remedy


def test_parts_budgets_and_noiseless_runs_are_refused() -> None:
    gaussian = make.gaussian(1.0)
    parted = make.ledger(make.release(gaussian, part="a"))
    with pytest.raises(CannotBound, match="parallel"):
        to_dp_event(parted)
    with pytest.raises(CannotBound, match="budget"):
        to_dp_event(make.ledger(gaussian, schedule="filtered", budget=ZCDP(rho=1.0)))
    with pytest.raises(NotCertifiable):
        to_dp_event(make.ledger(gaussian, noise=Noise(source="none")))


@pytest.mark.parametrize(
    ("event", "relation", "kind"),
    [
        (dp_event.NonPrivateDpEvent(), ADD, CannotBound),
        (dp_event.UnsupportedDpEvent(), ADD, CannotBound),
        (WITHOUT(9, 3, dp_event.ZCDpEvent(1.0)), ADD, CannotBound),
        (WITHOUT(1, 1, GAUSSIAN(1.0)), ADD, CannotBound),
        (WITHOUT(9, 10, GAUSSIAN(1.0)), REPLACE, InputError),
        (WITHOUT(9, -1, GAUSSIAN(1.0)), REPLACE, InputError),
        (WITHOUT(9, True, LAPLACE(1.0)), ADD, InputError),
        (CUT(9, 1.1, 3, 1.0), ADD, InvalidParameter),
        (CUT(9, 0.1, -3, 1.0), ADD, InvalidParameter),
        (CUT(9, 0.1, 3, 0.0), ADD, InvalidParameter),
        (dp_event.SampledWithReplacementDpEvent(9, 3, GAUSSIAN(1.0)), REPLACE, CannotBound),
        (REPEAT(dp_event.UnsupportedDpEvent(), 2.0, 1.0), ADD, CannotBound),
        (REPEAT(GAUSSIAN(1.0), 0.5, 1.0), ADD, InvalidParameter),
        (REPEAT(GAUSSIAN(1.0), math.nan, 1.0), ADD, InvalidParameter),
        (REPEAT(GAUSSIAN(1.0), 2.0, -0.5), ADD, InvalidParameter),
        (REPEAT(GAUSSIAN(1.0), 2.0, math.nan), ADD, InvalidParameter),
        (MIXTURE(1.0, [1.0], [1.0]), REPLACE, CannotBound),
        (MIXTURE(1.0, [1.0, 2.0], [1.0]), ADD, InvalidParameter),
        (MIXTURE(1.0, [1.0], [0.5]), ADD, InvalidParameter),
        (MIXTURE(1.0, [-1.0], [1.0]), ADD, InvalidParameter),
        (MIXTURE(math.nan, [1.0], [1.0]), ADD, InvalidParameter),
        (MIXTURE(1.0, 1.0, 1.0), ADD, InvalidParameter),
        (MIXTURE(1.0, "12", [0.5, 0.5]), ADD, InvalidParameter),
        (RESPONSE(0.5, 2), ADD, CannotBound),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4), ADD, CannotBound),
        (POISSON(0.5, TIMES(LAPLACE(1.0), 2)), ADD, CannotBound),
        (POISSON(0.5, dp_event.ZCDpEvent(1.0)), REPLACE, CannotBound),
        (POISSON(math.nan, GAUSSIAN(1.0)), ADD, InvalidParameter),
        (POISSON(1.5, GAUSSIAN(1.0)), ADD, InvalidParameter),
        (GAUSSIAN(math.nan), ADD, InvalidParameter),
        (GAUSSIAN(0.0), ADD, InvalidParameter),
        (GAUSSIAN(-1.0), ADD, InvalidParameter),
        (GAUSSIAN(math.inf), ADD, InvalidParameter),
        (GAUSSIAN("1.0"), ADD, InvalidParameter),
        (LAPLACE(math.nan), ADD, InvalidParameter),
        (dp_event.DiscreteLaplaceDpEvent(math.nan, 1), ADD, InvalidParameter),
        (dp_event.DiscreteLaplaceDpEvent(1.0, -1), ADD, InvalidParameter),
        (RESPONSE(0.0, 2), REPLACE, InvalidParameter),
        (RESPONSE(math.nan, 2), REPLACE, InvalidParameter),
        (RESPONSE(1.5, 2), REPLACE, InvalidParameter),
        (RESPONSE(0.5, 2.5), REPLACE, InvalidParameter),
        (dp_event.ZCDpEvent(math.nan), ADD, InvalidParameter),
        (dp_event.ZCDpEvent(1.0, math.nan), ADD, InvalidParameter),
        (dp_event.ZCDpEvent(1.0, -0.5), ADD, InvalidParameter),
        (TIMES(GAUSSIAN(1.0), 0), ADD, InvalidParameter),
        (TIMES(GAUSSIAN(1.0), 1.5), ADD, InvalidParameter),
        (TIMES(GAUSSIAN(1.0), True), ADD, InvalidParameter),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, []), SPECIAL, InvalidParameter),
        (dp_event.ComposedDpEvent(None), ADD, InvalidParameter),
        ("an event", ADD, InvalidParameter),
        (None, ADD, InvalidParameter),
    ],
)
def test_events_without_a_mechanism_and_bad_parameters_are_refused_with_their_place(
    event: Any, relation: NeighboringRelation, kind: type[InputError]
) -> None:
    tree = dp_event.ComposedDpEvent([GAUSSIAN(1.0), event])
    with pytest.raises(kind) as caught:
        from_dp_event(tree, relation)
    assert "event[1]" in caught.value.where
    assert caught.value.why
    assert caught.value.remedy


def test_the_best_of_several_trees_is_read() -> None:
    tree = dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4)
    (release,) = from_dp_event(REPEAT(tree, mean=2.0, shape=1.0), SPECIAL)
    assert release.mechanism.releases[0].mechanism.kind == "tree-aggregation"


def test_a_tree_that_contains_itself_is_refused() -> None:
    events: list[Any] = []
    events.append(dp_event.ComposedDpEvent(events))
    with pytest.raises(InvalidParameter, match="deep"):
        from_dp_event(dp_event.ComposedDpEvent(events), ADD)


@pytest.mark.parametrize(
    ("relation", "neighbouring", "whole"),
    [
        (ADD, "replace-one", True),
        (ADD, "zero-out", False),
        (REPLACE, "add-or-remove-one", True),
        (SPECIAL, "replace-one", False),
        (SPECIAL, "something", True),
    ],
)
def test_a_relation_that_the_events_are_not_about_is_refused(
    relation: NeighboringRelation, neighbouring: str, whole: bool
) -> None:
    with pytest.raises(ClaimMismatch):
        from_dp_event(GAUSSIAN(1.0), relation, neighbouring=neighbouring, whole=whole)


def test_something_else_than_a_relation_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="NeighboringRelation"):
        from_dp_event(GAUSSIAN(1.0), "add-or-remove-one")  # type: ignore[arg-type]


def test_dp_accounting_is_loaded_only_when_it_is_asked() -> None:
    code = (
        "import sys, dpaudit.app.verbs.certify\n"
        "import dpaudit.accountants.bridges.to_dp_events, dpaudit.accountants.bridges.from_dp_events\n"
        "assert 'dp_accounting' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sample_under_replace_one_carries_the_bound_on_one_record() -> None:
    """dp-accounting's records are one unit long: half of the largest change. Scales of `whole` say less."""
    event = POISSON(0.2, GAUSSIAN(0.5))
    (release,) = from_dp_event(event, REPLACE).releases
    assert release.mechanism == make.poisson(make.gaussian(0.5, 2.0), 0.2, 1.0)
    composition = make.composition(*[release] * 3, relation=Neighbouring.REPLACE_ONE)
    assert min(make.figures(composition, 0.15).values()) < 1.54
    (other,) = from_dp_event(event, REPLACE, whole=True).releases
    assert isinstance(other.mechanism, PoissonSampled)
    assert other.mechanism.contribution is None


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0, math.inf])
@sweep("mean", [1.0, 1.5, 20.0, 1e4], everyday=(0, -1))
def test_the_best_of_repeated_runs_is_read_and_costs_no_more_than_there(shape: float, mean: float) -> None:
    inner = dp_event.ComposedDpEvent([GAUSSIAN(3.0), LAPLACE(9.0)])
    event = REPEAT(inner, mean, shape)
    ledger = from_dp_event(event, ADD)
    (release,) = ledger.releases
    made = release.mechanism
    assert isinstance(made, PrivateSelection)
    assert made.repetitions.mean == pytest.approx(mean, rel=1e-9)
    assert made.repetitions.mean >= mean
    theirs = RdpAccountant()
    theirs.compose(event)

    # With Poisson K the probability of no trial, e^-mean, is counted here and not there.
    none = math.exp(-mean) if shape == math.inf else 0.0
    assert make.epsilon(ledger) <= theirs.get_epsilon(1e-6) + none
