"""Whatever a record says, one unit changes a sum by no more than the ledger says."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpaudit import Curator, Neighbouring, NoNoise
from dpaudit import Neighbouring as Relation
from dpaudit.noise.contributions import clip_rows
from dpaudit.noise.grid import grid_of_bound
from tests import make

# The exact sums are rounded to doubles, and so is their difference, its norm and what is allowed.
SLACK = 1 + 1e-14
#: Noise so fine that the grid of the sum follows from the bound alone.
FINE = -1000
ENTRY = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-3, 3)
BOUND = st.sampled_from([1e-150, 0.3, 1.0, 1e3, 1e150])
ROWS = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 4)), elements=ENTRY)


def sensitivity_of(norm: str, bound: float, relation: Relation, nonnegative: bool) -> float:
    """By hand: one contribution, or two that are opposed, or two at a right angle."""
    if relation is not Neighbouring.REPLACE_ONE:
        return bound
    return 2.0**0.5 * bound if norm == "l2" and nonnegative else 2.0 * bound


def mechanism_of(norm: str, size: float) -> Any:
    size *= 1 + 1e-15
    return make.gaussian(1.0, size) if norm == "l2" else make.laplace(1.0, size)


def exact(relation: Relation) -> Curator:
    return make.curator(relation, NoNoise())


def length(norm: str, vector: Any) -> float:
    largest = float(np.abs(vector).max(initial=0.0)) or 1.0
    scaled = vector.ravel() / largest
    return largest * float(np.abs(scaled).sum() if norm == "l1" else np.sqrt((scaled**2).sum()))


@given(
    ROWS,
    st.lists(ENTRY, min_size=4, max_size=4),
    BOUND,
    st.sampled_from(["l1", "l2"]),
    st.booleans(),
    st.sampled_from(list(Neighbouring)),
    st.data(),
)
def test_no_row_changes_a_clipped_sum_by_more_than_the_ledgers_sensitivity(
    rows: Any, entries: list[float], bound: float, norm: str, nonnegative: bool, relation: Relation, data: Any
) -> None:
    index = data.draw(st.integers(0, len(rows) - 1))
    other = rows.copy()
    if relation is Neighbouring.ADD_OR_REMOVE_ONE:
        other = np.delete(rows, index, axis=0)
    elif relation is Neighbouring.ZERO_OUT:
        other[index] = 0.0
    else:
        other[index] = entries[: rows.shape[1]]
    allowed = sensitivity_of(norm, bound, relation, nonnegative)
    sums = []
    for side in (rows, other):
        curator = exact(relation)
        sums.append(
            curator.release_sum(
                side, bound=bound, mechanism=mechanism_of(norm, allowed), label="x", nonnegative=nonnegative
            )
        )
        written = curator.ledger.releases[0].mechanism.sensitivity
        assert written.basis == "clipped"
        assert allowed * (1 - 1e-15) <= written.value <= allowed * (1 + 1e-14)
    assert length(norm, sums[0] - sums[1]) <= allowed * SLACK


def exact_norm(norm: str, row: list[Fraction]) -> Fraction:
    """The norm, or its square."""
    return sum(map(abs, row), Fraction(0)) if norm == "l1" else sum((x * x for x in row), Fraction(0))


@given(ROWS, BOUND, st.sampled_from(["l1", "l2"]), st.booleans())
def test_clipping_rounds_short_rows_towards_zero_and_keeps_the_direction_of_long_ones(
    rows: Any, bound: float, norm: Any, nonnegative: bool
) -> None:
    exponent = grid_of_bound(bound, FINE)
    step, limit = Fraction(2) ** exponent, Fraction(bound) ** (1 if norm == "l1" else 2)
    clipped = clip_rows(rows, bound, norm, exponent, nonnegative=nonnegative)
    assert clipped.exponent == exponent
    for given_row, found in zip(rows, clipped.integers, strict=True):
        row = [int(m) * step for m in found]
        assert exact_norm(norm, row) <= limit
        if not np.isfinite(given_row).all():
            assert not any(row)
            continue
        kept = [Fraction(max(x, 0.0) if nonnegative else x) for x in given_row.tolist()]
        if exact_norm(norm, kept) <= limit * (1 - Fraction(1, 2**40)):
            assert row == [math.trunc(x / step) * step for x in kept]
        if exact_norm(norm, kept) > limit:
            for x, m in zip(kept, found.tolist(), strict=True):
                scaled = x * Fraction(bound) / root(norm, exact_norm(norm, kept))
                assert abs(m * step - scaled) <= 2 * step + abs(scaled) * Fraction(1, 2**45)
                assert m * scaled >= 0


def root(norm: str, size: Fraction) -> Fraction:
    """The norm from `exact_norm`, relatively to 2^-100."""
    if norm == "l1":
        return size
    scale = 2 ** (max(size.denominator.bit_length() - size.numerator.bit_length(), 0) + 200)
    return Fraction(math.isqrt(size.numerator * scale**2 // size.denominator), scale)


@given(
    st.integers(1, 4).flatmap(
        lambda m: arrays(np.int64, st.tuples(st.integers(0, 6), st.just(m)), elements=st.integers(0, 5))
    ),
    st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0]),
    st.sampled_from(["l1", "l2"]),
)
def test_counts_are_the_sum_of_one_hot_tables(cells: Any, bound: float, norm: str) -> None:
    mechanism = mechanism_of(norm, 2.0 * bound)
    tables = np.zeros((len(cells), 2, 3))
    for table, row in zip(tables, cells, strict=True):
        for cell in row:
            table[divmod(cell, 3)] += 1.0
    sparse = exact(Neighbouring.REPLACE_ONE)
    dense = exact(Neighbouring.REPLACE_ONE)
    one = sparse.release_counts(cells, shape=(2, 3), bound=bound, mechanism=mechanism, label="x")
    two = dense.release_sum(tables, bound=bound, mechanism=mechanism, label="x", nonnegative=True)
    # A unit past the bound is scaled on the grid in one form, and rounded to it in the other.
    steps = np.ceil(cells.shape[1] * len(cells) + 1) * 2.0 ** grid_of_bound(bound, FINE)
    np.testing.assert_allclose(one, two, rtol=0, atol=float(steps))
    assert sparse.ledger.releases == dense.ledger.releases
