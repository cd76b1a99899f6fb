"""More rows of one record each: functions that look elsewhere, records of other types, a table's numbers."""

# ruff: noqa: DTZ001, DTZ007, DTZ011, S311

from __future__ import annotations

import collections
import datetime as dt
import itertools
import operator
import random
import re
import string
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

import dpaudit
from dpaudit import ZCDP, Curator, Ledger, NoNoise, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.ledger.header import Header
from tests.seams.case import Case
from tests.seams.mapping import CLAIM, FINE, LOOKS, MEAN, NUMBERS, SEEN, basis, number, summed

Person = collections.namedtuple("Person", "age year")  # noqa: PYI024


@dataclass
class Visit:
    year: float


class Scaler:
    def __init__(self) -> None:
        self.mean = MEAN

    def transform(self, record: Any) -> Any:
        return record - self.mean


SCALER = Scaler()
LIMIT = 3.0
COUNTED = itertools.count()
PATTERN = re.compile(str(MEAN))


def attribute(record: Any) -> Any:
    attribute.count = getattr(attribute, "count", 0) + 1  # type: ignore[attr-defined]
    return attribute.count  # type: ignore[attr-defined]


def total(record: Any, before: list[Any] = []) -> Any:  # noqa: B006
    before.append(record)
    return sum(before)


def redefined(record: Any) -> Any:
    return record


_first = redefined


def redefined(record: Any) -> Any:  # type: ignore[no-redef]
    return _first(record) / MEAN


def class_inside(record: Any) -> Any:
    class Inside:
        mean = MEAN

    return record - Inside.mean


def any_error(record: Any) -> Any:
    try:
        return len(bytearray(10**13))
    except Exception:  # noqa: BLE001
        return 0.0


def where_raised(record: Any) -> Any:
    try:
        return float("x" + str(record))
    except ValueError as error:
        return len(error.__traceback__.tb_frame.f_globals)  # type: ignore[union-attr]


def matched(record: Any) -> Any:
    match record:
        case string.digits:
            return 1.0
        case _:
            return 0.0


LOOKING: dict[str, Any] = {
    "a fitted scaler's method": SCALER.transform,
    "a scaler in the module": lambda record: SCALER.transform(record),  # noqa: PLW0108
    "a list's own method": [1.0, 2.0, MEAN].index,
    "a dictionary's own method": {1.0: MEAN}.get,
    "a method with the mean as its argument": operator.methodcaller("__sub__", MEAN),
    "a function's own attribute": attribute,
    "a default that grows": total,
    "a name that is bound twice": lambda record: redefined(record),  # noqa: PLW0108
    "a counter in the module": lambda record: next(COUNTED),
    "a pattern made of the mean": lambda record: len(PATTERN.pattern),
    "a class that knows the mean": class_inside,
    "every error": any_error,
    "the frame of an error": where_raised,
    "a case of a module's name": matched,
    "numpy's vectorize over the mean": np.vectorize(lambda record: record - MEAN),
    "a module's generator": lambda record: random.random(),
    "the clock": lambda record: time.perf_counter(),
    "today": lambda record: dt.date.today().toordinal(),
    "the name of a weekday": lambda record: dt.datetime(2020, 1, 1).strftime("%A"),
    "an array resized": lambda record: np.resize(record, 3)[2] - np.ndarray((1,))[0],
    "the first of a frozen set": lambda record: len(next(iter(frozenset(("a", "bb"))))),
    "a text that names a function": lambda record: len(f"{attribute}"),
}


def one_hot(record: Any) -> Any:
    row = [0.0, 0.0]
    row[("a", "b").index(record)] = 1.0
    return sum(row)


def discounted(record: Any) -> Any:
    found, factor = 0.0, 1.0
    for _, reward in record:
        found += factor * max(-1.0, min(1.0, reward))
        factor *= 0.5
    return found


def logistic(record: Any) -> Any:
    x, y = record
    return 1.0 / (1.0 + np.exp(-np.dot(x, np.array([0.5, 0.5])))) - y


INNOCENT: dict[str, tuple[Any, Any]] = {
    "one of several words": (one_hot, "a"),
    "a discounted return": (discounted, [(0, 1.0), (1, -3.0)]),
    "a residual": (logistic, ([1.0, 2.0], 1)),
    "a line of a file": (lambda record: float(record.split(",")[1]), "a,0.5"),
    "a literal dictionary": (lambda record: {"a": 0.1}.get(record, 0.0), "a"),
    "literal bins": (lambda record: np.digitize(record, [0, 18, 40]) / 3, 20),
}
ORDINARY: dict[str, tuple[Any, Any]] = {
    "a module's constant": (lambda record: min(record, LIMIT) / 3.0, 2.0),
    "a date in text": (lambda record: dt.datetime.strptime(record, "%Y-%m-%d").year / 1e4, "2020-01-01"),
    "a regular expression": (lambda record: len(re.findall(r"\d", record)) / 9, "a1b2"),
}


def year(record: Any) -> Any:
    return record.year / 1000


def summed_up(function: Callable[[Any], Any], record: Any) -> Callable[[], str]:
    """What is told of a thousand records of one type, each of which counts 1."""

    def verdict() -> str:
        pair = dpaudit.Pair([record] * 50, [record] * 49 + [0.0], "one row", unit=49)
        try:
            made = dpaudit.certify(
                summed(function), [record] * 1000, claim=CLAIM, pairs=pair, in_process=False, curves=False
            )
            output = dpaudit.run(summed(function), [record] * 1000, claim=CLAIM).output
        except dpaudit.DpauditError as error:
            return f"{error.code} {error.what}; {error.remedy}"
        words = "publishable" if made.publishable else "withheld"
        return f"{made.proof}, {made.experiment}, {words}, about {round(float(output), -2):g}, mapped"

    return verdict


FRAME = pd.DataFrame({"u": [1, 2, 3, 4], "v": [0.5, 0.5, 0.5, 0.5]})
RHO, EPSILON = ZCDP(rho=1.0), PureDP(epsilon=1.0)
TABLES: dict[str, Callable[[Any, Any], Any]] = {
    "bound": lambda table, one: table.bound(rows_per_unit=one).count(cost=RHO),
    "sum": lambda table, one: table.bound(rows_per_unit=1).sum("v", lower=0, upper=one, cost=RHO),
    "mean": lambda table, one: table.bound(rows_per_unit=1).mean("v", lower=0, upper=one, cost=RHO) * 4,
    "histogram": lambda table, one: table.bound(rows_per_unit=1).histogram("v", edges=[0, one, 2], cost=RHO)[
        0
    ],
    "quantile": lambda table, one: table.bound(rows_per_unit=1).quantile(
        "v", one, lower=0, upper=1, cost=EPSILON
    ),
}


def asked(name: str, one: Any) -> Callable[[], str]:
    """What a table of four rows of 0.5 answers where a number of another type is given."""

    def verdict() -> str:
        header = Header(algorithm="x", unit="u", neighbouring=Neighbouring.REPLACE_ONE)
        table = Curator(Ledger(header), NoNoise()).table(FRAME, unit="u")
        try:
            return f"about {float(TABLES[name](table, one)):.3g}"
        except dpaudit.DpauditError as error:
            return f"{error.code} {error.what}; {error.remedy}"
        except TypeError:
            return traceback.format_exc()

    return verdict


DAY = np.timedelta64(1, "D")
UNLIKE = "records of another type"
CASES = [
    *(Case(LOOKS, name, True, basis(function), SEEN) for name, function in LOOKING.items()),
    *(Case(LOOKS, name, False, basis(*given), "mapped") for name, given in INNOCENT.items()),
    *(Case(LOOKS, name, False, basis(*given), "clipped") for name, given in ORDINARY.items()),
    Case(
        UNLIKE, "named tuples by place", True, summed_up(operator.itemgetter(0), Person(1.0, 7)), FINE + ".*"
    ),
    Case(UNLIKE, "named tuples by name", True, summed_up(year, Person(0.5, 1000.0)), FINE + "mapped"),
    Case(
        UNLIKE,
        "a frame's rows",
        True,
        summed_up(lambda r: r["v"] * 2, FRAME.iloc[0]),
        r"DPA101 .*Series; .*to_dict.*",
    ),
    Case(UNLIKE, "dataclasses", True, summed_up(year, Visit(1000.0)), r"DPA101 .*Visit; .*asdict.*"),
    Case(UNLIKE, "dates", False, summed_up(lambda r: r.year / 1000, dt.date(1000, 1, 1)), FINE + "mapped"),
    *(
        Case(NUMBERS, f"{name} of a table with {type(one).__name__} {one}", True, asked(name, one), expected)
        for name, one, expected in (
            ("bound", DAY, r"DPA101 .* not a whole number.*"),
            ("sum", DAY, r"DPA101 .* is not a number; .*"),
            ("sum", Decimal("1.0"), r"DPA101 .*Decimal is not a number; .*"),
            ("sum", np.float32(1.0), "about 2"),
            ("sum", np.float32("inf"), r"DPA101 upper = .*inf.*; give a public number, at most .*"),
            ("mean", np.float16("inf"), r"DPA101 upper = .*inf.*; give a public number, at most .*"),
            ("mean", np.uint8(1), "about 2"),
            ("mean", 10**400, r"DPA101 upper = 1.*; give a public number, at most .*"),
            ("histogram", Fraction(1, 3), "about 0"),
            ("histogram", DAY, r"DPA101 .* is not a number; .*"),
            ("quantile", np.array(0.5), r"DPA101 .* is not a number; .*"),
            ("quantile", Fraction(1, 3), r"about \S+"),
        )
    ),
    Case(NUMBERS, "a sum of a table up to 1.0", False, asked("sum", 1.0), "about 2"),
    Case(NUMBERS, "a bound of a day", True, number(DAY), r"DPA101 .* is not a number; .*"),
    Case(
        NUMBERS, "a bound of ten to the 400", True, number(10**400), r"DPA101 .* too large; give a number .*"
    ),
]
