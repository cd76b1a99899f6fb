"""An importer: `dpaudit import log.json` makes a ledger of {"staircase_log": [[label, epsilon], ...]}."""

from typing import Any

from dpaudit import L1, Ledger, Release
from dpaudit.accountants.bridges.imported_ledger import (
    Importer,
    declared_ledger,
    has_field,
    stated_relation,
)
from staircase.mechanism import Staircase


def _ledger(record: Any, *, unit: str, neighbouring: str) -> Ledger:
    """A release for each entry; the log does not show the sensitivity, which is taken to be 1."""
    releases = [
        Release(label=label, mechanism=Staircase(epsilon=epsilon, sensitivity=L1(1.0)))  # type: ignore[arg-type]
        for label, epsilon in record["staircase_log"]
    ]
    trusted = {"taken on trust": ["that each query moves by at most 1"]}
    return declared_ledger(releases, "staircase log", unit, stated_relation(neighbouring), trusted)


IMPORTER = Importer(has_field("staircase_log"), _ledger)
