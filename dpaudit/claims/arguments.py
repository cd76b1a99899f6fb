"""Checks of what is passed to the package's functions by callers who have no type checker."""

import functools
import inspect
import numbers
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, get_args

from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee, figures
from dpaudit.errors import InvalidParameter

_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")

#: What parameters of these names must be, in every function.
_KINDS: Final[dict[str, Any]] = {
    "algorithm": Callable,
    "claim": Claim,
    "path": str | Path,
    **dict.fromkeys(("confidence", "delta", "time_limit"), numbers.Real),
    **dict.fromkeys(("trials", "replays", "guesses", "seed", "users", "count"), numbers.Integral),
    **dict.fromkeys(("chunk", "workers", "most_rows", "group_size"), numbers.Integral),
}
_WORDS: Final = {
    Collection: "a list or another collection",
    Callable: "a callable",
    numbers.Real: "a number",
    numbers.Integral: "a whole number",
}
_WHY: Final = "it would be misread, or fail far from here"


def checked(
    name: str, **kinds: Any
) -> Callable[[Callable[_Parameters, _Returned]], Callable[_Parameters, _Returned]]:
    """Decorate a function: arguments of another type, and whole numbers below 0, raise `InvalidParameter`.

    `name` is the function's public name; `kinds` has types beside or in place of those that parameters have
    by their names, such as ``claim``; [type] is a collection of such. A parameter's default always passes.
    """

    def decorate(function: Callable[_Parameters, _Returned]) -> Callable[_Parameters, _Returned]:
        signature = inspect.signature(function)
        expected = {one: kind for one, kind in (_KINDS | kinds).items() if one in signature.parameters}

        @functools.wraps(function)
        def with_checks(*args: _Parameters.args, **options: _Parameters.kwargs) -> _Returned:
            given = signature.bind(*args, **options).arguments
            for parameter, value in given.items():
                if parameter in expected and value is not signature.parameters[parameter].default:
                    _require(value, expected[parameter], f"{name}({parameter}=)")
            own = getattr(given.get("algorithm"), "claim", None)
            if own is not None:
                _require(own, Claim, f"{name}(algorithm=), its attribute claim")
            return function(*args, **options)

        return with_checks

    return decorate


def _require(value: Any, kind: Any, where: str) -> None:
    if isinstance(kind, list):
        _require(value, Collection, where)
        for one in value:
            _require(one, kind[0], where)
        return
    words = _WORDS.get(kind) or " or ".join(one.__name__ for one in get_args(kind) or (kind,))
    if not isinstance(value, kind) or (isinstance(value, bool | type) and kind is not Callable):
        what = f"{value!r} of type {type(value).__name__} is not {words}"
        raise InvalidParameter(what, where=where, why=_WHY, remedy=f"{_meant(value, kind)}give {words}")
    if kind is numbers.Integral and value < 0:
        raise InvalidParameter(f"{value!r} is negative", where=where, why=_WHY, remedy="give 0 or more")


def _meant(value: Any, kind: Any) -> str:
    """What was probably meant, as a question."""
    if kind is Claim and isinstance(value, get_args(AnyGuarantee)):
        stated = ", ".join(f"{name}={figure!r}" for name, figure in figures(value).items())
        return f"did you mean Claim({type(value).__name__}({stated}))? "
    if isinstance(value, Claim):
        return "did you mean the claim's guarantee? "
    read = {numbers.Integral: int, numbers.Real: float}.get(kind, kind)
    with suppress(TypeError, ValueError):
        return f"did you mean {read(value)!r}? " if isinstance(value, str) else ""
    return ""
