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

_WHOLE: Final = ("trials", "replays", "guesses", "seed", "users", "count", "chunk", "workers")
#: What parameters of these names must be, in every function.
_KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("algorithm", "auditor"), Callable),
    "claim": Claim,
    "path": str | Path,
    **dict.fromkeys(("confidence", "delta", "time_limit"), numbers.Real),
    **dict.fromkeys((*_WHOLE, "most_rows", "group_size"), numbers.Integral),
}
_WORDS: Final = {
    Callable: "a function",
    Collection: "a list",
    numbers.Real: "a number",
    numbers.Integral: "a whole number >= 0",
}


def checked(
    name: str, **kinds: Any
) -> Callable[[Callable[_Parameters, _Returned]], Callable[_Parameters, _Returned]]:
    """Decorate a function: arguments of another type, and whole numbers below 0, raise `InvalidParameter`.

    `name` is the function's public name; `kinds` has types beside or in place of those that parameters have
    by their names, such as ``claim``; [type] is a collection of such. A parameter's default always passes.
    """

    def decorate(function: Callable[_Parameters, _Returned]) -> Callable[_Parameters, _Returned]:
        parameters, expected = inspect.signature(function).parameters, _KINDS | kinds

        @functools.wraps(function)
        def with_checks(*args: _Parameters.args, **options: _Parameters.kwargs) -> _Returned:
            given = dict(zip(parameters, args, strict=False)) | options
            for one, value in given.items():
                if one in expected and one in parameters and value is not parameters[one].default:
                    require_kind(value, expected[one], f"{name}({one}=)")
            own = getattr(given.get("algorithm"), "claim", None)
            if own is not None:
                require_kind(own, Claim, f"{name}(algorithm=), its attribute claim")
            return function(*args, **options)

        return with_checks

    return decorate


def require_kind(value: Any, kind: Any, where: str) -> None:
    """Raise `InvalidParameter` where a value is not of a type, as `checked` does."""
    if isinstance(kind, list):
        require_kind(value, Collection, where)
        for one in value:
            require_kind(one, kind[0], where)
        return
    fits = isinstance(value, kind) and (kind is Callable or not isinstance(value, bool | type))
    if not fits or (kind is numbers.Integral and value < 0):
        words = _WORDS.get(kind) or " or ".join(one.__name__ for one in get_args(kind) or (kind,))
        what, remedy = f"{value!r} of type {type(value).__name__} is not {words}", f"give {words}"
        why = "it would be misread, or fail far from here"
        raise InvalidParameter(what, where=where, why=why, remedy=_meant(value, kind) + remedy)


def _meant(value: Any, kind: Any) -> str:
    """What was probably meant, as a question."""
    if kind is Claim and isinstance(value, get_args(AnyGuarantee)):
        stated = ", ".join(f"{name}={figure!r}" for name, figure in figures(value).items())
        return f"did you mean Claim({type(value).__name__}({stated}))? "
    if isinstance(value, Claim):
        return "did you mean the claim's guarantee? "
    with suppress(TypeError, ValueError):
        read = {numbers.Integral: int, numbers.Real: float}.get(kind, kind)
        return f"did you mean {read(value)!r}? " if isinstance(value, str) else ""
    return ""
