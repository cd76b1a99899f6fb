"""Checks of the arguments of public functions, for callers without a type checker."""

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, get_args

from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee, figures
from dpaudit.errors import InvalidParameter, UsageError
from dpaudit.models import NoDouble, TooLarge, did_you_mean, exact_double, is_number

_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")

_LONGEST: Final = 80
_MOST_ENTRIES: Final = 2**48
_WHOLE: Final = ("trials", "replays", "guesses", "seed", "users", "count", "chunk", "workers")
#: The required types of parameters with these names, in every function.
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
    Callable | Collection: "a function, or scores",
    numbers.Real: "a number",
    numbers.Integral: "a whole number >= 0",
}


def checked(
    name: str, **kinds: Any
) -> Callable[[Callable[_Parameters, _Returned]], Callable[_Parameters, _Returned]]:
    """Decorate a function: unknown arguments, wrong types and negative counts raise `InvalidParameter`.

    `name` is the function's public name. `kinds` adds to or replaces the types that parameters have by name,
    for example ``claim``; [type] means a collection of that type. A parameter's default is always accepted.
    """

    def decorate(function: Callable[_Parameters, _Returned]) -> Callable[_Parameters, _Returned]:
        signature, expected = inspect.signature(function), _KINDS | kinds
        parameters = signature.parameters

        @functools.wraps(function)
        def with_checks(*args: _Parameters.args, **options: _Parameters.kwargs) -> _Returned:
            try:
                signature.bind(*args, **options)
            except TypeError as error:
                near = "".join(did_you_mean(one, parameters) for one in options if one not in parameters)
                why, remedy = "it cannot be called so", f"{near}it takes {', '.join(parameters)}"
                raise InvalidParameter(str(error), where=name, why=why, remedy=remedy) from None
            given = dict(zip(parameters, args, strict=False)) | options
            for one, value in given.items():
                if one in expected and one in parameters and value is not parameters[one].default:
                    given[one] = _read(value, expected[one], f"{name}({one}=)")
            if name != "run" and callable(given.get("algorithm")):  # `run` is called thousands of times
                require_two_arguments(given["algorithm"], "curator", "the algorithm", f"{name}(algorithm=)")
            own = getattr(given.get("algorithm"), "claim", None)
            if own is not None:
                require_kind(own, Claim, f"{name}(algorithm=), its attribute claim")
            by_position = (given[one] for one, _ in zip(parameters, args, strict=False))
            by_name = {one: given[one] for one in options}
            return function(*by_position, **by_name)  # type: ignore[arg-type]  # the function's own arguments

        return with_checks

    return decorate


def require_two_arguments(algorithm: Any, second: str, name: str, where: str) -> None:
    """Raise `UsageError` for an algorithm that cannot be called with data and a second argument."""
    try:
        signature = inspect.signature(algorithm)
    except (TypeError, ValueError):  # compiled code may have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError:
        taken = ", ".join(signature.parameters)  # names only: a default may be large or private
        what = f"{name} takes ({taken}) and cannot be called with two arguments"
        why, remedy = f"an algorithm is called with data and a {second}", f"define it as (data, {second})"
        raise UsageError(what, where=where, why=why, remedy=remedy) from None


def require_kind(value: Any, kind: Any, where: str) -> None:
    """Raise `InvalidParameter` if a value does not have a type, as `checked` does."""
    if isinstance(kind, list):
        require_kind(value, Collection, where)
        for one in value:
            require_kind(one, kind[0], where)
        return
    fits = isinstance(value, kind) and (kind is Callable or not isinstance(value, bool | type))
    if kind is numbers.Real or kind is numbers.Integral:
        fits = fits and is_number(value)
    if not fits or (kind is numbers.Integral and value < 0):
        words = _WORDS.get(kind) or " or ".join(one.__name__ for one in get_args(kind) or (kind,))
        given = f"{value!r}" if fits else _shown(value)
        what, remedy = f"{given} is not {words}", f"give {words}"
        why = "it could be misread, or cause an unclear error later"
        raise InvalidParameter(what, where=where, why=why, remedy=_meant(value, kind) + remedy)


def _read(value: Any, kind: Any, where: str) -> Any:
    """Check a value as `require_kind` does, and return it with Python numbers."""
    if kind is numbers.Real:
        return number(value, where)
    if kind == [numbers.Real]:
        require_kind(value, Collection, where)
        return [number(each, where) for each in value]
    require_kind(value, kind, where)
    return int(value) if kind is numbers.Integral else value


def number(value: Any, where: str) -> float:
    """Return the double that equals a number of any Python or numpy type.

    Public functions pass their numbers through this function; models use the same check. Raises
    `InvalidParameter` if the value is not a number, or if no double equals it.
    """
    try:
        return exact_double(value)
    except NoDouble as error:
        what, why = f"{_shown(value)} is not a double", "the nearest double could make a bound too small"
        raise InvalidParameter(what, where=where, why=why, remedy=str(error)) from None
    except TooLarge:
        what, why = f"{_shown(value)} is too large", "no double is as large"
        remedy = "give a number of magnitude at most 1.8e308"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy) from None
    except ValueError:
        what, why = f"{_shown(value)} is not a number", "it could be misread, or cause an unclear error later"
        remedy = f"{_meant(value, numbers.Real)}give a number"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy) from None


def whole(value: Any, where: str) -> int:
    """Return a whole number >= 0 as a Python integer; raises `InvalidParameter` for any other value."""
    require_kind(value, numbers.Integral, where)
    return int(value)


def lengths(value: Any, where: str) -> tuple[int, ...]:
    """Return a shape as a tuple of Python integers.

    Raises `InvalidParameter` if the value is not a shape, or is too large for any memory.
    """
    place = f"{where}, shape="
    if isinstance(value, numbers.Integral):
        value = (value,)
    require_kind(value, tuple | list, place)
    shape = tuple(whole(each, place) for each in value)
    if math.prod(shape) > _MOST_ENTRIES or max(shape, default=0) > _MOST_ENTRIES:
        what, why = "a shape of more than 2^48 numbers", "no memory holds them"
        raise InvalidParameter(what, where=place, why=why, remedy="give the shape of one row")
    return shape


def _shown(value: Any) -> str:
    """Return a value's text for an error; long or structured values may hold data and show only the type."""
    kind, plain = type(value).__name__, (str, numbers.Number, type(None), *get_args(AnyGuarantee))
    shown = isinstance(value, plain) and len(repr(value)) <= _LONGEST
    return f"{value!r} of type {kind}" if shown else f"a value of type {kind}"


def _meant(value: Any, kind: Any) -> str:
    """Return a question that suggests the probable meaning, or an empty text."""
    if kind is Claim and isinstance(value, get_args(AnyGuarantee)):
        stated = ", ".join(f"{name}={figure!r}" for name, figure in figures(value).items())
        return f"did you mean Claim({type(value).__name__}({stated}))? "
    if isinstance(value, Claim):
        return "did you mean the claim's guarantee? "
    with suppress(TypeError, ValueError):
        read = {numbers.Integral: int, numbers.Real: float}.get(kind, kind)
        return f"did you mean {read(value)!r}? " if isinstance(value, str) else ""
    return ""
