"""Calls of dpaudit's own functions in a target's process, on what it holds.

The holder names that, and sends the rest: it pickles a call and the target's process reads it, never the
other way round. What comes back is plain.
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
    """What stands here for something that a target's process holds."""

    @property
    def held_as(self) -> tuple[str, str]:
        """The kind of what it holds, and its name there."""
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: a run leaves nothing behind in the process that holds it."""
        return self


@dataclass(frozen=True)
class Kept(Elsewhere):
    """A function that a target's process keeps, beside the algorithm and its data."""

    name: str

    @property
    def held_as(self) -> tuple[str, str]:
        """The kind "kept", and the name."""
        return "kept", self.name

    def __call__(self, *_: object) -> Any:
        """It can be called there alone."""
        raise NotImplementedError


class _Note(Elsewhere):
    held_as = "note", ""


#: As an argument: a function of one plain value, which the holder is told at once.
NOTE: Final[Any] = _Note()


def written_call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """A call in bytes; functions that have no name to find them by travel as their code.

    Raises whatever pickling raises.
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
    """Make a call and send what it returns, or what was raised."""

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
    except BaseException as error:  # noqa: BLE001  (whatever a target raises ends its call, and not this)
        last = frame(("error", raised(error)))
    with contextlib.suppress(OSError):
        channel.sendall(last)
