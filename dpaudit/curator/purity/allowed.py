"""The objects (compared by identity) and the method names that a `mapped` function may use."""

from __future__ import annotations

import builtins
import math
import operator
import sys
from typing import Any, Final, Literal, NamedTuple

import numpy as np

#: The largest number of positional arguments of a function; None means any number.
_Most = int | None
#: ``value``: takes plain values and returns one. ``consumer``: also takes iterators, and returns a value.
#: ``iterator``: returns an iterator, which may only be consumed. ``constant``: is not a function.
_Role = Literal["value", "consumer", "iterator", "constant"]


class Known(NamedTuple):
    """An allowed object of a library, its largest number of positional arguments, and its role."""

    object: Any
    most: _Most = None
    role: _Role = "value"


# Excluded: `id`, `hash` and `repr` reveal addresses, which depend on other objects in memory; `numpy.empty`,
# and a ufunc with `where=`, return uninitialized memory of earlier records; `open`, `getattr`, `vars`, `type`
# and `print` give access to other objects.
_BUILTINS: Final = (
    *("abs", "bin", "bool", "chr", "complex", "divmod", "float", "hex", "int", "len", "oct", "ord", "pow"),
    *("range", "round"),
)
_CONSUMERS: Final = ("all", "any", "dict", "list", "max", "min", "sorted", "sum", "tuple")
_ITERATORS: Final = ("enumerate", "filter", "map", "reversed", "zip")
#: A further positional argument would be an element type, or an array for the result.
_NUMPY: Final[dict[str, int]] = {
    **dict.fromkeys(("all", "any", "argmax", "argmin", "argsort", "average", "count_nonzero", "cumprod"), 2),
    **dict.fromkeys(("cumsum", "diff", "dot", "flip", "inner", "isin", "kron", "max", "mean", "median"), 2),
    **dict.fromkeys(("amax", "amin", "min", "outer", "prod", "ptp", "repeat", "reshape", "round", "sort"), 2),
    **dict.fromkeys(("std", "sum", "swapaxes", "tile", "transpose", "var", "vdot", "allclose", "isclose"), 2),
    **dict.fromkeys(("append", "array_equal", "concatenate", "cross", "stack", "full", "searchsorted"), 2),
    **dict.fromkeys(("arange", "bincount", "clip", "digitize", "einsum", "histogram", "interp", "roll"), 3),
    **dict.fromkeys(("linspace", "percentile", "quantile", "where", "convolve", "tensordot"), 3),
    **dict.fromkeys(("array", "asarray", "atleast_1d", "atleast_2d", "eye", "hstack", "nan_to_num"), 1),
    **dict.fromkeys(("nanmax", "nanmean", "nanmin", "nansum", "nonzero", "ones", "ones_like", "ravel"), 1),
    **dict.fromkeys(("squeeze", "trace", "unique", "vstack", "zeros", "zeros_like", "isscalar"), 1),
}
_LINALG: Final[dict[str, int]] = {"norm": 3, "det": 1, "inv": 1, "solve": 2, "eigvalsh": 1, "matrix_power": 2}
_SCALARS: Final = ("bool_", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_NUMBERS: Final = (*_SCALARS, "float16", "float32", "float64")
_OPERATORS: Final = (
    *("abs", "add", "and_", "concat", "contains", "countOf", "eq", "floordiv", "ge", "getitem", "gt"),
    *("index", "indexOf", "invert", "le", "lshift", "lt", "matmul", "mod", "mul", "ne", "neg", "not_"),
    *("or_", "pos", "pow", "rshift", "sub", "truediv", "truth", "xor"),
)
_ERRORS: Final = (
    *("ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "LookupError"),
    *("OverflowError", "TypeError", "UnicodeError", "ValueError", "ZeroDivisionError"),
)
#: Methods of plain values: text, numbers, lists, tuples, dictionaries, dates and arrays. Excluded are methods
#: that reveal addresses or memory (`tobytes`, `view`, `format`) or use external state (`encode`, `now`,
#: `timestamp`).
METHODS: Final = frozenset(
    [
        *("capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdecimal"),
        *("isdigit", "islower", "isnumeric", "isspace", "isupper", "lower", "lstrip", "partition", "replace"),
        *("removeprefix", "removesuffix", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split"),
        *("splitlines", "startswith", "strip", "swapcase", "title", "upper", "zfill"),
        *("as_integer_ratio", "bit_count", "bit_length", "conjugate", "is_integer"),
        *("append", "clear", "copy", "get", "insert", "pop", "remove", "reverse", "setdefault", "sort"),
        *("date", "isoformat", "isoweekday", "toordinal", "total_seconds", "weekday"),
        *("all", "any", "argmax", "argmin", "argsort", "clip", "conj", "cumprod", "cumsum", "diagonal"),
        *("dot", "fill", "flatten", "item", "max", "mean", "min", "nonzero", "prod", "ravel", "repeat"),
        *("reshape", "round", "searchsorted", "squeeze", "std", "sum", "swapaxes", "tolist", "trace"),
        *("transpose", "var"),
    ]
)
CONSUMING: Final = frozenset({"extend", "join", "update"})
VIEWS: Final = frozenset({"items", "keys", "values"})
FIELDS: Final = frozenset(
    [
        *("T", "imag", "ndim", "real", "shape", "size"),
        *("day", "days", "hour", "microsecond", "minute", "month", "second", "seconds", "year"),
    ]
)
KEYWORDS: Final = frozenset(
    [
        *("a_max", "a_min", "axis", "base", "bins", "ddof", "decimals", "default", "density", "fill_value"),
        *("keepdims", "max", "maxsplit", "min", "minlength", "nan", "ndigits", "neginf", "ord", "posinf"),
        *("range", "reverse", "side", "start", "strict", "weights"),
    ]
)


def _library() -> dict[tuple[str, str], Known]:
    """Return the allowed objects by module and name, as they are when this module is imported."""
    found: dict[tuple[str, str], Known] = {}
    by_role: dict[_Role, tuple[str, ...]] = {
        "value": _BUILTINS,
        "consumer": _CONSUMERS,
        "iterator": _ITERATORS,
    }
    for role, names in by_role.items():
        for name in names:
            most = (
                2 if name in {"complex", "int", "sum"} else 1 if name in {"float", "bool", "dict"} else None
            )
            found["builtins", name] = Known(getattr(builtins, name), most, role)
    found["builtins", "str"] = Known(str, 1)  # a second argument names a codec
    for name, value in vars(math).items():
        if not name.startswith("_"):
            consumer = name in {"fsum", "prod"}
            role_of: _Role = "constant" if isinstance(value, float) else "consumer" if consumer else "value"
            found["math", name] = Known(value, None, role_of)
    for name in _OPERATORS:
        found["operator", name] = Known(getattr(operator, name))
    for name, value in vars(np).items():
        if isinstance(value, np.ufunc):
            found["numpy", name] = Known(value, value.nin)
    for name, most in _NUMPY.items():
        found["numpy", name] = Known(getattr(np, name), most)
    for name in _NUMBERS:
        found["numpy", name] = Known(getattr(np, name), 1)
    for name in ("pi", "e", "inf", "nan", "euler_gamma", "newaxis"):
        found["numpy", name] = Known(getattr(np, name), None, "constant")
    for name, most in _LINALG.items():
        found["numpy.linalg", name] = Known(getattr(np.linalg, name), most)
    return found


LIBRARY: Final = _library()
#: The same by identity, for a library function that is passed directly as `map`.
_BY_ID: Final = {id(known.object): known for known in LIBRARY.values() if known.role != "constant"}
CAUGHT: Final = {name: getattr(builtins, name) for name in _ERRORS}
#: Element types, and the types that `isinstance` may test.
TYPES: Final = {
    **{("builtins", name): getattr(builtins, name) for name in ("bool", "int", "float", "complex", "str")},
    **{("numpy", name): getattr(np, name) for name in _NUMBERS},
}
_CONTAINERS: Final = {
    ("builtins", name): getattr(builtins, name) for name in ("list", "tuple", "dict", "bytes")
}
ASKED: Final = {**TYPES, **_CONTAINERS, ("numpy", "ndarray"): np.ndarray}


def known_by_identity(function: object) -> Known | None:
    """Return the entry of an allowed library function, or None for any other object."""
    known = _BY_ID.get(id(function))
    if known is not None and known.object is function and known.role != "iterator":
        return known
    return of_scipy(function, getattr(function, "__name__", None)) if type(function) is np.ufunc else None


def of_scipy(function: object, name: object) -> Known | None:
    """Return a compiled ufunc of scipy.special, or None; a ufunc of a Python function loops over objects."""
    own = sys.modules.get("scipy.special._ufuncs")
    if own is None or type(name) is not str:
        return None
    known: Any = vars(own).get(name)
    if known is not function or type(known) is not np.ufunc or "O" in "".join(known.types):
        return None
    return Known(known, known.nin)
