"""Gradients that are rounded by place and number, as libraries round them: no record changes another's."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dpaudit.training.gradients import add_one_by_one, gradients
from tests.make import curator

RECORDS = np.random.default_rng(0).normal(size=(40, 3))
RECORDS[30:34] = RECORDS[3]  # equal ones
RECORDS[34:38] = 0.0


class Kept:
    """In place of batches: the rows that were added, to the last digit."""

    def __init__(self) -> None:
        self.rows: Counter[bytes] = Counter()
        self.computed: set[int] = set()

    def add(self, rows: Any) -> None:
        self.rows.update(row.tobytes() for row in rows)

    def rounded(self, records: Any, positions: Any) -> Any:
        """Rows that are rounded by their place in a computation, and by how many are in it."""
        self.computed.add(len(positions))
        place = np.arange(len(positions))[:, None]
        return records[positions] * (1.0 + 2.0**-40 * place + 2.0**-30 * len(positions))


def one_by_one(records: Any, together: int) -> Kept:
    kept: Any = Kept()
    contents = [record.tobytes() for record in records]
    add_one_by_one(kept, contents, together, lambda positions: kept.rounded(records, positions))
    assert kept.computed <= {together}
    return kept


def in_order(records: Any, together: int) -> Kept:
    """The fault: blocks are filled in order, and the last one is shorter."""
    kept: Any = Kept()
    for first in range(0, len(records), together):
        kept.add(kept.rounded(records, np.arange(first, min(first + together, len(records)))))
    return kept


@pytest.mark.parametrize("together", [1, 4, 64])
@pytest.mark.parametrize("without", [[0], [3], [30], [37], [39], range(20), range(40)])
def test_a_record_that_is_taken_out_takes_its_own_row_alone(together: int, without: Sequence[int]) -> None:
    whole = one_by_one(RECORDS, together).rows
    less = one_by_one(np.delete(RECORDS, list(without), axis=0), together).rows
    assert whole.total() == 40
    assert (whole - less).total() == len(without)
    assert not less - whole


def test_rows_are_those_of_their_records() -> None:
    for together in (1, 4, 64):
        found = sorted(np.frombuffer(row).tolist() for row in one_by_one(RECORDS, together).rows.elements())
        assert np.asarray(found) == pytest.approx(np.asarray(sorted(RECORDS.tolist())), rel=1e-6)


@pytest.mark.parametrize("together", [4, 64])
def test_blocks_in_order_move_the_rows_of_others(together: int) -> None:
    """So the fault is seen by what the tests above look at."""
    whole, less = in_order(RECORDS, together).rows, in_order(RECORDS[1:], together).rows
    assert (whole - less).total() > 10


@pytest.mark.parametrize(("declared", "moves"), [(False, 0.5), (True, 0.505)])
def test_what_is_not_proved_is_declared(declared: bool, moves: float) -> None:
    own = curator()
    stated: Any = {"rate": 0.5, "bound": 0.5, "noise_multiplier": 2.0, "label": "g", "declared": declared}
    sensitivity = gradients(own, 3, **stated).mechanism.declared_sensitivity
    assert sensitivity is not None
    assert (sensitivity.value, sensitivity.basis) == (moves, "declared" if declared else "clipped")
