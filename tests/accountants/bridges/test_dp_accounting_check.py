"""dp-accounting's opinion: it agrees where all is well, contradicts a wrong figure, else it is silent."""

import math
from typing import Any

import pytest
from dp_accounting import NeighboringRelation, dp_event, get_epsilon_gaussian
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit import L2, Claim, Neighbouring
from dpaudit.accountants.accounting import account
from dpaudit.accountants.bridges import dp_accounting_check
from dpaudit.accountants.bridges.dp_accounting_check import second_opinion
from dpaudit.accountants.bridges.from_dp_events import from_dp_event
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.second_opinion import SecondOpinion
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import ZCDP, ApproxDP
from dpaudit.errors import CertificateFormat, InvalidParameter
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import (
    AnyMechanism,
    Exponential,
    MatrixMechanism,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    Tabulated,
    Toeplitz,
    TreeAggregation,
)
from tests import make, oracles
from tests.sweeps import sweep

ADD, REPLACE = "add-or-remove-one", "replace-one"
GAUSSIAN = make.gaussian(1.0)
SAMPLED = PoissonSampled(rate=0.01, mechanism=GAUSSIAN)
RESPONSE = RandomizedResponse(epsilon=math.log(3))
#: Eight categories at epsilon 1.
TABLE = Tabulated(
    losses=(-1.0, 0.0, 1.0),
    probabilities=tuple(weight / (math.e + 7.0) for weight in (1.0, 6.0, math.e)),
    justification="counted",
)


def proved(ledger: Ledger, delta: float = 1e-6) -> tuple[Bound, ...]:
    return account(ledger, Claim(ApproxDP(epsilon=0.0, delta=delta))).bounds


def opinion_of(ledger: Ledger, delta: float = 1e-6) -> SecondOpinion:
    return second_opinion(ledger, proved(ledger, delta))


def scaled(bound: Bound, factor: float) -> Bound:
    """The same bound with another epsilon: what an accountant with a slip would say."""
    assert isinstance(bound.guarantee, ApproxDP)
    guarantee = ApproxDP(epsilon=bound.guarantee.epsilon * factor, delta=bound.guarantee.delta)
    lower = None if bound.at_least is None else bound.at_least * factor
    return bound.model_copy(update={"guarantee": guarantee, "at_least": lower})


EXACT: list[tuple[list[tuple[AnyMechanism, int]], str, float]] = [
    ([(GAUSSIAN, 1)], REPLACE, 4.886554117462212),
    ([(make.gaussian(10.0), 100)], "zero-out", 4.886554117462212),
    ([(make.laplace(1.0), 10)], ADD, 9.998978),
    ([(RESPONSE, 50)], REPLACE, 52.6797094088821),
    ([(SAMPLED, 1000)], ADD, 2.12451517112),
    ([(RandomizedResponse(epsilon=1.0, categories=8), 50)], REPLACE, 27.8187241110658),
    ([(TABLE, 50)], REPLACE, 27.8187241110658),
    ([(make.discrete_laplace(6.0, 2.0), 30)], REPLACE, 8.5389744873689),
]


@sweep("releases, neighbouring, exact", EXACT, everyday=(1, 2, 3, 5, 7))
def test_it_agrees_and_encloses_the_exact_figure(
    releases: list[tuple[AnyMechanism, int]], neighbouring: str, exact: float
) -> None:
    opinion = opinion_of(make.ledger(*releases, neighbouring=neighbouring))
    assert opinion.agrees is True
    assert opinion.not_checked() == []
    assert opinion.at_least is not None
    assert opinion.epsilon is not None
    assert opinion.at_least - 1e-6 <= exact <= opinion.epsilon + 1e-6
    assert opinion.epsilon == pytest.approx(exact, rel=2e-3)


@sweep("releases, neighbouring, exact", EXACT, everyday=(3, 5))
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_figure_that_is_a_tenth_off_is_contradicted(
    releases: list[tuple[AnyMechanism, int]], neighbouring: str, exact: float, factor: float
) -> None:
    ledger = make.ledger(*releases, neighbouring=neighbouring)
    opinion = second_opinion(ledger, [scaled(bound, factor) for bound in proved(ledger)])
    assert opinion.agrees is False
    [warning] = opinion.not_checked()
    assert warning == Condition(code=Code.ACCOUNTANTS_DISAGREE, accountant=opinion.method)
    assert f"{opinion.proved:.6g}" in str(opinion)
    assert opinion.proved == pytest.approx(exact * factor, rel=1e-6)


def test_a_count_that_our_side_dropped_would_be_seen() -> None:
    """What dp-accounting's own accountant does to randomized response, done by us."""
    ledger = make.ledger((RESPONSE, 50), neighbouring=REPLACE)
    once = proved(make.ledger(RESPONSE, neighbouring=REPLACE))
    assert second_opinion(ledger, once).agrees is False


def test_a_wrong_figure_of_theirs_is_reported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    right = privacy_loss_distribution.from_gaussian_mechanism
    monkeypatch.setattr(
        privacy_loss_distribution,
        "from_gaussian_mechanism",
        lambda standard_deviation, **rest: right(standard_deviation=2.0 * standard_deviation, **rest),
    )
    opinion = opinion_of(make.ledger((GAUSSIAN, 2)))
    assert opinion.agrees is False
    assert [c.code for c in opinion.not_checked()] == [Code.ACCOUNTANTS_DISAGREE]


LOOSER: list[tuple[AnyMechanism, int, str]] = [
    (make.discrete_gaussian(4.0, 2.0), 10, REPLACE),
    (PoissonSampled(rate=0.1, mechanism=GAUSSIAN), 5, REPLACE),
]


@sweep("mechanism, count, neighbouring", LOOSER, everyday=(0,))
def test_where_our_pair_is_larger_only_a_figure_of_ours_below_theirs_contradicts(
    mechanism: AnyMechanism, count: int, neighbouring: str
) -> None:
    ledger = make.ledger((mechanism, count), neighbouring=neighbouring)
    bounds = proved(ledger)
    opinion = second_opinion(ledger, bounds)
    assert opinion.agrees is True
    assert opinion.proved_at_least is None
    assert opinion.at_least is not None
    assert opinion.proved is not None
    small = 0.9 * opinion.at_least / opinion.proved
    assert second_opinion(ledger, [scaled(bound, small) for bound in bounds]).agrees is False


@sweep(
    "mechanism",
    [
        OpaquePureDP(epsilon=0.5, justification="x"),
        OpaqueApproxDP(epsilon=0.5, delta=1e-8, justification="x"),
        Exponential(epsilon=0.5),
        make.discrete_laplace(2.0),
        make.discrete_gaussian(2.0),
        TreeAggregation(sigma=4.0, steps=100, sensitivity=L2(1.0)),
        MatrixMechanism(
            sigma=4.0,
            steps=20,
            strategy=Toeplitz(coefficients=(1.0, 0.5)),
            participations=3,
            separation=5,
            sensitivity=L2(1.0),
        ),
        PoissonSampled(rate=0.1, mechanism=make.laplace(1.0)),
        make.gaussian(1.0, 0.0),
    ],
    everyday=(0, 1, 3, 4, 7, 8),
)
def test_it_agrees_on_every_other_mechanism_that_it_knows(mechanism: AnyMechanism) -> None:
    assert opinion_of(make.ledger((mechanism, 30))).agrees is True


@pytest.mark.nightly
@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.builds(make.gaussian, st.floats(0.5, 20.0)),
                st.builds(make.laplace, st.floats(0.5, 20.0)),
                st.builds(RandomizedResponse, epsilon=st.floats(0.01, 2.0), categories=st.integers(2, 9)),
            ),
            st.integers(1, 8),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([1e-3, 1e-6, 1e-9]),
)
def test_the_two_agree_on_whatever_both_can_do(
    releases: list[tuple[AnyMechanism, int]], delta: float
) -> None:
    assert opinion_of(make.ledger(*releases, neighbouring=REPLACE), delta).agrees is True


def test_the_dearest_part_counts() -> None:
    parts = (make.release(make.gaussian(sigma), part=part) for part, sigma in (("a", 2.0), ("b", 1.0)))
    opinion = opinion_of(make.ledger(*parts))
    assert opinion.agrees is True
    assert opinion.epsilon == pytest.approx(4.886554, abs=1e-4)


@pytest.mark.parametrize(
    ("ledger", "delta", "reason"),
    [
        (make.ledger(GAUSSIAN), 1e-10, "deltas"),
        (make.ledger(GAUSSIAN), 0.2, "deltas"),
        (make.ledger(make.gaussian(0.05)), 1e-6, "above 100"),
        (make.ledger((make.gaussian(1e3), 10_001)), 1e-6, "10001"),
        (make.ledger(*((make.gaussian(9.0 + i), 1) for i in range(101))), 1e-6, "too long"),
        (make.ledger(make.gaussian(1e300)), 1e-6, "fails"),
        (make.ledger(OpaqueZCDP(rho=0.1, justification="x")), 1e-6, "zcdp"),
        (make.ledger(make.discrete_gaussian(1e6)), 1e-6, "array"),
        (make.ledger(GAUSSIAN, schedule="filtered", budget=ZCDP(rho=1.0)), 1e-6, "budget"),
    ],
)
def test_outside_its_range_it_says_why_it_is_silent(ledger: Ledger, delta: float, reason: str) -> None:
    opinion = opinion_of(ledger, delta)
    assert opinion.agrees is None
    assert opinion.none_because is not None
    assert reason in opinion.none_because
    assert opinion.epsilon is None
    assert str(opinion).startswith("NONE: ")
    assert opinion.not_checked() == []


def test_without_a_figure_on_its_scale_it_is_silent() -> None:
    ledger = make.ledger(GAUSSIAN)
    for bounds in ((), account(ledger, Claim(ZCDP(rho=1.0))).bounds):
        assert second_opinion(ledger, bounds).agrees is None


def test_a_failure_of_theirs_is_no_opinion_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(**_: object) -> None:
        raise TypeError("unexpected keyword")

    monkeypatch.setattr(privacy_loss_distribution, "from_gaussian_mechanism", renamed)
    opinion = opinion_of(make.ledger(GAUSSIAN))
    assert opinion.agrees is None
    assert opinion.none_because == "it fails: TypeError: unexpected keyword"


@pytest.mark.nightly
def test_its_limits_take_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds as work: that many sums of as many losses; one run after another would take 20 000 sums."""
    lengths: list[int] = []

    def counted(self: Any, *others: Any, **how: Any) -> Any:
        found = compose(self, *others, **how)
        lengths.append(found._pmf_add.size)
        return found

    compose = privacy_loss_distribution.PrivacyLossDistribution.compose
    monkeypatch.setattr(privacy_loss_distribution.PrivacyLossDistribution, "compose", counted)
    assert opinion_of(make.ledger((SAMPLED, 10_000)), 1e-9).agrees is True
    assert len(lengths) <= 40
    assert sum(lengths) < 10_000_000  # about 3.3 million


def test_whether_it_agrees_is_computed_and_half_an_opinion_is_none() -> None:
    with pytest.raises(InvalidParameter):
        SecondOpinion(method="m", version="1", none_because="x", agrees=True)
    for fields in ({}, {"delta": 1e-6, "none_because": "x"}, {"delta": 1e-6, "proved": 1.0, "epsilon": 1.0}):
        with pytest.raises(CertificateFormat):
            SecondOpinion(method="m", version="1", **fields)


# Why it is fenced in: what dp-accounting 0.6 gets wrong, and what is right.


def test_their_accountants_drop_the_count_of_randomized_response() -> None:
    """50 answers at log 3: exactly 52.6797 by enumeration; theirs are those of one answer."""
    event = dp_event.RandomizedResponseDpEvent(0.5, 2)
    theirs = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(event, 50).get_epsilon(1e-6)
    assert theirs == pytest.approx(1.0987, abs=2e-4)
    ours = make.epsilon(make.ledger((RESPONSE, 50), neighbouring=REPLACE))
    assert ours == pytest.approx(52.6797094, rel=1e-8)
    chances = ([math.comb(50, k) * p**k * (1 - p) ** (50 - k) for k in range(51)] for p in (0.75, 0.25))
    assert oracles.hockey_stick(*chances, ours) == pytest.approx(1e-6, rel=2e-7)


def test_their_small_deltas_are_not_used() -> None:
    """10.34668984 is the truth for q = 0.01, sigma = 1, 1e4 steps at 1e-12; theirs is rounding noise.

    It was 10.299, 10.3197 and 10.357 on three processors and versions of numpy.
    """
    event = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    theirs = PLDAccountant().compose(event, 10_000).get_epsilon(1e-12)
    assert abs(theirs - 10.34668984) > 1e-3
    ledger = make.ledger((SAMPLED, 10_000))
    assert make.epsilon(ledger, 1e-12) == pytest.approx(10.34668984, rel=1e-7)
    assert dp_accounting_check.LEAST_DELTA >= 1e-9
    assert opinion_of(ledger, 1e-12).agrees is None


def test_noise_that_is_no_number_costs_nothing_there() -> None:
    event = dp_event.GaussianDpEvent(math.nan)
    assert RdpAccountant().compose(event).get_epsilon(1e-6) == 0.0
    assert get_epsilon_gaussian(math.nan, 1e-6) == 0.0
    with pytest.raises(InvalidParameter, match="finite"):
        make.gaussian(math.nan)
    with pytest.raises(InvalidParameter, match="finite"):
        from_dp_event(event, NeighboringRelation.ADD_OR_REMOVE_ONE)


def test_their_accountants_disagree_on_what_a_replaced_unit_moves() -> None:
    """One event, one relation: mu = 2 by privacy losses, mu = 1 by Renyi divergences."""
    event, relation = dp_event.GaussianDpEvent(1.0), NeighboringRelation.REPLACE_ONE
    by_losses = PLDAccountant(relation).compose(event).get_epsilon(1e-6)
    by_orders = RdpAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-6)
    assert by_losses == pytest.approx(make.epsilon(make.ledger(make.gaussian(1.0, 2.0))), rel=1e-4)
    assert by_orders < 0.6 * by_losses


@sweep("mechanism", [RESPONSE, TABLE, SAMPLED], everyday=(0, 1))
def test_a_coarse_enclosure_lies_above_the_fine_one_and_has_no_lower_end(mechanism: AnyMechanism) -> None:
    about = [[(mechanism, 30)]], Neighbouring.ADD_OR_REMOVE_ONE, ApproxDP(epsilon=1.0, delta=1e-4)
    fine, coarse = (dp_accounting_check.enclose(*about, coarsely=way) for way in (False, True))
    assert coarse.at_least == 0.0 < fine.at_least <= fine.epsilon <= coarse.epsilon * (1.0 + 1e-12)
    assert coarse.epsilon == pytest.approx(fine.epsilon, rel=1e-2)
    assert coarse.same is fine.same
