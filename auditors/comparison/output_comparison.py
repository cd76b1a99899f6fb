"""Whether two outputs are the same, bit for bit, and where they first differ."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from pydantic import BaseModel

from dpaudit.auditors.comparison.value_state import (
    EXACT,
    SCALARS,
    NotComparable,
    carried,
    constant,
    entries,
    foreign,
    full_name,
    global_names,
    held_state,
    members,
    named,
    names,
    pandas_parts,
    scalars,
    written_names,
)
from dpaudit.curator.curator import Curator
from dpaudit.processes.hosted import Sent, Unplain

__all__ = ["NotComparable", "first_difference"]

_MISSING = object()


def first_difference(one: Any, other: Any, place: str = "output") -> str | None:
    """The place where two values first differ, without their content; None if they are the same.

    Floats are the same if their bits are, so that NaN equals itself and 0.0 differs from -0.0. Everything
    that can be compared is compared before `NotComparable` is raised: where nothing differs and a value is of
    a type whose content cannot be inspected, contains itself, or is one object in both runs, which shows only
    its state after the last run.
    """
    if isinstance(one, Sent) and isinstance(other, Sent):
        if one.content == other.content:
            return None
        one, other = one.value(), other.value()
    try:
        return _Comparison().difference(one, other, place)
    except RecursionError:
        raise NotComparable(f"{place} is nested too deeply") from None


_Check = Callable[[], str | None]


def _first(checks: Iterable[_Check | str | None]) -> str | None:
    """The first difference; without one, the first `NotComparable` is raised."""
    refused: NotComparable | None = None
    for check in checks:
        try:
            difference = check() if callable(check) else check
        except NotComparable as error:
            refused = refused or error
        else:
            if difference is not None:
                return difference
    if refused is not None:
        raise refused
    return None


#: What is compared of two values, in order: differences, or functions that find one.
_Checks = Iterator[_Check | str | None]


class _Comparison:
    """One comparison of two outputs, with the pairs being compared and those found to be the same."""

    def __init__(self) -> None:
        self._open: set[tuple[int, int]] = set()
        #: Pairs without a difference; kept, so that no other object takes their place in memory.
        self._same: dict[tuple[int, int], tuple[Any, Any]] = {}

    def difference(self, one: Any, other: Any, place: str) -> str | None:
        kind = type(one)
        if kind is not type(other):
            if full_name(kind) == full_name(type(other)):
                raise NotComparable(f"{place} is of a type that every run defines again, {kind.__name__}")
            return f"{place} (types {kind.__name__} and {type(other).__name__})"
        if kind in SCALARS:
            return scalars(one, other, place)
        pair = (id(one), id(other))
        if pair in self._same:
            return None
        if pair in self._open:
            raise NotComparable(f"{place} contains itself")
        self._open.add(pair)
        try:
            found = _first(self._content(one, other, place))
        finally:
            self._open.discard(pair)
        if found is None:
            self._same[pair] = (one, other)
        return found

    def _content(self, one: Any, other: Any, place: str) -> _Checks:
        if isinstance(one, Unplain):
            raise NotComparable(one.why)
        if isinstance(one, weakref.ref):
            yield partial(self._owners, one(), other(), f"{place} (referent)")
        elif isinstance(one, np.ndarray):
            yield from self._arrays(one, other, place)
        elif isinstance(one, np.generic):
            yield from self._dtypes(one.dtype, other.dtype, place)
            yield partial(entries, one, other, place)
        elif isinstance(one, np.dtype):
            yield from self._dtypes(one, other, place)
        elif isinstance(one, np.random.Generator):
            yield partial(self.difference, one.bit_generator.state, other.bit_generator.state, place)
        elif isinstance(one, Enum):
            yield None if one is other else place
        elif isinstance(one, Curator):
            # It holds queries, and its noise is live on one side and replayed on the other.
            raise NotComparable(f"{place} is the curator itself")
        elif isinstance(one, FunctionType):
            yield from self._functions(one, other, place)
        elif isinstance(one, memoryview):
            same = one.format == other.format and one.shape == other.shape
            yield None if same and one.tobytes() == other.tobytes() else place
        elif isinstance(one, type | BuiltinFunctionType):
            yield partial(named, one, other, place)
        elif (mine := pandas_parts(one)) is not None and (theirs := pandas_parts(other)) is not None:
            if list(mine) != list(theirs):
                yield f"{place} (shapes or attributes)"
            for name, part in mine.items():
                yield partial(self.difference, part, theirs.get(name), f"{place} ({name})")
        else:
            yield from self._containers(one, other, place)

    def _containers(self, one: Any, other: Any, place: str) -> _Checks:
        whole = type(one) in EXACT
        if isinstance(one, Mapping):
            yield from self._sequences(list(one), list(other), f"{place} (keys)")
            for (key, a), b in zip(one.items(), other.values(), strict=False):
                yield partial(self.difference, a, b, f"{place}[{key!r}]")
        elif isinstance(one, str | bytes | int | float | complex):
            yield partial(scalars, one, other, place)
        elif isinstance(one, Sequence):
            yield from self._sequences(one, other, place)
        elif isinstance(one, AbstractSet):
            yield lambda: None if members(one, place) == members(other, place) else place
        elif isinstance(one, BaseModel):
            whole, private = True, (one.__pydantic_private__, other.__pydantic_private__)
            yield partial(self.difference, *private, f"{place} (private)")
        yield from self._attributes(one, other, place)
        if not whole:
            yield partial(self._reduced, one, other, place)

    def _owners(self, one: Any, other: Any, place: str) -> str | None:
        # A weak reference to a parent, which is being compared, adds nothing; nor does a view into it.
        return None if (id(one), id(other)) in self._open else self.difference(one, other, place)

    def _arrays(self, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], place: str) -> _Checks:
        if one.dtype != other.dtype or one.shape != other.shape:
            yield f"{place} (shapes {one.shape} and {other.shape}, types {one.dtype} and {other.dtype})"
        if one.dtype.hasobject:
            yield from self._sequences(one.ravel().tolist(), other.ravel().tolist(), place)
        else:
            yield partial(entries, one.view(np.ndarray), other.view(np.ndarray), place)
        yield from self._dtypes(one.dtype, other.dtype, place)
        # A subclass may carry more than its entries: a masked array its mask.
        yield from self._attributes(one, other, place)
        # Through a view all of its base can be read.
        yield partial(self._owners, one.base, other.base, f"{place} (base)")

    def _dtypes(self, one: np.dtype[Any], other: np.dtype[Any], place: str) -> _Checks:
        """Types of entries compare equal even if their metadata differ, or those of their fields."""
        if one != other:
            yield f"{place} (types {one} and {other})"
        yield partial(self.difference, one.metadata, other.metadata, f"{place} (metadata)")
        for name in one.names or ():
            yield from self._dtypes(one.fields[name][0], other.fields[name][0], place)  # type: ignore[index]
        if one.subdtype is not None and other.subdtype is not None:
            yield from self._dtypes(one.subdtype[0], other.subdtype[0], place)

    def _reduced(self, one: Any, other: Any, place: str) -> str | None:
        """Any other object is what pickling would write of it, which includes state below Python."""
        try:
            shown = [value.__reduce_ex__(4) for value in (one, other)]
        except Exception:  # noqa: BLE001  (a type refuses in whatever way it likes)
            raise NotComparable(f"{place} is a {full_name(type(one))}") from None
        if not all(isinstance(value, tuple) for value in shown):
            # The name of a global: nothing of its content.
            return named(one, other, place)
        if shown[0][0] is not shown[1][0]:
            return f"{place} (made otherwise)"
        # The object's own class is one of the arguments, and was compared.
        held = [
            (tuple(each for each in arguments if each is not type(one)), *held_state(rest))
            for _, arguments, *rest in shown
        ]
        parts = ("arguments", "state", "items", "items")
        return _first(
            partial(self.difference, a, b, f"{place} ({part})")
            for part, a, b in zip(parts, *held, strict=True)
        )

    def _sequences(self, one: Sequence[Any], other: Sequence[Any], place: str) -> _Checks:
        if len(one) != len(other):
            yield f"{place} (lengths {len(one)} and {len(other)})"
        names = getattr(one, "_fields", range(len(one)))
        for name, a, b in zip(names, one, other, strict=True):
            yield partial(self.difference, a, b, f"{place}[{name!r}]")

    def _attributes(self, one: Any, other: Any, place: str) -> _Checks:
        for name in names(one, other):
            held = getattr(one, name, _MISSING), getattr(other, name, _MISSING)
            yield partial(self.difference, *held, f"{place}.{name}")

    def _functions(self, one: FunctionType, other: FunctionType, place: str) -> _Checks:
        """A function is its code, what it closes over, and the globals that its code names."""
        if one.__code__ != other.__code__:
            yield f"{place} (code)"
        yield partial(self._closure, one, other, f"{place} (closure)")
        for name in sorted(global_names(one.__code__)):
            yield partial(self._global, one, other, name, f"{place} (global {name})")

    def _closure(self, one: FunctionType, other: FunctionType, place: str) -> str | None:
        difference = self.difference(carried(one), carried(other), place)
        if difference is None and one is other and not constant(carried(one)):
            raise NotComparable(f"{place} belongs to one function in both runs, and holds what may change")
        return difference

    def _global(self, one: FunctionType, other: FunctionType, name: str, place: str) -> str | None:
        mine, theirs = (function.__globals__.get(name, _MISSING) for function in (one, other))
        if mine is _MISSING and theirs is _MISSING:
            return None  # a builtin, or a name that would raise
        if (id(mine), id(theirs)) in self._open or (id(mine), id(theirs)) in self._same:
            return None  # functions that call themselves or each other
        module = one.__globals__
        defined_here = isinstance(mine, FunctionType) and mine.__globals__ is module
        if module is not other.__globals__ or defined_here:
            return self.difference(mine, theirs, place)
        if not (constant(mine) or foreign(mine, module)) or name in written_names(module):
            raise NotComparable(f"{place} is one variable in both runs, which a run may have changed")
        return None
