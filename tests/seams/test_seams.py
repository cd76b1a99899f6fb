"""The table of seams: every fault that was found where a true ledger meets code that does something else.

`pytest -n 0 -s tests/seams/test_seams.py` prints it, row by row with its verdict. The rows stand in the other
files of this folder, one file a section; each planted fault has an innocent twin.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.seams.case import Case

_BESIDE = {"__init__", "case", "test_seams"}
FILES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _BESIDE)
CASES: list[Case] = [case for name in FILES for case in importlib.import_module(f"tests.seams.{name}").CASES]


def _param(case: Case) -> object:
    marks = [pytest.mark.nightly] if case.nightly else []
    marks += [pytest.mark.interoperability] if case.engines else []
    return pytest.param(case, id=case.name.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("case", [_param(case) for case in CASES])
def test_the_verdict_is_right(case: Case) -> None:
    found = case.verdict()
    print(f"\n{case.kind} | {case.name} | {'planted' if case.planted else 'innocent'} | {found}")
    assert re.fullmatch(case.expected, found, flags=re.DOTALL)


def test_names_tell_the_rows_apart() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
