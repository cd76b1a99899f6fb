"""The frozen pydantic model that every value type of the core is, and how its errors read."""

import decimal
import fractions
import functools
import math
import numbers
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature
from types import GenericAlias, UnionType
from typing import Annotated, Any, ClassVar, Self, TypeGuard, Union, get_args, get_origin

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from dpaudit.errors import InputError, InvalidParameter, NormMismatch, UnknownKind


def up(exact: fractions.Fraction) -> float:
    """The smallest double that is not below a rational number."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return nearest if fractions.Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def down(exact: fractions.Fraction) -> float:
    """The largest double that is not above a rational number."""
    return 0.0 - up(-exact)  # for zero not -0.0


def as_double(value: Any, rounded: Callable[[fractions.Fraction], float]) -> Any:
    """An exact number (int, Fraction, Decimal) as a double, rounded to the side that is safe for it.

    Anything else is returned as it is, to be read or refused as a double.
    """
    if isinstance(value, float) or not is_number(value):
        return value
    if not _is_finite(value):
        return float(value)
    exact = _exactly(value)
    if abs(exact) > fractions.Fraction(sys.float_info.max):
        return math.inf if exact > 0 else -math.inf
    return rounded(exact)


def finite(value: float) -> float:
    """The value, if it is neither NaN nor infinite; for use in a field."""
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value}")
    return value


def _countable(value: int) -> int:
    if value > sys.float_info.max:
        raise ValueError("the count is too large: the largest that can be accounted for is 1.8e308")
    return value


class NoDouble(ValueError):
    """A number lies between two doubles, which the text names."""


class TooLarge(ValueError):
    """A number is finite, and larger in magnitude than every double."""


def is_number(value: object) -> TypeGuard[Any]:
    """Whether a value is a real number of one of Python's or numpy's types.

    Booleans are not, nor are numpy's time differences, which numpy derives from its whole numbers.
    """
    real = isinstance(value, numbers.Real | decimal.Decimal) and not isinstance(value, bool)
    return real and getattr(getattr(value, "dtype", None), "kind", "") != "m"


def exact_double(value: Any) -> float:
    """Return a number of any of Python's or numpy's types as the double that equals it.

    Raises ValueError for anything but a number, `TooLarge` for one beyond all doubles, and `NoDouble` for
    one between two doubles: which of them is safe depends on what it is for.
    """
    if type(value) is float:
        return value
    if not is_number(value):
        raise ValueError("must be a number")
    if isinstance(value, float) or not _is_finite(value):
        return float(value)
    exact = _exactly(value)
    low, high = down(exact), up(exact)
    if math.isinf(low) or math.isinf(high):
        raise TooLarge("must be a number of magnitude at most 1.8e308")
    if low != high:
        raise NoDouble(f"give {low!r} where less is safe, or {high!r} where more is")
    return low


def _exactly(value: Any) -> fractions.Fraction:
    """A finite number's value; numpy's whole numbers as Python's own, as they would wrap round."""
    if isinstance(value, numbers.Integral):
        return fractions.Fraction(int(value))
    return fractions.Fraction(*value.as_integer_ratio())


def _is_finite(value: Any) -> bool:
    """Whether a number is neither NaN nor infinite, whatever its type and however large."""
    if isinstance(value, numbers.Rational):
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_finite()
    return bool(value == value and abs(value) != math.inf)  # noqa: PLR0124  (NaN)


def _plain(value: object) -> object:
    """A number as the double that equals it; anything but a number unchanged, for pydantic to refuse."""
    if type(value) is float:
        return value
    if isinstance(value, numbers.Real | decimal.Decimal) or hasattr(value, "__float__"):
        try:
            return exact_double(value)
        except NoDouble as error:
            raise ValueError(f"no double equals it: {error}") from None
    return value


def _whole(value: object) -> object:
    """One of numpy's whole numbers as Python's own; anything else unchanged, for pydantic to refuse."""
    return int(value) if isinstance(value, numbers.Integral) and is_number(value) else value


#: Numbers as the ledger may hold them: NaN and infinities are refused before anything is computed.
Number = Annotated[float, Field(strict=True), BeforeValidator(_plain)]
Positive = Annotated[Number, AfterValidator(finite), Field(gt=0)]
NonNegative = Annotated[Number, AfterValidator(finite), Field(ge=0)]
Fraction = Annotated[Number, AfterValidator(finite), Field(gt=0, lt=1)]
AboveOne = Annotated[Number, AfterValidator(finite), Field(gt=1)]
#: In a field: an exact number, such as Fraction(1, 3), that no double equals is rounded up, or down. Noise is
#: rounded down; sensitivities, sampling rates and what a guarantee allows are rounded up.
Enlarged = BeforeValidator(functools.partial(as_double, rounded=up))
Reduced = BeforeValidator(functools.partial(as_double, rounded=down))
Scale = Annotated[Positive, Reduced]
Share = Annotated[Positive, Field(le=1), Enlarged]
#: Costs are doubles: past the largest one, a count times a cost that was rounded to 0 could be anything.
Count = Annotated[int, Field(ge=1, strict=True), BeforeValidator(_whole), AfterValidator(_countable)]


class FrozenMapping(Mapping[str, Any]):
    """A JSON object that cannot be changed; its lists are tuples."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = {name: _frozen(value) for name, value in items.items()}

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(_thawed(self))


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return FrozenMapping(value)
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _thawed(item) for name, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, list | tuple) else value


#: A JSON object as a field: a copy of what was given, which cannot change after its hash was written.
Parameters = Annotated[
    Mapping[str, JsonValue],
    BeforeValidator(lambda value: _thawed(value) if isinstance(value, FrozenMapping) else value),
    AfterValidator(FrozenMapping),
    pydantic.PlainSerializer(_thawed, return_type=dict[str, JsonValue]),
]


class _PlainSignature:
    """A model's signature as editors and notebooks show it: types without their validators, and no kind."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __get__(self, instance: object, owner: type) -> Signature:
        whole = self._whole.__get__(None, owner)
        given = whole.parameters.items()
        shown = (one for name, one in given if name != "kind" and one.kind is not Parameter.VAR_POSITIONAL)
        kept = [one.replace(annotation=_bare(one.annotation)) for one in shown]
        return Signature(kept)


def _bare(annotation: Any) -> Any:
    """A type without what `Annotated` says about it, inside as well."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return Union[tuple(map(_bare, get_args(annotation)))]  # noqa: UP007  (of a tuple)
    if isinstance(annotation, GenericAlias):
        origin: Any = annotation.__origin__
        return origin[tuple(map(_bare, get_args(annotation)))]
    return annotation


class Model(BaseModel):
    """A frozen value with no unknown fields; what does not fit raises an `InputError`."""

    __signature__: ClassVar[Any]

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, ser_json_inf_nan="constants"
    )

    def __init__(self, /, *unnamed: object, **fields: Any) -> None:
        if unnamed:
            raise _unnamed(type(self), unnamed)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise explain(error, type(self)) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls.__signature__ = _PlainSignature(cls.__dict__["__signature__"])

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Itself, as of any value that cannot change: every replayed run copies its options and algorithm."""
        # Pydantic's own model_copy(deep=True), which changes the copy, asks without a memo.
        return super().__deepcopy__() if memo is None else self

    def to_json(self) -> dict[str, Any]:
        """The value as plain JSON types, without the optional fields that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def without_computed(record: Any, kind: type[Model]) -> Any:
    """A model's record without its computed fields; anything but a record unchanged."""
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name not in kind.model_computed_fields}


def _unnamed(model: type[BaseModel], values: Sequence[object]) -> InputError:
    """The error where values are given without their names, which it says."""
    written = ", ".join(f"{name}=..." for name, field in model.model_fields.items() if field.is_required())
    what = f"{', '.join(map(_short, values))} without {'a name' if len(values) == 1 else 'names'}"
    why, remedy = "one number could be mistaken for another", f"write {model.__name__}({written})"
    return InvalidParameter(what, where=model.__name__, why=why, remedy=remedy)


#: Pydantic's complaints about a range: where its end is found, what is wrong, and what to give.
_RANGES: Mapping[str, tuple[str, str, str]] = {
    "greater_than": ("gt", "is not above", "above"),
    "greater_than_equal": ("ge", "is below", "of at least"),
    "less_than": ("lt", "is not below", "below"),
    "less_than_equal": ("le", "is above", "of at most"),
}


def explain(error: ValidationError, model: type[BaseModel]) -> InputError:
    """Pydantic's first complaint as an error of ours that names field, value and place."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    found = context.get("error")
    if isinstance(found, InputError):
        return found
    kind = first["type"]
    path = [str(part) for part in first["loc"] if not str(part).startswith("function-")]
    place = ".".join([model.__name__, *path])
    message = first["msg"].removeprefix("Value error, ")
    if kind == "union_tag_invalid":
        tag, tags = context.get("tag"), str(context.get("expected_tags")).split(",")
        known = [name.strip(" '") for name in tags]
        remedy = f"{did_you_mean(str(tag), known)}known kinds: {', '.join(known)}"
        return UnknownKind(f"unknown kind {tag!r}", where=place, remedy=remedy)
    if kind == "literal_error" and path and path[-1] == "norm":
        return NormMismatch(f"sensitivity norm: {message}, got {first.get('input')!r}", where=place)
    if kind == "missing":
        why = "its value would have to be guessed"
        return InvalidParameter("a required field is missing", where=place, why=why, remedy="add the field")
    if kind == "extra_forbidden":
        remedy = "leave it out, or correct its name"
        if len(path) == 1:
            known = list(model.model_fields)
            remedy = f"{did_you_mean(path[0], known)}known fields: {', '.join(known)}"
        why = "a misspelled field would have to be guessed"
        return InvalidParameter(
            f"unknown field {path[-1]!r}", where=place.removesuffix(f".{path[-1]}"), why=why, remedy=remedy
        )
    if kind in _RANGES:
        end, wrong, right = _RANGES[kind]
        what = f"{_short(first.get('input'))} {wrong} {context[end]:g}"
        return InvalidParameter(what, where=place, remedy=f"give a number {right} {context[end]:g}")
    shown = "" if kind == "value_error" else f" (got {_short(first.get('input'))})"
    return InvalidParameter(f"{message}{shown}", where=place, remedy=_remedy(first))


@contextmanager
def named_by(spelled: Callable[[str], str]) -> Iterator[None]:
    """Errors about a model's field name what the user gave it by: an option, say, as `spelled` has it."""
    try:
        yield
    except InvalidParameter as error:
        if field := re.match(r"[A-Z]\w*\.(\w+)", error.where):
            error.where = spelled(field[1])
        raise


def _remedy(complaint: Mapping[str, Any]) -> str:
    """What to give instead; empty where it is a number in a range."""
    context = complaint.get("ctx", {})
    if complaint["type"] in {"enum", "literal_error"}:
        known = re.findall(r"'([^']*)'", str(context.get("expected")))
        return f"{did_you_mean(str(complaint.get('input')), known)}give one of {', '.join(known)}"
    name = context.get("class_name")
    if name == "Sensitivity":
        return "give a Sensitivity, such as L2(1.0) or L1(1.0)"
    return f"give a {name}" if name else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name nearest to one that is unknown, as the beginning of a remedy; empty if none is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
