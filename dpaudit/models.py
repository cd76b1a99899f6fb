"""The frozen pydantic model that every value type of the core is, and how its errors read."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dpaudit.errors import InputError, InvalidParameter, NormMismatch, UnknownKind


def finite(value: float) -> float:
    """The value, if it is neither NaN nor infinite; for use in a field."""
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value}")
    return value


#: Numbers as the ledger may hold them: NaN and infinities are refused before anything is computed.
Positive = Annotated[float, AfterValidator(finite), Field(gt=0, strict=True)]
NonNegative = Annotated[float, AfterValidator(finite), Field(ge=0, strict=True)]
Fraction = Annotated[float, AfterValidator(finite), Field(gt=0, lt=1, strict=True)]


class Model(BaseModel):
    """A frozen value with no unknown fields; what does not fit raises an `InputError`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, ser_json_inf_nan="constants"
    )

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise explain(error, type(self).__name__) from None

    def to_json(self) -> dict[str, Any]:
        """The value as plain JSON types, without the optional fields that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


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
        return UnknownKind(
            f"unknown kind {context.get('tag')!r}; known are {context.get('expected_tags')}", where=place
        )
    if first["type"] == "literal_error" and path and path[-1] == "norm":
        return NormMismatch(f"sensitivity norm: {message}, got {given!r}", where=place)
    shown = "" if first["type"] in {"missing", "value_error"} else f" (got {_short(given)})"
    return InvalidParameter(f"{message}{shown}", where=place)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
