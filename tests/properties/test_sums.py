"""Whatever a record says, one unit changes a sum by no more than the ledger says."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpaudit import L1, L2, Curator, Gaussian, Laplace, Neighbouring, NoNoise
from dpaudit.claims.relations import Neighbouring as Relation
from dpaudit.curator.clipping import clip_rows
from dpaudit.ledger.ledger import Header, Ledger

# Sums are rounded: by at most (number of rows) * 2^-53 of the rows' norms.
SLACK = 1 + 1e-12
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
    return (
        Gaussian(sigma=1.0, sensitivity=L2(size))
        if norm == "l2"
        else Laplace(scale=1.0, sensitivity=L1(size))
    )


def exact(relation: Relation) -> Curator:
    return Curator(Ledger(Header(algorithm="a", unit="row", neighbouring=relation)), NoNoise())


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


@given(ROWS, BOUND, st.sampled_from(["l1", "l2"]), st.booleans())
def test_clipping_keeps_short_rows_and_the_direction_of_long_ones(
    rows: Any, bound: float, norm: Any, nonnegative: bool
) -> None:
    clipped = clip_rows(rows, bound, norm, nonnegative=nonnegative)
    for given_row, row in zip(rows, clipped, strict=True):
        if not np.isfinite(given_row).all():
            assert not row.any()
            continue
        kept = np.maximum(given_row, 0.0) if nonnegative else given_row
        largest = np.abs(kept).max(initial=0.0)
        if largest <= bound * 1e-2:
            assert np.array_equal(row, kept)
        if largest > bound:
            assert abs(length(norm, row) / bound - 1) < 1e-12
            np.testing.assert_allclose(row / np.abs(row).max(), kept / largest, rtol=1e-12, atol=1e-100)


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
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)
    assert sparse.ledger.releases == dense.ledger.releases
