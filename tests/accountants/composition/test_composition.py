"""The fold against brute force: every record one unit can have been and can have become."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import Neighbouring, Partition, Release
from dpaudit.accountants.closed_forms.columns import Cost
from dpaudit.accountants.closed_forms.rounding import sqrt_up, sum_up, up
from dpaudit.accountants.composition.composition import Composition, _costliest, compose, repeated
from dpaudit.accountants.composition.costs import mu_squared, rho
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import FixedSizeSampled, PoissonSampled, RandomizedResponse
from tests import make
from tests.accountants.composition.placements import placements

MECHANISMS = [make.gaussian(0.7, 1.1), make.gaussian(3.0), make.laplace(2.0)]
COSTS = {mechanism: rho(mechanism) for mechanism in MECHANISMS}
PARTITION = st.builds(
    Partition,
    part=st.sampled_from("abc"),
    split=st.sampled_from("xyz"),
    by=st.sampled_from(["position", "values"]),
)
RELEASES = st.lists(
    st.builds(
        Release,
        label=st.just("r"),
        mechanism=st.sampled_from(MECHANISMS),
        count=st.integers(1, 3),
        partition=st.none() | PARTITION,
    ),
    max_size=8,
)


def exposed(releases: list[Release], relation: Neighbouring) -> list[Counter]:
    """Every multiset of mechanisms that see a changed record."""
    found = []
    for way in placements(releases, relation):
        multiset: Counter = Counter()
        for release, units in way:
            multiset[release.mechanism] += release.count * units
        found.append(multiset)
    return found


def exact_cost(multiset: Counter) -> Fraction:
    return sum((Fraction(COSTS[mechanism]) * count for mechanism, count in multiset.items()), Fraction(0))


@given(RELEASES, st.sampled_from(list(Neighbouring)))
def test_totals_and_exposures_are_those_of_the_worst_record(
    releases: list[Release], relation: Neighbouring
) -> None:
    composition = compose(releases, relation)
    worst = max(map(exact_cost, exposed(releases, relation)))
    total = composition.total(rho)
    assert worst <= Fraction(total) <= worst * (1 + Fraction(1, 10**14))
    exposures = composition.exposures()
    assert max(exact_cost(Counter(exposure)) for exposure in exposures) == worst
    possible = [+multiset for multiset in exposed(releases, relation)]
    assert all(Counter(exposure) in possible for exposure in exposures)
    # Each possible one is covered: some listed exposure contains it.
    assert all(any(multiset <= Counter(exposure) for exposure in exposures) for multiset in possible)
    keys = [frozenset(exposure.items()) for exposure in exposures]
    assert len(set(keys)) == len(keys)


@given(RELEASES, st.randoms())
def test_neither_order_nor_spelling_of_the_counts_matters(releases: list[Release], random: object) -> None:
    loop = [r.model_copy(update={"count": 1}) for r in releases for _ in range(r.count)]
    random.shuffle(loop)  # type: ignore[attr-defined]
    relation = Neighbouring.REPLACE_ONE
    one, two = compose(releases, relation), compose(loop, relation)
    assert one.total(rho) == two.total(rho)
    assert one.total(mu_squared) == two.total(mu_squared)
    assert {frozenset(e.items()) for e in one.exposures()} == {frozenset(e.items()) for e in two.exposures()}


@pytest.mark.parametrize(
    ("relation", "by", "expected"),
    [
        ("replace-one", "values", 5.0),
        ("zero-out", "values", 5.0),
        ("add-or-remove-one", "values", 3.0),
        ("replace-one", "position", 3.0),
        ("zero-out", "position", 3.0),
        ("add-or-remove-one", "position", 3.0),
    ],
)
def test_a_replaced_record_meets_the_two_dearest_parts_of_a_split_by_values(
    relation: str, by: str, expected: float
) -> None:
    noise = make.gaussian(1.0, 2.0**0.5)
    parts = (("a", 1), ("b", 3), ("c", 2))
    releases = [make.release(noise, count, part=part, by=by) for part, count in parts]
    composition = compose(releases, Neighbouring(relation))
    assert composition.total(lambda mechanism: 1.0) == expected
    assert composition.total(rho) == pytest.approx(expected, rel=1e-14)


def test_nothing_released_costs_nothing() -> None:
    composition = Composition(Neighbouring.REPLACE_ONE)
    assert composition.total(rho) == 0.0
    assert [dict(exposure) for exposure in composition.exposures()] == [{}]


@pytest.mark.parametrize("count", [10**6, 10**300])
def test_any_count_is_added_up_and_never_dropped(count: int) -> None:
    noise = make.gaussian(1e3)
    total = make.composition((noise, count)).total(rho)
    assert total >= Fraction(rho(noise)) * count if count < 10**300 else total > 1e290


def test_a_count_past_every_double_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="too large"):
        make.release(make.gaussian(1e3), 10**400)


def many(parts: int, splits: int, *, alike: bool) -> Composition:
    releases = [
        make.release(
            make.gaussian(1.0 + part + (0 if alike else 100 * split)), part=str(part), split=str(split)
        )
        for split, part in itertools.product(range(splits), range(parts))
    ]
    return make.composition(*releases, relation=Neighbouring.REPLACE_ONE)


def test_more_exposures_than_can_be_tried_are_refused_and_no_more_than_needed_are_told_apart() -> None:
    assert len(many(2, 12, alike=False).exposures()) == 4096
    for parts, splits in ((2, 13), (2, 200), (5000, 1)):
        with pytest.raises(CannotBound, match="4096"):
            many(parts, splits, alike=False).exposures()
    # Thirty like splits have 2^30 products but only 31 exposures.
    assert len(many(2, 30, alike=True).exposures()) == 31
    assert many(2, 200, alike=False).total(rho) > 0.0


@given(st.lists(st.floats(0, 1e300), max_size=20), st.integers(1, 10**6))
def test_sums_products_and_roots_round_up_by_at_most_one_step(terms: list[float], count: int) -> None:
    exact = sum(map(Fraction, terms), Fraction(0))
    total = sum_up(terms)
    assert exact <= Fraction(total) <= exact * (1 + Fraction(1, 2**52)) + Fraction(5e-324)
    for term in terms[:3]:
        product = Fraction(term) * count
        assert (
            product
            <= Fraction(repeated(term, count))
            <= product * (1 + Fraction(1, 2**52)) + Fraction(5e-324)
        )
        root = Fraction(sqrt_up(Fraction(term)))
        assert Fraction(term) <= root**2 <= Fraction(term) * (1 + Fraction(1, 2**50))


@given(st.fractions(0, 10**6))
def test_a_rational_is_rounded_up_to_the_next_double(exact: Fraction) -> None:
    assert exact <= Fraction(up(exact)) <= exact * (1 + Fraction(1, 2**52)) + Fraction(5e-324)


def test_what_exceeds_every_double_becomes_infinity() -> None:
    inf = float("inf")
    assert (sum_up([1e308] * 3), sum_up([inf]), sum_up([inf, 1.0]), repeated(inf, 2)) == (inf,) * 4
    assert (up(Fraction(10) ** 400), sqrt_up(Fraction(10) ** 800), repeated(1e300, 10**10)) == (inf,) * 3


def mixed(number: int) -> list[Release]:
    """So many different mechanisms, half of them Gaussian and half Laplace, and one of another kind."""
    noise = [make.gaussian(1.0 + k / 7) if k % 2 else make.laplace(1.0 + k / 7) for k in range(number)]
    return [make.release(m, k % 3 + 1) for k, m in enumerate([*noise, RandomizedResponse(epsilon=0.5)])]


@pytest.mark.parametrize("number", [63, 64, 200])
@pytest.mark.parametrize("cost", [rho, mu_squared])
def test_many_costs_add_up_in_columns_as_one_by_one(number: int, cost: Cost) -> None:
    releases = mixed(number)
    exact = sum(Fraction(cost(release.mechanism)) * release.count for release in releases)
    composition = compose(releases, Neighbouring.ADD_OR_REMOVE_ONE)
    assert exact <= Fraction(composition.total(cost)) <= exact * (1 + Fraction(1, 10**12))
    # A cost that is known of single mechanisms only.
    assert exact <= Fraction(composition.total(cost.__call__)) <= exact * (1 + Fraction(1, 10**12))


def test_what_is_in_columns_and_what_is_not() -> None:
    releases = mixed(6)
    composition = compose(releases, Neighbouring.ADD_OR_REMOVE_ONE)
    assert composition.others() == {RandomizedResponse(epsilon=0.5)}
    assert composition.mechanisms() == {release.mechanism for release in releases}
    [exposure] = composition.exposures()
    for kind, first in (("gaussian", 1), ("laplace", 0)):
        own = releases[first:6:2]
        columns = exposure.columns(kind)
        assert sorted(columns.scale) == [1.0 + k / 7 for k in range(first, 6, 2)]
        assert sorted(columns.runs) == sorted(release.count for release in own)
    huge = 2**53 + 1
    [exposure] = make.composition((NOISE, huge)).exposures()
    assert exposure.columns("gaussian").runs.tolist() == [2.0**53 + 2]


def test_different_mechanisms_are_counted_part_by_part() -> None:
    composition = compose([*mixed(4), in_part("a"), in_part("b"), in_part("b")], Neighbouring.REPLACE_ONE)
    assert composition.distinct == 5 + 2


NOISE = make.gaussian(3.0)


def in_part(part: str, by: str = "values", count: int = 1) -> Release:
    return make.release(NOISE, count, part=part, split="s", by=by)


@pytest.mark.parametrize("relation", list(Neighbouring))
@pytest.mark.parametrize("size", [1, 2])
def test_a_running_total_is_that_of_the_releases_that_are_left(relation: Neighbouring, size: int) -> None:
    releases = [*mixed(5), in_part("a", count=2), in_part("b"), in_part("b", "position"), in_part("c")]
    running = Composition(relation, size, running=rho)
    for release in releases:
        running.add(release)
    assert running.total(rho) == pytest.approx(compose(releases, relation, size).total(rho), rel=1e-14)
    exact = Composition(relation, running=rho)
    assert exact.total(rho) == 0.0
    exact.add(make.release(NOISE, 3))
    assert Fraction(exact.total(rho)) >= Fraction(rho(NOISE)) * 3
    for release in releases[1:-1]:
        running.remove(release)
    left = compose([releases[0], releases[-1]], relation, size)
    assert running.total(rho) == pytest.approx(left.total(rho), rel=1e-14)
    assert all(dict(one) in [dict(other) for other in running.exposures()] for one in left.exposures())


def test_a_split_is_by_values_as_long_as_one_of_its_releases_is() -> None:
    composition = Composition(Neighbouring.REPLACE_ONE)
    first = in_part("a")
    for _ in range(2):
        composition.add(first)
        composition.add(in_part("b", "position"))
        assert composition.total(mu_squared) == pytest.approx(2 / 9)  # of both parts
        composition.remove(first)
        composition.remove(in_part("b", "position"))
    composition.add(in_part("a", "position"))
    composition.add(in_part("b", "position"))
    assert composition.total(mu_squared) == pytest.approx(1 / 9)


def test_samples_are_bounded_for_replaced_records_where_a_zeroed_one_changes_its_part() -> None:
    sampled = in_part("a").model_copy(update={"mechanism": PoissonSampled(rate=0.1, mechanism=NOISE)})
    plain, at = in_part("b"), Partition(part="a", split="s", by="position")
    zeroed = Neighbouring.ZERO_OUT
    assert compose([sampled, plain], zeroed).sampling_relation is Neighbouring.REPLACE_ONE
    assert compose([plain], zeroed).sampling_relation is zeroed
    assert compose([sampled.model_copy(update={"partition": at})], zeroed).sampling_relation is zeroed
    for relation in (Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE):
        assert compose([sampled, plain], relation).sampling_relation is relation


def test_a_sample_of_a_known_size_is_of_no_part_that_values_decide() -> None:
    sample = FixedSizeSampled(size=1, units=10, mechanism=NOISE)
    release = in_part("a").model_copy(update={"mechanism": sample})
    assert compose([release], Neighbouring.ADD_OR_REMOVE_ONE).distinct == 1
    for relation in (Neighbouring.REPLACE_ONE, Neighbouring.ZERO_OUT):
        with pytest.raises(CannotBound, match="split by values"):
            compose([release], relation)


def test_a_group_is_in_no_part_more_often_than_it_has_units() -> None:
    """Two units, each of which leaves a part and enters another: both parts see both."""
    other = in_part("b").model_copy(update={"mechanism": make.laplace(2.0)})
    composition = compose([in_part("a"), other], Neighbouring.REPLACE_ONE, 2)
    [exposure] = composition.exposures()
    twice = {make.gaussian(3.0, 2.0), make.laplace(2.0, 2.0)}
    assert dict(exposure) == dict.fromkeys(twice, 1)
    assert composition.mechanisms() == twice | {NOISE, other.mechanism}


def test_units_are_placed_where_they_cost_most() -> None:
    """By trying every way to place them."""
    parts = [(1.0, 5.0, 5.5), (2.0, 3.0, 9.0), (0.5, 4.0, 4.5), (2.5, 2.6, 2.7)]
    for touched in range(1, 8):
        ways = itertools.product(range(4), repeat=4)
        sums = [
            sum((0.0, *part)[units] for part, units in zip(parts, way, strict=True))
            for way in ways
            if sum(way) <= touched
        ]
        assert _costliest(parts, touched) == max(sums)
