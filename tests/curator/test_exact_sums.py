"""One unit changes a clipped sum by what the ledger says, to the last bit.

The attacks are those of Casacuberta, Shoemate, Vadhan and Wagaman 2022 on sums in doubles. Each is made on
the sum as it was computed before, where it must succeed, and on the curator's, where it must fail.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit import L1, L2, Curator, DiscreteGaussian, DiscreteLaplace, Gaussian, LiveNoise, NoNoise
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.noise.contributions import _too_long, clip_rows, count_cells
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.sums import total

NOISE = Gaussian(sigma=1.0, sensitivity=L2(1.0))
EXPONENT = -39  # of the grid of the bound 1
MANY = 2**17  # rows of the rounding attack
OFTEN_ROUNDED = Fraction(MANY, 2**38)  # what they add where each is rounded up by half of its last place


def curator() -> Curator:
    header = Header(algorithm="a", unit="row", neighbouring=Neighbouring.ADD_OR_REMOVE_ONE)
    return Curator(Ledger(header), NoNoise())


def sum_in_doubles(rows: Any, bound: float = 1.0) -> Any:
    """As `release_sum` added before its sums were exact."""
    return clipped_in_doubles(rows, bound).sum(axis=0)


def clipped_in_doubles(rows: Any, bound: float = 1.0) -> Any:
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    shrunk = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.linalg.norm(shrunk, axis=1, keepdims=True)
    most = np.divide(bound, length, out=np.full_like(length, bound), where=length > 0)
    return np.where(largest > most, shrunk * most, rows)


def exact_sum(rows: Any, bound: float = 1.0) -> Any:
    noise = Gaussian(sigma=1.0, sensitivity=L2(bound))
    return curator().release_sum(rows, bound=bound, mechanism=noise, label="sum")


def rounding_attack(unit: float) -> tuple[Any, Any]:
    """Without and with a unit that lifts a running sum to 2^15, from where `MANY` rows are rounded up.

    They are 0.6 of the last place there, and 1.2 of the last place below. The second column is empty: numpy
    adds up a single one in pairs.
    """
    before = np.concatenate([np.ones(2**15 - 1), [1.0 - unit]])
    small = np.full(MANY, 0.6 * 2.0**-37)
    one, other = np.concatenate([before, small]), np.concatenate([before, [unit], small])
    return tuple(np.column_stack([side, np.zeros_like(side)]) for side in (one, other))


def moved_by(add: Any, sides: tuple[Any, Any]) -> Fraction:
    one, other = (Fraction(float(add(side)[0])) for side in sides)
    return abs(one - other)


def test_repeated_rounding_multiplies_no_units_contribution() -> None:
    sides = rounding_attack(1.0)
    assert moved_by(sum_in_doubles, sides) > 1 + OFTEN_ROUNDED / 2  # the unit's row has norm 1
    assert moved_by(exact_sum, sides) == 1
    # A unit whose own contribution is as small moves the sum in doubles by nearly twice that.
    sides = rounding_attack(float(OFTEN_ROUNDED))
    assert moved_by(sum_in_doubles, sides) > Fraction(1.9) * OFTEN_ROUNDED
    assert moved_by(exact_sum, sides) == OFTEN_ROUNDED


def test_the_order_of_the_rows_does_not_change_a_sum() -> None:
    rows = np.random.default_rng(5).normal(size=(5000, 3))
    orders = [np.random.default_rng(seed).permutation(len(rows)) for seed in range(20)]
    assert len({sum_in_doubles(rows[order], 10.0).tobytes() for order in orders}) > 1
    assert len({exact_sum(rows[order], 10.0).tobytes() for order in orders}) == 1
    for chunks in (2, 7, 64):
        parts = [total(clip_rows(part, 10.0, "l2", -36)) for part in np.array_split(rows, chunks)]
        whole = OnGrid(sum(part.integers for part in parts), -36)
        assert whole.to_doubles().tobytes() == exact_sum(rows, 10.0).tobytes()


def norms_of(rows: Any) -> list[Fraction]:
    return [sum(Fraction(x) ** 2 for x in row) for row in rows.tolist()]


def test_no_clipped_row_lies_outside_the_ball() -> None:
    rows = np.random.default_rng(6).normal(size=(2000, 3)) * 100
    assert max(norms_of(clipped_in_doubles(rows, 0.3))) > Fraction(0.3) ** 2
    clipped = clip_rows(rows, 0.3, "l2", -41)
    assert max(norms_of(clipped.to_doubles())) <= Fraction(0.3) ** 2
    assert min(norms_of(clipped.to_doubles())) > Fraction(0.3) ** 2 * (1 - Fraction(1, 2**37))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("d", [1, 2, 5, 300])
def test_norms_are_compared_to_the_last_step(norm: Any, d: int) -> None:
    """Around each row's own norm: one less than it is too little, itself is not."""
    rng = np.random.default_rng(d)
    for width in (3, 13, 14, 27, 28, 40):
        rows = rng.integers(-(2**width), 2**width, (20, d), endpoint=True) // math.ceil(d**0.5)
        rows[0] = 2**width // math.ceil(d**0.5)
        for row in rows:
            size = sum(abs(m) if norm == "l1" else m * m for m in map(int, row))
            for limit in {size - 1, size, size + 1} - {-1}:
                assert _too_long(row[None, :], limit, norm).tolist() == [size > limit]


def test_rows_that_rounding_left_too_long_are_shortened_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is planted: norms in doubles that come out a millionth too small."""
    true_norm = np.linalg.norm
    monkeypatch.setattr(np.linalg, "norm", lambda *a, **k: true_norm(*a, **k) * (1 - 1e-6))
    rows = np.random.default_rng(7).normal(size=(50, 4)) * 10
    assert min(norms_of(clipped_in_doubles(rows))) > 1
    clipped = clip_rows(rows, 1.0, "l2", EXPONENT).to_doubles()
    assert max(norms_of(clipped)) <= 1
    assert min(norms_of(clipped)) > 1 - Fraction(1, 2**35)
    np.testing.assert_allclose(clipped, rows / true_norm(rows, axis=1, keepdims=True), atol=2.0**-37)


def test_a_units_table_of_counts_is_within_the_bound() -> None:
    rng = np.random.default_rng(8)
    for bound in (0.3, 1.0, 1.7, 3.0):
        for norm in ("l1", "l2"):
            exponent = -41 if bound < 0.5 else -39
            for cells in rng.integers(0, 4, (40, 1, 3)):
                table = count_cells(cells, (4,), bound, norm, exponent)
                entries = [int(m) * Fraction(2) ** table.exponent for m in table.integers]
                size = sum(x if norm == "l1" else x * x for x in entries)
                limit = Fraction(bound) ** (1 if norm == "l1" else 2)
                own = np.bincount(cells.ravel(), minlength=4).tolist()
                if sum(r if norm == "l1" else r * r for r in own) <= limit:
                    assert entries == own
                else:
                    assert limit * (1 - Fraction(1, 2**36)) < size <= limit


def test_tables_of_counts_add_up_past_int64() -> None:
    """Three million units past the bound, in one cell and in two."""
    cells = np.zeros((3_000_000, 2), dtype=np.int64)
    cells[0, 1] = 1
    most = math.isqrt(2**78 // 4)  # of a cell listed twice
    two = math.isqrt(2**78 // 2)
    table = count_cells(cells, (2,), 1.0, "l2", EXPONENT)
    assert table.integers.tolist() == [(len(cells) - 1) * 2 * most + two, two]
    assert table.exponent == EXPONENT


def test_whole_sums_are_of_whole_numbers_for_any_bound() -> None:
    for bound in (2.5, 2.0**45):
        noise = DiscreteLaplace(scale=1.0, sensitivity=L1(bound))
        rows = np.array([[bound * 0.7], [1e300], [-0.5]])
        found = float(curator().release_sum(rows, bound=bound, mechanism=noise, label="x")[0])
        assert found == math.floor(found)
        assert abs(found - 1.7 * bound) <= max(3.0, bound * 2.0**-37)


@pytest.mark.parametrize("n", range(1, 60))
def test_the_root_of_a_whole_number_holds_as_many_increments(n: int) -> None:
    """Rounded down, it would leave out every unit with n increments under noise on the whole numbers."""
    bound, cells = math.sqrt(n), np.arange(n)[None, :]
    for noise in (
        DiscreteGaussian(sigma=1.0, sensitivity=L2(bound)),
        Gaussian(sigma=1.0, sensitivity=L2(bound)),
    ):
        held = curator()
        table = held.release_counts(cells, shape=(n,), bound=bound, mechanism=noise, label="x")
        assert table.tolist() == [1.0] * n
        assert Fraction(held.ledger.releases[0].mechanism.sensitivity.value) ** 2 >= n
    held = curator()
    noise = DiscreteGaussian(sigma=1.0, sensitivity=L2(bound))
    assert held.release_sum(np.ones((1, n)), bound=bound, mechanism=noise, label="x").tolist() == [1.0] * n
    assert Fraction(held.ledger.releases[0].mechanism.sensitivity.value) ** 2 >= n
    # A bound that is smaller by more than rounding stays what it is.
    less = bound * (1 - 2.0**-50)
    noise = DiscreteGaussian(sigma=1.0, sensitivity=L2(less))
    assert not curator().release_counts(cells, shape=(n,), bound=less, mechanism=noise, label="x").any()


def test_a_grid_that_is_too_fine_is_refused_before_the_ledger_is_written() -> None:
    held = curator()
    for bound in (1e-300, 2.0**-962):
        with pytest.raises(
            InvalidParameter, match=r"release 'x': a contribution bound of .*finer than 2\^-1000"
        ):
            held.release_sum(np.ones((1, 1)), bound=bound, mechanism=NOISE, label="x")
    assert not held.ledger.releases


def test_a_sum_past_every_double_is_refused_before_the_ledger_is_written() -> None:
    held = curator()
    noise = Gaussian(sigma=1.0, sensitivity=L2(1.7e308))
    with pytest.raises(InvalidParameter, match="not finite"):
        held.release_sum(np.full((3, 1), 1.7e308), bound=1.7e308, mechanism=noise, label="x")
    assert not held.ledger.releases


def test_a_value_too_large_for_its_noise_is_refused_before_the_ledger_is_written() -> None:
    noise = LiveNoise()
    header = Header(algorithm="a", unit="row", neighbouring="add-or-remove-one", noise=noise.description)
    held, large = Curator(Ledger(header), noise), 2.0**40
    calibrated = Gaussian(sigma=1.0, sensitivity=L2(large))
    refused = r"release 'x': a value of 2\^30 or more"
    with pytest.raises(InvalidParameter, match=refused):
        held.release(np.array([0.0, -large]), NOISE, label="x")
    with pytest.raises(InvalidParameter, match=refused):
        held.release_sum(np.full((3, 1), large), bound=large, mechanism=calibrated, label="x")
    assert not held.ledger.releases
    held.release(np.array([0.0, -(2.0**29)]), NOISE, label="x")
    assert held.ledger.releases[0].grid == -32
