"""What is sent between processes: frames of plain values, written and read without pickle.

A frame is its length in eight bytes, then a header in JSON, then the bytes of all arrays. Whoever reads a
frame makes nothing but the closed set of types below, whatever the bytes say.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import gc
import json
import math
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel

from dpaudit.curator.views import UserViews
from dpaudit.errors import IntegrityError
from dpaudit.noise.grid import OnGrid

#: A connected socket, without what Python adds to one in its own code.
Channel: TypeAlias = socket.SocketType

_TEXT: Final = json.encoder.encode_basestring_ascii
_READ: Final = json.JSONDecoder().raw_decode
_LENGTH: Final = struct.Struct("<QI")
#: The largest frame: what is longer comes from a fault, or would fill the memory.
MOST_BYTES: Final = 2**40
_PART: Final = 2**20
_RECURRING: Final = 2**12  # bytes of a header that is kept for the next frame
_AHEAD: Final = 2**16
#: The kinds of numpy types that are sent: booleans, numbers, dates, strings.
_KINDS: Final = frozenset("biufcmMSU")
_DEPTH: Final = 100
_HOLDS: Final = frozenset({list, dict})
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
    """A value outside the closed set of types; the message names it and its place.

    Args:
        why: what it is.
        path: the indices and keys that lead to it, innermost first.
    """

    def __init__(self, why: str, path: tuple[Any, ...] = (), place: str = "value") -> None:
        super().__init__(f"{place}{''.join(f'[{name!r}]' for name in reversed(path))} {why}")
        self.why, self.path = why, path


class BrokenFrame(IntegrityError):
    """Bytes that are not a valid frame."""

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

    def __hash__(self) -> int:
        """A set may hold portraits; what their parts hold need not be hashable."""
        return hash((self.kind, self.form))


def frame(value: Any, place: str = "value") -> bytes:
    """One frame; raises `NotPlain`, which names the `place` of what cannot be sent."""
    arrays: list[bytes] = []
    collects = gc.isenabled()
    gc.disable()  # of a million parts nothing is garbage, and looking for it would take twice as long
    try:
        header = _written(value, arrays, 0).encode()
    except NotPlain as error:
        raise NotPlain(error.why, error.path, place) from None
    finally:
        if collects:
            gc.enable()
    return b"".join((_LENGTH.pack(sum(map(len, arrays)), len(header)), header, *arrays))


def send(channel: Channel, value: Any) -> None:
    """Send one frame; raises `NotPlain`, and `OSError` where the other end is gone."""
    channel.sendall(frame(value))


def receive(channel: Channel) -> Any:
    """The next frame; raises `EOFError` where the other end is gone, and `BrokenFrame`.

    Nothing is read beyond it: file descriptors may come next.
    """
    return value_of(receive_frame(channel))


def receive_frame(channel: Channel) -> bytes:
    """As `receive`, unread."""
    lengths = _exactly(channel, _LENGTH.size)
    return bytes(lengths + _exactly(channel, _whole(lengths) - _LENGTH.size))


class Incoming:
    """Frames of a channel that nothing else comes through, most of them read in one call."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._ahead = b""

    def receive(self) -> Any:
        """As `receive`."""
        return value_of(self.receive_frame())

    def receive_frame(self) -> bytes:
        """As `receive`, unread."""
        data, self._ahead = self._ahead, b""
        while len(data) < _LENGTH.size:
            more = self._channel.recv(_AHEAD)
            if not more:
                raise EOFError
            data += more
        whole = _whole(data)
        if len(data) < whole:
            return b"".join((data, _exactly(self._channel, whole - len(data))))
        self._ahead = data[whole:]
        return data[:whole]


def _whole(data: bytes | bytearray) -> int:
    """The length of a frame that begins so."""
    size, header = _LENGTH.unpack_from(data)
    if size > MOST_BYTES:
        raise BrokenFrame(f"a frame of {size} bytes", where="a process's channel")
    return int(_LENGTH.size + header + size)


def value_of(data: bytes) -> Any:
    """What a frame holds; raises `BrokenFrame`."""
    size, header = _LENGTH.unpack_from(data)
    begins = _LENGTH.size + header
    collects = header >= _RECURRING and gc.isenabled()
    if collects:
        gc.disable()
    try:
        text = data[_LENGTH.size : begins].decode()
        found = _parsed(text) if header < _RECURRING else _parsed.__wrapped__(text)
        return _read(found, memoryview(data)[begins : begins + size], [0])
    except _UNREADABLE as error:
        raise BrokenFrame(f"a frame that cannot be read: {error}", where="a process's channel") from None
    finally:
        if collects:
            gc.enable()


@functools.lru_cache(maxsize=32)
def _parsed(text: str) -> Any:
    """A frame's header, which nobody changes: worker and twin send the same one, and answers are alike."""
    found, end = _READ(text)
    if end != len(text):
        raise ValueError("more than one value")
    return found


def _exactly(channel: Channel, size: int) -> bytearray:
    """So many bytes; memory is taken as they come, whatever the frame says of its length."""
    found = bytearray()
    while len(found) < size:
        part = bytearray(min(size - len(found), _PART))
        number = channel.recv_into(part)
        if number == 0:
            raise EOFError
        found += memoryview(part)[:number]
    return found


def _written(value: Any, arrays: list[bytes], depth: int) -> str:
    """The value's JSON text; what JSON has no type for is a list that begins with a letter."""
    kind = type(value)
    if kind is str:
        return _TEXT(value)
    if value is None:
        return "null"
    if kind is float:
        return repr(value) if math.isfinite(value) else _list("f", value.hex())
    if kind is int:
        return repr(value) if -(2**53) < value < 2**53 else _list("i", str(value))
    if kind is bool:
        return "true" if value else "false"
    if depth > _DEPTH:
        raise NotPlain("contains itself, or is nested too deeply")
    if kind is list or kind is tuple:
        return f'["{"l" if kind is list else "t"}",{_each(value, arrays, depth)}]'
    if kind is dict:
        names = _each(list(value), arrays, depth)
        return f'["d",{names},{_each(value.values(), arrays, depth, names=list(value))}]'
    if (kind is np.ndarray or issubclass(kind, np.generic)) and value.dtype.kind in _KINDS:
        return _array("a" if kind is np.ndarray else "s", np.asarray(value), arrays)
    return _special(value, arrays, depth)


def _list(letter: str, *texts: str) -> str:
    """A list of a letter and texts, as JSON."""
    return f'["{letter}",{",".join(map(_TEXT, texts))}]'


def _each(values: Iterable[Any], arrays: list[bytes], depth: int, names: Sequence[Any] = ()) -> str:
    """Values inside another one; what cannot be sent is named by its place among them."""
    found: list[str] = []
    try:
        for value in values:
            if value is None:
                found.append("null")
            else:
                found.append(_TEXT(value) if type(value) is str else _written(value, arrays, depth + 1))
    except NotPlain as error:
        name = names[len(found)] if names else len(found)
        raise NotPlain(error.why, (*error.path, name)) from None
    return f"[{','.join(found)}]"


def _special(value: Any, arrays: list[bytes], depth: int) -> str:
    match value:
        case OnGrid():
            whole = value.integers
            if whole.dtype == np.int64:
                return f'["g",{_array("a", whole, arrays)},{value.exponent}]'
            numbers = ",".join(f'"{int(each)}"' for each in whole.ravel())
            return f'["G",[{numbers}],{list(whole.shape)},{value.exponent}]'
        case Fraction():
            return _list("q", str(value.numerator), str(value.denominator))
        case UserViews():
            return f'["v",{_each(value.views, arrays, depth)}]'
        case Portrait():
            names = list(value.parts)
            parts = _each(value.parts.values(), arrays, depth, names)
            return f'["p",{_TEXT(value.kind)},[{",".join(map(_TEXT, names))}],{parts},"{value.form}"]'
    kind = type(value)
    if kind is set or kind is frozenset:
        members = sorted(value, key=lambda each: (type(each).__name__, repr(each)))
        return f'["{"S" if kind is set else "F"}",{_each(members, arrays, depth)}]'
    if kind is bytes:
        return _list("b", base64.b64encode(value).decode())
    if kind is complex:
        return _list("c", value.real.hex(), value.imag.hex())
    return _special(portrait(value), arrays, depth + 1)


def _array(letter: str, value: np.ndarray[Any, Any], arrays: list[bytes]) -> str:
    data = value.tobytes()
    arrays.append(data)
    return f'["{letter}","{value.dtype.str}",[{",".join(map(str, value.shape))}],{len(data)}]'


def portrait(value: Any) -> Portrait:
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
    return _reduced(value, kind)


def _reduced(value: Any, kind: str) -> Portrait:
    refused = NotPlain(f"is a {kind}")
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
    if type(value) is not list:
        if type(value) is dict:
            raise TypeError("a JSON object")
        return value

    letter, first, *rest = value
    match letter:
        case "t":
            return tuple(_inner(first, body, at))
        case "a" | "s":
            dtype, (shape, size) = _dtype(first), rest
            if not 0 <= size <= len(body) - at[0] or min(shape, default=0) < 0:
                raise ValueError("an array that the frame does not hold")
            found = np.ndarray(shape, dtype, body, at[0]).copy()
            if found.nbytes != size:
                raise ValueError("an array of another size")
            at[0] += size
            return found[()] if letter == "s" else found
        case "l":
            return _inner(first, body, at)
        case "d":
            return dict(zip(_inner(first, body, at), _inner(rest[0], body, at), strict=True))
        case "f":
            return float.fromhex(first)
        case "i":
            return int(first)
        case "g":
            return OnGrid(_read(first, body, at), int(rest[0]))
        case "G":
            whole = np.empty(len(first), dtype=object)
            whole[:] = [int(each) for each in first]
            return OnGrid(whole.reshape(rest[0]), int(rest[1]))
        case "q":
            return Fraction(int(first), int(rest[0]))
        case "v":
            return UserViews(tuple(_inner(first, body, at)))
        case "p":
            names, parts, form = rest
            return Portrait(str(first), dict(zip(names, _inner(parts, body, at), strict=True)), form)
        case "S" | "F":
            return (set if letter == "S" else frozenset)(_inner(first, body, at))
        case "b":
            return base64.b64decode(first)
        case "c":
            return complex(float.fromhex(first), float.fromhex(rest[0]))
    raise ValueError(f"a value of an unknown kind {letter!r}")


def _inner(values: list[Any], body: memoryview, at: list[int]) -> list[Any]:
    return [_read(each, body, at) if type(each) in _HOLDS else each for each in values]


@functools.lru_cache
def _dtype(name: str) -> np.dtype[Any]:
    found = np.dtype(name)
    if found.kind not in _KINDS or not found.itemsize:
        raise ValueError(f"an array of {name}")
    return found
