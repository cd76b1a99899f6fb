"""What a caller has to give a method, and what may have been meant by arguments that do not fit."""

import functools
import inspect
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from dpaudit.errors import InvalidParameter
from dpaudit.models import did_you_mean

_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")

_GROUPS: Final = "which groups exist must be public"
_RANGE: Final = "between no bounds one row could move the answer by any amount"
#: Why an argument is needed, and what it is.
_NEEDED: Final = {
    "unit": ("privacy is claimed for the unit whose rows these are", "the column that says whose row it is"),
    "by": ("groups are made of it", "a column, or a list of columns"),
    "keys": (_GROUPS, "a list of public values, or of those that select_keys chose"),
    "columns": (_GROUPS, "a dictionary of columns, with the public values of each"),
    "column": ("there is nothing to add up", "a column of numbers"),
    "lower": (_RANGE, "a public number, to which smaller values are raised"),
    "upper": (_RANGE, "a public number, to which larger values are lowered"),
    "edges": (_RANGE, "increasing public numbers between which values are counted"),
    "q": ("there is nothing to choose", "a number between 0 and 1, or several"),
    "cost": ("the noise follows from it", "what it may cost, as in cost=ZCDP(rho=0.1)"),
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
    """Why a call does not fit, and what to give."""
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
        what, why = "an argument without its name", "numbers in a row are easily exchanged"
        remedy = f"give {', '.join(f'{name}=' for name in by_name)} by name"
        return InvalidParameter(what, where=where, why=why, remedy=remedy)
    placed_names = in_order[: placed - 1]
    twice = [name for name in placed_names if name in named]
    if twice:
        what, why = f"{twice[0]} twice", "it has two values, of which only one can be meant"
        return InvalidParameter(what, where=where, why=why, remedy="give it once")
    given = {*placed_names, *named}
    missing = [each.name for each in own if each.default is each.empty and each.name not in given]
    remedy = "; ".join(f"give {name}=, {_NEEDED[name][1]}" for name in missing)
    what, why = f"no {' and no '.join(missing)}", _NEEDED[missing[0]][0]
    return InvalidParameter(what, where=where, why=why, remedy=remedy)
