"""No neighbour of a table moves an exact answer by more than the sensitivity that was derived for it."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpaudit import (
    ZCDP,
    ApproxDP,
    Claim,
    Curator,
    KeySelection,
    Neighbouring,
    PureDP,
    Transcript,
    account,
    judge,
    run,
)
from dpaudit.curator.noise import Entry, NoNoise
from dpaudit.mechanisms import Exponential, Gaussian, Laplace

Row = tuple[str, str | None, int, float | None]
RELATIONS = list(Neighbouring)
VALUES = (0.0, -0.0, 0.4, 1.0, 2.5, -3.0, 1e300, -1e300, math.inf, -math.inf, math.nan, None)
KEYS = ("a", "b", "c", "other", None)


def table(rows: list[Row]) -> Any:
    names = ("person", "ward", "day", "minutes")
    kinds = (pa.string(), pa.string(), pa.int64(), pa.float64())
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    made = [pa.array(list(each), kind, from_pandas=False) for each, kind in zip(columns, kinds, strict=True)]
    return pa.table(made, names=list(names))


def queries(cost: Any, rows: int | None, groups: int | None, *, few: bool = False) -> Any:
    def algorithm(frame: Any, curator: Curator) -> None:
        bounded = curator.table(frame, unit="person", hash_key="soundness")
        bounded = bounded.bound(rows_per_unit=rows, groups_per_unit=groups)
        by_ward = bounded.group_by("ward", keys=["a", "b", "c"])
        by_both = bounded.group_by(["ward", "day"], keys={"ward": ["a", "b"], "day": [1, 2]})
        tables = (bounded, by_ward, by_both, bounded.group_by("ward", keys=["a"]))
        for each in tables[1:2] if few else tables:
            if rows is None and not each.keys:
                continue
            each.count_distinct_units(cost=cost)
            if rows is None:
                continue
            each.count(cost=cost)
            each.sum("minutes", lower=-1.0, upper=2.5, cost=cost)
            each.sum("minutes", lower=0.3, upper=1.7, cost=cost)
            each.sum("minutes", lower=-4.0, upper=-1.5, cost=cost)
            each.mean("minutes", lower=-1.0, upper=2.5, cost=cost)
            each.variance("minutes", lower=-0.7, upper=2.5, cost=cost)
            each.histogram("minutes", edges=[-1.0, 0.4, 2.0], cost=cost)
            each.quantile("minutes", 0.3, lower=-1.0, upper=2.0, cost=cost, candidates=4)
            each.quantile("minutes", [0.3, 0.5, 0.9], lower=-1.0, upper=2.0, cost=cost, candidates=4)

    return algorithm


def entries(frame: Any, algorithm: Any, relation: Neighbouring) -> list[Entry]:
    kept, claim = Transcript(), Claim(ZCDP(rho=99.0), unit="person", neighbouring=relation)
    run(algorithm, frame, claim=claim, noise=NoNoise(), transcript=kept)
    return kept.entries


def exactly(query: np.ndarray[Any, Any]) -> list[Fraction]:
    return [Fraction(float(each)) for each in query.ravel()]


def moved(one: Entry, other: Entry) -> tuple[Fraction, Fraction]:
    """The square of how far a query moved, and of how far it may."""
    mechanism = one.release.mechanism
    assert mechanism == other.release.mechanism
    difference = [a - b for a, b in zip(exactly(one.query), exactly(other.query), strict=True)]
    if isinstance(mechanism, Exponential):  # log weights, each rounded a few times
        allowance = Fraction(1) + Fraction(1, 10**12)
        return (max(difference) - min(difference)) ** 2, (Fraction(mechanism.epsilon) * allowance) ** 2
    if isinstance(mechanism, Laplace):
        return sum(map(abs, difference)) ** 2, Fraction(mechanism.sensitivity.value) ** 2
    assert isinstance(mechanism, Gaussian)
    return sum(each**2 for each in difference), Fraction(mechanism.sensitivity.value) ** 2


def rows_of(generator: np.random.Generator, person: str, most: int) -> list[Row]:
    keys, values = (generator.integers(len(each), size=most) for each in (KEYS, VALUES))
    same = generator.random() < 0.4  # rows that are alike, which hashes cannot tell apart
    made = [
        (person, KEYS[k], int(generator.integers(1, 4)), VALUES[v]) for k, v in zip(keys, values, strict=True)
    ]
    return (made[:1] * most if same else made)[: int(generator.integers(0, most + 1))]


def extremes(person: str, most: int) -> list[list[Row]]:
    """A person in one ward or in many, at the bounds and past them."""
    wards = [["a"], ["b"], ["a", "b", "c"]]
    return [
        [(person, ward, day, value) for ward, day in itertools.product(where, (1, 2)) for _ in range(most)]
        for where in wards
        for value in (math.inf, -math.inf, 0.4)
    ]


def pairs(
    generator: np.random.Generator, relation: Neighbouring, others: int
) -> list[tuple[list[Row], list[Row]]]:
    """A random table and all its neighbours of some kinds."""
    people = [rows_of(generator, f"p{i}", 6) for i in range(others)]
    whole = [row for each in people for row in each]
    found = []
    for i, own in enumerate(people):
        rest = [row for j, each in enumerate(people) if j != i for row in each]
        if relation is Neighbouring.REPLACE_ONE:
            name = f"p{i}"
            new = [rows_of(generator, name, 6), *extremes(name, 3), rows_of(generator, "new", 6)]
            found += [(rest + own, rest + each) for each in new]
            found += [(rest + one, rest + two) for one, two in itertools.pairwise(extremes(name, 3))]
        else:
            found += [(whole, rest)] + [(rest + each, rest) for each in extremes(f"p{i}", 3)]
    # Rows stand in any order in either table.
    return [(shuffled(generator, one), shuffled(generator, two)) for one, two in found]


def shuffled(generator: np.random.Generator, rows: list[Row]) -> list[Row]:
    return [rows[i] for i in generator.permutation(len(rows))]


def largest(
    relation: Neighbouring,
    cost: Any,
    rows: int | None,
    groups: int | None,
    seed: int,
    *,
    few: bool = False,
    engine: Callable[[Any], Any] = lambda frame: frame,
) -> dict[str, Fraction]:
    """Of each release, the largest square of how far it moved over what it may."""
    generator, algorithm = np.random.default_rng(seed), queries(cost, rows, groups, few=few)
    found: dict[str, Fraction] = {}
    for data, neighbour in pairs(generator, relation, 1 if few else 3)[:: 2 if few else 1]:
        one, two = (entries(engine(table(each)), algorithm, relation) for each in (data, neighbour))
        assert len(one) == len(two) > 0
        for a, b in zip(one, two, strict=True):
            measured, allowed = moved(a, b)
            assert measured <= allowed, (a.release, a.query, b.query, data, neighbour)
            name = f"{a.release.label} {a.release.mechanism.kind}"
            found[name] = max(found.get(name, Fraction(0)), measured / allowed)
    return found


BOUNDS = [(2, 1), (3, 2), (1, None), (5, None), (None, 2)]


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_neighbour_moves_an_answer_further(relation: Neighbouring) -> None:
    cost = PureDP(epsilon=1.0) if relation is Neighbouring.ZERO_OUT else ZCDP(rho=0.5)
    assert largest(relation, cost, 3, 2, seed=1, few=True)


@pytest.mark.nightly
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("rows", "groups"), BOUNDS)
@pytest.mark.parametrize("cost", [ZCDP(rho=0.5), PureDP(epsilon=1.0)], ids=["gaussian", "laplace"])
def test_none_does_for_many_tables(relation: Neighbouring, rows: Any, groups: Any, cost: Any) -> None:
    seeds = range(4)
    found = [largest(relation, cost, rows, groups, seed) for seed in seeds]
    reached = {name: max(each[name] for each in found) for name in found[0]}
    # The bounds are no looser than they must be: counts and distinct units reach them.
    counts = [each for name, each in reached.items() if name.startswith("count ")]
    assert max(counts, default=1) == 1


def polars_lazily(frame: Any) -> Any:
    return importlib.import_module("polars").from_arrow(frame).lazy()


def duckdb(frame: Any) -> Any:
    return importlib.import_module("duckdb").from_arrow(frame)


def dask_in_parts(frame: Any) -> Any:
    """In three partitions, of which one may be empty."""
    return importlib.import_module("dask.dataframe").from_pandas(frame.to_pandas(), npartitions=3)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(dask_in_parts, marks=pytest.mark.nightly),
        pytest.param(polars_lazily, marks=pytest.mark.interoperability),
        pytest.param(duckdb, marks=pytest.mark.interoperability),
    ],
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_none_does_in_other_engines(relation: Neighbouring, engine: Callable[[Any], Any]) -> None:
    dask = importlib.import_module("dask")
    with dask.config.set(scheduler="synchronous"):
        assert largest(relation, ZCDP(rho=0.5), 3, 2, seed=2, few=True, engine=engine)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("rows", "groups"), [(1, None), (2, 1), (2, 2)])
def test_quantiles_of_all_groups_lose_no_more_than_they_cost(
    relation: Neighbouring, rows: int, groups: int | None
) -> None:
    """The largest log ratio of probabilities, over all outcomes of all groups, from every weight."""

    def algorithm(frame: Any, curator: Curator) -> None:
        bounded = curator.table(frame, unit="person").bound(rows_per_unit=rows, groups_per_unit=groups)
        wards, between = bounded.group_by("ward", keys=["a", "b"]), {"lower": -1.0, "upper": 2.0}
        wards.quantile("minutes", [0.3, 0.9], **between, cost=PureDP(epsilon=1.0), candidates=3)

    def probabilities(entry: Entry) -> Any:
        return np.exp(entry.query) / np.exp(entry.query).sum()

    most = 0.0
    for data, neighbour in pairs(np.random.default_rng(4), relation, 2)[::2]:
        one, two = (entries(table(each), algorithm, relation) for each in (data, neighbour))
        ratios = [np.log(probabilities(a) / probabilities(b)) for a, b in zip(one, two, strict=True)]
        most = max(most, *(sum(float((sign * each).max()) for each in ratios) for sign in (1, -1)))
    assert 0.1 < most <= 1.0 + 1e-9


class Counted:
    """A curator that keeps what is counted for a selection of keys."""

    def __init__(self, curator: Curator) -> None:
        self.ledger = curator.ledger
        self.found: dict[Any, int] = {}
        self.changes = 0

    def release_keys(self, keys: Any, units: Any, mechanism: KeySelection, *, label: str) -> Any:
        self.found, self.changes = dict(zip(keys, units, strict=True)), mechanism.changes
        return []


def units_by_key(frame: Any, by: Any, relation: Neighbouring, bounds: dict[str, int]) -> Counted:
    kept: list[Counted] = []

    def algorithm(given: Any, curator: Curator) -> None:
        kept.append(Counted(curator))
        bounded = replace(curator.table(given, unit="person").bound(**bounds), curator=kept[0])
        bounded.select_keys(by, cost=ApproxDP(epsilon=1.0, delta=1e-6))

    run(algorithm, frame, claim=Claim(ZCDP(rho=9.0), unit="person", neighbouring=relation))
    return kept[0]


@pytest.mark.parametrize("relation", [Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE])
@pytest.mark.parametrize("by", ["ward", ("ward", "day")])
@pytest.mark.parametrize("bounds", [{"groups_per_unit": 1}, {"rows_per_unit": 2}])
def test_no_neighbour_moves_more_keys_or_any_by_more_than_one(
    relation: Neighbouring, by: Any, bounds: dict[str, int]
) -> None:
    most = 0
    for data, neighbour in pairs(np.random.default_rng(3), relation, 2)[::3]:
        one, other = (units_by_key(table(each), by, relation, bounds) for each in (data, neighbour))
        moves = [abs(one.found.get(key, 0) - other.found.get(key, 0)) for key in {*one.found, *other.found}]
        assert max(moves, default=0) <= 1
        assert sum(moves) <= one.changes == other.changes
        most = max(most, sum(moves))
    assert most >= 1


def derived(algorithm: Any, relation: str) -> dict[str, tuple[str, float]]:
    claim = Claim(ZCDP(rho=99.0), unit="person", neighbouring=relation)
    ledger = run(algorithm, table([]), claim=claim, seed=1).ledger
    found = {}
    for release in ledger.releases:
        assert isinstance(release.mechanism, Gaussian | Laplace)
        assert release.mechanism.sensitivity.basis == "clipped"
        found[release.label] = release.mechanism.sensitivity.norm, release.mechanism.sensitivity.value
    return found


def test_sensitivities_are_the_ones_derived_by_hand() -> None:
    def algorithm(frame: Any, curator: Curator) -> None:
        rho, epsilon = ZCDP(rho=0.5), PureDP(epsilon=1.0)
        bounded = curator.table(frame, unit="person").bound(rows_per_unit=5, groups_per_unit=2)
        wards = bounded.group_by("ward", keys=["a", "b", "c"])
        wards.count(cost=rho, label="rows l2")
        wards.count(cost=epsilon, label="rows l1")
        wards.count_distinct_units(cost=rho, label="units l2")
        wards.count_distinct_units(cost=epsilon, label="units l1")
        wards.sum("minutes", lower=0.0, upper=4.0, cost=rho, label="sum l2")
        wards.sum("minutes", lower=-2.0, upper=4.0, cost=rho, label="mixed l2")
        many = bounded.bound(groups_per_unit=4).group_by("ward", keys=["a", "b", "c"])
        many.count_distinct_units(cost=rho, label="units of three groups")
        bounded.count(cost=rho, label="all l2")
        bounded.sum("minutes", lower=-2.0, upper=4.0, cost=epsilon, label="all mixed l1")

    assert derived(algorithm, "add-or-remove-one") == {
        "rows l2": ("l2", 5.0),
        "rows l1": ("l1", 5.0),
        "units l2": ("l2", pytest.approx(2**0.5, rel=1e-15)),
        "units l1": ("l1", 2.0),
        "sum l2": ("l2", 20.0),
        "mixed l2": ("l2", 20.0),
        "units of three groups": ("l2", pytest.approx(3**0.5, rel=1e-15)),
        "all l2": ("l2", 5.0),
        "all mixed l1": ("l1", 20.0),
    }
    assert derived(algorithm, "replace-one") == {
        "rows l2": ("l2", pytest.approx(5 * 2**0.5, rel=1e-15)),
        "rows l1": ("l1", 10.0),
        "units l2": ("l2", pytest.approx(2.0, rel=1e-15)),
        "units l1": ("l1", 4.0),
        "sum l2": ("l2", pytest.approx(20 * 2**0.5, rel=1e-15)),
        "mixed l2": ("l2", 40.0),
        "units of three groups": ("l2", pytest.approx(6**0.5, rel=1e-15)),
        "all l2": ("l2", 5.0),
        "all mixed l1": ("l1", 30.0),
    }


def test_a_run_is_proved_at_the_sum_of_its_costs() -> None:
    def algorithm(frame: Any, curator: Curator) -> None:
        wards = curator.table(frame, unit="person").bound(rows_per_unit=7).group_by("ward", keys=["a", "b"])
        wards.count(cost=ZCDP(rho=0.01))
        wards.mean("minutes", lower=0.0, upper=0.1, cost=ZCDP(rho=0.03))
        wards.variance("minutes", lower=-0.3, upper=0.1, cost=ZCDP(rho=0.05))
        wards.quantile("minutes", 0.9, lower=0.0, upper=1.0, cost=ZCDP(rho=0.01))

    claim = Claim(ZCDP(rho=0.1), unit="person", neighbouring="replace-one")
    ledger = run(algorithm, table([]), claim=claim).ledger
    assert judge(ledger, account(ledger), (), command="run").all_proved


def quantiles(*asked: list[str], label: str | None = None) -> Any:
    """Choices among minutes, one after another, of groups that are asked for each time."""

    def algorithm(frame: Any, curator: Curator) -> None:
        bounded = curator.table(frame, unit="person").bound(rows_per_unit=1)
        for keys in asked:
            wards, cost = bounded.group_by("ward", keys=keys), PureDP(epsilon=1.0)
            wards.quantile("minutes", 0.5, lower=0.0, upper=1.0, candidates=3, cost=cost, label=label)

    return algorithm


@pytest.mark.parametrize("label", [None, "median"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_choices_in_other_groups_are_no_parts_of_the_same_split(
    relation: Neighbouring, label: str | None
) -> None:
    rows: list[Row] = [("p", "a", 1, 1.0), ("p", "c", 1, 1.0), ("q", "b", 1, 0.0)]
    algorithm = quantiles(["a", "b"], ["c", "d"], ["b", "c"], label=label)
    # One person moves a choice of each: so their costs add up.
    data, neighbour = (entries(table(each), algorithm, relation) for each in (rows, rows[2:]))
    moved_in = [not np.array_equal(one.query, two.query) for one, two in zip(data, neighbour, strict=True)]
    assert [any(moved_in[i : i + 2]) for i in (0, 2, 4)] == [True] * 3

    for epsilon, proved in ((3.0, True), (2.99, False)):
        claim = Claim(PureDP(epsilon=epsilon), unit="person", neighbouring=relation)
        ledger = run(algorithm, table(rows), claim=claim, seed=1).ledger
        assert judge(ledger, account(ledger), (), command="run").all_proved is proved


@pytest.mark.parametrize(("lower", "upper"), [(-0.1, math.nextafter(-0.1, 0)), (0.1, math.nextafter(0.1, 1))])
def test_bounds_closer_than_a_step_of_the_grid(lower: float, upper: float) -> None:
    def algorithm(frame: Any, curator: Curator) -> None:
        bounded = curator.table(frame, unit="person").bound(rows_per_unit=1)
        bounded.sum("minutes", lower=lower, upper=upper, cost=PureDP(epsilon=1.0))

    for value in (-1.0, lower, upper, 1.0):
        one, other = (
            entries(table(each), algorithm, Neighbouring.ADD_OR_REMOVE_ONE)[0]
            for each in ([("p", "a", 1, value)], [])
        )
        measured, allowed = moved(one, other)
        assert 0 < measured <= allowed
