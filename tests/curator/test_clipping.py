"""What clipping makes of a sensitivity, and what is a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import (
    L1,
    L2,
    Curator,
    Exponential,
    Gaussian,
    Laplace,
    Ledger,
    Neighbouring,
    NoNoise,
    OpaquePureDP,
    SparseVector,
    TreeAggregation,
)
from dpaudit.auditors.neighbours import table_pairs
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.curator.clipping import bounded, doubles, require_unmasked
from dpaudit.errors import InvalidParameter, SensitivityTooSmall
from dpaudit.ledger.header import Header
from dpaudit.mechanisms import FixedSizeSampled, PoissonSampled

REPLACED, ADDED = Neighbouring.REPLACE_ONE, Neighbouring.ADD_OR_REMOVE_ONE


def held(value: float, bound: float, relation: Neighbouring = ADDED, *, acute: bool = False) -> Any:
    mechanism, norm = bounded(
        Gaussian(sigma=1.0, sensitivity=L2(value)), bound, relation, acute=acute, label="x"
    )
    assert norm == "l2"
    return mechanism.sensitivity


def test_a_sensitivity_below_what_the_bound_implies_is_refused_and_no_larger_one() -> None:
    assert held(1.0, 1.0).value == 1.0
    assert held(3.0, 1.0).value == 3.0
    assert held(2.0, 1.0, REPLACED).value == 2.0
    assert held(1.5, 1.0, REPLACED, acute=True).value == 1.5
    assert held(1.0, 1.0).basis == "clipped"
    for value, relation, acute in ((0.999, ADDED, False), (1.9, REPLACED, False), (1.4, REPLACED, True)):
        with pytest.raises(SensitivityTooSmall):
            held(value, 1.0, relation, acute=acute)


def test_a_sensitivity_that_rounding_left_too_small_is_raised() -> None:
    assert held(1.0 * (1 - 1e-12), 1.0).value == 1.0
    with pytest.raises(SensitivityTooSmall):
        held(1.0 - 2e-12, 1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_bound_that_is_not_positive_and_finite_is_refused(bound: float) -> None:
    with pytest.raises(InvalidParameter, match="contribution bound"):
        held(1e300, bound)


def test_noise_that_is_not_calibrated_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="pure-dp"):
        bounded(OpaquePureDP(epsilon=1.0, justification="a theorem"), 1.0, ADDED, acute=False, label="x")


def test_a_sample_keeps_the_bound_and_one_of_a_fixed_size_is_of_replaced_units() -> None:
    inner = Laplace(scale=1.0, sensitivity=L1(2.0))
    poisson, norm = bounded(PoissonSampled(mechanism=inner, rate=0.1), 2.0, ADDED, acute=False, label="x")
    assert (poisson.contribution, norm) == (2.0, "l1")
    declared, _ = bounded(
        PoissonSampled(mechanism=inner, rate=0.1), 2.0, ADDED, acute=False, label="x", basis="declared"
    )
    assert declared.contribution is None  # a row may depend on other units
    stated = PoissonSampled(mechanism=inner, rate=0.1, contribution=2.0)
    assert bounded(stated, 2.0, ADDED, acute=False, label="x", basis="declared")[0].contribution == 2.0
    less = stated.model_copy(update={"contribution": 1.5})  # that hides less than it says
    with pytest.raises(SensitivityTooSmall, match=r"a contribution of 1\.5"):
        bounded(less, 2.0, ADDED, acute=False, label="x", basis="declared")
    assert bounded(less, 2.0, ADDED, acute=False, label="x")[0].contribution == 2.0
    whole, _ = bounded(inner, 2.0, ADDED, acute=False, label="x")
    assert whole == Laplace(scale=1.0, sensitivity=L1(2.0, "clipped"))
    fixed = FixedSizeSampled(mechanism=inner, size=1, units=10)
    assert bounded(fixed, 1.0, ADDED, acute=False, label="x")[0].contribution == 1.0
    with pytest.raises(SensitivityTooSmall):
        bounded(fixed, 2.0, ADDED, acute=False, label="x")


@pytest.mark.parametrize("value", [np.float32([0.1]), [1], [True], np.array([2.0]), np.float16([3.0])])
def test_numbers_become_doubles_in_an_array_of_their_own(value: Any) -> None:
    found = doubles(value, "x")
    assert found.dtype == np.float64
    assert found.tolist() == np.asarray(value).tolist()
    assert not np.shares_memory(found, np.asarray(value))


@pytest.mark.parametrize("value", ["a", [[1.0], [1.0, 2.0]], [1j], object(), [10**400]])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter):
        doubles(value, "x")


@pytest.mark.parametrize("value", [["1.5"], np.array([b"1"]), np.array(["2020-01-01"], "datetime64[D]")])
def test_text_and_dates_are_refused_where_numpy_would_convert_them(value: Any) -> None:
    for given in (value, np.array(list(value), dtype=object)):
        with pytest.raises(InvalidParameter, match="in place of numbers"):
            doubles(given, "x")


def test_a_masked_array_is_refused_wherever_it_stands() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    for given in (masked, [masked, [1.0, 2.0]], ([[np.ma.masked, 1.0]],), [np.ma.array(1.0, mask=True)]):
        with pytest.raises(InvalidParameter, match=r"masked array[^$]*filled\(0\)"):
            doubles(given, "x")
    assert doubles(masked.filled(0), "x").tolist() == [0.0, 2.0]
    itself: list[Any] = []
    itself.append(itself)
    require_unmasked([itself, itself], "x")


MASKED = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[True, False], [False, False]])


def test_no_entrance_for_arrays_loses_a_mask() -> None:
    noise, column = Gaussian(sigma=1.0, sensitivity=L2(4.0)), MASKED[:, 0]
    poisson = PoissonSampled(mechanism=noise, rate=0.5)
    tree = TreeAggregation(sigma=1.0, steps=2, sensitivity=L2(4.0))
    sparse = SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=1, monotone=False)
    entrances: list[Callable[[Curator], Any]] = [
        lambda c: c.release(MASKED, noise, label="x"),
        lambda c: c.release_sum(MASKED, bound=1.0, mechanism=noise, label="x"),
        lambda c: c.release_sum([column, column], bound=1.0, mechanism=noise, label="x"),
        lambda c: c.release_sum(MASKED, bound=1.0, mechanism=noise, label="x", map=np.sum),
        lambda c: c.release_gram(MASKED, bound=1.0, mechanism=noise, label="x"),
        lambda c: c.release_counts(MASKED.astype(int), shape=(9,), bound=1.0, mechanism=noise, label="x"),
        lambda c: c.select(column, Exponential(epsilon=1.0), label="x", score_sensitivity=1.0),
        lambda c: c.stream(tree, "x", (2,), bound=1.0).add(MASKED),
        lambda c: c.stream(tree, "x", (2,)).add(MASKED[0]),
        lambda c: (batches := c.batches(poisson, "x", (2,), bound=1.0)).add(MASKED[batches.draw(2)]),
        lambda c: c.sparse_vector(sparse, "x").above(np.ma.masked),
        lambda c: list(table_pairs(MASKED)),
        lambda c: Samples(column, column),
    ]
    for entrance in entrances:
        curator = Curator(Ledger(Header(algorithm="x", unit="user", neighbouring=ADDED)), NoNoise())
        with pytest.raises(InvalidParameter, match="masked array"):
            entrance(curator)
