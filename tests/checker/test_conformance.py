"""The checker reads the ledgers of docs/spec/conformance strictly."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpaudit import checker

SUITE = Path(__file__).parents[2] / "docs" / "spec" / "conformance"
CASES: list[dict[str, Any]] = json.loads((SUITE / "expected.json").read_text(encoding="utf-8"))
#: What `checker.answers` takes for a field that is missing or of another type.
REFUSALS = (checker.Wrong, KeyError, TypeError, IndexError, AttributeError, ValueError, ArithmeticError)


def read(case: dict[str, Any]) -> None:
    ledger = checker.read_ledger((SUITE / case["file"]).read_bytes())
    try:
        checker.account_of(ledger.header, ledger.releases)
    except checker.Unknown:  # it knows no bound of some mechanisms, and names them
        if case["answer"] == "invalid":
            raise


@pytest.mark.parametrize("case", CASES, ids=lambda case: Path(case["file"]).stem)
def test_it_reads_what_is_canonical_and_refuses_the_rest(case: dict[str, Any]) -> None:
    if case["answer"] == "valid" and case.get("canonical", True) and "no-releases" not in case["file"]:
        read(case)
    elif case.get("reason") == "budget":
        read(case)  # the budget is compared with the releases where a certificate's figures are
    elif case.get("reason") == "value" and "no such mechanism" in case["why"]:
        with pytest.raises(checker.Unknown):  # a later version may know it
            read(case)
    else:
        with pytest.raises((*REFUSALS, checker.Unknown)):
            read(case)
