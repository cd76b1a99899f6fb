"""Calls of dpaudit's own functions in a target's process, on objects that this process holds.

The holder names those objects and sends the rest: it pickles a call and the target's process reads it, never
the other way round. Results are plain values.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from dpaudit.processes.wire import Channel, frame, send
from dpaudit.processes.worker import HolderGone, raised


class Elsewhere:
    """A placeholder for an object that a target's process holds."""

    @property
    def held_as(self) -> tuple[str, str]:
        """Return the kind of the object, and its name there."""
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the object itself: a run changes nothing in the process that holds it."""
        return self


@dataclass(frozen=True)
class Kept(Elsewhere):
    """A function that a target's process keeps, besides the algorithm and its data."""

    name: str

    @property
    def held_as(self) -> tuple[str, str]:
        """Return the kind "kept", and the name."""
        return "kept", self.name

    def __call__(self, *_: object) -> Any:
        """Raise an error: the function can be called only in the target's process."""
        raise NotImplementedError


class _Note(Elsewhere):
    held_as = "note", ""


#: A placeholder argument: a function of one plain value that is sent to the holder at once.
NOTE: Final[Any] = _Note()


def written_call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Return a call as bytes; functions that cannot be imported by name are sent as code.

    Raises any error of pickling.
    """
    try:
        return _written(pickle.Pickler, (function, arguments))
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        return _written(cloudpickle.Pickler, (function, arguments))


def _written(pickler: type, call: tuple[Any, ...]) -> bytes:
    content = io.BytesIO()
    type("Writer", (pickler,), {"persistent_id": _persistent_id})(content).dump(call)
    return content.getvalue()


def _persistent_id(_pickler: object, value: object) -> tuple[str, str] | None:
    return value.held_as if isinstance(value, Elsewhere) else None


class _Reader(pickle.Unpickler):
    def __init__(self, call: bytes, held: Mapping[tuple[str, str], Any]) -> None:
        super().__init__(io.BytesIO(call))
        self._held = held

    def persistent_load(self, name: Any) -> Any:
        return self._held[name]


def answer_call(call: bytes, held: Mapping[tuple[str, str], Any], channel: Channel) -> None:
    """Make a call and send its result or its error."""

    def note(value: object) -> None:
        try:
            send(channel, ("note", value))
        except OSError:
            raise HolderGone from None

    try:
        function, arguments = _Reader(call, {**held, NOTE.held_as: note}).load()
        last = frame(("end", function(*arguments)))
    except HolderGone:
        return
    except BaseException as error:  # noqa: BLE001  (any error of a target ends its call, not this process)
        last = frame(("error", raised(error)))
    with contextlib.suppress(OSError):
        channel.sendall(last)
