"""Whether a function depends on its argument alone: what is not known to be harmless is refused."""

# ruff: noqa: E731, FURB192, NPY002, PIE804, PLW0108, PLW0603, PTH116, PTH123, S301, S307, SIM107
# ruff: noqa: UP030, UP032

from __future__ import annotations

import ast
import builtins
import copy
import decimal
import functools
import gc
import importlib.util
import locale
import math
import operator
import os
import pickle
import statistics
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from numpy import linalg
from scipy.special import expit

from dpaudit.curator.purity.reader import knows_its_argument_alone

MEAN = 3.0
CONSTANT = math.pi
CHOSEN = np.sin if MEAN > 2 else np.cos
SEEN: list[float] = []
TABLE = {"a": 3.0}


def own(record: Any) -> Any:
    return helper([np.abs(part) for part in record])


def helper(record: Any) -> Any:
    return np.asarray(record) / 2 if len(record) else own(record)


def whole(record: dict[str, Any]) -> list[float]:
    """The usual: parsing, defaults, loops, an error that is caught, and a few numbers in the end."""
    try:
        age: float = float(record["age"])
    except (KeyError, ValueError):
        age = 0.0
    total, largest = 0.0, None
    for i, item in enumerate(record.get("items", [])):
        if item is None or not isinstance(item, (int, float)):
            continue
        total += max(item, 0) * i
        largest = item if largest is None or item > largest else largest
    words = [word.strip().lower() for word in record["text"].split()]
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    first = sorted(counts.items(), key=lambda pair: -pair[1])[0][1] if counts else 0
    return [age, total, largest or 0, len(set(words)), first, sum(w.startswith("x") for w in words)]


nested = lambda _: lambda part: part / 2


class Static:
    @staticmethod
    def half(record: Any) -> Any:
        return record / 2


INNOCENT: dict[str, Callable[..., Any]] = {
    "recursion of helpers": own,
    "whole": whole,
    **{each.__name__: each for each in (float, len, abs, math.sqrt, math.log1p, np.sqrt, expit, np.mean)},
    "norm": np.linalg.norm,
    "two fields": lambda record: [record["a"], min(record["b"], 5)],
    "clip": lambda record: np.clip(record, 0, 1),
    "array": lambda record: np.array([record["a"], record["b"]], dtype=float),
    "log": lambda record: math.log1p(float(record)),
    "get": lambda record: record.get("x", 0) / 2,
    "lengths": lambda record: [len(part) for part in record],
    "constants": lambda record: linalg.norm(record) + math.pi + pi + np.e,
    "special": lambda record: scipy.special.expit(record) + expit(record),
    "key": lambda record: sorted(record, key=lambda part: -part)[0] + max(record, key=abs),
    "map": lambda record: sum(map(float, record.split(","))),
    "items": lambda record: {key: value for key, value in record.items() if value}["a"],
    "unit vector": lambda record: record / np.linalg.norm(record),
    "astype": lambda record: record.astype(np.float64).mean(axis=0),
    "member": lambda record: 1.0 if record["sex"] in {"f", "x"} else 0.0,
    "walrus": lambda record: size if (size := len(record)) > 2 else 0,
    "outer": lambda record: np.outer(record[:-1], record[:-1]) @ record[:-1],
    "one hot": lambda record: [1.0 if record["ward"] == ward else 0.0 for ward in ("a", "b", "c")],
    "digits": lambda record: int("0" + "".join(c for c in record if c.isdigit())),
    "zip": lambda record: sum(one * other for one, other in zip(record[0], record[1], strict=True)),
    "text": lambda record: float(f"{record['a']}") + len(str(record)),
    "operator": lambda record: operator.add(record[0], record[1]),
    "float as a key": lambda record: max(record, key=float),
    "sum of an iterator": lambda record: math.fsum(part for part in record),
    "None on the left": lambda record: 0.0 if None is record else 1.0,
    "static method": Static.half,
    "lambda of a lambda": nested(0),
    "month": lambda record: (record["end"] - record["begin"]).days + record["end"].month,
}


@pytest.mark.parametrize("name", INNOCENT)
def test_ordinary_functions_pass(name: str) -> None:
    assert knows_its_argument_alone(INNOCENT[name])


def by_a_helper(record: Any) -> Any:
    return around(record)


def around(record: Any) -> Any:
    return [part - MEAN for part in record]


def with_attribute(record: Any) -> Any:
    return record


vars(with_attribute)["mean"] = 3.0


def remembers(record: Any) -> Any:
    global LAST
    LAST = record
    return record


def imports(record: Any) -> Any:
    import statistics

    return statistics.mean(record)


def reads_a_file(record: Any) -> Any:
    with open("mean") as file:
        return record - float(file.read())


def catches_everything(record: Any) -> Any:
    try:
        return len([0] * 10**9)
    except:  # noqa: E722
        return 0


def catches_memory(record: Any) -> Any:
    try:
        return len([0] * 10**9)
    except MemoryError:
        return 0


def at_last(record: Any) -> Any:
    try:
        return len([0] * 10**9)
    finally:
        return 0  # noqa: B012


def reads_an_error(record: Any) -> Any:
    try:
        return record["a"]
    except KeyError as error:
        return error.__traceback__


def stores_on_a_function(record: Any) -> Any:
    helper.last = record  # type: ignore[attr-defined]
    return record


def yields(record: Any) -> Any:
    yield record


async def waits(record: Any) -> Any:
    return record


def makes_a_class(record: Any) -> Any:
    class Kept:
        value = record

    return Kept.value


def matches(record: Any) -> Any:
    match record:
        case float(real=x):
            return x
    return 0


def keeps_a_function(record: Any) -> Any:
    kept = helper
    return kept(record)


def inner(record: Any) -> Any:
    def own(part: Any) -> Any:
        return part

    return own(record)


if MEAN > 2:

    def chosen_by_data(record: Any) -> Any:
        return record


def bound_twice(record: Any) -> Any:
    return record


def bound_twice(record: Any) -> Any:  # type: ignore[no-redef]  # noqa: F811
    return record / 2


class Mangled:
    function = lambda record: record - __MEAN  # type: ignore[name-defined]  # noqa: F821


_Mangled__MEAN = 3.0


class Callables:
    def __call__(self, record: Any) -> Any:
        return record

    def method(self, record: Any) -> Any:
        return record

    @classmethod
    def of_class(cls, record: Any) -> Any:
        return record


def enclosed() -> dict[str, Callable[..., Any]]:
    mean = 3.0
    return {
        "closure": lambda record: record - mean,
        "default": lambda record, middle=mean: record - middle,
        "keyword default": lambda record, *, middle=mean: record - middle,
    }


KNOWING: dict[str, Any] = {
    **enclosed(),
    **{
        each.__name__: each
        for each in (
            *(by_a_helper, around, with_attribute, remembers, imports, reads_a_file, catches_everything),
            *(catches_memory, at_last, reads_an_error, stores_on_a_function, yields, waits, makes_a_class),
            *(matches, keeps_a_function, inner),
        )
    },
    "ufunc of Python": np.frompyfunc(lambda record: record - MEAN, 1, 1),
    "vectorized": np.vectorize(lambda record: record - MEAN),
    "global mean": lambda record: record - MEAN,
    "global that is a known constant": lambda record: record * CONSTANT,
    "function chosen by data": lambda record: CHOSEN(record),
    "function defined under a condition": lambda record: chosen_by_data(record),
    "function defined twice": lambda record: bound_twice(record),
    "global list": lambda record: SEEN.append(record),
    "global dictionary": lambda record: TABLE["a"],
    "mangled name": Mangled.function,
    "callable object": Callables(),
    "method": Callables().method,
    "class method": Callables.of_class,
    "bound method of a list": [1, 2].__getitem__,
    "get of a dictionary": TABLE.get,
    "partial": functools.partial(np.add, MEAN),
    "cache": functools.lru_cache(own),
    "itemgetter": operator.itemgetter(TABLE["a"]),
    "attrgetter": operator.attrgetter("base"),
    "methodcaller": operator.methodcaller("get", MEAN),
    "frame": lambda record: sys._getframe().f_back.f_locals["records"],  # type: ignore[union-attr]
    "gc": lambda record: len(gc.get_objects()),
    "file": lambda record: os.stat("mean").st_size,
    "path": lambda record: Path("mean").stat().st_size,
    "environment": lambda record: os.environ["MEAN"],
    "decimal context": lambda record: decimal.getcontext().prec,
    "numpy's errors": lambda record: np.geterr()["over"],
    "print options": lambda record: np.get_printoptions()["precision"],
    "memory map": lambda record: np.lib.format.open_memmap("mean"),
    "memmap": np.memmap,
    "load": np.load,
    "fromfile": lambda record: np.fromfile("mean"),
    "empty": lambda record: np.empty(3),
    "where without out": lambda record: np.log(record, where=record > 0),
    "keywords from a dictionary": lambda record: np.log(record, **{"where": record > 0}),
    "ndarray": lambda record: np.ndarray(3),
    "random": lambda record: np.random.random(),
    "time": lambda record: time.time(),
    "thread": lambda record: threading.active_count(),
    "locale": lambda record: locale.localeconv()["grouping"],
    "recursion limit": lambda record: sys.getrecursionlimit(),
    "modules": lambda record: sys.modules["__main__"].MEAN,
    "globals": lambda record: globals()["MEAN"],
    "builtins": lambda record: builtins.MEAN,  # type: ignore[attr-defined]
    "eval": lambda record: eval("MEAN"),
    "getattr": lambda record: getattr(record, "base"),  # noqa: B009
    "type": lambda record: type(record)(3),
    "dunder": lambda record: record.__class__.__mro__,
    "function's globals": lambda record: helper.__globals__["MEAN"],
    "base of a view": lambda record: record.base,
    "strides": lambda record: np.lib.stride_tricks.as_strided(record, (100,), (8,)),
    "buffer": lambda record: record.data,
    "address": lambda record: record.ctypes.data,
    "pointers": lambda record: np.array(record, dtype=object).tobytes(),
    "bytes": lambda record: bytes(record),
    "id": lambda record: id(record),
    "hash": lambda record: hash(record),
    "repr": lambda record: repr(record),
    "print": lambda record: print(record),
    "address of a function": lambda record: str(lambda: 0),
    "address of an iterator": lambda record: str(zip(record, strict=True)),
    "address of a view's iterator": lambda record: str(record.items() & record.items()),
    "address by max": lambda record: max(zip(record), zip(record), key=lambda _: 0),
    "address by sum": lambda record: str(sum([], zip(record))),
    "address by a format": lambda record: "{0.data}".format(record),
    "address by map": lambda record: list(map(zip, record)),
    "order of a set": lambda record: list(set(record)),
    "order of a literal set": lambda record: list({record[0], record[1]}),
    "address by max of an iterator and a value": lambda record: max(zip(record), record, key=lambda _: 0),
    "result in an argument, by map": lambda record: list(map(np.sqrt, record, record)),
    "result in an argument, by a star": lambda record: np.add(1.0, *record),
    "items of a dictionary": lambda record: {**record}["a"],
    "arguments of a dictionary": lambda record: helper(**{"record": record}),
    "a global whose name is a loop's own": lambda record: sum(MEAN for MEAN in record) - MEAN,
    "ufunc that is not listed": np.linalg._umath_linalg.det,  # type: ignore[attr-defined]
    "globals of a class of its own": types.FunctionType(helper.__code__, type("D", (dict,), {})(globals())),
    "identity": lambda record: record[0] is record[1],
    "codec": lambda record: record.encode("mine"),
    "str of bytes": lambda record: str(record, "mine"),
    "now": lambda record: record.now().microsecond,
    "timestamp": lambda record: record.timestamp(),
    "pickle": lambda record: pickle.loads(record),
    "statistics": lambda record: statistics.mean(record),
    "super": lambda record: super().__init__(),
    "eval of text": eval(f"lambda record: record - {MEAN}"),
    "new constants": types.FunctionType(
        helper.__code__.replace(co_consts=(None, MEAN, *helper.__code__.co_consts[2:])), globals()
    ),
    "other globals": types.FunctionType(helper.__code__, {"np": types.SimpleNamespace(asarray=MEAN.__add__)}),
    "other builtins": types.FunctionType(
        own.__code__, {"np": np, "helper": helper, "__builtins__": {"len": MEAN.__add__}}
    ).__get__(0),
    "builtins of its own": types.FunctionType(
        INNOCENT["lengths"].__code__, {"__builtins__": {"len": lambda _: MEAN}}
    ),
    "object": object(),
    "class": Callables,
    "none": None,
    "zip": zip,
}


@pytest.mark.parametrize("name", KNOWING)
def test_whatever_else_a_function_may_look_at_is_refused(name: str) -> None:
    assert not knows_its_argument_alone(KNOWING[name])


def module(folder: Path, name: str, text: str) -> Any:
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def test_functions_of_other_modules_are_read_where_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("settings_of_purity", "others_of_purity", "user_of_purity"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    text = "import math\nMEAN = 3.0\nfloat64 = int\ndef half(r):\n    return r / 2\n"
    text += "def third(r):\n    return r / 3\ndef around(r):\n    return r - MEAN\n"
    settings = module(tmp_path, "settings_of_purity", text)
    module(tmp_path, "others_of_purity", text)
    user = module(
        tmp_path,
        "user_of_purity",
        "import settings_of_purity as settings\nfrom settings_of_purity import half, around, MEAN\n"
        "import others_of_purity as others\n"
        "def a(r): return half(r) + settings.half(r) + settings.math.pi\n"
        "def b(r): return around(r)\ndef c(r): return r - MEAN\ndef d(r): return r - settings.MEAN\n"
        "def e(r): return settings.around(r)\ndef f(r): return r.astype(settings.float64)\n"
        "def g(r): return settings.half(r)\n",
    )
    assert knows_its_argument_alone(user.a)
    assert knows_its_argument_alone(user.g)
    assert not any(map(knows_its_argument_alone, (user.b, user.c, user.d, user.e, user.f)))
    # What stands there now was not written there.
    elsewhere: list[tuple[Any, str, Any]] = [
        *((settings, "half", other) for other in (settings.around, settings.third)),
        *((settings, "math", np), (settings, "__name__", "elsewhere"), (user, "settings", user.others)),
    ]
    for place, name, value in elsewhere:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            assert not knows_its_argument_alone(user.a)
            assert name == "math" or not knows_its_argument_alone(user.g)
    assert knows_its_argument_alone(user.a)


def test_a_name_that_was_put_in_place_of_another_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    root = lambda record: np.sqrt(record)
    length = lambda record: len(record)
    assert knows_its_argument_alone(root)
    assert knows_its_argument_alone(length)
    with monkeypatch.context() as patch:
        patch.setattr(np, "sqrt", np.square)
        patch.setattr(builtins, "len", lambda record, real=len: real(record))
        found = knows_its_argument_alone(root), knows_its_argument_alone(length)
    assert found == (False, False)
    kind, sizes = lambda record: isinstance(record, float), lambda record: len(set(record))
    assert knows_its_argument_alone(kind)
    assert knows_its_argument_alone(sizes)
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "isinstance", lambda record, asked, real=isinstance: real(record, asked))
        assert not knows_its_argument_alone(kind)
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "set", set)
        assert not knows_its_argument_alone(sizes)
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "helper", around)
        assert not knows_its_argument_alone(own)
        patch.setitem(globals(), "len", len)
        assert not knows_its_argument_alone(length)
    with monkeypatch.context() as patch:
        patch.setattr(scipy.special, "expit", np.frompyfunc(around, 1, 1))
        assert not knows_its_argument_alone(lambda record: scipy.special.expit(record))


def test_a_file_that_is_gone_or_changed_shows_nothing(tmp_path: Path) -> None:
    made = module(tmp_path, "gone_of_purity", "def f(r):\n    return r\n\ndef g(r):\n    return r\n")
    assert knows_its_argument_alone(made.f)
    Path(made.__file__).write_text(
        "def f(r):\n    return r + 1\n\ndef g(r):\n    return r\n", encoding="utf-8"
    )
    assert not knows_its_argument_alone(made.f)
    assert knows_its_argument_alone(made.g)
    Path(made.__file__).unlink()
    assert not knows_its_argument_alone(made.g)


def test_lambdas_on_one_line_are_told_apart() -> None:
    both = [lambda record: record - MEAN, lambda record: record - 1.0]
    nested = (lambda record: max(record, key=lambda part: part - MEAN), lambda record: max(record))
    assert [knows_its_argument_alone(each) for each in both] == [False, True]
    assert [knows_its_argument_alone(each) for each in nested] == [False, True]


def test_expressions_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    deep = module(tmp_path, "deep_of_purity", f"def f(r):\n    return r{' + 1' * 1200}\n")
    assert not knows_its_argument_alone(deep.f)


def test_a_package_may_be_imported_twice_and_a_name_bound_once(tmp_path: Path) -> None:
    text = "import scipy\nimport scipy.special\nimport math as m, numpy as n\nimport numpy as m\n"
    text += "def a(r):\n    return scipy.special.expit(r)\ndef b(r):\n    return m.exp(r)\n"
    text += "def c(r):\n    return n.exp(r)\ndef d(n):\n    return n.exp(n)\n"
    text += "def operator(r):\n    return r\nimport operator\ndef e(r):\n    return operator.neg(r)\n"
    text += "import numpy as k\nimport math as k\ndef f(r):\n    return k.exp(r)\n"
    text += "import math as w\nif not __name__:\n    import numpy as w\ndef g(r):\n    return w.exp(r)\n"
    text += "import cmath, math\nif not __name__:\n    import math\ndef h(r):\n    return math.exp(r)\n"
    made = module(tmp_path, "twice_of_purity", text)
    assert not any(map(knows_its_argument_alone, (made.e, made.f, made.g, made.h)))
    assert knows_its_argument_alone(made.a)
    assert knows_its_argument_alone(made.c)
    assert not knows_its_argument_alone(made.b)
    assert not knows_its_argument_alone(made.d)


#: Every statement and expression that is allowed. A global stands in none of its places below.
FORMS = """
import numpy as np

MEAN, TABLE = 3.0, {}

def half(part, by):
    return part / by

def assignments(r):
    first = last = 0.0
    (one, [other]), parts = (r[0], [r[1]]), [1.0, *r]
    parts[0] = parts[1] = first
    first += one
    parts[2] += other
    kept: float
    kept = other
    again: float = last
    assert first >= 0.0, "less than none"
    assert last
    del parts[0], parts[1]
    parts.append(3.0)
    return kept + again

def loops(r):
    last = 0.0
    for i, part in enumerate(r):
        if part > i:
            continue
        elif i > 3:
            break
        else:
            pass
    else:
        last = 1.0
    while last < 3.0:
        last += 1.0
    else:
        last = 2.0
    return last

def errors(r):
    try:
        first = float(r[0])
    except (KeyError, ValueError):
        first = 0.0
        first += 1.0
    except TypeError:
        raise
    else:
        first += 1.0
    if first > 3.0:
        raise ValueError("too large", first)
    elif first > 2.0:
        raise ArithmeticError
    return first

def values(r):
    size = (own := len(r)) if r and not r[0] else -r[1]
    return [*r, r[0:size:2], r[1:], f"{r[0]} of {size}", (size, own), {"a": r[0], r[1]: 2.0}]

def comparisons(r):
    return isinstance(r, float), isinstance(r, (int, np.ndarray)), r is None, 1 < r[0] <= 2, r[0] in {1, r[1]}

def comprehensions(r):
    pairs = [x * y for part in r for x, y in part if x if y], {x: y for x, y in r if x}
    total = sum(x for x in r if x) + sum(r, 0.0) + sum((x for x in r), 0.0) + max(r, default=0.0)
    return pairs, [key for key, one in r.items()], total

def sets(r):
    return len({r[0], r[1]}), len({x for x in r}), len(set(r)), len(set(x for x in r))

def calls(r):
    own = half(r, by=2.0), half(r, 3.0), np.sum(r, axis=0), max(r[0], r[1]), r.index(1.0, 2), r.clip(min=0.0)
    return own, ",".join(x for x in r), r.astype(float), r.astype(np.float64), np.array(r, dtype=float)

def functions(r):
    found = sorted(r, key=lambda x: -x), list(map(half, r, r)), list(map(lambda x: x, r)), r.T.real
    return found, list(zip(r, r)), list(filter(half, r)), np.pi, (r[0] if found else r[1])
"""


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where an expression hangs that may be another one: its parent, the field, the place in a list."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "args"} and not isinstance(node, ast.Call):
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.expr):
                named = isinstance(node, ast.NamedExpr) and name == "target"
                if not named and not isinstance(node, ast.JoinedStr):
                    yield node, name, at
            if isinstance(child, ast.AST):
                yield from places(child)


def test_no_global_may_stand_in_any_place_of_a_form(tmp_path: Path) -> None:
    tree = ast.parse(FORMS)
    innocent = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    shown: dict[str, str] = {}
    for function in innocent:
        for number in range(len(list(places(function)))):
            planted = copy.deepcopy(function)
            planted.name = f"{function.name}_{number}"
            parent, field, at = list(places(planted))[number]
            old = getattr(parent, field) if at is None else getattr(parent, field)[at]
            stored = not isinstance(getattr(old, "ctx", ast.Load()), ast.Load)
            new = ast.parse("TABLE[0]" if stored else "MEAN", mode="eval").body
            if at is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[at] = new
            shown[planted.name] = f"{ast.unparse(old)} in {ast.unparse(parent)}"
            tree.body.append(planted)
    made = module(tmp_path, "forms_of_purity", ast.unparse(tree))
    assert [each.name for each in innocent if not knows_its_argument_alone(vars(made)[each.name])] == []
    assert len(shown) > 300
    assert [words for name, words in shown.items() if knows_its_argument_alone(vars(made)[name])] == []
