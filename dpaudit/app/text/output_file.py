"""An algorithm's output as JSON."""

import dataclasses
import json
import math
import numbers
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np
from pydantic import BaseModel

from dpaudit.processes.hosted import Unplain
from dpaudit.processes.wire import Portrait


class NoJSON(TypeError):
    """A value of a type that JSON lacks; the message names it."""


def output_text(output: Any) -> str | NoJSON:
    """An output as one line: arrays as lists, dataclasses and named tuples as objects, None as null.

    A dictionary whose keys are not all text is a list of pairs.

    Numbers that JSON lacks are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. Where the output
    holds something else, such as a function, the error that says so is returned.
    """
    if isinstance(output, Unplain):
        return NoJSON(output.why)
    try:
        return json.dumps(_plain(output, "output"), allow_nan=False) + "\n"
    except RecursionError:
        return NoJSON("output contains itself, or is nested too deeply")
    except NoJSON as error:
        return error


def _plain(value: Any, place: str) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist(), place) if value.dtype.kind in "biufUO" else _refused(value, place)
    if isinstance(value, Enum):
        return _plain(value.value, place)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, float):
        names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return float(value) if math.isfinite(value) else names[str(float(value))]
    if isinstance(value, Portrait) and value.form != "state":
        if value.form == "value":
            return _plain(value.parts["value"], place)
        return _object({name: part for name, part in value.parts.items() if name[:1] != "."}, place)
    if isinstance(value, BaseModel):
        return _object({name: getattr(value, name) for name in type(value).model_fields}, place)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, place)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _object(dict(zip(value._fields, value, strict=True)), place)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return _object(value, place)
    if isinstance(value, Mapping) and all(isinstance(name, str | int | tuple) for name in value):
        return [[_plain(name, place), _plain(item, f"{place}[{name!r}]")] for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item, f"{place}[{index}]") for index, item in enumerate(value)]
    return _refused(value, place)


def _object(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {str(name): _plain(item, f"{place}.{name}") for name, item in fields.items()}


def _refused(value: Any, place: str) -> Any:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise NoJSON(f"{place} is a {value.kind if isinstance(value, Portrait) else kind}")
