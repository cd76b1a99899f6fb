"""Check from its source that a function's result depends on its argument alone.

Everything is refused unless it is known to be harmless. A function passes if a source file contains it as it
runs, it consists of statements and expressions from a short list, and it names only its own variables,
functions that pass the same check, and listed functions of Python, numpy and scipy.special, compared by
identity.

A process for each record would need no list. But it costs a fork per record and proves less: the function
would be sent with the variables that it captures, or be imported from a module that may read the data.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import sys
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from dpaudit.curator.purity.allowed import (
    ASKED,
    CAUGHT,
    CONSUMING,
    FIELDS,
    KEYWORDS,
    LIBRARY,
    METHODS,
    TYPES,
    VIEWS,
    Known,
    known_by_identity,
    of_scipy,
)
from dpaudit.curator.purity.sources import Source, inside, source_of, written

#: Python's own objects, kept in case a program replaces them later.
_ISINSTANCE: Final = isinstance
_SET: Final = set


def knows_its_argument_alone(function: object) -> bool:
    """Return whether a function's result provably depends on its argument alone, for plain values.

    True does not exclude that the data decided which function is used, or that the argument was computed from
    several records.
    """
    try:
        return known_by_identity(function) is not None or _allows(function, frozenset())
    except RecursionError:  # the source is nested too deeply
        return False


def _allows(function: object, calling: frozenset[int]) -> bool:
    """Return whether a Python function passes; `calling` holds the ids of functions that are being read."""
    if id(function) in calling:
        return True
    if type(function) is not FunctionType:
        return False
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__ or vars(function):
        return False
    if type(function.__globals__) is not dict or function.__code__.co_freevars:
        return False
    found = written(function.__code__)
    return found is not None and _Reader(function, *found, calling | {id(function)}).passes()


class _Reader:
    """Reads one function's source; it refuses everything that is not listed here."""

    def __init__(
        self,
        function: FunctionType,
        node: ast.FunctionDef | ast.Lambda,
        source: Source,
        calling: frozenset[int],
    ) -> None:
        self._function, self._node, self._source, self._calling = function, node, source, calling
        codes = [function.__code__, *inside(function.__code__)]
        self._own = {name for code in codes for name in (*code.co_varnames, *code.co_cellvars)}
        done = [each for code in codes for each in dis.get_instructions(code)]
        self._own -= {each.argval for each in done if "GLOBAL" in each.opname or each.opname == "LOAD_NAME"}

    def passes(self) -> bool:
        """Return whether the whole function passes."""
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
        """Allow only named errors: running out of memory or stack depends on more than the argument."""
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        named = all(kind is not None and self._error(kind) for kind in kinds)
        return named and node.name is None and all(map(self._statement, node.body))

    def _error(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self._plainly_builtin(node.id, CAUGHT.get(node.id))

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
        """Return whether an expression is a plain value, never a function, an iterator or an address."""
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name) if name in self._own:
                return True
            case ast.Name() | ast.Attribute() if (known := self._resolved(node)) is not None:
                return isinstance(known, Known) and known.role == "constant"
            case ast.Attribute(value=value, attr=name):
                return name in FIELDS and self._value(value)
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
            # The identity of two equal values depends on other code.
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
        """Return whether an expression is a value, or an iterator over values that is consumed in place."""
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
        if not isinstance(known, Known):
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
        """Return whether a call is a method call on a plain value."""
        if not isinstance(node.func, ast.Attribute) or not self._value(node.func.value):
            return False
        name, named = node.func.attr, all(map(self._keyword, node.keywords))
        if name in CONSUMING:
            return named and all(map(self._iterable, node.args))
        if name in VIEWS:  # views can become sets
            return iterator and not node.args and not node.keywords
        if name == "astype":
            return not node.keywords and len(node.args) == 1 and self._is_type(node.args[0], TYPES)
        return name in METHODS and named and all(map(self._value, node.args))

    def _keyword(self, node: ast.keyword) -> bool:
        match node.arg:
            case "key":
                return self._function_of(node.value, 1)
            case "dtype":
                return self._is_type(node.value, TYPES)
        return node.arg in KEYWORDS and self._value(node.value)

    def _is_set(self, node: ast.expr) -> bool:
        """Return whether an expression is a set of plain values; only its order may depend on addresses."""
        match node:
            case ast.Set(elts=parts):
                return all(map(self._value, parts))
            case ast.SetComp(elt=each, generators=loops):
                return self._loops(loops) and self._value(each)
            case ast.Call(func=ast.Name(id="set"), args=[inner], keywords=[]):
                return self._plainly_builtin("set", _SET) and self._iterable(inner)
        return False

    def _function_of(self, node: ast.expr, arguments: int) -> bool:
        """Return whether an expression is a function of this number of arguments that returns a value."""
        if isinstance(node, ast.Lambda):
            return not node.args.defaults and not node.args.kw_defaults and self._value(node.body)
        known = self._resolved(node)
        if isinstance(known, FunctionType):
            return _allows(known, self._calling)
        if not isinstance(known, Known) or known.role not in {"value", "consumer"}:
            return False
        return known.most is None or arguments <= known.most

    def _asks_for_a_type(self, node: ast.Call) -> bool:
        if len(node.args) != 2 or node.keywords or not self._value(node.args[0]):
            return False
        asked = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        return all(self._is_type(each, ASKED) for each in asked)

    def _is_type(self, node: ast.expr, types: dict[tuple[str, str], Any]) -> bool:
        match node:
            case ast.Name(id=name) if name not in self._own and ("builtins", name) in types:
                return self._plainly_builtin(name, types["builtins", name])
            case ast.Attribute(value=ast.Name() as base, attr=name) if ("numpy", name) in types:
                return self._resolved(base) is np and vars(np).get(name) is types["numpy", name]
        return False

    def _plainly_builtin(self, name: str, expected: object) -> bool:
        """Return whether a name is Python's own and was not replaced."""
        if expected is None or name in self._own or name in self._function.__globals__:
            return False
        given = getattr(self._function, "__builtins__", None)
        return type(given) is dict and given.get(name) is expected

    def _resolved(self, node: ast.expr) -> Any:
        """Return the object of a name, or of a name in a module: a `Known`, a function, a module or None."""
        match node:
            case ast.Name(id=name) if name not in self._own:
                if name in self._function.__globals__:
                    return _bound(self._function.__globals__, self._source, name)
                known = LIBRARY.get(("builtins", name))
                if known is not None and self._plainly_builtin(name, known.object):
                    return known
                plain = name == "isinstance" and self._plainly_builtin(name, _ISINSTANCE)
                return "isinstance" if plain else None
            case ast.Attribute(value=ast.Name() | ast.Attribute() as base, attr=name):
                module = self._resolved(base)
                return _of_module(module, name) if type(module) is ModuleType else None
        return None


def _bound(names: dict[str, Any], source: Source, name: str) -> Any:
    """Return the object behind a module's name, if it is still the one that the source binds."""
    statement, value = source.bound.get(name), names.get(name)
    if isinstance(statement, ast.FunctionDef):
        found = written(value.__code__) if type(value) is FunctionType else None
        return value if found is not None and found[0] is statement else None
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
        same = found.object is value if isinstance(found, Known) else found is value
        return found if same else None
    return None


def _of_module(module: ModuleType, name: str) -> Any:
    """Return the object behind a module's attribute, as `_Reader._resolved` does."""
    names = vars(module)
    path, value = names.get("__name__"), names.get(name)
    if not isinstance(path, str) or sys.modules.get(path) is not module:
        return None
    known = LIBRARY.get((path, name)) or (of_scipy(value, name) if path == "scipy.special" else None)
    if known is not None:
        return known if known.object is value else None
    if type(value) is ModuleType and sys.modules.get(f"{path}.{name}") is value:
        return value
    source = source_of(names["__file__"]) if isinstance(names.get("__file__"), str) else None
    return None if source is None else _bound(names, source, name)
