"""What bounding every unit's contribution makes of a mechanism's sensitivity."""

import builtins
import copy
import dis
import math
import numbers
import random
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import Basis, Norm
from dpaudit.errors import InvalidParameter, ScheduleBroken, SensitivityTooSmall
from dpaudit.mechanisms import AnyMechanism, Array, Calibrated, OnSample, SampledMatrix
from dpaudit.mechanisms.samples.sampled import Around

#: What leaves something for the next call, or brings in what nobody has looked at.
_LASTING: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME"})
#: Python's and numpy's own that look at more than their arguments.
_REACHING: Final = frozenset(
    [
        *("open", "input", "globals", "locals", "vars", "getattr", "eval", "exec", "compile", "breakpoint"),
        *("random", "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap"),
    ]
)

#: Orders that no seed repeats: what an algorithm makes of one order it cannot make of the next.
_SHUFFLED: Final = random.SystemRandom()


def bounded(
    mechanism: AnyMechanism,
    bound: float,
    neighbouring: Neighbouring,
    *,
    acute: bool,
    label: str,
    basis: Basis = "clipped",
) -> tuple[AnyMechanism, Norm]:
    """The mechanism with a sensitivity that rests on clipping each contribution to `bound`, and its norm.

    `acute` says whether any two contributions have a non-negative inner product; `basis` is ``mapped`` where
    each was computed from one record alone.

    Raises:
        SensitivityTooSmall: the declared sensitivity is below what the bound implies.
        InvalidParameter: the bound is not positive, or the mechanism has no sensitivity.
    """
    where = f"release {label!r}"
    if not isinstance(mechanism, Calibrated | Around):
        why = "it is not calibrated to a sensitivity, so clipping contributions bounds nothing"
        remedy = "use a mechanism that carries a sensitivity"
        what = f"a {getattr(mechanism, 'kind', type(mechanism).__name__)} mechanism for a sum"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy)
    if isinstance(mechanism, Around) and mechanism.swaps:
        neighbouring = Neighbouring.REPLACE_ONE
    declared = mechanism.sensitivity
    require_kind(bound, numbers.Real, f"{where}, bound=")
    if not np.isfinite(bound) or bound <= 0:
        raise InvalidParameter(f"contribution bound {bound}", where=where, remedy="give a number above 0")
    implied = neighbouring.sum_sensitivity(bound, declared.norm, acute=acute)
    if declared.value < implied * (1 - 1e-12):
        raise SensitivityTooSmall(
            f"sensitivity {declared.value} declared, {implied} follows from the bound {bound} "
            f"under {neighbouring}",
            where=where,
            remedy=f"declare a sensitivity of {implied}, and calibrate the noise to it",
        )
    clipped = declared.model_copy(update={"basis": basis, "value": max(declared.value, implied)})
    held = mechanism.with_sensitivity(clipped)
    if isinstance(held, OnSample | SampledMatrix):
        if basis != "declared":
            held = held.model_copy(update={"contribution": bound})
        elif held.contribution is not None and held.contribution < bound * (1 - 1e-12):
            what = f"a contribution of {held.contribution} declared, rows are clipped to {bound}"
            remedy = f"declare a contribution of {bound}, or leave it out"
            raise SensitivityTooSmall(what, where=where, remedy=remedy)
    return held, declared.norm


def mapped(records: Sequence[Any], function: Callable[[Any], ArrayLike], where: str) -> Array:
    """What a function makes of each record by itself: [n, ...].

    It is called twice for each record, with a copy, in an order that nobody chose. Raises `ScheduleBroken`
    where it makes something else of a record the second time: it looks at what came before.
    """
    made: list[list[Array]] = []
    for _ in range(2):
        rows: list[Array] = [np.empty(0)] * len(records)
        for i in _SHUFFLED.sample(range(len(records)), len(records)):
            rows[i] = doubles(function(copy.deepcopy(records[i])), where)
        made.append(rows)
    if any(one.shape != two.shape or one.tobytes() != two.tobytes() for one, two in zip(*made, strict=True)):
        what = "a function that makes another row of the same record when other records come before it"
        why = "a row that other records have a part in is not bounded by clipping it"
        remedy = "let the function look at the record that it is given, and at nothing else"
        raise ScheduleBroken(what, where=where, why=why, remedy=remedy)
    return np.array(made[0], dtype=np.float64) if records else np.empty((0,))


def knows_its_argument_alone(function: object, calling: frozenset[object] = frozenset()) -> bool:
    """Whether a function has nothing to look at but its argument and its constants.

    It has no closure, default or attribute, imports nothing and writes to no global variable. What it names
    is a function of a library in C, or in turn such a function, also where a module holds it. What comes from
    around it, as a mean over all records may, is not told apart.
    """
    if getattr(function, "__name__", "") in _REACHING:
        return False
    if isinstance(function, BuiltinFunctionType):  # a method has an object
        return isinstance(function.__self__, ModuleType | None)
    if not isinstance(function, FunctionType):
        in_c = isinstance(function, type) and function.__module__ in {"builtins", "numpy"}
        return in_c or isinstance(function, np.ufunc)
    if function in calling:
        return True
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__ or vars(function):
        return False
    does = list(_instructions(function.__code__))
    names = {name for done, name in does if done in {"LOAD_GLOBAL", "LOAD_NAME"}}
    attributes = {name for done, name in does if done in {"LOAD_ATTR", "LOAD_METHOD"}}
    around = {**vars(builtins), **function.__globals__}
    if not names <= around.keys() or any(done in _LASTING for done, _ in does):
        return False
    own = (_inside(around[name], attributes) for name in names)
    return all(knows_its_argument_alone(each, calling | {function}) for each in chain.from_iterable(own))


def _inside(named: object, attributes: AbstractSet[str]) -> Iterator[object]:
    """What is named, or what in a module has an attribute's name; of numpy and math, what reaches out."""
    if not isinstance(named, ModuleType):
        yield named
    elif named in {np, math}:
        yield from attributes & _REACHING
    else:
        for name in attributes & vars(named).keys():
            yield from _inside(vars(named)[name], attributes)


def _instructions(code: CodeType) -> Iterator[tuple[str, Any]]:
    """What a function and those inside it do, with the names that they do it to."""
    yield from ((each.opname, each.argval) for each in dis.get_instructions(code))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _instructions(inner)


def doubles(value: ArrayLike, where: str) -> Array:
    """A copy of `value` as doubles; raises `InvalidParameter` for what is not an array of real numbers."""
    try:
        given = np.asarray(value)
        if given.dtype == np.float64:
            return given.copy(order="K")
        with np.errstate(over="ignore"):  # what exceeds every double becomes an infinity, dealt with as one
            numbers = np.array(given, dtype=np.float64) if given.dtype.kind != "c" else None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"a value that is not an array of numbers: {error}", where=where) from None
    if numbers is None:
        raise InvalidParameter("complex numbers", where=where, remedy="release real and imaginary parts")
    return numbers
