from __future__ import annotations

import collections
import datetime as dt
import decimal
import fractions
import functools
import io
import math
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpaudit import ZCDP
from dpaudit.auditors.sameness import NotComparable, first_difference


@dataclass
class Record:
    value: float
    hidden: list[float] = field(default_factory=list, compare=False)


@dataclass(frozen=True, slots=True)
class Slotted:
    value: float


class Plain:
    def __init__(self, value: float) -> None:
        self.value = value

    def method(self) -> float:
        return self.value


class Mixed(Plain):
    __slots__ = ("extra",)

    def __init__(self, value: float) -> None:
        super().__init__(0.0)
        self.extra = value


class Named(NamedTuple):
    value: float


class Colour(Enum):
    RED = 1.5
    BLUE = 2.5


class Tagged(dict):  # type: ignore[type-arg]
    tag = 0.0


def tagged(value: float) -> Tagged:
    made = Tagged(a=1)
    made.tag = value
    return made


def closure(value: float) -> Any:
    return lambda state: state + value


def default(value: float) -> Any:
    def policy(state: float, *, shift: float = value) -> float:
        return state + shift

    return policy


def hidden_in(value: float) -> Record:
    record = Record(0.0)
    record.secret = value  # type: ignore[attr-defined]
    return record


MAKERS = {
    "float": float,
    "numpy scalar": np.float32,
    "complex": lambda v: complex(0.0, v),
    "string": str,
    "bytes": lambda v: str(v).encode(),
    "array": lambda v: np.full((2, 2), v),
    "fortran array": lambda v: np.asfortranarray(np.full((2, 2), v)),
    "object array": lambda v: np.array([None, [v]], dtype=object),
    "structured array": lambda v: np.array([(1, v)], dtype=[("a", "i8"), ("b", "f8")]),
    "masked array": lambda v: np.ma.array([1.0, 2.0], mask=[v > 2.0, False]),
    "mask over equal fill": lambda v: np.ma.array([9.0, 2.0], mask=[v > 2.0, False], fill_value=9.0),
    "list": lambda v: [v],
    "tuple": lambda v: (1, (v,)),
    "dict": lambda v: {"a": {"b": v}},
    "dict key": lambda v: {v: 1},
    "ordered": lambda v: collections.OrderedDict(a=v),
    "deque": lambda v: collections.deque([v]),
    "set": lambda v: {v, "x"},
    "frozenset": lambda v: frozenset([v]),
    "named tuple": Named,
    "enum": Colour,
    "dataclass": Record,
    "dataclass field left out of comparison": lambda v: Record(0.0, [v]),
    "attribute beyond the fields": hidden_in,
    "slots": Slotted,
    "object": Plain,
    "slots beside attributes": Mixed,
    "attribute of a dictionary": tagged,
    "model": lambda v: ZCDP(rho=v),
    "closure": closure,
    "default": default,
    "partial": lambda v: functools.partial(closure, v),
    "method": lambda v: Plain(v).method,
    "error": ValueError,
    "file": lambda v: io.BytesIO(str(v).encode()),
    "fraction": fractions.Fraction,
    "decimal": decimal.Decimal,
    "time": dt.timedelta,
    "generator": lambda v: np.random.default_rng(int(2 * v)),
    "iterator": lambda v: iter([v]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_holds_another_number_differs_and_its_twin_does_not(name: str) -> None:
    make = MAKERS[name]
    assert first_difference(make(1.5), make(1.5)) is None
    place = first_difference(make(1.5), make(2.5))
    assert place is not None
    assert place.startswith("output")


@pytest.mark.parametrize(
    "bits",
    [
        (0.0, -0.0),
        (np.zeros(2), -np.zeros(2)),
        ([0.0], [-0.0]),
        ({0.0}, {-0.0}),
        ({0.0: 1}, {-0.0: 1}),
        (complex(0.0, 0.0), complex(0.0, -0.0)),
        (1.0, math.nextafter(1.0, 2.0)),
        (1, 1.0),
        (1, True),
        ({1: 0}, {True: 0}),
        ({1}, {True}),
        (1.0, np.float64(1.0)),
        ([1], (1,)),
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        ([1], [1, 2]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (None, 0),
        (lambda x: x, lambda x: x + 1),
    ],
)
def test_what_only_compares_equal_differs(bits: tuple[Any, Any]) -> None:
    assert first_difference(*bits) is not None


def test_nan_is_itself_and_no_other_nan() -> None:
    assert first_difference(math.nan, math.nan) is None
    assert first_difference(np.full(3, np.nan), np.full(3, np.nan)) is None
    payload = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)
    assert first_difference(np.array([np.nan]), payload) is not None
    assert first_difference({math.nan: 1}, {float("nan"): 1}) is None


def test_the_place_is_named_without_its_content() -> None:
    one = {"policy": [Record(1.0), Record(123.25)]}
    two = {"policy": [Record(1.0), Record(456.75)]}
    assert first_difference(one, two) == "output['policy'][1].value"


def test_what_contains_itself_is_not_comparable_and_does_not_crash() -> None:
    def looped(kind: str) -> Any:
        if kind == "list":
            made: Any = []
            made.append(made)
        elif kind == "dict":
            made = {}
            made["self"] = made
        elif kind == "object":
            made = Plain(0.0)
            made.value = made
        elif kind == "array":
            made = np.empty(1, dtype=object)
            made[0] = made
        else:

            def made(n: int) -> int:
                return made(n - 1) if n else 0

        return made

    for kind in ("list", "dict", "object", "array", "function"):
        with pytest.raises(NotComparable, match="contains itself"):
            first_difference(looped(kind), looped(kind))


def test_what_cannot_be_looked_into_is_not_comparable() -> None:
    class Local:
        pass

    one = Local

    class Local:  # type: ignore[no-redef]
        pass

    for value, other in (
        ((x for x in [1]), (x for x in [1])),
        (functools.lru_cache(closure(1.0)), functools.lru_cache(closure(2.0))),
        (one(), Local()),
        ({(1.0,)}, {(1.0,)}),
    ):
        with pytest.raises(NotComparable):
            first_difference([value], [other])


def test_a_variable_never_assigned_is_no_crash() -> None:
    def made() -> Any:
        if not made:
            later = 1
        return lambda: later

    assert first_difference(made(), made()) is None


def test_large_arrays_are_compared_quickly() -> None:
    one = np.arange(5_000_000, dtype=np.float64)
    two = one.copy()
    start = time.perf_counter()
    assert first_difference(one, two) is None
    two[-1] += 1
    assert first_difference(one, two) == "output"
    assert time.perf_counter() - start < 5.0
