"""Errors for calls with missing, unknown or repeated arguments."""

import functools
import inspect
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from dpaudit.errors import InvalidParameter
from dpaudit.models import did_you_mean

_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")

_GROUPS: Final = "the list of groups must be public"
_RANGE: Final = "without bounds one row could change the answer by any amount"
#: For each argument: the reason that it is needed, and its description.
_NEEDED: Final = {
    "unit": ("privacy is claimed for each unit", "the column with each row's unit"),
    "by": ("the groups follow from it", "a column, or a list of columns"),
    "keys": (_GROUPS, "a list of public values, or the result of select_keys"),
    "columns": (_GROUPS, "a dictionary of columns, with the public values of each"),
    "column": ("there is nothing to add up", "a column of numbers"),
    "lower": (_RANGE, "a public number, to which smaller values are raised"),
    "upper": (_RANGE, "a public number, to which larger values are lowered"),
    "edges": (_RANGE, "increasing public numbers between which values are counted"),
    "q": ("there is nothing to choose", "a number between 0 and 1, or several"),
    "cost": ("the noise follows from it", "the privacy cost, for example cost=ZCDP(rho=0.1)"),
}


def complete(where: str) -> Callable[[Callable[_Parameters, _Returned]], Callable[_Parameters, _Returned]]:
    """Decorate a method: a call that lacks an argument, or has an unknown one, raises `InvalidParameter`.

    `where` is the method's public name.
    """

    def decorate(method: Callable[_Parameters, _Returned]) -> Callable[_Parameters, _Returned]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def checked(*args: _Parameters.args, **options: _Parameters.kwargs) -> _Returned:
            try:
                signature.bind(*args, **options)
            except TypeError:
                raise _refused(where, signature, len(args), set(options)) from None
            return method(*args, **options)

        return checked

    return decorate


def _refused(where: str, signature: inspect.Signature, placed: int, named: set[str]) -> InvalidParameter:
    """Return the error for a call whose arguments do not match the signature."""
    own = list(signature.parameters.values())[1:]
    by_name = [each.name for each in own if each.kind is each.KEYWORD_ONLY]
    in_order = [each.name for each in own if each.kind is not each.KEYWORD_ONLY]
    strange = sorted(named - {each.name for each in own})
    if strange:
        known = [*in_order, *by_name]
        what, why = f"an argument {strange[0]!r}", "there is no such argument"
        remedy = f"{did_you_mean(strange[0], known)}it takes {', '.join(known)}"
        return InvalidParameter(what, where=where, why=why, remedy=remedy)
    if placed - 1 > len(in_order):
        what, why = "an argument without its name", "unnamed numbers are easily exchanged"
        remedy = f"give {', '.join(f'{name}=' for name in by_name)} by name"
        return InvalidParameter(what, where=where, why=why, remedy=remedy)
    placed_names = in_order[: placed - 1]
    twice = [name for name in placed_names if name in named]
    if twice:
        what, why = f"{twice[0]} twice", "it would have two values"
        return InvalidParameter(what, where=where, why=why, remedy="give it once")
    given = {*placed_names, *named}
    missing = [each.name for each in own if each.default is each.empty and each.name not in given]
    remedy = "; ".join(f"give {name}=, {_NEEDED[name][1]}" for name in missing)
    what, why = f"no {' and no '.join(missing)}", _NEEDED[missing[0]][0]
    return InvalidParameter(what, where=where, why=why, remedy=remedy)
