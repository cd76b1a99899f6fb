"""A record that stops the run: whether its output is published would tell that the record is there."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dpaudit
from dpaudit import L2, ZCDP, Claim, Curator, Gaussian, Pair, RunDiverged
from dpaudit.certificate.conditions import Code
from dpaudit.processes.host import Limits
from tests.seams.case import Case

CLAIM = Claim(ZCDP(rho=0.5), unit="row", neighbouring="replace-one")
NOISE = Gaussian(sigma=2.0, sensitivity=L2(2.0))
ONES = ["1"] * 1000
PAIR = Pair(ONES, ["-1", *ONES[1:]], "one row", unit=0)
#: The run on the data is over well before; a record that sleeps is not.
LIMITS = Limits(timeout=20.0, memory=4 << 30)


def a_sum(numbers: Callable[[Any], Any]) -> Any:
    """The sum of 1,000 records, which the algorithm turns into numbers by itself."""

    def total(records: Any, curator: Curator) -> Any:
        rows = np.reshape(numbers(records), (-1, 1))
        return curator.release_sum(rows, bound=1.0, mechanism=NOISE, label="total")

    return total


def told(target: Any, record: str | None = None) -> str:
    """What the holder of 1,000 records is told, one of which may be another than "1"."""
    data = ONES if record is None else [record, *ONES[1:]]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        # The suite runs targets in its own process unless it is told otherwise.
        made = dpaudit.certify(target, data, claim=CLAIM, pairs=PAIR, in_process=False, limits=LIMITS)
    warned = [str(one.message) for one in seen if issubclass(one.category, RunDiverged)]
    listed = Code.RECORDS_STOP_NOTHING in {condition.code for condition in made.not_checked}
    words = f"{made.proof}, {made.experiment}, {'' if listed else 'not '}listed"
    assert "n/a" not in "".join(warned)
    if made.publishable:
        return f"{words}, publishable"
    return f"{words}, withheld: {'; '.join(made.against_publishing)}, {len(warned)} warning"


def stopped_by(record: str, act: Callable[[], Any]) -> Callable[[], str]:
    def numbers(records: Any) -> Any:
        return [act() if one == record else float(one) for one in records]

    return lambda: told(a_sum(numbers), record)


def exits() -> Any:
    os._exit(0)


def waits() -> Any:
    time.sleep(3600.0)


def recurses() -> Any:
    return recurses()


def one_more(records: Any, curator: Curator) -> Any:
    noisy = a_sum(lambda rows: np.ones(len(rows)))(records, curator)
    return noisy if "n/a" not in records else a_sum(lambda rows: np.ones(len(rows)))(records, curator)


def forgiving(records: Any) -> Any:
    """A record that is no number counts as 0."""

    def number(one: str) -> float:
        try:
            return float(one)
        except ValueError:
            return 0.0

    return [number(one) for one in records]


WITHHELD = r"PROVED, NOT_REFUTED, listed, withheld: its run on the data diverged from its twin's.*, 1 warning"
FINE = r"PROVED, NOT_REFUTED, listed, publishable"
KIND = "a record stops the run"

CASES = [
    Case(
        KIND,
        "no number outside map=",
        True,
        lambda: told(a_sum(lambda r: list(map(float, r))), "n/a"),
        WITHHELD,
    ),
    Case(KIND, "1,000 numbers", False, lambda: told(a_sum(lambda r: list(map(float, r)))), FINE),
    Case(KIND, "no number, counted as 0", False, lambda: told(a_sum(forgiving), "n/a"), FINE),
    Case(KIND, "one record sleeps", True, stopped_by("n/a", waits), WITHHELD, nightly=True),
    Case(KIND, "one record exits with success", True, stopped_by("n/a", exits), WITHHELD),
    Case(KIND, "one record is 10**400", True, stopped_by("n/a", lambda: 10**400), WITHHELD),
    Case(KIND, "one record is two numbers", True, stopped_by("n/a", lambda: (1.0, 1.0)), WITHHELD),
    Case(KIND, "one record recurses", True, stopped_by("n/a", recurses), WITHHELD),
    Case(KIND, "one record fills the memory", True, stopped_by("n/a", lambda: np.ones(10**11)), WITHHELD),
    Case(KIND, "one record asks for a release more", True, lambda: told(one_more, "n/a"), WITHHELD),
]
