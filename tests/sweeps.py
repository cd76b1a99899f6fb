"""Sweeps over many cases, of which some are tried every day and all of them every night."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pytest

_PARAMETERS = type(pytest.param())


def sweep(
    names: str,
    cases: Iterable[Any],
    *,
    everyday: Collection[int],
    ids: Sequence[str] | Callable[[Any], object] | None = None,
) -> pytest.MarkDecorator:
    """``pytest.mark.parametrize`` with the cases at the positions ``everyday``; the others are nightly.

    Negative positions count from the end. Of several sweeps of one test, every day tries what each of them
    keeps, in all combinations.
    """
    given = list(cases)
    kept = {range(len(given))[position] for position in everyday}
    sorted_out = []
    for position, case in enumerate(given):
        known = isinstance(case, _PARAMETERS)
        values = case.values if known else tuple(case) if "," in names else (case,)
        marks = [*(case.marks if known else ()), *(() if position in kept else (pytest.mark.nightly,))]
        sorted_out.append(pytest.param(*values, id=case.id if known else None, marks=marks))
    return pytest.mark.parametrize(names, sorted_out, ids=ids)
