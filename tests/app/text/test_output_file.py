import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpaudit import ZCDP
from dpaudit.app.text.output_file import NoJSON, output_text


@dataclass(frozen=True)
class Table:
    values: Any


class Named(NamedTuple):
    value: Any
    other: int = 1


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, None),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.arange(4.0).reshape(2, 2), [[0.0, 1.0], [2.0, 3.0]]),
        (np.array([np.nan, np.inf, -np.inf]), ["NaN", "Infinity", "-Infinity"]),
        (Table(np.zeros(2)), {"values": [0.0, 0.0]}),
        (Named((1, "a")), {"value": [1, "a"], "other": 1}),
        ({"policy": [Table(1)]}, {"policy": [{"values": 1}]}),
        (Colour.RED, "red"),
        (ZCDP(rho=0.5), {"kind": "zcdp", "rho": 0.5}),
        ("Zürich\ud800", "Zürich\ud800"),
        (2**80, 2**80),
        ({0: 1.5, ("ICU", True): 2}, [[0, 1.5], [["ICU", True], 2]]),
    ],
)
def test_outputs_as_json(output: Any, expected: Any) -> None:
    text = output_text(output)
    assert isinstance(text, str)
    assert json.loads(text) == expected


def test_what_json_cannot_tell_is_named() -> None:
    looped: list[Any] = []
    looped.append(looped)
    for output in (lambda: 1, {1, 2}, {1.5: 2}, b"", 1j, np.array([1j]), Table(object()), looped):
        assert isinstance(output_text(output), NoJSON)
    assert str(output_text(Table([0, b""]))) == "output.values[1] is a builtins.bytes"
