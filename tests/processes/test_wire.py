"""Frames: what is read is what was written, and whatever the bytes say, nothing else is made."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import math
import socket
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpaudit import ZCDP, Claim, UserViews
from dpaudit.auditors.comparison.output_comparison import first_difference
from dpaudit.noise.grid import OnGrid
from dpaudit.processes.wire import BrokenFrame, NotPlain, Portrait, frame, receive, value_of


def there_and_back(value: Any) -> Any:
    return read(frame(value))


def read(data: bytes) -> Any:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(60)
        # From a thread's point of view a small frame fits the socket's buffer; large ones are tested by runs.
        other.sendall(data)
        other.shutdown(socket.SHUT_WR)
        return receive(one)


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
)
ARRAYS = arrays.arrays(
    st.sampled_from(["f8", "f4", "i8", "u1", "?", "c16", "U3", "M8[s]"]),
    arrays.array_shapes(min_dims=0, max_side=4),
)
PLAIN = st.recursive(
    SCALARS | ARRAYS | st.fractions(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
        | st.frozensets(st.integers() | st.text(max_size=3), max_size=4)
    ),
    max_leaves=12,
)


def test_what_is_read_twice_shares_nothing() -> None:
    sent = frame([[1, 2], {"a": [3.0]}, {4}, np.zeros(2)])
    first, again = value_of(sent), value_of(sent)
    first[0].append(9)
    first[1]["a"].append(9)
    first[2].add(9)
    first[3][0] = 9.0
    first.append(9)
    assert frame(again) == sent == frame(value_of(sent))


@given(PLAIN)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    found = there_and_back(value)
    assert type(found) is type(value)
    assert first_difference(found, value) is None


@given(st.binary(max_size=80), st.integers(0, 200), st.integers(0, 255))
def test_bytes_that_are_no_frame_are_refused(noise: bytes, place: int, byte: int) -> None:
    whole = bytearray(frame({"a": [1, 2.5, np.arange(3.0)], "b": ("x", None)}))
    whole[place % len(whole)] = byte
    for data in (noise, bytes(whole)):
        with contextlib.suppress(BrokenFrame, EOFError):
            read(data)


@pytest.mark.parametrize(
    "header",
    [
        b'{"a": 1}',
        b'["x", 1]',
        b'["a", "O", [1], 8]',
        b'["a", "<f8", [1], 800]',
        b'["a", "<f8", [-1], 0]',
        b'["q", "1", "0"]',
        b"[[]]",
        b"[]",
        b"[" * 10_000,
        b'["f", "x"]',
        b'["G", ["x"], [1], 0]',
    ],
)
def test_a_header_of_another_kind_is_refused(header: bytes) -> None:
    with pytest.raises(BrokenFrame):
        read(len(b"").to_bytes(8, "little") + len(header).to_bytes(4, "little") + header)


def test_a_frame_larger_than_any_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(BrokenFrame, match="a frame of"):
        read((2**63).to_bytes(8, "little") + (2).to_bytes(4, "little") + b"1 ")


class Colour(Enum):
    RED = 1


class Point(NamedTuple):
    x: float


@dataclasses.dataclass
class Kept:
    values: Any
    _cache: Any = None


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Kept([1]), Kept([2])),
        (Kept([1], _cache=1), Kept([1], _cache=2)),
        (Slotted(1), Slotted(2)),
        (Point(1.0), Point(2.0)),
        (collections.Counter("a"), collections.Counter("b")),
        (np.ma.masked_array([1, 2], [0, 1]), np.ma.masked_array([1, 2], [0, 0])),
        (np.array([1, None]), np.array([2, None])),
        (0.0, -0.0),
        (Claim(ZCDP(rho=1.0)), Claim(ZCDP(rho=2.0))),
        (UserViews((1, 2)), UserViews((1, 3))),
        ([1], (1,)),
        (1, True),
        (np.float64(1.0), 1.0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.random.default_rng(1), np.random.default_rng(2)),
    ],
)
def test_what_differs_differs_still(one: Any, other: Any) -> None:
    """Each with an innocent twin: a copy of the same value."""
    mine, theirs, again = map(there_and_back, (one, other, copy.deepcopy(one)))
    assert first_difference(mine, theirs) is not None
    assert first_difference(mine, again) is None


@pytest.mark.parametrize("value", [lambda: 1, Kept, open, np.add, socket.socket, (i for i in ())])
def test_what_is_not_plain_is_named_with_its_place(value: Any) -> None:
    with pytest.raises(NotPlain, match=r"output\['model'\] is a "):
        frame({"model": value}, "output")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotPlain, match="contains itself"):
        frame(loop)


def test_exact_values_keep_every_digit() -> None:
    for integers in (np.array([[1, -(2**62)]]), np.array([2**200, -1], dtype=object)):
        found = there_and_back(OnGrid(integers, -1000))
        assert (found.integers == integers).all()
        assert found.exponent == -1000
    assert there_and_back(Fraction(1, 3**50)) == Fraction(1, 3**50)
    assert math.isnan(there_and_back(math.nan))


def test_objects_are_described_and_never_made() -> None:
    found = there_and_back({"colour": Colour.RED, "kept": Kept([1])})
    assert found["colour"].parts["value"] == 1
    assert isinstance(found["kept"], Portrait)
    assert found["kept"].kind.endswith("test_wire.Kept")
