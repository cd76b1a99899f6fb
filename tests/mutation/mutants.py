"""One wrong sign at a time: all single changes of a source file that a mutation run tries."""

import ast
import copy
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_OPERATORS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_PAIRS = (
    ("max", "min"),
    ("maximum", "minimum"),
    ("argmax", "argmin"),
    ("up", "down"),
    ("sqrt_up", "sqrt_down"),
    ("upper", "lower"),
    ("upper_end", "lower_end"),
    ("proportion_upper", "proportion_lower"),
    ("ceil", "floor"),
    ("any", "all"),
    ("right", "left"),
)
_NAMES = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_SIGNS |= {ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.And: "and"}
_SIGNS |= {
    ast.Or: "or",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_SIGNS |= {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}


@dataclass(frozen=True)
class Mutant:
    """A file's source with one change: where it is, and what it makes of what."""

    function: str  # "" for a constant of the module
    line: int
    text: str  # the line, stripped
    change: str
    lines: tuple[int, ...]  # of the statement's own head
    number: int  # in the order of the file, from 0


@dataclass(frozen=True)
class _Place:
    """An expression that may be changed, its function and statement, and where it hangs in the tree."""

    function: str
    statement: ast.stmt
    holder: ast.AST
    name: str
    index: int | None
    node: ast.expr | ast.AugAssign

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.holder, self.name, node)
        else:
            getattr(self.holder, self.name)[self.index] = node

    def lines(self) -> tuple[int, ...]:
        first, last = self.statement.lineno, self.statement.end_lineno or 0
        if hasattr(self.statement, "body"):
            last = max(first, self.statement.body[0].lineno - 1)
        return tuple(range(first, last + 1))


def mutants(source: str) -> Iterator[Mutant]:
    """Each mutant, in the order of the file.

    Changed are operators, comparisons, negations, small numbers, truth values, and names with an opposite, in
    the bodies of functions and in constants of the module; not annotations, patterns, defaults, decorators,
    and what is raised or printed.
    """
    rows = source.splitlines()
    seen: Counter[tuple[int, str]] = Counter()
    for number, (place, _, words) in enumerate(_all(ast.parse(source))):
        line = place.node.lineno
        seen[line, words] += 1
        change = words if seen[line, words] == 1 else f"{words}, number {seen[line, words]}"
        yield Mutant(place.function, line, rows[line - 1].strip(), change, place.lines(), number)


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The source's tree with a mutant in its place."""
    tree = ast.parse(source)
    place, new, _ = next(itertools.islice(_all(tree), mutant.number, None))
    place.put(new)
    return ast.fix_missing_locations(tree)


def _all(tree: ast.Module) -> Iterator[tuple[_Place, ast.AST, str]]:
    for place in _places(tree, "", tree.body[0]):
        for new, words in _changes(place.node):
            yield place, new, words


#: Fields of the syntax that are left alone; the arguments of a function's definition, too.
_LEFT = {"annotation", "returns", "decorator_list", "pattern", "exc", "bases"}


def _places(holder: ast.AST, function: str, statement: ast.stmt) -> Iterator[_Place]:
    for name, value in ast.iter_fields(holder):
        if name in _LEFT or (name == "args" and not isinstance(holder, ast.Call)):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            own, around = function, statement
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":
                continue  # of zip: what cannot be is noticed where it is
            if isinstance(node, ast.stmt):
                around = node
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    own = f"{function}.{node.name}".lstrip(".")
                elif isinstance(holder, ast.ClassDef) or (
                    isinstance(holder, ast.Module) and not isinstance(node, ast.Assign)
                ):
                    continue
            if isinstance(node, ast.expr | ast.AugAssign):
                yield _Place(own, around, holder, name, index, node)
            yield from _places(node, own, around)


def _changes(node: ast.expr | ast.AugAssign) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.AugAssign(target=target, op=op, value=value):
            for other in _OPERATORS.get(type(op), ()):
                words = f"{_SIGNS[type(op)]}= to {_SIGNS[other]}="
                yield ast.copy_location(ast.AugAssign(target, other(), value), node), words
        case ast.BinOp(left=left, op=op, right=right):
            for other in _OPERATORS.get(type(op), ()):
                words = f"{_SIGNS[type(op)]} to {_SIGNS[other]} before {ast.unparse(right)}"
                yield ast.copy_location(ast.BinOp(left, other(), right), node), words
        case ast.BoolOp(op=op, values=values):
            for other in _OPERATORS[type(op)]:
                words = f"{_SIGNS[type(op)]} to {_SIGNS[other]}"
                yield ast.copy_location(ast.BoolOp(other(), values), node), words
        case ast.Compare(left=left, ops=ops, comparators=right):
            for at, op in enumerate(ops):
                for other in _OPERATORS[type(op)]:
                    words = f"{_SIGNS[type(op)]} to {_SIGNS[other]} before {ast.unparse(right[at])}"
                    new = [*ops[:at], other(), *ops[at + 1 :]]
                    yield ast.copy_location(ast.Compare(left, new, right), node), words
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            sign = "-" if isinstance(node.op, ast.USub) else "not"
            yield operand, f"{sign} dropped before {ast.unparse(operand)}"
        case ast.Constant(value=bool(value)):
            yield ast.copy_location(ast.Constant(not value), node), f"{value} to {not value}"
        case ast.Constant(value=int() | float() as value) if abs(value) <= 10 and value * 2 % 1 == 0:
            yield ast.copy_location(ast.Constant(value + 1), node), f"{value} to {value + 1}"
        case ast.Constant(value=str(value)) if value in {"left", "right"}:
            yield ast.copy_location(ast.Constant(_NAMES[value]), node), f"{value} to {_NAMES[value]}"
        case ast.Name(id=name) | ast.Attribute(attr=name) if isinstance(node.ctx, ast.Load):
            if name == "inf":
                yield ast.copy_location(ast.UnaryOp(ast.USub(), node), node), "inf to -inf"
            elif name in _NAMES:
                other = copy.copy(node)
                setattr(other, "id" if isinstance(node, ast.Name) else "attr", _NAMES[name])
                yield other, f"{name} to {_NAMES[name]}"
        case _:
            pass
