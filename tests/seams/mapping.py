"""Rows of one record each: records that have no row, functions that look elsewhere, odd numbers and masks."""

# ruff: noqa: NPY002, PTH116

from __future__ import annotations

import decimal
import fractions
import gc
import math
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dpaudit
from dpaudit import L2, ZCDP, Claim, Curator, Gaussian, Ledger, NoNoise, Pair
from dpaudit.certificate.conditions import Code
from dpaudit.ledger.header import Header
from tests.certified import certified
from tests.seams.case import Case

CLAIM = Claim(ZCDP(rho=0.5), unit="row", neighbouring="replace-one")
NOISE = Gaussian(sigma=2.0, sensitivity=L2(2.0))
ONES = ["1"] * 1000
PAIR = Pair(ONES, ["-1", *ONES[1:]], "one row", unit=0)
ODD = "n/a"
RAW = (1.0, 2.0, 3.0, 1000.0)
MEAN = float(np.mean(RAW))
ALL_RECORDS = list(RAW)


def summed(function: Callable[[Any], Any]) -> Any:
    def total(records: Any, curator: Curator) -> Any:
        return curator.release_sum(records, map=function, bound=1.0, mechanism=NOISE, label="total")

    return total


def told(function: Callable[[Any], Any], record: str = ODD) -> str:
    """What the holder of 1,000 records is told, one of which is odd."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The suite runs targets in its own process unless it is told otherwise.
        made = certified(
            summed(function), [record, *ONES[1:]], claim=CLAIM, pairs=PAIR, in_process=False, curves=False
        )
    found = made.certificate
    near = round(float(made.run.output), -2)  # the noise's deviation is 2
    alone = Code.MAPPED_RECORDS in {condition.code for condition in found.not_checked}
    words = "publishable" if found.publishable else "withheld"
    return f"{found.proof}, {found.experiment}, {words}, about {near:g}, {'mapped' if alone else 'clipped'}"


def odd(act: Callable[[], Any]) -> Callable[[], str]:
    """One record's function does something else; a function with a closure is not mapped."""
    return lambda: told(lambda record: act() if record == ODD else float(record))


def raises(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


def recurses() -> Any:
    return recurses()


calls: list[None] = []


def differs() -> Any:
    calls.append(None)
    return float(len(calls) % 2)


def basis(function: Any, record: Any = 1.0) -> Callable[[], str]:
    """What the ledger says of the rows that a function makes."""

    def verdict() -> str:
        curator = Curator(Ledger(Header(algorithm="x", unit="row", neighbouring="replace-one")), NoNoise())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                curator.release_sum([record], map=function, bound=1.0, mechanism=NOISE, label="x", shape=())
            except dpaudit.DpauditError as error:
                return f"refused as {error.what}"
        return str(curator.ledger.releases[0].mechanism.sensitivity.basis)  # type: ignore[union-attr]

    return verdict


def helper(record: Any) -> Any:
    return record - MEAN


def clamp(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def parsed(record: Any) -> Any:
    try:
        return clamp(float(record))
    except ValueError:
        return 0.0


KEPT = np.sin if MEAN > 1.0 else np.cos
LOOKING: dict[str, Any] = {
    "a ufunc of a Python function over the mean": np.frompyfunc(lambda record: record - MEAN, 1, 1),
    "the caller's variables": lambda record: len(sys._getframe().f_back.f_locals),  # type: ignore[union-attr]
    "all objects in memory": lambda record: len(gc.get_objects()),
    "a file's size": lambda record: os.stat(__file__).st_size,
    "the context of decimals": lambda record: decimal.getcontext().prec,
    "numpy's handling of errors": lambda record: len(np.geterr()["over"]),
    "a file in memory": lambda record: float(np.lib.format.open_memmap("rows.npy")[0]),
    "a mean in the module": lambda record: record - MEAN,
    "a list in the module": lambda record: sum(ALL_RECORDS),
    "a helper that knows the mean": lambda record: helper(record),  # noqa: PLW0108
    "a function that the data chose": lambda record: KEPT(record),  # noqa: PLW0108
    "a text that holds the mean": eval(f"lambda record: record - {MEAN}"),  # noqa: S307
    "what an earlier array left in memory": lambda record: np.empty(1)[0],
    "where a ufunc computes nothing": lambda record: np.log(record, where=record > 1e9),
    "an address": lambda record: id(record) % 7,
    "the order of a set": lambda record: list({record, record + 1})[0],  # noqa: RUF015
    "numpy's shared generator": lambda record: np.random.random(),
}
INNOCENT: dict[str, tuple[Any, Any]] = {
    "float": (float, "1"),
    "two helpers of one module": (parsed, "1"),
    "a clip by numpy": (lambda record: np.clip(record, 0.0, 1.0), 1.0),
    "a field of a record": (lambda record: min(record["age"], 5) / math.pi, {"age": 7}),
    "the number of different words": (lambda record: len(set(record.lower().split())), "a b a"),
}


def number(bound: Any) -> Callable[[], str]:
    """What is told of ten rows of 1 that are added up under a bound of 1."""

    def verdict() -> str:
        curator = Curator(Ledger(Header(algorithm="x", unit="row", neighbouring="replace-one")), NoNoise())
        try:
            released = curator.release_sum(np.ones(10), bound=bound, mechanism=NOISE, label="x")
        except dpaudit.DpauditError as error:
            return f"{error.code} {error.what}; {error.remedy}"
        return f"about {float(released):.3g}"

    return verdict


def masked(rows: Any) -> Callable[[], str]:
    def verdict() -> str:
        curator = Curator(Ledger(Header(algorithm="x", unit="row", neighbouring="replace-one")), NoNoise())
        try:
            released = curator.release_sum(rows, bound=1.0, mechanism=NOISE, label="x")
        except dpaudit.DpauditError as error:
            return f"{error.code} {error.what}; {error.remedy}"
        return f"about {float(np.sum(released)):.3g}"

    return verdict


SEEN = r"clipped|refused as a function that returns another row.*"
FINE = r"PROVED, NOT_REFUTED, publishable, about 1000, "
FAILING: dict[str, Callable[[], Any]] = {
    "an exception": raises(RuntimeError("1 of 1000")),
    "an exit": raises(SystemExit(0)),
    "ten to the 400": lambda: 10**400,
    "not a number": lambda: math.nan,
    "an overflow": lambda: math.exp(1e6),
    "two numbers": lambda: [1.0, 1.0],
    "a huge array": lambda: np.broadcast_to(1.0, (10**12,)),
    "too much memory": lambda: np.ones(10**14),
    "a recursion": recurses,
    "another number each time": differs,
    "a complex number": lambda: 1j,
}
THIRD = fractions.Fraction(1, 3)
MASK = np.ma.array([1.0, 1.0, 9.0], mask=[False, False, True])
STOPS, LOOKS, NUMBERS, MASKS = (
    "a record stops a mapped sum",
    "map= is believed too easily",
    "a number of another type",
    "a mask is lost",
)
CASES = [
    Case(STOPS, "float of n/a", True, lambda: told(float), FINE + "mapped"),
    Case(STOPS, "float of a thousand numbers", False, lambda: told(float, "1"), FINE + "mapped"),
    *(
        Case(STOPS, f"one record gives {name}", True, odd(act), FINE + "clipped", nightly=i > 2)
        for i, (name, act) in enumerate(FAILING.items())
    ),
    Case(STOPS, "one record gives 1 by another way", False, odd(lambda: 1.0), FINE + "clipped"),
    *(Case(LOOKS, name, True, basis(function), SEEN) for name, function in LOOKING.items()),
    *(Case(LOOKS, name, False, basis(*given), "mapped") for name, given in INNOCENT.items()),
    *(
        Case(NUMBERS, f"a bound of 1 in {type(one).__name__}", True, number(one), "about 10")
        for one in (np.int64(1), np.int8(1), np.uint64(1), np.int32(1), np.float32(1), np.longdouble(1))
    ),
    Case(NUMBERS, "a bound of 1", False, number(1.0), "about 10"),
    Case(
        NUMBERS,
        "a bound of one third",
        True,
        number(fractions.Fraction(1, 3)),
        r"DPA101 .*not a double; give .*",
    ),
    Case(NUMBERS, "a bound of True", True, number(True), r"DPA101 True.* is not a number; give a number"),
    Case(NUMBERS, "a bound in an array", True, number(np.array(1.0)), r"DPA101 .*; give a number"),
    Case(MASKS, "a masked array", True, masked(MASK), r"DPA101 a masked array; give array\.filled\(0\).*"),
    Case(MASKS, "masked rows in a list", True, masked([MASK, MASK]), r"DPA101 a masked array; .*filled.*"),
    Case(MASKS, "a masked number", True, masked([1.0, np.ma.masked]), r"DPA101 a masked array; .*filled.*"),
    Case(MASKS, "masked values filled in", False, masked(MASK.filled(0)), "about 2"),
]
