"""The Stanford heart transplant study, which comes with the package lifelines: one or two rows a patient.

A row is a stretch of days in which a patient waited for a heart (`transplant` 0) or lived with one (1), and
whether it ended in death (`event` 1).

pip install --no-deps lifelines
dpaudit certify examples/heart_transplants.py:report --data "$(python examples/heart_transplants.py)"
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpaudit import ZCDP, Claim, Curator


def report(stretches: Any, curator: Curator) -> dict[str, Any]:
    """Patients, deaths and days, while waiting and after the transplant."""
    patients = curator.table(stretches, unit="id").bound(rows_per_unit=2)
    stages = patients.group_by("transplant", keys=[0, 1])
    return {
        "patients": stages.count_distinct_units(cost=ZCDP(rho=0.1)),
        "deaths": stages.sum("event", lower=0, upper=1, cost=ZCDP(rho=0.1)),
        "age": patients.mean("age", lower=-40, upper=20, cost=ZCDP(rho=0.1)),
        "days": patients.quantile("stop", 0.5, lower=0, upper=1800, cost=ZCDP(rho=0.2)),
    }


report.claim = Claim(ZCDP(rho=0.5), unit="id", neighbouring="add-or-remove-one")


def file() -> Path:
    """Where lifelines keeps the study; nothing of it is imported."""
    found = find_spec("lifelines")
    if found is None or not found.submodule_search_locations:
        sys.exit("lifelines is not installed: pip install --no-deps lifelines")
    return Path(found.submodule_search_locations[0]) / "datasets" / "stanford_heart.csv"


if __name__ == "__main__":
    print(f"{file()}?id=whole,transplant=whole,event=whole,age=number,stop=number")
