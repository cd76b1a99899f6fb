from __future__ import annotations

import collections
import datetime as dt
import decimal
import fractions
import functools
import io
import math
import weakref
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpaudit import ZCDP
from dpaudit.auditors.comparison.output_comparison import NotComparable, first_difference
from dpaudit.auditors.comparison.value_state import entries


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


class Number(float):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


class Text(str):  # noqa: SLOT000  (its attributes are what is planted)
    pass


class Items(list):  # type: ignore[type-arg]
    pass


class Members(set):  # type: ignore[type-arg]
    pass


class SlottedDict(dict):  # type: ignore[type-arg]
    __slots__ = ("extra",)


class SlottedMapping(collections.abc.Mapping):  # type: ignore[type-arg]
    __slots__ = ("extra",)

    def __init__(self, value: float) -> None:
        self.extra = value

    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Child:
    def __init__(self, parent: Parent, value: float) -> None:
        self.parent = weakref.ref(parent)
        self.value = value


class Parent:
    def __init__(self, value: float) -> None:
        self.children = [Child(self, 0.0), Child(self, value)]


def with_attribute(made: Any, value: float) -> Any:
    made.extra = value
    return made


def namespaced(value: float) -> Any:
    space: dict[str, Any] = {"table": [value]}
    exec("def policy(state):\n    return table[state]", space)  # noqa: S102  (a module of its own)
    return space["policy"]


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
    "factory of a defaultdict": lambda v: collections.defaultdict(closure(v)),
    "length of a deque": lambda v: collections.deque([1], maxlen=int(2 * v)),
    "attribute of a float": lambda v: with_attribute(Number(0.5), v),
    "attribute of a string": lambda v: with_attribute(Text("a"), v),
    "value of a float that says it is equal": Number,
    "slot of a dictionary": lambda v: with_attribute(SlottedDict(a=1), v),
    "slot of a mapping": SlottedMapping,
    "attribute of a list": lambda v: with_attribute(Items([1]), v),
    "attribute of a set": lambda v: with_attribute(Members({1}), v),
    "metadata of an array": lambda v: np.zeros(2, dtype=np.dtype("f8", metadata={"raw": v})),
    "metadata of a field": lambda v: np.zeros(
        2, dtype=[("a", np.dtype("f8", metadata={"raw": v})), ("b", "i8")]
    ),
    "metadata of a type": lambda v: np.dtype("f8", metadata={"raw": v}),
    "base of a view": lambda v: np.array([1.0, v])[:1],
    "base of a view of a view": lambda v: np.array([[1.0, 2.0], [3.0, v]])[0][:1],
    "base of bytes": lambda v: np.frombuffer(b"12345678" + str(v).encode(), dtype=np.uint8, count=8),
    "child of a parent": Parent,
    "weak reference": lambda v: (kept := Plain(v), weakref.ref(kept)),
    "global of another namespace": namespaced,
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


TABLE = [1.0]
CONSTANT = 3.0
REBOUND = 3.0


def policies() -> dict[str, Any]:
    def mutable(state: int) -> float:
        return TABLE[state]

    def rebound(state: int) -> float:
        return REBOUND * state

    def inside(state: int) -> Any:
        return lambda: TABLE[state]

    def through_a_class(state: int) -> Any:
        return Plain.method

    def through_another(state: int) -> float:
        return reads_the_table(state)

    def constant(state: int) -> float:
        return max(CONSTANT, math.pi) * float(np.sqrt(state)) * recursive(2)

    return locals()


def rebind(value: float) -> None:
    global REBOUND  # noqa: PLW0603  (what is planted)
    REBOUND = value


def reads_the_table(state: int) -> float:
    return TABLE[state]


def recursive(n: int) -> int:
    return recursive(n - 1) if n else 0


def remembers(state: float, memory: list[float] = []) -> float:  # noqa: B006  (what is planted)
    return memory[0] + state


def test_globals_that_a_run_may_have_changed_are_not_comparable() -> None:
    for name, policy in policies().items():
        if name == "constant":
            assert first_difference(policy, policies()[name]) is None
            continue
        with pytest.raises(NotComparable, match="global"):
            first_difference(policy, policies()[name])


def test_what_one_function_carries_for_both_runs_is_not_comparable() -> None:
    assert first_difference(recursive, recursive) is None
    with pytest.raises(NotComparable, match="one function in both runs"):
        first_difference(remembers, remembers)


def test_a_difference_is_reported_beside_what_cannot_be_compared() -> None:
    def hidden() -> Any:
        return (x for x in [1])

    for make in (
        lambda v: [hidden(), v],
        lambda v: [hidden(), functools.lru_cache(closure(v))],
        lambda v: {"a": hidden(), "b": v},
        lambda v: Record(hidden(), [v]),
        lambda v: with_attribute(Items([hidden()]), v),
        lambda v: [[hidden()], [[hidden(), v]]],
    ):
        place = first_difference(make(1.0), make(2.0))  # type: ignore[no-untyped-call]
        assert place is not None
        with pytest.raises(NotComparable, match="generator"):
            first_difference(make(1.0), make(1.0))  # type: ignore[no-untyped-call]


def test_tables_of_pandas() -> None:
    import pandas as pd

    def attributed(value: float) -> Any:
        frame = pd.DataFrame({"a": [1.0]})
        frame.attrs["raw"] = value
        return frame

    def accessed(value: float) -> Any:
        frame = pd.DataFrame({"a": [value], "b": ["x"]})
        _ = frame["a"], frame.groupby("b").sum()  # fills caches
        return frame

    makers: list[Any] = [
        lambda v: pd.DataFrame({"a": [1.0, v]}),
        lambda v: pd.DataFrame({"a": [1.0, 2.0]}, index=[0.0, v]),
        lambda v: pd.DataFrame({str(v): [1.0, 2.0]}),
        lambda v: pd.DataFrame({"a": ["x", str(v)]}),
        lambda v: pd.DataFrame({"a": pd.Categorical([str(v)])}),
        lambda v: pd.DataFrame({"a": [0]}, dtype="Int64" if v > 2 else "int64"),
        lambda v: pd.DataFrame({"a": [1.0, None, v]}, dtype="Float64"),
        lambda v: pd.Series([v]),
        lambda v: pd.Series([1.0], name=v),
        lambda v: pd.Series([0.0 if v > 2 else -0.0]),
        lambda v: pd.to_datetime(["2020-01-01"]) + pd.Timedelta(hours=v),
        lambda v: pd.Index([v], name="a"),
        lambda v: pd.RangeIndex(int(2 * v)),
        lambda v: pd.MultiIndex.from_tuples([(1, v)], names=["a", "b"]),
        attributed,
        accessed,
    ]
    for make in makers:
        assert first_difference(make(1.5), make(1.5)) is None
        assert first_difference(make(1.5), make(2.5)) is not None


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
        (functools.lru_cache(closure(1.0)), functools.lru_cache(closure(1.0))),
        (Plain, Plain),
        ([(x for x in [1])], [(x for x in [1])]),
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


def test_large_arrays_are_compared_whole(python_calls: Any) -> None:
    one = np.arange(5_000_000, dtype=np.float64)
    two = one.copy()
    assert python_calls(lambda: first_difference(one, two)) < 1_000
    assert first_difference(one, two) is None
    two[-1] += 1
    assert first_difference(one, two) == "output"


def test_bytes_between_fields_are_neither_the_same_nor_a_difference() -> None:
    kind = np.dtype([("node", np.int64), ("left", np.uint8)], align=True)

    def rows(between: int, left: int) -> Any:
        raw = np.full(2 * kind.itemsize, between, dtype=np.uint8)
        made = raw.view(kind)
        made["node"], made["left"] = 7, left
        return np.frombuffer(raw.tobytes(), dtype=kind)

    def nested(value: Any) -> Any:
        outer = np.dtype([("inner", kind)])
        return np.frombuffer(value.tobytes(), dtype=outer)

    # The arrays' content alone: their base is not the same.
    for one, other in ((rows(1, 3), rows(2, 3)), (nested(rows(1, 3)), nested(rows(2, 3)))):
        with pytest.raises(NotComparable, match="bytes between its fields"):
            entries(one, other, "output")
    assert entries(rows(1, 3), rows(2, 4), "output") == "output"
    assert entries(rows(1, 3), rows(1, 3), "output") is None


def test_a_view_into_what_is_being_compared_is_no_loop() -> None:
    class Tree:
        def __init__(self, value: float) -> None:
            self.nodes = np.array([value, 1.0])
            self.first = self.nodes[:1]

    assert first_difference(Tree(1.0), Tree(1.0)) is None
    assert first_difference(Tree(1.0), Tree(2.0)) == "output.first"


def test_memory_that_an_array_views_is_compared_by_its_bytes() -> None:
    """As of a number that another library computed: its memory has no first entry."""
    one, same, other = (np.asarray(memoryview(np.array(x))) for x in (1.0, 1.0, 2.0))
    assert first_difference(one, same) is None
    assert first_difference(one, other) is not None
    assert first_difference(memoryview(b"ab"), memoryview(b"ab")) is None
    assert first_difference(memoryview(b"ab"), memoryview(b"ac")) is not None
