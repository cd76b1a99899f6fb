"""What is sent between processes: frames of plain values, written and read without pickle.

A frame is its length in eight bytes, then a header in JSON, then the bytes of all arrays. Whoever reads a
frame makes nothing but the closed set of types below, whatever the bytes say.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import socket
import struct
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel

from dpaudit.curator.views import UserViews
from dpaudit.errors import IntegrityError
from dpaudit.noise.grid import OnGrid

_JSON_TYPES: Final = frozenset({bool, str, type(None)})
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_LENGTH: Final = struct.Struct("<QI")
#: The largest frame: what is longer comes from a fault, or would fill the memory.
MOST_BYTES: Final = 2**40
_PART: Final = 2**20
_AHEAD: Final = 2**16
#: The kinds of numpy types that are sent: booleans, numbers, dates, strings.
_KINDS: Final = frozenset("biufcmMSU")
_DEPTH: Final = 100
_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made at run time, whose attributes any code may set


#: What reading bytes raises that nobody wrote as a frame.
_UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


class NotPlain(TypeError):
    """A value outside the closed set of types; the message names it."""


class BrokenFrame(IntegrityError):
    """Bytes that are no frame."""

    default_why = "nothing of what another process sends is taken on trust"
    default_remedy = "report this, with the target that was run"


@dataclass(frozen=True)
class Portrait:
    """What an object holds, under the name of its type; it is compared and written, never made again.

    Its parts are what a dataclass, a model or a named tuple declares (``fields``); a value of which it is a
    subclass, with its attributes (``value``); or the state that pickle would write.
    """

    kind: str
    parts: Mapping[str, Any]
    form: Literal["fields", "value", "state"]


def frame(value: Any, place: str = "value") -> bytes:
    """One frame; raises `NotPlain`, which names the `place` of what cannot be sent."""
    arrays: list[bytes] = []
    header = _JSON.encode(_written(value, arrays, place, 0)).encode()
    return b"".join([_LENGTH.pack(sum(map(len, arrays)), len(header)), header, *arrays])


def send(channel: socket.socket, value: Any) -> None:
    """Send one frame; raises `NotPlain`, and `OSError` where the other end is gone."""
    channel.sendall(frame(value))


def receive(channel: socket.socket) -> Any:
    """The next frame; raises `EOFError` where the other end is gone, and `BrokenFrame`.

    Nothing is read beyond it: file descriptors may come next.
    """
    lengths = _exactly(channel, _LENGTH.size)
    return _value(lengths + _exactly(channel, _whole(lengths) - _LENGTH.size))


class Incoming:
    """Frames of a channel that nothing else comes through, most of them read in one call."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._ahead = b""

    def receive(self) -> Any:
        """As `receive`."""
        data, self._ahead = self._ahead, b""
        while len(data) < _LENGTH.size:
            more = self._channel.recv(_AHEAD)
            if not more:
                raise EOFError
            data += more
        whole = _whole(data)
        if len(data) < whole:
            return _value(b"".join((data, _exactly(self._channel, whole - len(data)))))
        self._ahead = data[whole:]
        return _value(data)


def _whole(data: bytes | bytearray) -> int:
    """The length of a frame that begins so."""
    size, header = _LENGTH.unpack_from(data)
    if size > MOST_BYTES:
        raise BrokenFrame(f"a frame of {size} bytes", where="a process's channel")
    return int(_LENGTH.size + header + size)


def _value(data: bytes | bytearray) -> Any:
    size, header = _LENGTH.unpack_from(data)
    begins = _LENGTH.size + header
    try:
        text = data[_LENGTH.size : begins].decode()
        return _read(json.loads(text), memoryview(data)[begins : begins + size], [0])
    except _UNREADABLE as error:
        raise BrokenFrame(f"a frame that cannot be read: {error}", where="a process's channel") from None


def _exactly(channel: socket.socket, size: int) -> bytearray:
    """So many bytes; memory is taken as they come, whatever the frame says of its length."""
    found = bytearray()
    while len(found) < size:
        part = bytearray(min(size - len(found), _PART))
        number = channel.recv_into(part)
        if number == 0:
            raise EOFError
        found += memoryview(part)[:number]
    return found


def _written(value: Any, arrays: list[bytes], place: str, depth: int) -> Any:
    """The value as JSON; what JSON has no type for is a list that begins with a letter."""
    if _is_json(value):
        return value
    if type(value) is int:
        return ["i", str(value)]
    if type(value) is float:
        return ["f", value.hex()]
    if depth > _DEPTH:
        raise NotPlain(f"{place} contains itself, or is nested too deeply")

    def inner(values: Sequence[Any], names: Sequence[Any] = ()) -> list[Any]:
        each = names or range(len(values))
        return [
            v if _is_json(v) else _written(v, arrays, f"{place}[{n!r}]", depth + 1)
            for v, n in zip(values, each, strict=True)
        ]

    if (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in _KINDS:
        return _array("s" if isinstance(value, np.generic) else "a", np.asarray(value), arrays)
    match value:
        case OnGrid():
            whole = value.integers
            if whole.dtype == np.int64:
                return ["g", _array("a", whole, arrays), value.exponent]
            return ["G", [str(int(each)) for each in whole.ravel()], list(whole.shape), value.exponent]
        case Fraction():
            return ["q", str(value.numerator), str(value.denominator)]
        case UserViews():
            return ["v", inner(value.views)]
        case Portrait():
            return ["p", value.kind, list(value.parts), inner(list(value.parts.values())), value.form]
    exact: dict[type, str] = {list: "l", tuple: "t", set: "S", frozenset: "F"}
    if type(value) in (list, tuple):
        return [exact[type(value)], inner(value)]
    if type(value) is dict:
        return ["d", inner(list(value)), inner(list(value.values()), [str(key) for key in value])]
    if type(value) in (set, frozenset):
        return [exact[type(value)], inner(sorted(value, key=lambda each: (type(each).__name__, repr(each))))]
    if type(value) is bytes:
        return ["b", base64.b64encode(value).decode()]
    if type(value) is complex:
        return ["c", value.real.hex(), value.imag.hex()]
    return _written(portrait(value, place), arrays, place, depth + 1)


def _is_json(value: Any) -> bool:
    """Whether a value is written as JSON has it."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    return kind in _JSON_TYPES or (kind is int and -(2**53) < value < 2**53)


def _array(letter: str, value: np.ndarray[Any, Any], arrays: list[bytes]) -> list[Any]:
    data = value.tobytes()
    arrays.append(data)
    return [letter, value.dtype.str, list(value.shape), len(data)]


def portrait(value: Any, place: str) -> Portrait:
    """What an object holds: a dataclass's, a model's or a named tuple's fields, else what pickle would write.

    `NotPlain` is raised for an object of which that is not known, as a function, a file or a generator.
    """
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, Enum):
        return Portrait(kind, {"value": value.value, "name": value.name}, "value")
    if isinstance(value, BaseModel):
        parts = {name: getattr(value, name) for name in type(value).model_fields}
        return Portrait(kind, {**parts, **(value.__pydantic_extra__ or {})}, "fields")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return Portrait(kind, {**parts, **_beside(value, parts)}, "fields")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Portrait(kind, dict(zip(value._fields, value, strict=True)), "fields")
    if isinstance(value, np.ndarray):
        plain_array = np.asarray(value)
        entries = plain_array.tolist() if value.dtype.hasobject else plain_array
        return Portrait(kind, {"value": entries, "shape": value.shape, **_beside(value, {})}, "value")
    if isinstance(value, str | bytes | int | float):
        plain: Any = next(each for each in (str, bytes, int, float) if isinstance(value, each))
        return Portrait(kind, {"value": plain(value), **_beside(value, {})}, "value")
    if isinstance(value, Mapping | list | tuple | AbstractSet):
        held: dict[str, Any] = {"value": dict(value) if isinstance(value, Mapping) else list(value)}
        return Portrait(kind, {**held, **_beside(value, {})}, "value")
    return _reduced(value, kind, place)


def _reduced(value: Any, kind: str, place: str) -> Portrait:
    refused = NotPlain(f"{place} is a {kind}")
    if isinstance(value, type) and not value.__flags__ & _HEAP_TYPE:
        return Portrait(kind, {"value": f"{value.__module__}.{value.__qualname__}"}, "value")
    if isinstance(value, type) or callable(getattr(type(value), "__get__", None)):
        raise refused
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  (a type refuses in whatever way it likes)
        raise refused from None
    if not isinstance(reduced, tuple):
        raise refused
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    parts = {
        "made by": getattr(make, "__qualname__", ""),
        "arguments": [each for each in arguments if each is not type(value)],
        "state": state,
        "items": list(items or ()),
        "pairs": [list(pair) for pair in pairs or ()],
    }
    return Portrait(kind, parts, "state")


def _beside(value: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an object that are none of its declared parts."""
    return {f".{name}": each for name, each in getattr(value, "__dict__", {}).items() if name not in parts}


def _read(value: Any, body: memoryview, at: list[int]) -> Any:
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise TypeError("a JSON object")
        return value
    letter, *rest = value

    def inner(values: list[Any]) -> list[Any]:
        return [_read(each, body, at) if type(each) in (list, dict) else each for each in values]

    match letter:
        case "i":
            return int(rest[0])
        case "f":
            return float.fromhex(rest[0])
        case "a" | "s":
            kind, shape, size = rest
            dtype = np.dtype(kind)
            if dtype.kind not in _KINDS or not 0 <= size <= len(body) - at[0] or min(shape, default=0) < 0:
                raise ValueError("an array that the frame does not hold")
            data = body[at[0] : at[0] + size]
            at[0] += size
            found = np.frombuffer(data, dtype).reshape(shape).copy()
            return found[()] if letter == "s" else found
        case "g":
            return OnGrid(_read(rest[0], body, at), int(rest[1]))
        case "G":
            whole = np.empty(len(rest[0]), dtype=object)
            whole[:] = [int(each) for each in rest[0]]
            return OnGrid(whole.reshape(rest[1]), int(rest[2]))
        case "q":
            return Fraction(int(rest[0]), int(rest[1]))
        case "v":
            return UserViews(tuple(inner(rest[0])))
        case "p":
            kind, names, parts, form = rest
            return Portrait(str(kind), dict(zip(names, inner(parts), strict=True)), form)
        case "l":
            return inner(rest[0])
        case "t":
            return tuple(inner(rest[0]))
        case "S" | "F":
            return (set if letter == "S" else frozenset)(inner(rest[0]))
        case "d":
            return dict(zip(inner(rest[0]), inner(rest[1]), strict=True))
        case "b":
            return base64.b64decode(rest[0])
        case "c":
            return complex(float.fromhex(rest[0]), float.fromhex(rest[1]))
    raise ValueError(f"a value of an unknown kind {letter!r}")
