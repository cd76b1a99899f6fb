"""The quick canonical JSON is that of the library which states it, byte for byte and refusal for refusal."""

from collections.abc import Callable
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from dpaudit.ledger.numbers import canonical_json

TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | TEXT
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60).map(float)


@given(st.recursive(PLAIN | FLOATS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
@example({"\U0001f600": 1, "\ufb33": 2, "é": 3, "a": -0.0, "\x7f\u2028\t\x01": '\x7f\u2028\t\x01"\\/'})
@example([1e21, 1e20, 1e16, 9999999999999998.0, 1e-4, 1e-6, 1e-7, 5e-324, 1.7976931348623157e308])
@example({"nested": (1, 2.0, {"b": 1, "a": ()})})
def test_bytes_are_the_librarys(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        2**53,
        -(2**53),
        object(),
        {1: 2},
        {1: 2, "a": 3},
        "\ud800",
        {"\ud800": 1},
        [{"a": [b"bytes"]}],
    ],
)
def test_what_the_library_refuses_is_refused_in_its_words(value: Any) -> None:
    def refusal(dumps: Callable[[Any], bytes]) -> str:
        with pytest.raises(ValueError) as caught:  # noqa: PT011  (its words are compared)
            dumps(value)
        return f"{type(caught.value).__name__}: {caught.value}"

    assert refusal(canonical_json) == refusal(rfc8785.dumps)
