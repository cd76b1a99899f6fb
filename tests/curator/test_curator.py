from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import (
    L1,
    L2,
    ZCDP,
    Curator,
    Gaussian,
    Laplace,
    LiveNoise,
    Neighbouring,
    NoNoise,
    Partition,
    PoissonSampled,
    ReplayedNoise,
    Sensitivity,
    Transcript,
    run,
)
from dpaudit.accountants.accounting import account
from dpaudit.accountants.filters.filters import ZCDPFilter
from dpaudit.errors import (
    BudgetExceeded,
    CannotBound,
    InvalidParameter,
    NotCertifiable,
    ScheduleBroken,
    SensitivityTooSmall,
)
from dpaudit.ledger.ledger import Header, Ledger

NOISE = Gaussian(sigma=1.0, sensitivity=L2(1.0))  # rho = 0.5


def curator(relation: str = "replace-one", **options: Any) -> Curator:
    header = Header(algorithm="a", unit="row", neighbouring=Neighbouring(relation))
    return Curator(Ledger(header), options.pop("noise", NoNoise()), **options)


def test_past_the_budget_nothing_is_sampled_charged_or_written() -> None:
    noise, transcript = LiveNoise(7), Transcript()
    held = curator(noise=noise, budget=ZCDPFilter(1.2), transcript=transcript)
    held.release(0.0, NOISE, label="one")
    held.release(0.0, NOISE, label="two")
    state = noise._randomness.generator.bit_generator.state
    before = held.ledger.hash
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match=r"0\.5 requested, 1 of 1\.2 spent") as caught:
            held.release(0.0, NOISE, label="three")
        assert "three" in caught.value.where
    assert noise._randomness.generator.bit_generator.state == state
    assert (len(held.ledger.releases), len(transcript.entries), held.ledger.hash) == (2, 2, before)
    held.release(0.0, Gaussian(sigma=1.6, sensitivity=L2(1.0)), label="small enough")


def test_a_filter_charges_nothing_for_what_cannot_be_bounded_and_knows_parts() -> None:
    budget = ZCDPFilter(0.5)
    tiny = Gaussian(sigma=1e-300, sensitivity=L2(1e300))
    with pytest.raises((BudgetExceeded, CannotBound)):
        curator(budget=budget).release(0.0, tiny, label="x")
    assert budget.spent == 0.0
    held = curator(budget=budget)
    for part in "abc":
        held.release(0.0, NOISE, label=part, partition=part)
    assert budget.spent == 0.5
    for part, fits in (("a", True), ("b", False)):
        partition = Partition(part=part, by="values")
        if fits:
            values = ZCDPFilter(0.5)
            values.spend(held.ledger.releases[0].model_copy(update={"partition": partition}))
        else:
            with pytest.raises(BudgetExceeded):
                values.spend(held.ledger.releases[0].model_copy(update={"partition": partition}))


def test_a_filter_for_a_cheaper_relation_than_the_runs_is_refused() -> None:
    loose = ZCDPFilter(1.0, Neighbouring.ADD_OR_REMOVE_ONE)
    with pytest.raises(InvalidParameter, match="filter"):
        run(lambda data, curator: None, None, budget=loose)
    run(lambda data, curator: None, None, budget=loose, neighbouring="add-or-remove-one")
    run(lambda data, curator: None, None, budget=ZCDPFilter(1.0), neighbouring="add-or-remove-one")


def one_release(data: Any, curator: Curator) -> Any:
    return curator.release(data, NOISE, label="x")


def test_noiseless_and_replayed_ledgers_are_never_certifiable_and_seeded_ones_say_so() -> None:
    transcript = Transcript()
    live = run(one_release, 1.0, transcript=transcript)
    live.ledger.require_certifiable()
    assert not live.ledger.header.noise.seeded
    assert run(one_release, 1.0, seed=0).ledger.header.noise.seeded
    for noise, word in ((NoNoise(), "never drawn"), (ReplayedNoise(transcript), "replayed")):
        ledger = run(one_release, 1.0, noise=noise).ledger
        with pytest.raises(NotCertifiable, match=word):
            ledger.require_certifiable()
        with pytest.raises(NotCertifiable, match=word):
            account(ledger)


def test_a_seed_repeats_a_run_and_no_seed_does_not() -> None:
    data = np.zeros(4)
    assert np.array_equal(run(one_release, data, seed=3).output, run(one_release, data, seed=3).output)
    assert not np.array_equal(run(one_release, data).output, run(one_release, data).output)


@pytest.mark.parametrize(
    "value",
    [np.nan, [1.0, np.inf], "x", [[1.0], [1.0, 2.0]], 1j, [10**400], object(), None, np.longdouble("1e4000")],
)
def test_what_is_no_finite_array_of_numbers_is_refused_before_it_is_charged(value: Any) -> None:
    held = curator(budget=ZCDPFilter(0.5))
    with pytest.raises(InvalidParameter):
        held.release(value, NOISE, label="x")
    assert held.ledger.releases == ()
    held.release(0.0, NOISE, label="x")


@pytest.mark.parametrize("value", [1.0, [1.0, 2.0], np.zeros((2, 3))])
def test_the_first_axis_runs_over_the_repetitions(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="count 3"):
        curator().release(value, NOISE, label="x", count=3)
    held = curator()
    assert held.release(np.zeros((3, 2)), NOISE, label="x", count=3).shape == (3, 2)
    assert held.ledger.releases[0].count == 3


def test_the_callers_array_is_neither_changed_nor_handed_out() -> None:
    data = np.zeros(3)
    output = curator().release(data, NOISE, label="x")
    output += 1.0
    assert data.tolist() == [0.0, 0.0, 0.0]


def test_release_sum_writes_clipped_and_refuses_a_sensitivity_below_what_the_bound_implies() -> None:
    rows = np.ones((3, 2))
    for relation, nonnegative, needed in (
        ("replace-one", False, 2.0),
        ("replace-one", True, 2.0**0.5),
        ("zero-out", False, 1.0),
        ("add-or-remove-one", True, 1.0),
    ):
        held = curator(relation)
        for value in (needed * 0.999, 0.0):
            small = Gaussian(sigma=1.0, sensitivity=L2(value))
            with pytest.raises(SensitivityTooSmall):
                held.release_sum(rows, bound=1.0, mechanism=small, label="x", nonnegative=nonnegative)
        enough = Gaussian(sigma=1.0, sensitivity=L2(needed))
        held.release_sum(rows, bound=1.0, mechanism=enough, label="x", nonnegative=nonnegative)
        assert held.ledger.releases[0].mechanism.sensitivity.basis == "clipped"
        assert held.ledger.releases[0].mechanism.sensitivity.value >= needed * (1 - 1e-15)
    # L1 norms, of opposed rows or not: always twice the bound.
    laplace = Laplace(scale=1.0, sensitivity=L1(1.5))
    with pytest.raises(SensitivityTooSmall):
        curator().release_sum(rows, bound=1.0, mechanism=laplace, label="x", nonnegative=True)


def test_the_smallest_bounds_imply_no_zero_sensitivity() -> None:
    held = curator()
    for bound in (1e-200, 1e-310, 5e-324):
        noise = Gaussian(sigma=1.0, sensitivity=L2(0.0))
        with pytest.raises(SensitivityTooSmall):
            held.release_sum(np.ones((1, 1)), bound=bound, mechanism=noise, label="x", nonnegative=True)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf, 1e308, "1", None])
def test_a_bound_is_positive_and_finite(bound: Any) -> None:
    with pytest.raises((InvalidParameter, SensitivityTooSmall)):
        curator().release_sum(np.ones((1, 1)), bound=bound, mechanism=NOISE, label="x")


def test_contributions_come_one_row_per_unit() -> None:
    two = Gaussian(sigma=1.0, sensitivity=L2(2.0))
    for wrong in (1.0, "x", [[1.0], [1.0, 2.0]], 1j):
        with pytest.raises(InvalidParameter):
            curator().release_sum(wrong, bound=1.0, mechanism=two, label="x")
    for shape in ((0, 3), (3, 0), (0,)):
        assert not curator().release_sum(np.ones(shape), bound=1.0, mechanism=two, label="x").any()


@pytest.mark.parametrize("cells", [np.array([[0.0]]), np.array([1]), np.array([[4]]), np.array([[-1]])])
def test_cells_are_whole_numbers_inside_the_table(cells: Any) -> None:
    with pytest.raises(InvalidParameter):
        curator().release_counts(
            cells, shape=(2, 2), bound=1.0, mechanism=Gaussian(sigma=1.0, sensitivity=L2(2.0)), label="x"
        )


def test_public_streams_are_the_same_by_name_and_in_a_replay() -> None:
    def draws(held: Curator, name: str) -> list[int]:
        return held.public(name).integers(0, 2**62, 3).tolist()

    assert draws(curator(), "split") == draws(curator(noise=LiveNoise(1)), "split")
    assert draws(curator(), "split") != draws(curator(), "explore")
    assert draws(curator(), "split") != draws(curator(public_seed=1), "split")
    held = curator()
    assert draws(held, "split") != draws(held, "split")  # one stream, which goes on

    def explores(data: Any, curator: Curator) -> Any:
        first = curator.public("explore").random()
        return first, curator.release(data, NOISE, label="x"), curator.public("explore").random()

    transcript = Transcript()
    live = run(explores, 1.0, transcript=transcript)
    assert live.output == run(explores, 2.0, noise=ReplayedNoise(transcript)).output


LOCAL = {"trust_model": "local", "users": 3, "unit": "user"}


def rounds(*users: tuple[int, list[Gaussian]], inside: bool = True) -> Callable[[Any, Curator], None]:
    def algorithm(data: Any, curator: Curator) -> None:
        for index, mechanisms in users:
            own = curator.user(index)
            if inside:
                with own:
                    for mechanism in mechanisms:
                        own.release(0.0, mechanism, label="bit")
            else:
                for mechanism in mechanisms:
                    own.release(0.0, mechanism, label="bit")

    return algorithm


def test_local_ledgers_describe_one_user_whatever_their_number() -> None:
    result = run(rounds((0, [NOISE]), (1, [NOISE]), (2, [NOISE])), None, budget=ZCDPFilter(0.5), **LOCAL)
    assert len(result.ledger.releases) == 1
    many = [run(rounds((0, [NOISE])), None, **{**LOCAL, "users": users}).ledger for users in (1, 10**9)]
    assert account(many[0]).bounds == account(many[1]).bounds
    assert account(many[0]).bounds[0].guarantee == ZCDP(rho=0.5)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(
    "users",
    [
        [(0, [NOISE]), (1, [NOISE, NOISE])],
        [(0, [NOISE, NOISE]), (1, [NOISE])],
        [(0, [NOISE]), (1, [])],
        [(0, [NOISE, NOISE]), (1, [NOISE]), (2, [NOISE, NOISE])],
        [(0, [NOISE]), (1, [Gaussian(sigma=0.5, sensitivity=L2(1.0))])],
        [(0, [NOISE]), (0, [NOISE])],
        [(0, [NOISE]), (3, [NOISE])],
        [(-1, [NOISE])],
    ],
)
def test_every_user_is_held_to_the_first_ones_schedule(users: Any, inside: bool) -> None:
    with pytest.raises(ScheduleBroken):
        run(rounds(*users, inside=inside), None, **LOCAL)


def test_a_users_own_error_is_not_hidden_by_what_was_not_released() -> None:
    def algorithm(data: Any, curator: Curator) -> None:
        with curator.user(0) as own:
            own.release(0.0, NOISE, label="bit")
        with curator.user(1):
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        run(algorithm, None, **LOCAL)

    def fewer(data: Any, curator: Curator) -> None:
        with curator.user(0) as own:
            own.release(0.0, NOISE, label="bit")
        with pytest.raises(ScheduleBroken), curator.user(1):
            pass
        raise KeyError("after")

    with pytest.raises(KeyError, match="after"):
        run(fewer, None, **LOCAL)


def test_data_may_say_how_many_users_they_are() -> None:
    class Users(list[float]):
        n_users = 2

    served = rounds((0, [NOISE]), (1, [NOISE]))
    assert run(served, Users(), trust_model="local").ledger.header.users == 2
    assert run(served, Users(), trust_model="local", users=3).ledger.header.users == 3
    assert run(one_release, Users([1.0])).ledger.header.users is None
    with pytest.raises(ScheduleBroken):
        run(served, [1.0, 2.0], trust_model="local")


def test_users_exist_under_local_trust_alone_and_have_no_users() -> None:
    with pytest.raises(ScheduleBroken):
        run(rounds((0, [NOISE])), None)
    with pytest.raises(ScheduleBroken):
        run(one_release, 0.0, **LOCAL)
    with pytest.raises(ScheduleBroken):
        run(lambda data, curator: curator.user(0).user(1), None, **LOCAL)
    with pytest.raises(InvalidParameter):
        run(one_release, 0.0, users=3)


class Noiseless(Gaussian):
    def sample(self, value: Any, generator: Any) -> Any:
        return value


class Smaller(Sensitivity):
    pass


@pytest.mark.parametrize(
    "mechanism",
    [
        Noiseless(sigma=4.0, sensitivity=L2(2.0)),
        Gaussian(sigma=4.0, sensitivity=Smaller(value=2.0, norm="l2")),
        PoissonSampled(rate=0.5, mechanism=Noiseless(sigma=4.0, sensitivity=L2(1.0))),
    ],
)
def test_a_subclass_is_not_the_mechanism_that_the_ledger_names(mechanism: Any) -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        if isinstance(mechanism, PoissonSampled):
            return curator.release_sum(data, bound=1.0, mechanism=mechanism, label="sum")
        return curator.release(data, mechanism, label="rows")

    with pytest.raises(InvalidParameter, match="type"):
        run(algorithm, np.ones((3, 1)), neighbouring="add-or-remove-one")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("choose", "`select`"),
        ("exponential", "`select`"),
        ("gaussian", "`release`"),
        ("tree_aggregation", "`stream`"),
        ("histogram", "`release_counts`"),
        ("relaese", "`release`"),
        ("zzz", "it has release, release_sum"),
    ],
)
def test_a_curator_says_what_was_meant(name: str, meant: str) -> None:
    held = curator()
    with pytest.raises(AttributeError, match=meant):
        getattr(held, name)
    assert not hasattr(held, name)
