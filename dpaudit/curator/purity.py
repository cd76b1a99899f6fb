"""Whether a function's result can depend on anything besides its argument, read from its source.

Everything is refused unless it is known to be harmless. A function passes if it stands in a source file as it
runs, consists of statements and expressions from a short list, and names only its own variables, functions
that pass in turn, and functions of Python, numpy and scipy.special from a list that is compared by identity.

A process for each record would need no list. But it costs a fork a record, and proves less: the function
would be sent there with the variables that it captures, or be imported from a module that may read the data.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib.util
import math
import operator
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, Literal, NamedTuple

import numpy as np

#: Number of arguments that a function takes at most by position; None: any number.
_Most = int | None
#: ``value``: takes plain values and returns one. ``consumer``: takes iterators, too, and returns a value.
#: ``iterator``: returns an iterator, which may only be consumed. ``constant``: is no function.
_Role = Literal["value", "consumer", "iterator", "constant"]


class _Known(NamedTuple):
    """An object of a library: itself, its largest number of positional arguments, and its role."""

    object: Any
    most: _Most = None
    role: _Role = "value"


# Left out on purpose: `id`, `hash` and `repr` show addresses, which depend on what else is in memory;
# `numpy.empty`, and a ufunc with `where=`, return memory as an earlier record left it; `open`, `getattr`,
# `vars`, `type` and `print` reach further.
_BUILTINS: Final = (
    *("abs", "bin", "bool", "chr", "complex", "divmod", "float", "hex", "int", "len", "oct", "ord", "pow"),
    *("range", "round"),
)
_CONSUMERS: Final = ("all", "any", "dict", "list", "max", "min", "sorted", "sum", "tuple")
_ITERATORS: Final = ("enumerate", "filter", "map", "reversed", "zip")
#: Further positional arguments would be a type of elements, or an array for the result.
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
#: Methods of plain values: text, numbers, lists, tuples, dictionaries, dates and arrays. Left out: those that
#: show addresses or memory (`tobytes`, `view`, `format`), or look elsewhere (`encode`, `now`, `timestamp`).
_METHODS: Final = frozenset(
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
_CONSUMING: Final = frozenset({"extend", "join", "update"})
_VIEWS: Final = frozenset({"items", "keys", "values"})
_FIELDS: Final = frozenset(
    [
        *("T", "imag", "ndim", "real", "shape", "size"),
        *("day", "days", "hour", "microsecond", "minute", "month", "second", "seconds", "year"),
    ]
)
_KEYWORDS: Final = frozenset(
    [
        *("a_max", "a_min", "axis", "base", "bins", "ddof", "decimals", "default", "density", "fill_value"),
        *("keepdims", "max", "maxsplit", "min", "minlength", "nan", "ndigits", "neginf", "ord", "posinf"),
        *("range", "reverse", "side", "start", "strict", "weights"),
    ]
)


def _library() -> dict[tuple[str, str], _Known]:
    """The allowed objects by module and name, taken when this module is imported."""
    found: dict[tuple[str, str], _Known] = {}
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
            found["builtins", name] = _Known(getattr(builtins, name), most, role)
    found["builtins", "str"] = _Known(str, 1)  # a second argument names a codec
    for name, value in vars(math).items():
        if not name.startswith("_"):
            consumer = name in {"fsum", "prod"}
            role_of: _Role = "constant" if isinstance(value, float) else "consumer" if consumer else "value"
            found["math", name] = _Known(value, None, role_of)
    for name in _OPERATORS:
        found["operator", name] = _Known(getattr(operator, name))
    for name, value in vars(np).items():
        if isinstance(value, np.ufunc):
            found["numpy", name] = _Known(value, value.nin)
    for name, most in _NUMPY.items():
        found["numpy", name] = _Known(getattr(np, name), most)
    for name in _NUMBERS:
        found["numpy", name] = _Known(getattr(np, name), 1)
    for name in ("pi", "e", "inf", "nan", "euler_gamma", "newaxis"):
        found["numpy", name] = _Known(getattr(np, name), None, "constant")
    for name, most in _LINALG.items():
        found["numpy.linalg", name] = _Known(getattr(np.linalg, name), most)
    return found


_LIBRARY: Final = _library()
#: The same by identity, for a function that is given by itself.
_BY_ID: Final = {id(known.object): known for known in _LIBRARY.values() if known.role != "constant"}
_CAUGHT: Final = {name: getattr(builtins, name) for name in _ERRORS}
#: Types of elements, and types that `isinstance` may ask for.
_TYPES: Final = {
    **{("builtins", name): getattr(builtins, name) for name in ("bool", "int", "float", "complex", "str")},
    **{("numpy", name): getattr(np, name) for name in _NUMBERS},
}
_CONTAINERS: Final = {
    ("builtins", name): getattr(builtins, name) for name in ("list", "tuple", "dict", "bytes")
}
_ASKED: Final = {**_TYPES, **_CONTAINERS, ("numpy", "ndarray"): np.ndarray}


def knows_its_argument_alone(function: object) -> bool:
    """Whether a function's result depends on its argument alone, for arguments that are plain values.

    False where that cannot be shown. A true answer says nothing about how the function was chosen among
    several, nor about what its argument was made from.
    """
    try:
        return _known_by_identity(function) is not None or _allows(function, frozenset())
    except RecursionError:  # expressions that are nested too deeply to be read
        return False


def _known_by_identity(function: object) -> _Known | None:
    known = _BY_ID.get(id(function))
    if known is not None and known.object is function and known.role != "iterator":
        return known
    return _of_scipy(function, getattr(function, "__name__", None)) if type(function) is np.ufunc else None


def _of_scipy(function: Any, name: object) -> _Known | None:
    """A compiled ufunc of scipy.special; one made from a Python function has loops over objects."""
    own = sys.modules.get("scipy.special._ufuncs")
    if type(function) is not np.ufunc or own is None:
        return None
    if type(name) is not str or vars(own).get(name) is not function:
        return None
    return None if "O" in "".join(function.types) else _Known(function, function.nin)


def _allows(function: object, calling: frozenset[int]) -> bool:
    """Whether a Python function passes; `calling` are the ids of those that are being read."""
    if id(function) in calling:
        return True
    if type(function) is not FunctionType:
        return False
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__ or vars(function):
        return False
    if type(function.__globals__) is not dict or function.__code__.co_freevars:
        return False
    written = _written(function.__code__)
    return written is not None and _Reader(function, *written, calling | {id(function)}).passes()


class _Source(NamedTuple):
    """A source file: its functions' nodes and code, and how each name of the module is bound.

    A name that is bound once, at the top level, by `def` or by an import, has that statement; a name that is
    bound otherwise, or more than once, has None.
    """

    nodes: list[ast.FunctionDef | ast.Lambda]
    codes: list[CodeType]
    bound: dict[str, ast.stmt | None]


def _written(code: CodeType) -> tuple[ast.FunctionDef | ast.Lambda, _Source] | None:
    """The node from which a function was compiled; None where no source file has it as it runs.

    A function made from text while the program runs may have constants that were computed from data.
    """
    source = _source_of(code.co_filename)
    if source is None:
        return None
    if not any(one == code and one.co_linetable == code.co_linetable for one in source.codes):
        return None
    found = [node for node in source.nodes if _begins(node) == (code.co_name, code.co_firstlineno)]
    if len(found) > 1:
        places = [place for place in code.co_positions() if None not in place and place[3]]
        found = [node for node in found if places and all(_holds(node, place) for place in places)]
        found.sort(key=_span)
    return (found[0], source) if found else None


def _source_of(filename: str) -> _Source | None:
    try:
        stated = Path(filename).stat()
        return _read(filename, stated.st_mtime_ns, stated.st_size)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=32)
def _read(filename: str, _changed: int, _size: int) -> _Source:
    with tokenize.open(filename) as file:
        text = file.read()
    tree = ast.parse(text, filename)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    return _Source(nodes, list(_inside(compile(text, filename, "exec", dont_inherit=True))), _bindings(tree))


def _inside(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _inside(one)


def _bindings(tree: ast.Module) -> dict[str, ast.stmt | None]:
    """Map each name of a module to the one statement that binds it, or to None if that is not clear."""
    found: dict[str, ast.stmt | None] = {}
    plainly: set[int] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            plainly.add(id(statement))
            _bind(found, statement.name, None if statement.decorator_list else statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            plainly.add(id(statement))
            for alias in statement.names:
                _bind(found, alias.asname or alias.name.partition(".")[0], statement)
    # Names are counted wherever they stand: one that a function binds for itself is refused needlessly.
    local = {id(each) for node in tree.body for each in _of_functions(node)}
    for node in ast.walk(tree):
        if id(node) in plainly:
            continue
        if isinstance(node, ast.Global):
            names = node.names
        elif id(node) in local:
            continue
        else:
            names = list(_named_by(node))
        for name in names:
            found[name] = None
    return found


def _bind(found: dict[str, ast.stmt | None], name: str, statement: ast.stmt | None) -> None:
    again = found.get(name)
    packages = isinstance(again, ast.Import) and isinstance(statement, ast.Import)
    # As `import scipy` and `import scipy.special` do.
    same = packages and _first_part(again, name) and _first_part(statement, name)
    found[name] = statement if name not in found or same else None


def _first_part(statement: ast.stmt | None, name: str) -> bool:
    """Whether an import binds a name to the package of that name."""
    aliases = statement.names if isinstance(statement, ast.Import) else []
    of_name = [each for each in aliases if (each.asname or each.name.partition(".")[0]) == name]
    return all(each.asname is None for each in of_name)


def _of_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes inside functions, whose names are the functions' own."""
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for inner in ast.iter_child_nodes(each):
                yield from ast.walk(inner)


def _named_by(node: ast.AST) -> Iterator[str]:
    """The names that a node binds, but for those inside it."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def _begins(node: ast.FunctionDef | ast.Lambda) -> tuple[str, int]:
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    return node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _span(node: ast.FunctionDef | ast.Lambda) -> tuple[int, int]:
    end, start = node.end_lineno or node.lineno, node.lineno
    return end - start, (node.end_col_offset or 0) - node.col_offset


def _holds(node: ast.FunctionDef | ast.Lambda, place: tuple[Any, Any, Any, Any]) -> bool:
    """Whether a place of code, of two lines and two columns, lies inside a lambda's body."""
    body = node.body
    if isinstance(body, list):
        return True
    first = (body.lineno, body.col_offset) <= (place[0], place[2])
    return first and (place[1], place[3]) <= (body.end_lineno or 0, body.end_col_offset or 0)


class _Reader:
    """Reads one function's source; anything that is not listed here is refused."""

    def __init__(
        self,
        function: FunctionType,
        node: ast.FunctionDef | ast.Lambda,
        source: _Source,
        calling: frozenset[int],
    ) -> None:
        self._function, self._node, self._source, self._calling = function, node, source, calling
        codes = [function.__code__, *_inside(function.__code__)]
        self._own = {name for code in codes for name in (*code.co_varnames, *code.co_cellvars)}
        done = [each for code in codes for each in dis.get_instructions(code)]
        self._own -= {each.argval for each in done if "GLOBAL" in each.opname or each.opname == "LOAD_NAME"}

    def passes(self) -> bool:
        """Whether the whole function does."""
        body = self._node.body
        if self._node.args.defaults or self._node.args.kw_defaults:
            return False
        return all(map(self._statement, body)) if isinstance(body, list) else self._value(body)

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Pass() | ast.Break() | ast.Continue() | ast.Return(value=None):
                return True
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                return self._value(value)
            case ast.Assign(targets=targets, value=value):
                return all(map(self._target, targets)) and self._value(value)
            case ast.AugAssign(target=target, value=value):
                return self._target(target) and self._value(value)
            case ast.AnnAssign(target=ast.Name() as target, value=given):
                return self._target(target) and (given is None or self._value(given))
            case ast.If(test=test, body=body, orelse=other) | ast.While(test=test, body=body, orelse=other):
                return self._value(test) and all(map(self._statement, [*body, *other]))
            case ast.For(target=target, iter=over, body=body, orelse=other):
                looped = self._target(target) and self._iterable(over)
                return looped and all(map(self._statement, [*body, *other]))
            case ast.Assert(test=test, msg=message):
                return self._value(test) and (message is None or self._value(message))
            case ast.Raise(exc=error, cause=None):
                return error is None or self._raised(error)
            case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=[]):
                caught = all(self._handler(each) for each in handlers)
                return caught and all(map(self._statement, [*body, *other]))
            case ast.Delete(targets=targets):
                return all(map(self._target, targets))
        return False

    def _raised(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return self._error(node.func) and not node.keywords and all(map(self._value, node.args))
        return self._error(node)

    def _handler(self, node: ast.ExceptHandler) -> bool:
        """Only named errors: whether memory or the stack suffices depends on more than the argument."""
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        named = all(kind is not None and self._error(kind) for kind in kinds)
        return named and node.name is None and all(map(self._statement, node.body))

    def _error(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self._plainly_builtin(node.id, _CAUGHT.get(node.id))

    def _target(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._own
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(map(self._target, parts))
            case ast.Starred(value=inner):
                return self._target(inner)
            case ast.Subscript(value=value, slice=place):
                return self._value(value) and self._value(place)
        return False

    def _value(self, node: ast.expr) -> bool:
        """Whether an expression is one of plain values, and so never of functions, iterators or addresses."""
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name) if name in self._own:
                return True
            case ast.Name() | ast.Attribute() if (known := self._resolved(node)) is not None:
                return isinstance(known, _Known) and known.role == "constant"
            case ast.Attribute(value=value, attr=name):
                return name in _FIELDS and self._value(value)
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(map(self._value, parts))
            case ast.JoinedStr(values=parts):
                return all(map(self._value, parts))
            case ast.FormattedValue(value=value, format_spec=None):
                return self._value(value)
            case ast.BinOp(left=left, right=right):
                return self._value(left) and self._value(right)
            case ast.UnaryOp(operand=value) | ast.Starred(value=value):
                return self._value(value)
            case ast.NamedExpr(target=target, value=value):
                return self._target(target) and self._value(value)
            case ast.IfExp(test=test, body=body, orelse=other):
                return all(map(self._value, (test, body, other)))
            case ast.Dict(keys=keys, values=values):
                return all(key is not None and self._value(key) for key in keys) and all(
                    map(self._value, values)
                )
            case ast.Compare():
                return self._compared(node)
            case ast.Subscript(value=value, slice=place):
                return self._value(value) and self._value(place)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return all(part is None or self._value(part) for part in (lower, upper, step))
            case ast.ListComp(elt=each, generators=loops):
                return self._loops(loops) and self._value(each)
            case ast.DictComp(key=key, value=value, generators=loops):
                return self._loops(loops) and self._value(key) and self._value(value)
            case ast.Call():
                return self._call(node, iterator=False)
        return False

    def _compared(self, node: ast.Compare) -> bool:
        parts = [node.left, *node.comparators]
        for left, done, right in zip(parts, node.ops, node.comparators, strict=False):
            # Whether two equal values are one object depends on who made them.
            same = isinstance(done, ast.Is | ast.IsNot)
            if same and not any(
                isinstance(each, ast.Constant) and each.value is None for each in (left, right)
            ):
                return False
        return all(
            all(map(self._value, part.elts)) if isinstance(part, ast.Set) else self._value(part)
            for part in parts
        )

    def _loops(self, loops: list[ast.comprehension]) -> bool:
        return all(
            not loop.is_async
            and self._target(loop.target)
            and self._iterable(loop.iter)
            and all(map(self._value, loop.ifs))
            for loop in loops
        )

    def _iterable(self, node: ast.expr) -> bool:
        """Whether an expression is a value, or an iterator over values that is consumed where it stands."""
        match node:
            case ast.GeneratorExp(elt=each, generators=loops):
                return self._loops(loops) and self._value(each)
            case ast.Call():
                return self._call(node, iterator=True)
        return self._value(node)

    def _call(self, node: ast.Call, *, iterator: bool) -> bool:
        known = self._resolved(node.func)
        if known is None:
            return self._method(node, iterator=iterator)
        if isinstance(known, FunctionType):
            named = all(each.arg is not None and self._value(each.value) for each in node.keywords)
            return named and all(map(self._value, node.args)) and _allows(known, self._calling)
        if not isinstance(known, _Known):
            return known == "isinstance" and self._asks_for_a_type(node)
        if known.role == "constant" or (known.role == "iterator" and not iterator):
            return False
        arguments, most = list(node.args), known.most
        if known.object is len and len(arguments) == 1 and self._is_set(arguments[0]):
            return not node.keywords
        if most is not None and (len(arguments) > most or any(isinstance(a, ast.Starred) for a in arguments)):
            return False
        higher = known.object is map or known.object is filter
        if higher and not (arguments and self._function_of(arguments.pop(0), len(arguments))):
            return False
        if known.role == "iterator":
            consumed, arguments = arguments, []
        elif known.role == "consumer" and (len(arguments) == 1 or known.object is sum):
            consumed, arguments = arguments[:1], arguments[1:]
        else:  # `max(one, other)` returns its argument
            consumed = []
        named = all(map(self._keyword, node.keywords))
        return named and all(map(self._iterable, consumed)) and all(map(self._value, arguments))

    def _method(self, node: ast.Call, *, iterator: bool) -> bool:
        """Whether a call is that of a plain value's method."""
        if not isinstance(node.func, ast.Attribute) or not self._value(node.func.value):
            return False
        name, named = node.func.attr, all(map(self._keyword, node.keywords))
        if name in _CONSUMING:
            return named and all(map(self._iterable, node.args))
        if name in _VIEWS:  # which can be made into sets
            return iterator and not node.args and not node.keywords
        if name == "astype":
            return not node.keywords and len(node.args) == 1 and self._is_type(node.args[0], _TYPES)
        return name in _METHODS and named and all(map(self._value, node.args))

    def _keyword(self, node: ast.keyword) -> bool:
        match node.arg:
            case "key":
                return self._function_of(node.value, 1)
            case "dtype":
                return self._is_type(node.value, _TYPES)
        return node.arg in _KEYWORDS and self._value(node.value)

    def _is_set(self, node: ast.expr) -> bool:
        """Whether an expression is a set of plain values; its order may depend on addresses, its size not."""
        match node:
            case ast.Set(elts=parts):
                return all(map(self._value, parts))
            case ast.SetComp(elt=each, generators=loops):
                return self._loops(loops) and self._value(each)
            case ast.Call(func=ast.Name(id="set"), args=[inner], keywords=[]):
                return self._plainly_builtin("set", set) and self._iterable(inner)
        return False

    def _function_of(self, node: ast.expr, arguments: int) -> bool:
        """Whether an expression is a function that takes so many arguments and returns a value."""
        if isinstance(node, ast.Lambda):
            return not node.args.defaults and not node.args.kw_defaults and self._value(node.body)
        known = self._resolved(node)
        if isinstance(known, FunctionType):
            return _allows(known, self._calling)
        if not isinstance(known, _Known) or known.role not in {"value", "consumer"}:
            return False
        return known.most is None or arguments <= known.most

    def _asks_for_a_type(self, node: ast.Call) -> bool:
        if len(node.args) != 2 or node.keywords or not self._value(node.args[0]):
            return False
        asked = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        return all(self._is_type(each, _ASKED) for each in asked)

    def _is_type(self, node: ast.expr, types: dict[tuple[str, str], Any]) -> bool:
        match node:
            case ast.Name(id=name) if name not in self._own and ("builtins", name) in types:
                return self._plainly_builtin(name, types["builtins", name])
            case ast.Attribute(value=ast.Name() as base, attr=name) if ("numpy", name) in types:
                return self._resolved(base) is np and vars(np).get(name) is types["numpy", name]
        return False

    def _plainly_builtin(self, name: str, expected: object) -> bool:
        """Whether a name is Python's own, and nothing else was put in its place."""
        if expected is None or name in self._own or name in self._function.__globals__:
            return False
        given = getattr(self._function, "__builtins__", None)
        return type(given) is dict and given.get(name) is expected

    def _resolved(self, node: ast.expr) -> Any:
        """What a name, or a name in a module, stands for: a `_Known`, a function or a module; else None."""
        match node:
            case ast.Name(id=name) if name not in self._own:
                if name in self._function.__globals__:
                    return _bound(self._function.__globals__, self._source, name)
                known = _LIBRARY.get(("builtins", name))
                if known is not None and self._plainly_builtin(name, known.object):
                    return known
                return (
                    "isinstance" if name == "isinstance" and self._plainly_builtin(name, isinstance) else None
                )
            case ast.Attribute(value=ast.Name() | ast.Attribute() as base, attr=name):
                module = self._resolved(base)
                return _of_module(module, name) if type(module) is ModuleType else None
        return None


def _bound(names: dict[str, Any], source: _Source, name: str) -> Any:
    """Return the object behind a module's name, if it is still the one that the source binds."""
    statement, value = source.bound.get(name), names.get(name)
    if isinstance(statement, ast.FunctionDef):
        written = _written(value.__code__) if type(value) is FunctionType else None
        return value if written is not None and written[0] is statement else None
    if isinstance(statement, ast.Import):
        alias = next(each for each in statement.names if (each.asname or each.name.partition(".")[0]) == name)
        path = alias.name if alias.asname else name
        return value if type(value) is ModuleType and sys.modules.get(path) is value else None
    if isinstance(statement, ast.ImportFrom):
        alias = next((each for each in statement.names if (each.asname or each.name) == name), ast.alias(""))
        path = "." * statement.level + (statement.module or "")
        try:
            module = sys.modules.get(importlib.util.resolve_name(path, names.get("__package__")))
        except (ImportError, TypeError, ValueError):
            return None
        found = _of_module(module, alias.name) if type(module) is ModuleType else None
        same = found.object is value if isinstance(found, _Known) else found is value
        return found if same else None
    return None


def _of_module(module: ModuleType, name: str) -> Any:
    """Return the object behind a module's attribute, as `_Reader._resolved` does."""
    names = vars(module)
    path, value = names.get("__name__"), names.get(name)
    if not isinstance(path, str) or sys.modules.get(path) is not module:
        return None
    known = _LIBRARY.get((path, name)) or (_of_scipy(value, name) if path == "scipy.special" else None)
    if known is not None:
        return known if known.object is value else None
    if type(value) is ModuleType and sys.modules.get(f"{path}.{name}") is value:
        return value
    source = _source_of(names["__file__"]) if isinstance(names.get("__file__"), str) else None
    return None if source is None else _bound(names, source, name)
