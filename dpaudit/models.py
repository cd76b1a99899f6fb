"""The frozen pydantic model that every value type of the core is, and how its errors read."""

from __future__ import annotations

import difflib
import math
import numbers
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    ValidationError,
)

from dpaudit.errors import InputError, InvalidParameter, NormMismatch, UnknownKind


def finite(value: float) -> float:
    """The value, if it is neither NaN nor infinite; for use in a field."""
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value}")
    return value


def _countable(value: int) -> int:
    if value > sys.float_info.max:
        raise ValueError("the count is too large: none past 1.8e308 can be accounted for")
    return value


def _plain(value: object) -> object:
    """A numpy number as Python's own; what is no number stays itself, for pydantic to refuse."""
    if isinstance(value, numbers.Real):
        item = getattr(value, "item", None)
        return value if item is None else item()
    if hasattr(value, "__float__"):
        # Pydantic would ask it for its float: numpy's booleans have one, and so have arrays.
        raise ValueError("must be a number")
    return value


#: Numbers as the ledger may hold them: NaN and infinities are refused before anything is computed.
Number = Annotated[float, Field(strict=True), BeforeValidator(_plain)]
Positive = Annotated[Number, AfterValidator(finite), Field(gt=0)]
NonNegative = Annotated[Number, AfterValidator(finite), Field(ge=0)]
Fraction = Annotated[Number, AfterValidator(finite), Field(gt=0, lt=1)]
AboveOne = Annotated[Number, AfterValidator(finite), Field(gt=1)]
#: Costs are doubles, which cannot tell a cost of nothing from one too small to be multiplied back by more.
Count = Annotated[int, Field(ge=1, strict=True), BeforeValidator(_plain), AfterValidator(_countable)]


class FrozenMapping(Mapping[str, Any]):
    """A JSON object that cannot be changed once it was made; its lists are tuples."""

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


#: A JSON object as a field: a copy of what was given, which nobody can change behind a written hash.
Parameters = Annotated[
    Mapping[str, JsonValue],
    BeforeValidator(lambda value: _thawed(value) if isinstance(value, FrozenMapping) else value),
    AfterValidator(FrozenMapping),
    PlainSerializer(_thawed, return_type=dict[str, JsonValue]),
]


class Model(BaseModel):
    """A frozen value with no unknown fields; what does not fit raises an `InputError`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, ser_json_inf_nan="constants"
    )

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise explain(error, type(self).__name__) from None

    def to_json(self) -> dict[str, Any]:
        """The value as plain JSON types, without the optional fields that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def without_computed(record: Any, kind: type[Model]) -> Any:
    """A model's record without the fields that follow from the others; what is no record, as it is."""
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name not in kind.model_computed_fields}


def explain(error: ValidationError, where: str) -> InputError:
    """Turn pydantic's first complaint into an error of ours that names field, value and place."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause
    path = [str(part) for part in first["loc"] if not str(part).startswith("function-")]
    place = ".".join([where, *path])
    given = first.get("input")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "union_tag_invalid":
        context = first.get("ctx", {})
        known = [kind.strip(" '") for kind in str(context.get("expected_tags")).split(",")]
        near = difflib.get_close_matches(str(context.get("tag")), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return UnknownKind(
            f"unknown kind {context.get('tag')!r}",
            where=place,
            remedy=f"{hint}known are {', '.join(known)}",
        )
    if first["type"] == "literal_error" and path and path[-1] == "norm":
        return NormMismatch(f"sensitivity norm: {message}, got {given!r}", where=place)
    if first["type"] in {"missing", "extra_forbidden"}:
        missing = first["type"] == "missing"
        return InvalidParameter(
            "a field that is required is missing" if missing else "a field that nobody knows",
            where=place,
            why="what is left out or misspelled would be guessed at",
            remedy="add the field" if missing else "leave it out, or correct its name",
        )
    shown = "" if first["type"] == "value_error" else f" (got {_short(given)})"
    return InvalidParameter(f"{message}{shown}", where=place)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
