"""Releases on one sample: their joint cost against dp-accounting, enumeration and quadrature."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant

from dpaudit import Neighbouring, Partition, Release, account, epsilon
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.bridges.to_dp_events import to_dp_event
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.composition.one_sample import on_one_sample
from dpaudit.accountants.filters.filters import PureFilter, ZCDPFilter
from dpaudit.accountants.filters.odometers import ZCDPOdometer
from dpaudit.accountants.filters.renyi import RDPFilter
from dpaudit.certificate.conditions import Code
from dpaudit.claims.guarantees import RDP, ApproxDP, PureDP
from dpaudit.claims.sensitivity import Frobenius
from dpaudit.errors import BudgetExceeded, CannotBound, InvalidParameter, NotCertifiable
from dpaudit.mechanisms import (
    AnyMechanism,
    FixedSizeSampled,
    OpaqueApproxDP,
    PoissonSampled,
    RandomAllocation,
    RandomizedResponse,
    SampledRecords,
    SymmetricGaussian,
    TruncatedPoissonSampled,
)
from tests import make

ADD, REPLACE = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE


def on(sample: str | None, mechanism: AnyMechanism, count: int = 1, **more: Any) -> Release:
    return make.release(mechanism, count, sample=sample, **more)


def their_epsilon(sigma: float, steps: int, delta: float) -> float:
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(sigma)), steps)
    return float(accountant.get_epsilon(delta))


def figure(releases: list[Release], delta: float = 1e-5, neighbouring: Neighbouring = ADD) -> float:
    guarantee = epsilon(releases, delta, neighbouring=neighbouring).guarantee
    assert isinstance(guarantee, ApproxDP)
    return guarantee.epsilon


@pytest.mark.parametrize(
    ("number", "sigma", "least", "most"),
    [(2, 1.5, 1.5738, 1.6239), (8, 2.0 * math.sqrt(2.0), 1.7782, 1.8283)],
)
def test_gaussians_on_one_sample_cost_what_one_vector_does(
    number: int, sigma: float, least: float, most: float
) -> None:
    found = figure([on("batch", make.poisson(make.gaussian(sigma)), 1000) for _ in range(number)])
    assert least <= found <= most
    assert found == pytest.approx(their_epsilon(sigma / math.sqrt(number), 1000, 1e-5), rel=1e-4)
    assert found > figure([on(None, make.poisson(make.gaussian(sigma)), 1000) for _ in range(number)])


def test_steps_with_the_same_releases_are_runs_of_one_mechanism() -> None:
    steps = range(300)
    pairs = [
        (make.poisson(make.gaussian(1.5)), make.poisson(make.gaussian(3.0)))[:: 1 - 2 * (step % 2)]
        for step in steps
    ]
    releases = [on(f"step {step}", one) for step, both in zip(steps, pairs, strict=True) for one in both]
    composition = compose(releases, ADD)
    assert composition.distinct == 1
    assert composition.shared
    ((_, count),) = composition.exposures()[0].items()
    assert count == 300
    whole = [on("all", make.poisson(make.gaussian(sigma)), 300) for sigma in (1.5, 3.0)]
    assert figure(releases) == figure(whole)


def test_one_release_that_names_a_sample_is_that_release() -> None:
    mechanism = make.poisson(make.gaussian(1.5))
    assert dict(compose([on("a", mechanism, 7)], ADD).exposures()[0]) == {mechanism: 7}
    assert not compose([on("a", mechanism, 7), on("b", mechanism, 7)], ADD).shared


def test_every_kind_of_sample_adds_up_gaussian_noise() -> None:
    made: list[tuple[Any, dict[str, Any]]] = [
        (PoissonSampled, {"rate": 0.1, "contribution": 1.0}),
        (FixedSizeSampled, {"size": 10, "units": 100}),
        (TruncatedPoissonSampled, {"rate": 0.1, "most": 20, "units": 100, "contribution": 2.0}),
        (SampledRecords, {"rate": 0.1, "records": 3}),
    ]
    for kind, fields in made:
        inner = [make.gaussian(3.0, 2.0), make.gaussian(4.0, 2.0)]
        parts = [kind(mechanism=one, **fields) for one in inner]
        joint: Any = on_one_sample(frozenset(zip(parts, (1, 4), strict=True)), ADD)
        mu = math.hypot(2.0 / 3.0, 2.0 * 2.0 / 4.0)
        assert joint.sampling == parts[0].sampling
        assert joint.sensitivity.value / joint.mechanism.sigma == pytest.approx(mu, rel=1e-15)
        assert joint.sensitivity.value >= mu * (1 - 1e-15)
        if "contribution" in fields:
            own = fields["contribution"] * math.hypot(1.0 / 3.0, 2.0 * 1.0 / 4.0)
            assert joint.contribution == pytest.approx(own, rel=1e-15)


def test_a_units_own_part_is_the_sensitivity_where_it_is_not_stated() -> None:
    both = frozenset(
        {(make.poisson(make.gaussian(1.0), contribution=3.0), 1), (make.poisson(make.gaussian(2.0)), 1)}
    )
    added: Any = on_one_sample(both, ADD)
    assert added.contribution == pytest.approx(math.hypot(3.0, 0.5), rel=1e-15)
    replaced: Any = on_one_sample(both, REPLACE)
    assert replaced.contribution is None  # and so not amplified
    releases = [on("s", one, 100) for one, _ in both]
    own = [
        on("s", make.poisson(make.gaussian(1.0, 3.0)), 100),
        on("s", make.poisson(make.gaussian(2.0)), 100),
    ]
    assert figure(releases) == pytest.approx(figure(own), rel=1e-9)
    assert figure(releases, neighbouring=REPLACE) >= figure(
        [on(None, make.gaussian(1.0), 100)], neighbouring=REPLACE
    )


def test_symmetric_and_plain_gaussian_noise_add_up() -> None:
    matrix = SymmetricGaussian(sigma=2.0, dimension=2, sensitivity=Frobenius(1.0))
    joint: Any = on_one_sample(
        frozenset({(make.poisson(matrix), 1), (make.poisson(make.gaussian(1.0)), 2)}), ADD
    )
    assert joint.sensitivity.value == pytest.approx(math.sqrt(0.25 + 2.0))


def test_other_noise_costs_the_sum_for_the_larger_of_a_units_change_and_own_part() -> None:
    for own, epsilon_each in ((None, 0.5), (0.5, 0.5), (3.0, 1.5)):  # a unit's part over the scale
        pure = make.poisson(make.laplace(2.0), contribution=own)
        joint: Any = on_one_sample(frozenset({(pure, 4)}), ADD)
        assert joint.mechanism.epsilon == pytest.approx(4 * epsilon_each, rel=1e-15)
        assert joint.contribution is None
        counts = make.poisson(make.discrete_gaussian(2.0), contribution=own)
        both = frozenset({(counts, 4), (make.poisson(make.gaussian(5.0)), 2)})
        with_gaussian: Any = on_one_sample(both, ADD)
        each = epsilon_each**2 / 2
        assert with_gaussian.mechanism.rho == pytest.approx(4 * each + 2 / (2 * 25.0), rel=1e-15)


# Oracles: the true curve of two releases on one sample, by enumeration or quadrature.


def test_pure_mechanisms_on_one_sample_against_enumeration() -> None:
    """Two answers about the sample, the second query chosen from the first answer; one unit, rate 0.3."""
    rate, e1, e2 = 0.3, 0.8, 0.5
    releases = [on("s", make.poisson(RandomizedResponse(epsilon=e, categories=2), rate)) for e in (e1, e2)]
    keep = [math.exp(e) / (1.0 + math.exp(e)) for e in (e1, e2)]
    without, drawn = np.zeros(4), np.zeros(4)
    for place, (a, b) in enumerate(itertools.product((0, 1), repeat=2)):
        for sums, moved in ((without, 0), (drawn, 1)):
            first = keep[0] if a == moved else 1.0 - keep[0]
            second = keep[1] if b == (moved if a else 0) ^ (1 - a) * moved else 1.0 - keep[1]
            sums[place] = first * second
    mixed = (1.0 - rate) * without + rate * drawn
    for target in (0.05, 0.1, 0.2, 0.3):
        truth = max(
            float(np.maximum(one - math.exp(target) * other, 0.0).sum())
            for one, other in ((mixed, without), (without, mixed))
        )
        if truth > 0.0:
            assert figure(releases, delta=truth) >= target * (1.0 - 1e-9)
    assert max(np.abs(np.log(mixed / without))) <= bounds(compose(releases, ADD), PureDP(epsilon=0.0))[
        0
    ].guarantee.epsilon * (1 + 1e-12)  # type: ignore[union-attr]


def hockey_stick(first: np.ndarray, second: np.ndarray, cell: float, target: float) -> float:
    return float(np.maximum(first - math.exp(target) * second, 0.0).sum() * cell)


@pytest.mark.parametrize("both", ["gaussian+laplace", "gaussian+gaussian"])
def test_two_releases_on_one_sample_against_quadrature(both: str) -> None:
    rate, sigma, scale = 0.2, 1.0, 1.5
    axis = np.linspace(-14.0, 15.0, 2901)
    cell = (axis[1] - axis[0]) ** 2

    def gaussian(at: float, s: float) -> np.ndarray:
        return np.asarray(np.exp(-0.5 * ((axis - at) / s) ** 2) / (s * math.sqrt(2 * math.pi)))

    def laplace(at: float) -> np.ndarray:
        return np.asarray(np.exp(-np.abs(axis - at) / scale) / (2 * scale))

    def other(at: float) -> np.ndarray:
        return laplace(at) if both.endswith("laplace") else gaussian(at, 2.0)

    second: Any = make.laplace(scale) if both.endswith("laplace") else make.gaussian(2.0)
    releases = [on("s", make.poisson(make.gaussian(sigma), rate)), on("s", make.poisson(second, rate))]
    none = np.outer(gaussian(0.0, sigma), other(0.0))
    mixed = (1.0 - rate) * none + rate * np.outer(gaussian(1.0, sigma), other(1.0))
    for target in (0.1, 0.3, 0.6):
        truth = max(hockey_stick(mixed, none, cell, target), hockey_stick(none, mixed, cell, target))
        assert figure(releases, delta=truth * 1.001) >= target * 0.99
        if both.endswith("gaussian"):  # exact, and so no less either
            assert figure(releases, delta=truth * 1.001) <= target * 1.02


def test_a_replaced_units_parts_against_quadrature() -> None:
    """Two sums, of which the second one's direction follows from the first output."""
    rate, s1, s2 = 0.3, 1.0, 1.3
    axis = np.linspace(-12.0, 12.0, 1201)
    cell = (axis[1] - axis[0]) ** 2
    x, y = np.meshgrid(axis, axis, indexing="ij")

    def density(own: float) -> np.ndarray:
        turned = np.where(x > 0.5, 1.0, 0.6)  # shorter on one side: an adaptive choice
        return np.asarray(
            np.exp(-0.5 * ((x - own) / s1) ** 2 - 0.5 * ((y - own * turned) / s2) ** 2)
            / (2 * math.pi * s1 * s2)
        )

    none = density(0.0)
    one, two = ((1.0 - rate) * none + rate * density(own) for own in (1.0, -1.0))
    releases = [on("s", make.poisson(make.gaussian(s, 2.0), rate, contribution=1.0)) for s in (s1, s2)]
    for target in (0.3, 0.8, 1.5):
        truth = hockey_stick(one, two, cell, target)
        assert figure(releases, delta=truth * 1.001, neighbouring=REPLACE) >= target * 0.99


# What cannot be bounded, and bad input.


def test_other_noise_adds_up_on_poisson_samples_unless_a_unit_is_replaced() -> None:
    counts = make.discrete_gaussian(3.0)
    releases = [on("s", make.poisson(make.gaussian(3.0)), 10), on("s", make.poisson(counts), 10)]
    assert figure(releases) >= figure([on("s", make.poisson(make.gaussian(3.0)), 10)] * 2)
    with pytest.raises(CannotBound, match="discrete-gaussian and gaussian"):
        figure(releases, neighbouring=REPLACE)
    fixed = [
        on("s", FixedSizeSampled(size=1, units=9, mechanism=inner)) for inner in (make.gaussian(3.0), counts)
    ]
    with pytest.raises(CannotBound, match="only pure mechanisms"):
        figure(fixed)
    failing = OpaqueApproxDP(epsilon=0.1, delta=1e-9, justification="proved elsewhere")
    with pytest.raises(CannotBound, match="approx-dp"):
        figure([on("s", make.poisson(failing)), on("s", make.poisson(failing))])


def test_groups_have_no_bound_on_one_sample_either() -> None:
    composition = compose([on("s", make.poisson(make.gaussian(1.0)))] * 2, ADD, 2)
    with pytest.raises(CannotBound, match="groups of 2"):
        bounds(composition, ApproxDP(epsilon=0.0, delta=1e-5))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (on("s", make.poisson(make.gaussian(1.0), 0.02)), r"rate 0\.02.*rate 0\.01"),
        (on("s", make.poisson(make.gaussian(1.0)), 5), "count 5.*count 1"),
        (on("s", FixedSizeSampled(size=1, units=9, mechanism=make.gaussian(1.0))), "kind fixed-size-sampled"),
        (
            on("s", make.poisson(make.gaussian(1.0)), partition=Partition(part="a")),
            "partition split/a by position",
        ),
    ],
)
def test_two_draws_for_one_sample_are_an_error(other: Release, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as raised:
        compose([on("s", make.poisson(make.gaussian(2.0))), other], ADD)
    assert raised.value.where == "release 'r'"
    assert "name another sample" in raised.value.remedy


@pytest.mark.parametrize("sample", ["", "  ", 3, ["s"]])
def test_a_name_that_is_none_is_an_error(sample: Any) -> None:
    with pytest.raises(InvalidParameter, match="it names no draw"):
        on(sample, make.poisson(make.gaussian(1.0)))


@pytest.mark.parametrize("sample", ["s ", " s", "step  3", "cafe\u0301", "s\u200b", "s\n"])
def test_a_name_that_looks_like_another_is_an_error(sample: str) -> None:
    with pytest.raises(InvalidParameter, match="would be another draw"):
        on(sample, make.poisson(make.gaussian(1.0)))


@pytest.mark.parametrize(
    ("mechanism", "remedy"),
    [
        (make.gaussian(1.0), "PoissonSampled"),
        (RandomAllocation(steps=4, mechanism=make.gaussian(1.0)), "this one release"),
    ],
)
def test_a_sample_that_names_no_draw_is_an_error(mechanism: AnyMechanism, remedy: str) -> None:
    with pytest.raises(InvalidParameter, match="sample 's' for a") as raised:
        on("s", mechanism)
    assert remedy in raised.value.remedy


# Releases that are charged one by one.


def test_removing_a_release_leaves_what_the_others_cost() -> None:
    releases = [
        on("s", make.poisson(make.gaussian(s)), 3, partition=Partition(part="a")) for s in (1.0, 2.0, 3.0)
    ]
    whole = compose(releases, ADD)
    whole.remove(releases[1])
    assert whole.exposures() == compose([releases[0], releases[2]], ADD).exposures() or dict(
        whole.exposures()[0]
    ) == dict(compose([releases[0], releases[2]], ADD).exposures()[0])
    whole.remove(releases[0])
    whole.remove(releases[2])
    assert whole.distinct == 0


def test_a_pure_budget_is_charged_the_joint_cost() -> None:
    laplace = make.poisson(make.laplace(1.0), 0.1)
    one, both = (math.log1p(0.1 * math.expm1(e)) for e in (1.0, 2.0))
    assert both > 2 * one
    held = PureFilter(both * (1 + 1e-9), ADD)
    held.spend(on("s", laplace))
    held.spend(on("s", laplace))
    assert held.spent == pytest.approx(both, rel=1e-12)
    assert held.spent >= both * (1 - 1e-15)
    narrow = PureFilter(2 * one, ADD)
    narrow.spend(on("s", laplace))
    with pytest.raises(BudgetExceeded):
        narrow.spend(on("s", laplace))
    assert narrow.spent == pytest.approx(one, rel=1e-12)
    narrow.spend(on(None, laplace))  # a sample of its own still fits, if only just


def test_other_budgets_refuse_a_second_release_on_a_sample() -> None:
    laplace = make.poisson(make.laplace(1.0), 0.1)
    for held in (RDPFilter(4.0, 10.0, ADD), ZCDPFilter(10.0, ADD)):
        held.spend(on("s", laplace))
        spent = held.spent
        with pytest.raises(CannotBound, match="sample 's'") as raised:
            held.spend(on("s", laplace))
        assert "one vector" in raised.value.remedy
        assert held.spent == spent
        held.spend(on("t", laplace))
    odometer = ZCDPOdometer(1e-6, ADD)
    odometer.add(on("s", laplace))
    with pytest.raises(CannotBound, match="sample 's'"):
        odometer.add(on("s", laplace))


def test_joint_costs_charged_by_increments_would_be_no_budget() -> None:
    """Why they refuse: the second release is made only where the first output tells that a unit was drawn."""
    rate, mu, alpha = 0.01, 1.0, 8.0
    z = np.linspace(-40.0, 40.0, 80_001)
    weight = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) * (z[1] - z[0])

    def moment(square: float, ratio: np.ndarray | float = 1.0) -> np.ndarray:
        m = math.sqrt(square)
        drawn = np.exp(m * z - 0.5 * square)
        ratios = np.atleast_1d(ratio)
        return np.array([(weight * (1 - rate + rate * r * drawn) ** alpha).sum() for r in ratios])

    one, both = (float(moment(square)[0]) for square in (mu**2, 2 * mu**2))
    few = z[::200]
    first = np.exp(mu * few - 0.5 * mu**2)
    stops = (1 - rate + rate * first) ** alpha / one
    goes = moment(mu**2, first) / both
    step = np.exp(-0.5 * few**2) / math.sqrt(2 * math.pi) * (few[1] - few[0])
    assert (step * stops).sum() == pytest.approx(1.0, abs=1e-3)
    assert (step * goes).sum() == pytest.approx(1.0, abs=1e-3)
    assert (step * np.maximum(stops, goes)).sum() > 1.05  # a filter needs at most 1


def test_a_ledger_held_to_a_budget_that_would_have_refused_is_refused() -> None:
    both = [on("s", make.poisson(make.gaussian(2.0)))] * 2
    ledger = make.ledger(*both, schedule="filtered", budget=RDP(alpha=4.0, epsilon=9.0))
    with pytest.raises(NotCertifiable, match="several releases on one sample"):
        account(ledger)


# Everything else that reads a ledger.


def test_a_release_by_itself_keeps_its_own_cost() -> None:
    own = {"claimed": ApproxDP(epsilon=9.0, delta=1e-5)}
    releases = (on(sample, make.poisson(make.gaussian(2.0)), **own) for sample in ("s", "s", None))
    rows = account(make.ledger(*releases)).releases
    assert len({row.proved for row in rows}) == 1
    assert [row.sample for row in rows] == ["s", "s", None]


def test_events_of_a_ledger_have_the_joint_release() -> None:
    releases = [on("s", make.poisson(make.gaussian(1.5)), 1000)] * 2

    def theirs() -> float:
        events = to_dp_event(make.ledger(*releases))
        accountant = PLDAccountant(events.relation)
        accountant.compose(events.event)
        return float(accountant.get_epsilon(1e-5))

    assert theirs() == pytest.approx(1.62383, abs=1e-3)
    # beside releases by themselves
    releases += [on(name, make.poisson(make.gaussian(2.0))) for name in (None, "t")]
    assert theirs() == pytest.approx(figure(releases), abs=1e-3)


def codes(*samples: str | None, **header: Any) -> list[tuple[str, int]]:
    ledger = make.ledger(*(on(sample, make.poisson(make.gaussian(9.0))) for sample in samples), **header)
    found = [c for c in account(ledger).not_checked if c.code is Code.FRESH_SAMPLES]
    return [(str(c.code), c.releases.number) for c in found if c.releases is not None]


def test_releases_that_name_no_sample_are_a_condition() -> None:
    assert codes(None, None) == [("fresh-samples", 2)]
    assert codes(None, "s", "s") == [("fresh-samples", 1)]
    assert codes("s", "s") == codes(None) == codes("s", "t") == []
    for typed in ({"run": "0" * 32}, {"noise": {"seeded": True}}):  # what anybody can write into a header
        assert codes(None, None, **typed) == [("fresh-samples", 2)]


def test_many_runs_of_one_release_are_a_condition_too() -> None:
    ledger = make.ledger((make.poisson(make.gaussian(9.0)), 1000))
    assert Code.FRESH_SAMPLES in {condition.code for condition in account(ledger).not_checked}


def test_a_sample_that_is_emptied_may_be_stated_anew() -> None:
    composition = Composition(ADD)
    composition.add(on("s", make.poisson(make.gaussian(1.0))))
    composition.remove(on("s", make.poisson(make.gaussian(1.0))))
    composition.add(on("s", make.poisson(make.gaussian(1.0), 0.5)))
    assert composition.distinct == 1
