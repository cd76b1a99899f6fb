"""The frozen pydantic base model of all value types of the core, and its error messages."""

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
    """Return the smallest double that is not below a rational number."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return nearest if fractions.Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def down(exact: fractions.Fraction) -> float:
    """Return the largest double that is not above a rational number."""
    return 0.0 - up(-exact)  # for zero not -0.0


def as_double(value: Any, rounded: Callable[[fractions.Fraction], float]) -> Any:
    """Return an exact number (int, Fraction, Decimal) as a double, rounded by `rounded` (`up` or `down`).

    Any other value is returned unchanged; pydantic then accepts or refuses it as a double.
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
    """Return a finite value; raise `ValueError` for NaN and infinities. A validator of fields."""
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value}")
    return value


def _countable(value: int) -> int:
    if value > sys.float_info.max:
        raise ValueError("the count is too large: the largest that can be accounted for is 1.8e308")
    return value


class NoDouble(ValueError):
    """A number lies strictly between two doubles; the text names them."""


class TooLarge(ValueError):
    """A finite number is larger in magnitude than every double."""


def is_number(value: object) -> TypeGuard[Any]:
    """Return whether a value is a real number of a Python or numpy type.

    Booleans and numpy's time differences, which derive from its integers, do not count as numbers.
    """
    real = isinstance(value, numbers.Real | decimal.Decimal) and not isinstance(value, bool)
    return real and getattr(getattr(value, "dtype", None), "kind", "") != "m"


def exact_double(value: Any) -> float:
    """Return the double that equals a number of any Python or numpy type.

    Raises `ValueError` for a value that is not a number, `TooLarge` for a number beyond all doubles, and
    `NoDouble` for a number between two doubles: the safe direction of rounding depends on its use.
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
    """Return a finite number as a fraction; numpy integers become Python integers, which cannot overflow."""
    if isinstance(value, numbers.Integral):
        return fractions.Fraction(int(value))
    return fractions.Fraction(*value.as_integer_ratio())


def _is_finite(value: Any) -> bool:
    """Return whether a number of any type and size is neither NaN nor infinite."""
    if isinstance(value, numbers.Rational):
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_finite()
    return bool(value == value and abs(value) != math.inf)  # noqa: PLR0124  (NaN)


def _plain(value: object) -> object:
    """Return the double that equals a number; return any other value unchanged, for pydantic to refuse."""
    if type(value) is float:
        return value
    if isinstance(value, numbers.Real | decimal.Decimal) or hasattr(value, "__float__"):
        try:
            return exact_double(value)
        except NoDouble as error:
            raise ValueError(f"no double equals it: {error}") from None
    return value


def _whole(value: object) -> object:
    """Return an integer as a Python integer; return any other value unchanged, for pydantic to refuse."""
    return int(value) if isinstance(value, numbers.Integral) and is_number(value) else value


#: Numbers in a ledger; the types below refuse NaN and infinities before any computation.
Number = Annotated[float, Field(strict=True), BeforeValidator(_plain)]
Positive = Annotated[Number, AfterValidator(finite), Field(gt=0)]
NonNegative = Annotated[Number, AfterValidator(finite), Field(ge=0)]
Fraction = Annotated[Number, AfterValidator(finite), Field(gt=0, lt=1)]
AboveOne = Annotated[Number, AfterValidator(finite), Field(gt=1)]
#: For fields: round an exact number that is not a double, for example Fraction(1, 3), up or down. Noise is
#: rounded down; sensitivities, sampling rates and a guarantee's figures are rounded up.
Enlarged = BeforeValidator(functools.partial(as_double, rounded=up))
Reduced = BeforeValidator(functools.partial(as_double, rounded=down))
Scale = Annotated[Positive, Reduced]
Share = Annotated[Positive, Field(le=1), Enlarged]
#: Costs are doubles: a count beyond the largest double, times a cost rounded to 0, would be undefined.
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


#: A JSON object as a field: a copy that cannot change after its hash was written.
Parameters = Annotated[
    Mapping[str, JsonValue],
    BeforeValidator(lambda value: _thawed(value) if isinstance(value, FrozenMapping) else value),
    AfterValidator(FrozenMapping),
    pydantic.PlainSerializer(_thawed, return_type=dict[str, JsonValue]),
]


class _PlainSignature:
    """A model's signature for editors and notebooks: types without validators, without the field `kind`."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __get__(self, instance: object, owner: type) -> Signature:
        whole = self._whole.__get__(None, owner)
        given = whole.parameters.items()
        shown = (one for name, one in given if name != "kind" and one.kind is not Parameter.VAR_POSITIONAL)
        kept = [one.replace(annotation=_bare(one.annotation)) for one in shown]
        return Signature(kept)


def _bare(annotation: Any) -> Any:
    """Return a type without `Annotated` metadata, also inside its arguments."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return Union[tuple(map(_bare, get_args(annotation)))]  # noqa: UP007  (of a tuple)
    if isinstance(annotation, GenericAlias):
        origin: Any = annotation.__origin__
        return origin[tuple(map(_bare, get_args(annotation)))]
    return annotation


class Model(BaseModel):
    """A frozen value without unknown fields; invalid fields raise an `InputError`."""

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
        """Return the model itself, which cannot change: every replay copies its options and algorithm."""
        # Pydantic's model_copy(deep=True) changes the copy; it calls this method without a memo.
        return super().__deepcopy__() if memo is None else self

    def to_json(self) -> dict[str, Any]:
        """Return the value as plain JSON types, without unset optional fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def without_computed(record: Any, kind: type[Model]) -> Any:
    """Return a model's record without its computed fields; return any other value unchanged."""
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name not in kind.model_computed_fields}


def _unnamed(model: type[BaseModel], values: Sequence[object]) -> InputError:
    """Return the error for positional values; it names the fields."""
    written = ", ".join(f"{name}=..." for name, field in model.model_fields.items() if field.is_required())
    what = f"{', '.join(map(_short, values))} without {'a name' if len(values) == 1 else 'names'}"
    why, remedy = "one number could be mistaken for another", f"write {model.__name__}({written})"
    return InvalidParameter(what, where=model.__name__, why=why, remedy=remedy)


#: Pydantic's range errors: the key of the range's end, the text of the error, and the remedy.
_RANGES: Mapping[str, tuple[str, str, str]] = {
    "greater_than": ("gt", "is not above", "above"),
    "greater_than_equal": ("ge", "is below", "of at least"),
    "less_than": ("lt", "is not below", "below"),
    "less_than_equal": ("le", "is above", "of at most"),
}


def explain(error: ValidationError, model: type[BaseModel]) -> InputError:
    """Return pydantic's first error as a dpaudit error with field, value and place."""
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
    """Inside the block, errors about a field name it as the user gave it, for example as an option."""
    try:
        yield
    except InvalidParameter as error:
        if field := re.match(r"[A-Z]\w*\.(\w+)", error.where):
            error.where = spelled(field[1])
        raise


def _remedy(complaint: Mapping[str, Any]) -> str:
    """Return the remedy for a pydantic error; empty means the default remedy."""
    context = complaint.get("ctx", {})
    if complaint["type"] in {"enum", "literal_error"}:
        known = re.findall(r"'([^']*)'", str(context.get("expected")))
        return f"{did_you_mean(str(complaint.get('input')), known)}give one of {', '.join(known)}"
    name = context.get("class_name")
    if name == "Sensitivity":
        return "give a Sensitivity, such as L2(1.0) or L1(1.0)"
    return f"give a {name}" if name else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the start of a remedy that suggests the nearest known name; empty if no name is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
