"""The source of a running function, and the bindings of its module's names."""

from __future__ import annotations

import ast
import functools
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple


class Source(NamedTuple):
    """A source file: the nodes and the code of its functions, and the binding of each module name.

    For a name bound exactly once, at the top level, by `def` or by an import, `bound` holds that statement;
    for every other name it holds None.
    """

    nodes: list[ast.FunctionDef | ast.Lambda]
    codes: list[CodeType]
    bound: dict[str, ast.stmt | None]


def written(code: CodeType) -> tuple[ast.FunctionDef | ast.Lambda, Source] | None:
    """Return the node from which a function was compiled, or None if no source file contains that code.

    A function made from text at run time may contain constants computed from data.
    """
    source = source_of(code.co_filename)
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


def source_of(filename: str) -> Source | None:
    """Parse a source file in its current state; return None if it cannot be read."""
    try:
        stated = Path(filename).stat()
        return _read(filename, stated.st_mtime_ns, stated.st_size)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=32)
def _read(filename: str, _changed: int, _size: int) -> Source:
    with tokenize.open(filename) as file:
        text = file.read()
    tree = ast.parse(text, filename)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    return Source(nodes, list(inside(compile(text, filename, "exec", dont_inherit=True))), _bindings(tree))


def inside(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions inside, at any depth."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from inside(one)


def _bindings(tree: ast.Module) -> dict[str, ast.stmt | None]:
    """Map each name of a module to the only statement that binds it, or to None if it is ambiguous."""
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
    # Names count everywhere, so a name that a function binds locally may be refused unnecessarily.
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
    """Return whether an import binds a name to the package of that name."""
    aliases = statement.names if isinstance(statement, ast.Import) else []
    of_name = [each for each in aliases if (each.asname or each.name.partition(".")[0]) == name]
    return all(each.asname is None for each in of_name)


def _of_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside functions; their names are local."""
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for inner in ast.iter_child_nodes(each):
                yield from ast.walk(inner)


def _named_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself binds, without names bound inside it."""
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
    """Return whether a code position (two lines, two columns) lies inside a lambda's body."""
    body = node.body
    if isinstance(body, list):
        return True
    first = (body.lineno, body.col_offset) <= (place[0], place[2])
    return first and (place[1], place[3]) <= (body.end_lineno or 0, body.end_col_offset or 0)
